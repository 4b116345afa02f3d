//! Whose the processes of a snapshot are.
//!
//! In a box CRIU cannot give a process another user, a group or a capability, because it has none to give.

use checkpoint_criu::images::Credentials;
use doctor::Finding;
use image_store::{Result, images_in_memory};

use crate::{Asked, fail};

/// What a group that is not known in a box is called there.
const UNKNOWN_GROUP: u32 = 65534;

/// Says the first thread that is not the session's user's.
pub(crate) fn look(asked: &Asked<'_>) -> Result<Option<Finding>> {
    let images = images_in_memory(asked.store, asked.commit, asked.snapshot, &["pstree", "core-"])?;
    let (uid, gid) = asked.record.ids_inside();
    let groups = groups_inside(gid);
    for process in images.pstree().unwrap_or_default() {
        for thread in process.threads {
            // A zombie has no such image.
            let Ok(core) = images.core(thread) else { continue };
            let Some(found) = core.thread.and_then(|thread| thread.credentials) else { continue };
            let whose = format!("thread {thread} of process {}", process.pid);
            if let Some(fault) = fault(&found, uid, gid) {
                let evidence = format!("{whose} {fault}, and its session has uid {uid} and gid {gid}");
                return Ok(Some(fail("user", evidence, "restore it as a user with the same numbers (`id`)")));
            }
            if found.groups != groups {
                let evidence =
                    format!("{whose} is in {} groups, and you are in {}", found.groups.len(), groups.len());
                let fix = "restore it as a user who is in as many groups (`id -G`): nobody but root may leave or enter one";
                return Ok(Some(fail("groups", evidence, fix)));
            }
        }
    }
    Ok(None)
}

/// Our groups, as a box shows them whose group has the number `inner`: CRIU may not change them, and refuses a process that had others.
fn groups_inside(inner: u32) -> Vec<u32> {
    let own = rustix::process::getegid();
    let groups = rustix::process::getgroups().unwrap_or_default();
    groups.into_iter().map(|group| if group == own { inner } else { UNKNOWN_GROUP }).collect()
}

/// What is wrong with the credentials of a thread that should be this user's.
pub fn fault(found: &Credentials, uid: u32, gid: u32) -> Option<String> {
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
