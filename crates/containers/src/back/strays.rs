//! Processes that a restore has left which was cut short.
//!
//! CRIU makes processes before it is done with them, and whoever kills it leaves them waiting for it. The runtime does not know of them yet, so
//! its removal of the container does not end them; but it has put them into the container's cgroup, and nobody else is in there.
//!
//! Nor need it have been cut short for everybody. A containerd that is started anew has forgotten what it was asked for, while below its shim runc and
//! CRIU are still at it, and would have the container run without anybody's knowledge. So what a runc has begun that restores this container is ended
//! first, and runc waited for: it says to nobody that it has failed, and takes away what it has made.

use std::thread;
use std::time::{Duration, Instant};

use base::proc::{self, Stat};

use super::ending::{end_all, runs};
use super::own_cgroup::OwnCgroup;
use super::stuck::Restored;
use crate::specification::Specification;

/// How long they may take to be gone after SIGKILL.
const LIMIT: Duration = Duration::from_secs(30);
/// How often a runc is looked for that is still at it.
const AGAIN: Duration = Duration::from_millis(10);

/// Ends all processes in the cgroup of a container that does not run, and whoever still makes some, and waits until they are gone. `false` if some are
/// still there.
pub(super) fn end_strays(specification: &Specification, wanted: Restored<'_>) -> bool {
    let own = OwnCgroup::of(specification, wanted.id);
    // Whoever runs us in a container's cgroup would have us end ourselves.
    if own.is_ours() {
        return true;
    }
    let is_stray = |pid| runs(pid) && (own.has(pid) || is_made_for(pid, wanted));
    let deadline = Instant::now() + LIMIT;
    loop {
        // Where processes cannot be listed, nobody can say that they are gone.
        let Ok(all) = proc::pids() else { return false };
        let is_restored = all.into_iter().any(|pid| wanted.by(pid));
        if !end_all(LIMIT, is_stray).unwrap_or(false) {
            return false;
        }
        if !is_restored || Instant::now() >= deadline {
            return !is_restored;
        }
        thread::sleep(AGAIN);
    }
}

/// Whether it is a child of a runc that restores this container.
fn is_made_for(pid: i32, wanted: Restored<'_>) -> bool {
    Stat::of(pid).ok().flatten().is_some_and(|stat| wanted.by(stat.parent))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::super::runc::DEFAULT_ROOT;
    use super::*;
    use crate::container::ContainerId;

    /// A program called `runc` that reads until its last child is gone: `cat`, from a pipe with a name.
    #[test]
    fn what_a_runc_still_makes_is_ended_and_runc_is_waited_for() {
        let home = tempfile::tempdir().unwrap();
        let id = ContainerId::new("half-made").unwrap();
        let wanted = Restored { root: Path::new(DEFAULT_ROOT), id: &id };
        std::fs::copy("/bin/cat", home.path().join("runc")).unwrap();
        std::fs::write(home.path().join(id.as_str()), "").unwrap();
        assert!(Command::new("mkfifo").arg(home.path().join("restore")).status().unwrap().success());
        let script = "sleep 60 > restore & exec ./runc restore half-made";
        let mut runc = Command::new("sh").args(["-c", script]).current_dir(home.path()).spawn().unwrap();
        let pid = i32::try_from(runc.id()).unwrap();
        while !wanted.by(pid) || proc::children(pid).is_none_or(|all| all.is_empty()) {
            thread::sleep(AGAIN);
        }
        let specification = Specification::parse(br#"{"linux": {"cgroupsPath": "/no/such/group"}}"#).unwrap();
        assert!(end_strays(&specification, wanted));
        assert!(!runs(pid), "it was not waited for");
        assert!(runc.wait().unwrap().success(), "it was ended itself");
    }

    #[test]
    fn where_nobody_is_nothing_is_waited_for() {
        let specification = Specification::parse(br#"{"linux": {"cgroupsPath": "/no/such/group"}}"#).unwrap();
        let id = ContainerId::new("c1").unwrap();
        assert!(end_strays(&specification, Restored { root: Path::new("/no/such/root"), id: &id }));
    }
}
