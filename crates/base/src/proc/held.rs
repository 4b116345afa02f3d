//! What holds a process still.
//!
//! It may have been stopped by a signal or a tracer (state `T` or `t` of any thread), by the freezer of cgroup v1, or by that of cgroup v2, each
//! of the process's own cgroup or of one above it. Who is to answer for itself, with the help of its own threads, cannot then.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::cgroups::{Cgroup, Hierarchies, Version};
use super::stat::Stat;
use super::status::field;

/// What holds a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hold {
    /// SIGSTOP or one of its kind.
    Stopped,
    /// A debugger or another tracer.
    Traced {
        /// Its number.
        by: String,
    },
    /// The freezer of a cgroup.
    Cgroup {
        /// Of which version.
        version: Version,
        /// That was told to freeze: the process's own, or one above it.
        directory: PathBuf,
    },
}

impl Hold {
    /// For people.
    pub fn how(&self) -> String {
        match self {
            Self::Stopped => "stopped by a signal".to_owned(),
            Self::Traced { by } => format!("held by its tracer {by}"),
            Self::Cgroup { directory, .. } => format!("cgroup `{}`", directory.display()),
        }
    }
}

/// Everything that holds `pid`; nothing if it runs. `None` if it has ended.
pub fn holds(pid: i32) -> io::Result<Option<Vec<Hold>>> {
    Holds::new()?.of(pid)
}

/// The same for many processes: mounts are read once, and so is each cgroup.
#[derive(Debug)]
pub struct Holds {
    hierarchies: Hierarchies,
    /// What was seen of the cgroups of a process, by its `/proc/PID/cgroup`.
    frozen: BTreeMap<String, Vec<Hold>>,
}

impl Holds {
    /// Looks at mounts.
    pub fn new() -> io::Result<Self> {
        Ok(Self { hierarchies: Hierarchies::here()?, frozen: BTreeMap::new() })
    }

    /// Everything that holds `pid`.
    pub fn of(&mut self, pid: i32) -> io::Result<Option<Vec<Hold>>> {
        let Some(membership) = super::read_text(pid, "cgroup")? else { return Ok(None) };
        let Some(threads) = super::threads(pid)? else { return Ok(None) };
        let look = |membership: &String| frozen(self.hierarchies.located(membership, "freezer"));
        let mut found = self.frozen.entry(membership).or_insert_with_key(look).clone();
        found.extend(threads.iter().find_map(|thread| stopped(pid, *thread)));
        Ok(Some(found))
    }
}

fn frozen(cgroups: Vec<Cgroup>) -> Vec<Hold> {
    let mut found = Vec::new();
    for Cgroup { version, directories } in cgroups {
        let Some(own) = directories.first().filter(|own| is_frozen(version, own)) else { continue };
        // Its own cgroup may be frozen because one above it is.
        let culprits: Vec<&PathBuf> =
            directories.iter().filter(|directory| freezes(version, directory)).collect();
        let culprits = if culprits.is_empty() { vec![own] } else { culprits };
        found.extend(
            culprits.into_iter().map(|directory| Hold::Cgroup { version, directory: directory.clone() }),
        );
    }
    found
}

fn stopped(pid: i32, thread: i32) -> Option<Hold> {
    // A thread may end while we look: what is left counts. `stat` is cheaper than `status`, and most run.
    let of_thread = |name: &str| super::read(pid, &format!("task/{thread}/{name}")).ok().flatten();
    let stat = Stat::parse(&of_thread("stat")?)?;
    if !stat.is_stopped() {
        return None;
    }
    let status = String::from_utf8_lossy(&of_thread("status").unwrap_or_default()).into_owned();
    match field(&status, "TracerPid").unwrap_or("0") {
        "0" if !stat.is_traced() => Some(Hold::Stopped),
        tracer => Some(Hold::Traced { by: tracer.to_owned() }),
    }
}

/// Is this cgroup frozen or about to be, by itself or by one above it?
fn is_frozen(version: Version, directory: &Path) -> bool {
    match version {
        Version::One => matches!(value(directory, "freezer.state").as_str(), "FROZEN" | "FREEZING"),
        Version::Two => {
            // `frozen 1` says that it is; `cgroup.freeze` that it is about to be.
            value(directory, "cgroup.events").lines().any(|line| line == "frozen 1")
                || freezes(version, directory)
        }
    }
}

/// Was this very cgroup told to freeze?
fn freezes(version: Version, directory: &Path) -> bool {
    let file = match version {
        Version::One => "freezer.self_freezing",
        Version::Two => "cgroup.freeze",
    };
    value(directory, file) == "1"
}

/// The root has none of these files: it cannot be frozen.
fn value(directory: &Path, file: &str) -> String {
    fs::read_to_string(directory.join(file)).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frozen_cgroups_are_told_by_their_files() {
        let directory = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(directory.path().join(file), text).unwrap();
        assert!(!is_frozen(Version::One, directory.path()));
        assert!(!is_frozen(Version::Two, directory.path()));
        for (state, frozen) in [("THAWED\n", false), ("FREEZING\n", true), ("FROZEN\n", true)] {
            write("freezer.state", state);
            assert_eq!(is_frozen(Version::One, directory.path()), frozen, "{state}");
        }
        write("cgroup.events", "populated 1\nfrozen 0\n");
        write("cgroup.freeze", "0\n");
        assert!(!is_frozen(Version::Two, directory.path()));
        write("cgroup.freeze", "1\n");
        assert!(is_frozen(Version::Two, directory.path()));
        write("cgroup.freeze", "0\n");
        write("cgroup.events", "populated 1\nfrozen 1\n");
        assert!(is_frozen(Version::Two, directory.path()));
    }
}
