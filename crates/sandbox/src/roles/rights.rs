//! Capabilities of a box's user namespace: had, handed on to one program, given up.
//!
//! Whoever makes a user namespace, or enters one of their own, has all capabilities *in it*: worth nothing outside. A program
//! that is run by a user other than 0 loses them unless they are *ambient*.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use super::{Outcome, while_doing};

/// Every capability that this kernel knows.
fn known() -> impl Iterator<Item = CapabilitySet> {
    (0..64).map(|number| CapabilitySet::from_bits_retain(1 << number)).take_while(|capability| {
        !matches!(rustix::thread::capability_is_in_bounding_set(*capability), Err(Errno::INVAL))
    })
}

/// The next program that is run keeps our capabilities, but for those in `without`.
pub(super) fn hand_on(without: CapabilitySet) -> Outcome<()> {
    let all = known().fold(CapabilitySet::empty(), |all, one| all | one) - without;
    let sets = CapabilitySets { effective: all, permitted: all, inheritable: all };
    set_capabilities(None, sets).map_err(while_doing("choose capabilities"))?;
    for capability in known().filter(|one| all.contains(*one)) {
        configure_capability_in_ambient_set(capability, true).map_err(while_doing("hand a capability on"))?;
    }
    Ok(())
}

/// No capabilities from here on, and none to be had by running another program.
pub(super) fn give_up() -> Outcome<()> {
    for capability in known() {
        match remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // Not ours to remove, so not ours to have either.
            Err(Errno::PERM) => break,
            Err(error) => return Err(while_doing("drop a capability")(error)),
        }
    }
    clear_ambient_capability_set().map_err(while_doing("drop the ambient capabilities"))?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(while_doing("drop the capabilities"))?;
    set_no_new_privs(true).map_err(while_doing("give up new privileges"))
}
