//! What a `crun restore` has left behind that was killed in the middle.
//!
//! Three things, all seen with crun 1.28. It mounts the container's root at `criu-root` in the bundle, and no other restore begins while that is
//! there. And between the moment in which CRIU has made the processes and that in which crun writes down that they are its container, they are
//! nobody's: they run, and `crun delete --force` does not know of them. A second restore would run beside them, on the same files. And one that
//! gives up leaves a cgroup `.proxy-crun` in the container's, with which the next one cannot say which devices that may use.

use std::fs;
use std::io;
use std::path::{Component, Path};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::io_error;
use base::proc::{self, Stat};
use rustix::time::{ClockId, clock_gettime};

use super::ending::end_all;
use super::error::{BackError, Result};
use super::own_cgroup::OwnCgroup;
use super::second_root::{SECOND_ROOT, unmount_second_root};
use crate::container::ContainerId;
use crate::specification::Specification;

/// Where in the container's cgroup somebody waits for the end of a restore.
const WAITING: &str = ".proxy-crun";
/// Where cgroups are: the second version, or a directory for each hierarchy of the first.
const CGROUPS: &str = "/sys/fs/cgroup";
/// How long processes may take to end that were killed.
const LIMIT: Duration = Duration::from_secs(10);
/// How often somebody is looked at who is about to be gone.
const AGAIN: Duration = Duration::from_millis(5);

/// Takes away where the root was mounted.
pub(super) fn unmount_root(bundle: &Path) -> Result<()> {
    unmount_second_root(bundle)?;
    let place = bundle.join(SECOND_ROOT);
    match fs::remove_dir(&place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("remove", &place)(error).into())
        }
        _ => Ok(()),
    }
}

/// Ends processes of this container that crun made and knows nothing of. Those are in its cgroup and below its root, in process numbers of their
/// own, and have begun since crun wrote down what it was going to make. One that crun knows is left alone with all that is in it.
pub(super) fn end_nobodys(state: &Path, bundle: &Path, id: &ContainerId) -> Result<()> {
    let directory = state.join(id.as_str());
    let specified = directory.join("config.json");
    let Some(since) = began(&specified).filter(|_| !directory.join("status").exists()) else { return Ok(()) };
    let text = fs::read(&specified).map_err(io_error("read", &specified))?;
    let Some(specification) = Specification::parse(&text) else { return Ok(()) };
    let Some(root) = specification.root_path().and_then(|path| fs::metadata(bundle.join(path)).ok()) else {
        return Ok(());
    };
    let own = fs::read_link("/proc/self/ns/pid").map_err(io_error("read", "/proc/self/ns/pid"))?;
    let cgroup = OwnCgroup::of(&specification, id);
    let is_nobodys = |pid: i32| {
        let started = Stat::of(pid).ok().flatten().filter(|stat| !stat.is_over()).map(|stat| stat.start_time);
        started.is_some_and(|ticks| after_boot(ticks) >= since)
            && fs::read_link(proc::path(pid, "ns/pid")).is_ok_and(|numbers| numbers != own)
            && fs::metadata(proc::path(pid, "root")).is_ok_and(|seen| same(&seen, &root))
            && cgroup.has(pid)
    };
    match end_all(LIMIT, is_nobodys).map_err(io_error("list", "/proc"))? {
        true => Ok(()),
        false => Err(BackError::Slow { action: "the end", container: id.to_string(), limit: LIMIT }),
    }
}

/// Takes away the cgroups that are left of one that crun does not know any more; those with processes stay.
pub(super) fn remove_cgroups(state: &Path, bundle: &Path, id: &ContainerId) -> Result<()> {
    let Ok(text) = fs::read(bundle.join("config.json")) else { return Ok(()) };
    let specification = Specification::parse(&text).unwrap_or_default();
    let asked = specification.cgroups_path().unwrap_or(id.as_str());
    // Of a slice of systemd's, which it takes away itself, or not to be believed.
    let odd = asked.contains(':') || Path::new(asked).components().any(|part| part == Component::ParentDir);
    if odd || state.join(id.as_str()).join("status").exists() {
        return Ok(());
    }
    let below = asked.trim_start_matches('/');
    let hierarchies =
        fs::read_dir(CGROUPS).map_err(io_error("list", CGROUPS))?.flatten().map(|entry| entry.path());
    for hierarchy in hierarchies.chain([CGROUPS.into()]).filter(|path| path.is_dir()) {
        let own = hierarchy.join(below);
        let deadline = Instant::now() + LIMIT;
        // Whoever waited in there was killed, and may not be gone yet.
        while let Err(error) = fs::remove_dir(own.join(WAITING)) {
            if error.kind() != io::ErrorKind::ResourceBusy || Instant::now() >= deadline {
                break;
            }
            std::thread::sleep(AGAIN);
        }
        // crun takes one that is there already.
        let _kept = fs::remove_dir(own);
    }
    Ok(())
}

fn same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// When a file was written, counted from the start of the machine; a little earlier, because both clocks are read one after the other.
fn began(path: &Path) -> Option<Duration> {
    let written = fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let up = clock_gettime(ClockId::Boottime);
    let up = Duration::new(up.tv_sec.try_into().ok()?, up.tv_nsec.try_into().ok()?);
    let age = now.checked_sub(written)? + Duration::from_millis(100);
    Some(up.saturating_sub(age))
}

/// Of ticks of the kernel's clock for processes.
fn after_boot(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_root_was_is_taken_away_and_what_is_somebodys_stays() {
        let bundle = tempfile::tempdir().unwrap();
        unmount_root(bundle.path()).unwrap();
        let place = bundle.path().join(SECOND_ROOT);
        fs::create_dir(&place).unwrap();
        unmount_root(bundle.path()).unwrap();
        assert!(!place.exists());
        fs::create_dir(&place).unwrap();
        fs::write(place.join("file"), "kept").unwrap();
        assert_eq!(unmount_root(bundle.path()).unwrap_err().code(), "IJ-O030");
        assert_eq!(fs::read(place.join("file")).unwrap(), b"kept");
    }

    #[test]
    fn a_process_begins_after_what_was_written_before_it_and_not_after_what_comes_later() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        fs::write(&path, "").unwrap();
        let own = Stat::of(i32::try_from(std::process::id()).unwrap()).unwrap().unwrap();
        let hour = Duration::from_secs(3600);
        let at = |when: SystemTime| {
            fs::File::options().write(true).open(&path).unwrap().set_modified(when).unwrap()
        };
        at(SystemTime::now() + hour);
        assert_eq!(began(&path), None);
        at(SystemTime::now().checked_sub(hour * 1000).unwrap());
        assert!(after_boot(own.start_time) >= began(&path).unwrap());
    }
}
