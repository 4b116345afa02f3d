//! What the helper program does, one module a role.
//!
//! ```text
//! launch      makes the namespaces, starts `stage` as the first process in them, reports and ends
//! stage       process 1, still root: builds the file system, gives everything up, becomes `init`
//! init        process 1, as the user: starts the commands, reaps, passes signals on
//! enter       goes into a box and runs a command there, through `session`
//! session     starts a session of its own and becomes a command
//! forward     starts `serve` so that it is nobody's child, and ends
//! serve       carries connections from the machine's loopback into a box
//! real-ids    takes a user's real ids and becomes CRIU
//! ```
//!
//! Each starts as a fresh process with one thread, so unsharing, entering and giving up credentials are plain calls, in an
//! order that can be read from top to bottom.

mod enter;
mod forward;
mod init;
mod launch;
mod real_ids;
mod stage;

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, clear_ambient_capability_set, remove_capability_from_bounding_set, set_no_new_privs,
};

use crate::exec::{ENTER_FAILED, FAILURE_MARK};
use crate::user::{User, take_credentials};

/// A role's failure, in words; it crosses to the caller as text.
type Outcome<T = ExitCode> = Result<T, String>;

/// The program's `main`.
pub fn main() -> ExitCode {
    close_what_was_left_open();
    // What the daemon's thread has blocked would stay blocked in everything that follows. It cannot fail for ourselves.
    let _ = nix::sys::signal::SigSet::empty().thread_set_mask();
    let mut words = std::env::args_os().skip(1);
    let role = words.next().unwrap_or_default();
    let words: Vec<OsString> = words.collect();
    let outcome = match role.to_str() {
        Some("launch") => launch::launch(),
        Some("stage") => stage::stage(),
        Some("init") => init::init(words),
        Some("enter") => enter::enter(),
        Some("session") => enter::session(words),
        Some("forward") => forward::forward(words),
        Some("serve") => forward::serve(&words),
        Some("real-ids") => real_ids::real_ids(words),
        _ => Err("this program is run by infinijupd, not by hand".to_owned()),
    };
    outcome.unwrap_or_else(|failure| {
        #[expect(
            clippy::print_stderr,
            reason = "stderr is a pipe to the daemon, which puts this into its error"
        )]
        {
            eprintln!("{FAILURE_MARK}{failure}");
        }
        ExitCode::from(ENTER_FAILED)
    })
}

/// Closes all but the three standard descriptors. One that some shell or service manager above us forgot to close would
/// end up in the box, where CRIU refuses it: it comes from a mount that the box does not have.
fn close_what_was_left_open() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<RawFd> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        // The one that the list was read through is closed by now.
        let _ = nix::unistd::close(fd);
    }
}

/// For `map_err`: says what was being done.
fn while_doing<E: Display>(what: impl Display) -> impl FnOnce(E) -> String {
    move |error| format!("cannot {what}: {error}")
}

/// Like [`while_doing`], for the errors of this crate, with their causes.
fn with_causes(error: crate::SandboxError) -> String {
    use std::error::Error;
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Becomes the user for good: no capabilities, none to be had by running another program.
fn become_user(user: &User) -> Outcome<()> {
    for number in 0..64 {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            Ok(()) => {}
            // Past the last one that this kernel knows.
            Err(Errno::INVAL) => break,
            // Not ours to remove, so not ours to have either.
            Err(Errno::PERM) => break,
            Err(error) => return Err(while_doing("drop a capability")(error)),
        }
    }
    clear_ambient_capability_set().map_err(while_doing("drop the ambient capabilities"))?;
    take_credentials(user).map_err(while_doing(format!("become the user {}", user.uid)))?;
    set_no_new_privs(true).map_err(while_doing("give up new privileges"))
}

/// Our own program, opened where we are now, with the path that runs it.
///
/// It is run through the descriptor, because the user need not be able to reach the directory it is installed in. The path that
/// `/proc/PID/exe` shows, and CRIU writes down, is the plain one all the same.
fn open_program(program: &Path) -> Outcome<(OwnedFd, PathBuf)> {
    let fd = rustix::fs::open(program, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(while_doing(format!("find `{}` inside", program.display())))?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    Ok((fd, path))
}

/// The next word as text.
fn word(words: &mut impl Iterator<Item = OsString>, what: &str) -> Outcome<String> {
    let word = words.next().ok_or_else(|| format!("{what} is missing"))?;
    word.into_string().map_err(|word| format!("{what} is not text: {}", word.display()))
}

/// A number among the words.
fn number<N: std::str::FromStr>(word: &OsStr, what: &str) -> Outcome<N> {
    word.to_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| format!("{what} is not a number: {}", word.display()))
}
