//! A control group for each box.
//!
//! Machines come with the unified hierarchy (v2), with the old ones (v1), or with both (hybrid: v2 is there, but the
//! controllers are v1). [`Layout`] says what this machine has. A box gets the directory `infinijup/ID` in v2 and in each v1
//! hierarchy of a controller that v2 does not offer; what neither offers is listed in [`Cgroup::missing`] and is not an error,
//! because a session without a memory limit is better than none.
//!
//! For root the directories hang directly below the mount, not below the daemon's own group: a service manager that stops the
//! daemon ends everything in *its* group, and the sessions are to go on. An ordinary user has a group only where one was delegated
//! to them (systemd does so for `user@UID.service`): the one that the daemon itself is in, if its files are the user's to write.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base::proc;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::error::{Result, SandboxError};

const PARENT: &str = "infinijup";
/// The daemon's own group, where a group was delegated to it: one with controllers for others may hold no process itself.
const DAEMON: &str = "infinijup-daemon";
const CONTROLLERS: [&str; 3] = ["memory", "pids", "freezer"];

/// Bounds for a whole box.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Number of processes and threads.
    pub pids: Option<u64>,
}

/// Which hierarchies a machine has.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Layout {
    /// Where the unified hierarchy is mounted.
    pub v2: Option<PathBuf>,
    /// Where the old hierarchies are mounted, by controller.
    pub v1: BTreeMap<String, PathBuf>,
    /// The group in the unified hierarchy below which we may make our own; empty for its root.
    pub below: PathBuf,
}

impl Layout {
    /// What this machine has.
    pub fn of_this_machine() -> Result<Self> {
        let mut layout = Self::default();
        for mount in crate::mounts::table()? {
            match mount.kind.as_str() {
                "cgroup2" if layout.v2.is_none() => layout.v2 = Some(mount.target),
                "cgroup" => {
                    for name in mount.super_options.split(',').filter(|name| CONTROLLERS.contains(name)) {
                        layout.v1.entry(name.to_owned()).or_insert_with(|| mount.target.clone());
                    }
                }
                _ => {}
            }
        }
        if !rustix::process::geteuid().is_root() {
            layout.only_what_is_delegated();
        }
        Ok(layout)
    }

    /// What an ordinary user has of the machine's hierarchies.
    fn only_what_is_delegated(&mut self) {
        self.v1.clear();
        let Some(root) = &self.v2 else { return };
        let own = proc::read_text_at(Path::new("/proc/self/cgroup")).unwrap_or_default();
        let own = proc::memberships(&own).find(|place| place.is_unified);
        let own = own.and_then(|place| place.path.strip_prefix('/')).unwrap_or_default();
        // A daemon that lives in a group of its own making is one level deeper than what was delegated.
        let own = Path::new(own);
        let own = if own.ends_with(DAEMON) { own.parent().unwrap_or(own) } else { own };
        let may = |file: PathBuf| {
            rustix::fs::accessat(
                rustix::fs::CWD,
                file,
                rustix::fs::Access::WRITE_OK,
                rustix::fs::AtFlags::empty(),
            )
            .is_ok()
        };
        let group = root.join(own);
        if own.as_os_str().is_empty() || !may(group.clone()) || !may(group.join("cgroup.procs")) {
            self.v2 = None;
        } else {
            self.below = own.to_owned();
        }
    }

    /// Controllers that v2 offers. Freezing is part of v2 itself.
    fn in_v2(&self) -> Vec<String> {
        let Some(root) = &self.v2 else { return Vec::new() };
        let listed =
            fs::read_to_string(root.join(&self.below).join("cgroup.controllers")).unwrap_or_default();
        let mut names: Vec<String> = listed.split_ascii_whitespace().map(str::to_owned).collect();
        names.push("freezer".to_owned());
        names
    }
}

/// The control group of one box.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cgroup {
    v2: Option<PathBuf>,
    v1: BTreeMap<String, PathBuf>,
    missing: Vec<String>,
}

impl Cgroup {
    /// Makes the group `id` with these limits, or takes it over if it is there.
    pub fn create(id: &str, limits: Limits) -> Result<Self> {
        Self::create_in(&Layout::of_this_machine()?, id, limits)
    }

