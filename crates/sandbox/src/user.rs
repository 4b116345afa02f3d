//! Users of the machine.

use std::ffi::CString;
use std::path::PathBuf;

use rustix::process::{Gid, Uid};
use rustix::thread;
use serde::{Deserialize, Serialize};

use crate::error::{Result, SandboxError};
use crate::process::{self, Identity};

/// A user of this machine, as the user database knows them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// All groups, the primary one included.
    pub groups: Vec<u32>,
    /// Login name.
    pub name: String,
    /// Home directory.
    pub home: PathBuf,
    /// Login shell.
    pub shell: PathBuf,
}

impl User {
    /// Whoever runs this program, as the password database knows them.
    ///
    /// Where it does not (a container with a number for a user), the number is the name, and `HOME` is believed. The groups are those
    /// that this process has: nobody here could give it others.
    pub fn current() -> Result<Self> {
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        let listed = rustix::process::getgroups().map_err(SandboxError::system("list our groups"))?;
        let mut groups: Vec<u32> = listed.iter().map(|group| group.as_raw()).collect();
        if !groups.contains(&gid) {
            groups.push(gid);
        }
        let home = || std::env::home_dir().unwrap_or_else(|| PathBuf::from("/"));
        Ok(match Self::by_uid(uid) {
            Ok(known) => Self { gid, groups, ..known },
            Err(_) => Self { uid, gid, groups, name: uid.to_string(), home: home(), shell: "/bin/sh".into() },
        })
    }

    /// A process that this user may look after, and its owner; `None` if there is none, or if it is somebody else's. Root looks after anybody's.
    pub fn process(&self, pid: i32) -> Result<Option<(Identity, Self)>> {
        let may = |found: &process::ProcessInfo| self.uid == 0 || self.uid == found.uid;
        let Some(found) = process::info(pid)?.filter(may) else { return Ok(None) };
        Ok(Some((found.identity(), Self::by_uid(found.uid)?)))
    }

    /// Looks a user up by id.
    pub fn by_uid(uid: u32) -> Result<Self> {
        let entry = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid))
            .map_err(SandboxError::system(format!("look up the user {uid}")))?
            .ok_or(SandboxError::NoUser { uid })?;
        let name = CString::new(entry.name.clone()).map_err(|_| SandboxError::NoUser { uid })?;
        let groups = nix::unistd::getgrouplist(&name, entry.gid)
            .map_err(SandboxError::system(format!("look up the groups of `{}`", entry.name)))?;
        Ok(Self {
            uid,
            gid: entry.gid.as_raw(),
            groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
            name: entry.name,
            home: entry.dir,
            shell: entry.shell,
        })
    }
}

/// Runs `work` on a fresh thread that has the user's credentials and no capabilities, and waits for it.
///
/// In Linux credentials belong to a thread, so the rest of the process keeps its own. What `work` opens can be handed
/// back: root gets the handle, but the user's rights decided whether there is one. The thread ends afterwards, since it
/// could not become root again.
pub fn as_user<T: Send>(user: &User, work: impl FnOnce() -> T + Send) -> Result<T> {
    if rustix::process::geteuid().as_raw() == user.uid {
        return Ok(work());
    }
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new()
            .name("as-user".to_owned())
            .spawn_scoped(scope, || -> std::result::Result<T, rustix::io::Errno> {
                take_credentials(user)?;
                Ok(work())
            })
            .map_err(SandboxError::system("start a thread"))?;
        match worker.join() {
            Ok(done) => done.map_err(SandboxError::system(format!("act as the user {}", user.uid))),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Gives the calling thread the user's groups and ids, and takes its capabilities away.
pub(crate) fn take_credentials(user: &User) -> std::result::Result<(), rustix::io::Errno> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    if rustix::process::geteuid().is_root() {
        let groups: Vec<Gid> = user.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        thread::set_thread_groups(&groups)?;
    }
    thread::set_thread_res_gid(gid, gid, gid)?;
    thread::set_thread_res_uid(uid, uid, uid)?;
    // Leaving root has cleared them already; for a session of root's own it has not.
    let none = thread::CapabilitySet::empty();
    thread::set_capabilities(
        None,
        thread::CapabilitySets { effective: none, permitted: none, inheritable: none },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_one_is_this_process() {
        let user = User::current().expect("we are somebody");
        assert_eq!(user.uid, rustix::process::geteuid().as_raw());
        assert!(user.groups.contains(&user.gid) && !user.name.is_empty());
    }

    #[test]
    fn other_peoples_processes_do_not_exist() {
        let root = User::by_uid(0).unwrap();
        let nobody = User { uid: 65_534, ..root.clone() };
        let pid = i32::try_from(std::process::id()).unwrap();
        assert_eq!(root.process(pid).unwrap().unwrap().0.pid, pid);
        assert_eq!(nobody.process(pid).unwrap(), None);
        assert_eq!(root.process(i32::MAX).unwrap(), None);
    }

    #[test]
    fn root_is_known_and_nobody_has_the_last_id() {
        let root = User::by_uid(0).expect("every machine has root");
        assert_eq!((root.name.as_str(), root.gid), ("root", 0));
        assert!(root.groups.contains(&0));
        assert!(matches!(User::by_uid(4_294_967_290), Err(SandboxError::NoUser { .. })));
    }
}
