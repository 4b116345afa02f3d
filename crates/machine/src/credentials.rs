//! Whose the processes in the images of a session are, before CRIU is asked to make them.
//!
//! In a box CRIU cannot give a process another user, a group or a capability, because it has none to give. But it finds that out in the
//! last moment, thread by thread, when it can no longer go back: a process with several threads stays half made, and CRIU waits for it for
//! ever. So images that ask for it are refused first.

use std::path::Path;

use checkpoint_criu::images::{Credentials, Images};
use lifecycle::{LifecycleError, Result};
use sandbox::User;

/// What a group that is not known in a box is called there.
const UNKNOWN_GROUP: u32 = 65534;
/// More are not worth reading.
const MOST: usize = 10;

/// Refuses images with processes that are not `user`'s, or have a capability.
pub(crate) fn check(images: &Path, user: &User) -> Result<()> {
    let images = Images::open(images)?;
    let mut findings = Vec::new();
    for process in images.pstree()? {
        for thread in process.threads {
            // A zombie has no such image; what else is missing is CRIU's to complain about.
            let Ok(core) = images.core(thread) else { continue };
            let found = core.thread.and_then(|thread| thread.credentials);
            if let Some(fault) = found.and_then(|found| fault(&found, user.uid, user.gid)) {
                findings.push(format!("thread {thread} of process {} {fault}", process.pid));
            }
        }
    }
    if findings.is_empty() {
        return Ok(());
    }
    findings.truncate(MOST);
    Err(LifecycleError::Untrusted { uid: user.uid, findings })
}

/// What is wrong with the credentials of a thread that should be this user's.
fn fault(found: &Credentials, uid: u32, gid: u32) -> Option<String> {
    let users = [found.uid, found.euid, found.suid, found.fsuid];
    let groups = [found.gid, found.egid, found.sgid, found.fsgid];
    let sets = [&found.cap_inh, &found.cap_prm, &found.cap_eff, &found.cap_amb];
    let other_user = users.into_iter().find(|other| *other != uid).map(|other| format!("has uid {other}"));
    let other_group =
        || groups.into_iter().find(|other| *other != gid).map(|other| format!("has gid {other}"));
    let foreign = |group: &&u32| ![gid, UNKNOWN_GROUP].contains(*group);
    let more_groups = || found.groups.iter().find(foreign).map(|group| format!("is in group {group}"));
    let capable = || sets.into_iter().flatten().any(|word| *word != 0).then(|| "has capabilities".to_owned());
    other_user.or_else(other_group).or_else(more_groups).or_else(capable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn honest() -> Credentials {
        let (uid, gid) = (1000, 100);
        Credentials {
            uid,
            gid,
            euid: uid,
            egid: gid,
            suid: uid,
            sgid: gid,
            fsuid: uid,
            fsgid: gid,
            cap_prm: vec![0, 0],
            cap_eff: vec![0, 0],
            cap_bnd: vec![u32::MAX, 0],
            groups: vec![100, UNKNOWN_GROUP],
            ..Credentials::default()
        }
    }

    #[test]
    fn what_a_box_cannot_give_is_named() {
        let told = |found: &Credentials| fault(found, 1000, 100);
        assert_eq!(told(&honest()), None);
        for (crafted, words) in [
            (Credentials { uid: 0, ..honest() }, "has uid 0"),
            (Credentials { fsuid: 7, ..honest() }, "has uid 7"),
            (Credentials { sgid: 0, ..honest() }, "has gid 0"),
            (Credentials { groups: vec![100, 6], ..honest() }, "is in group 6"),
            (Credentials { cap_eff: vec![0, 1], ..honest() }, "has capabilities"),
            (Credentials { cap_amb: vec![1], ..honest() }, "has capabilities"),
        ] {
            assert_eq!(told(&crafted).as_deref(), Some(words));
        }
    }
}