    /// As [`Self::create`], on a layout that the caller knows.
    pub fn create_in(layout: &Layout, id: &str, limits: Limits) -> Result<Self> {
        let mut group = Self::at(layout, id)?;
        for path in group.paths() {
            fs::create_dir_all(&path).map_err(SandboxError::io("make the cgroup", &path))?;
        }
        if let (Some(directory), Some(root)) = (group.v2.clone(), &layout.v2) {
            group.enable_v2(&root.join(&layout.below), &directory, limits)?;
        }
        group.limit("memory", limits.memory, "memory.max", "memory.limit_in_bytes")?;
        group.limit("pids", limits.pids, "pids.max", "pids.max")?;
        Ok(group)
    }

    /// The group `id` as it is; `None` if no such group exists.
    pub fn open(id: &str) -> Result<Option<Self>> {
        let group = Self::at(&Layout::of_this_machine()?, id)?;
        Ok(group.paths().iter().any(|path| path.is_dir()).then_some(group))
    }

    fn at(layout: &Layout, id: &str) -> Result<Self> {
        let plain =
            !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if !plain {
            return Err(SandboxError::BadSpec { detail: format!("`{id}` cannot name a box") });
        }
        let in_v2 = layout.in_v2();
        let below = |root: &PathBuf| root.join(&layout.below).join(PARENT).join(id);
        let v1: BTreeMap<_, _> = layout
            .v1
            .iter()
            // The old freezer is used even if v2 could freeze: it is where a tree may have been left frozen.
            .filter(|(name, _)| !in_v2.contains(name) || *name == "freezer")
            .map(|(name, root)| (name.clone(), below(root)))
            .collect();
        let missing = CONTROLLERS
            .iter()
            .filter(|name| !in_v2.iter().any(|offered| offered == *name) && !v1.contains_key(**name))
            .map(|name| (*name).to_owned())
            .collect();
        Ok(Self { v2: layout.v2.as_ref().map(below), v1, missing })
    }

    /// v2 hands a controller down only where every level above asks for it.
    fn enable_v2(&mut self, root: &Path, directory: &Path, limits: Limits) -> Result<()> {
        for (name, wanted) in [("memory", limits.memory.is_some()), ("pids", limits.pids.is_some())] {
            if self.v1.contains_key(name) || self.missing.iter().any(|missing| missing == name) {
                continue;
            }
            let handed_down = [root, directory.parent().unwrap_or(root)]
                .iter()
                .try_for_each(|level| fs::write(level.join("cgroup.subtree_control"), format!("+{name}")));
            match handed_down {
                Ok(()) => {}
                Err(error) if wanted => {
                    return Err(SandboxError::io("enable a cgroup controller in", root)(error));
                }
                Err(_) => self.missing.push(name.to_owned()),
            }
        }
        Ok(())
    }

    fn limit(&mut self, controller: &str, value: Option<u64>, in_v2: &str, in_v1: &str) -> Result<()> {
        let Some(value) = value else { return Ok(()) };
        let file = match (self.v1.get(controller), &self.v2) {
            _ if self.missing.iter().any(|name| name == controller) => return Ok(()),
            (Some(directory), _) => directory.join(in_v1),
            (None, Some(directory)) => directory.join(in_v2),
            (None, None) => return Ok(()),
        };
        fs::write(&file, value.to_string()).map_err(SandboxError::io("set the limit", &file))
    }

    /// Controllers that this machine does not offer; limits that need them are not in force.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Which of these limits is not in force, if one is not.
    pub fn not_in_force(&self, limits: Limits) -> Option<&'static str> {
        let lacks = |name: &str| self.missing.iter().any(|missing| missing == name);
        match (limits.memory, limits.pids) {
            (Some(_), _) if lacks("memory") => Some("memory"),
            (_, Some(_)) if lacks("pids") => Some("processes"),
            _ => None,
        }
    }

    /// The directories that make up the group.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.v2.iter().chain(self.v1.values()).cloned().collect()
    }

    /// Puts a process into the group.
    pub fn add(&self, pid: i32) -> Result<()> {
        join(&self.paths(), pid)
    }

    /// The processes in it.
    pub fn processes(&self) -> Vec<i32> {
        let mut found: Vec<i32> = self
            .paths()
            .iter()
            .filter_map(|path| fs::read_to_string(path.join("cgroup.procs")).ok())
            .flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>())
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Bytes of memory in use, where the machine can tell.
    pub fn memory_in_use(&self) -> Option<u64> {
        let file = match self.v1.get("memory") {
            Some(directory) => directory.join("memory.usage_in_bytes"),
            None => self.v2.as_ref()?.join("memory.current"),
        };
        fs::read_to_string(file).ok()?.trim().parse().ok()
    }

    /// Whether it is frozen, by v1 or by v2.
    pub fn is_frozen(&self) -> bool {
        let reads = |file: PathBuf, thawed: &str| {
            fs::read_to_string(file).is_ok_and(|text| !text.trim().is_empty() && text.trim() != thawed)
        };
        self.v1.get("freezer").is_some_and(|directory| reads(directory.join("freezer.state"), "THAWED"))
            || self.v2.as_ref().is_some_and(|directory| reads(directory.join("cgroup.freeze"), "0"))
    }

    /// Lets its processes run again.
    pub fn thaw(&self) -> Result<()> {
        let files = [
            (self.v1.get("freezer").map(|directory| directory.join("freezer.state")), "THAWED"),
            (self.v2.as_ref().map(|directory| directory.join("cgroup.freeze")), "0"),
        ];
        for (file, value) in files {
            if let Some(file) = file.filter(|file| file.exists()) {
                fs::write(&file, value).map_err(SandboxError::io("thaw", &file))?;
            }
        }
        Ok(())
    }

    /// Ends everything in it, at once, and waits until it is empty; says whether it is.
    pub fn kill(&self, limit: Duration) -> Result<bool> {
        let deadline = Instant::now() + limit;
        // A frozen v1 group would not even notice the signal.
        self.thaw()?;
        loop {
            if let Some(file) =
                self.v2.as_ref().map(|directory| directory.join("cgroup.kill")).filter(|f| f.exists())
            {
                fs::write(&file, "1").map_err(SandboxError::io("kill", &file))?;
            }
            let left: Vec<i32> = self.processes();
            for pid in left.iter().filter_map(|pid| Pid::from_raw(*pid)) {
                // It may have gone meanwhile; the list is read again anyway.
                let _ = kill_process(pid, Signal::KILL);
            }
            if left.is_empty() || Instant::now() >= deadline {
                return Ok(left.is_empty());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Removes the directories. Fails while a process is in them.
    pub fn remove(self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(5);
        for path in self.paths() {
            loop {
                match fs::remove_dir(&path) {
                    Ok(()) => break,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                    // The last process is gone from the list a moment before the kernel lets go of it.
                    Err(error)
                        if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline =>
                    {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    Err(error) => return Err(SandboxError::io("remove the cgroup", &path)(error)),
                }
            }
        }
        Ok(())
    }
}

/// Puts a process into the groups with these directories.
pub(crate) fn join(directories: &[PathBuf], pid: i32) -> Result<()> {
    for directory in directories {
        let file = directory.join("cgroup.procs");
        fs::write(&file, pid.to_string()).map_err(SandboxError::io("join the cgroup", &file))?;
    }
    Ok(())
}

/// The directories of the box's group that a process is in.
pub(crate) fn of_box(pid: i32) -> Result<Vec<PathBuf>> {
    let path = PathBuf::from(format!("/proc/{pid}/cgroup"));
    let text = fs::read_to_string(&path).map_err(SandboxError::io("read", &path))?;
    Ok(directories(&Layout::of_this_machine()?, &text))
}

/// The directories of a process's cgroups that are the box's, from the text of its `cgroup` file.
fn directories(layout: &Layout, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for place in proc::memberships(text) {
        let ours = |path: &&str| {
            Path::new(path).strip_prefix(&layout.below).is_ok_and(|below| below.starts_with(PARENT))
        };
        let Some(relative) = place.path.strip_prefix('/').filter(ours) else { continue };
        let root = if place.is_unified {
            layout.v2.as_ref()
        } else {
            place.controllers().find_map(|controller| layout.v1.get(controller))
        };
        found.extend(root.map(|root| root.join(relative)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory tree that looks like the unified hierarchy. Files of a group appear when it is made, so they are made first.
    fn unified(controllers: &str) -> (tempfile::TempDir, Layout) {
        let root = tempfile::tempdir().expect("a directory");
        fs::write(root.path().join("cgroup.controllers"), controllers).expect("a file");
        fs::create_dir_all(root.path().join("infinijup/a")).expect("directories");
        let layout = Layout { v2: Some(root.path().to_owned()), ..Layout::default() };
        (root, layout)
    }

    #[test]
    fn in_the_unified_hierarchy_controllers_are_handed_down_and_limits_set() {
        let (root, layout) = unified("cpuset cpu io memory pids\n");
        let limits = Limits { memory: Some(1 << 30), pids: Some(100) };
        let group = Cgroup::create_in(&layout, "a", limits).expect("a group");
        let read = |name: &str| fs::read_to_string(root.path().join(name)).expect("it was written");
        assert_eq!(read("infinijup/a/memory.max"), "1073741824");
        assert_eq!(read("infinijup/a/pids.max"), "100");
        assert_eq!(read("infinijup/cgroup.subtree_control"), "+pids", "the last one asked for");
        assert_eq!(group.paths(), [root.path().join("infinijup/a")]);
        assert!(group.missing().is_empty());

        group.add(42).expect("it joins");
        assert_eq!(read("infinijup/a/cgroup.procs"), "42");
        assert_eq!(group.processes(), [42]);

        assert!(!group.is_frozen(), "no file, not frozen");
        fs::write(root.path().join("infinijup/a/cgroup.freeze"), "1\n").expect("a file");
        assert!(group.is_frozen());
        group.thaw().expect("it thaws");
        assert!(!group.is_frozen());
        fs::write(root.path().join("infinijup/a/memory.current"), "4096\n").expect("a file");
        assert_eq!(group.memory_in_use(), Some(4096));
    }

    #[test]
    fn what_the_machine_lacks_is_said_and_is_no_error() {
        let (_root, layout) = unified("cpu\n");
        let limits = Limits { memory: Some(1 << 30), pids: Some(100) };
        let group = Cgroup::create_in(&layout, "a", limits).expect("a group all the same");
        assert_eq!(group.missing(), ["memory", "pids"]);
        let bare = Cgroup::create_in(&Layout::default(), "a", limits).expect("a group of nothing");
        assert!(bare.paths().is_empty() && bare.missing().len() == 3);
    }

    #[test]
    fn on_a_hybrid_machine_limits_go_to_the_old_hierarchies() {
        let (root, mut layout) = unified("");
        let old = tempfile::tempdir().expect("a directory");
        for name in CONTROLLERS {
            layout.v1.insert(name.to_owned(), old.path().join(name));
        }
        let group =
            Cgroup::create_in(&layout, "a", Limits { memory: Some(5), pids: Some(6) }).expect("a group");
        let read = |name: &str| fs::read_to_string(old.path().join(name)).expect("it was written");
        assert_eq!(read("memory/infinijup/a/memory.limit_in_bytes"), "5");
        assert_eq!(read("pids/infinijup/a/pids.max"), "6");
        assert_eq!(group.paths().len(), 4);
        assert!(group.missing().is_empty());
        fs::write(old.path().join("freezer/infinijup/a/freezer.state"), "FROZEN\n").expect("a file");
        assert!(group.is_frozen());
        group.thaw().expect("it thaws");
        assert_eq!(read("freezer/infinijup/a/freezer.state"), "THAWED");

        let text = "4:memory:/infinijup/a\n3:cpuset:/\n1:name=systemd:/user\n0::/infinijup/a\nnonsense\n";
        let expected = [old.path().join("memory/infinijup/a"), root.path().join("infinijup/a")];
        assert_eq!(directories(&layout, text), expected);
    }

    #[test]
    fn an_id_cannot_leave_its_place() {
        for id in ["", "..", "a/b", "a b", "ä", "."] {
            let refused = Cgroup::create_in(&Layout::default(), id, Limits::default());
            assert!(matches!(refused, Err(SandboxError::BadSpec { .. })), "{id}");
        }
    }
}
