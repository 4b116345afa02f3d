//! What would make a snapshot fail, found while the processes still run undisturbed.
//!
//! CRIU finds most of this out by itself, but only after it has frozen the session, and says it in its own words. Here the
//! same things are read from `/proc`, before anything is touched, and told with the process that is in the way, what was seen,
//! and the way out. A *refusal* is certain to fail; a *warning* is something that the user will want to know.
//!
//! What is looked at: `descriptors` (io_uring, userfaultfd, perf, BPF, GPUs, deleted files, connections that lead out),
//! `state` (debuggers, stopped and frozen processes, vfork, other users, namespaces within), `boxed` (what CRIU cannot see
//! without root's rights), and `room` (space on disk and in memory). What is on GPUs is asked elsewhere; whoever asks adds it to what
//! is found here.

#![forbid(unsafe_code)]

mod boxed;
mod descriptors;
mod error;
mod room;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use base::proc::Stat;
pub use error::{PreflightError, Result};
pub use room::{free_bytes, store_has_room};
use sandbox::Program;
use sandbox::process::Identity;

/// Something that stands in the way of a snapshot, or nearly.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The process, as the machine numbers it; 0 if it is about the whole session or the machine.
    pub pid: i32,
    /// The process's name.
    pub comm: String,
    /// What it is.
    pub what: &'static str,
    /// What was seen, and where.
    pub evidence: String,
    /// What the user can do about it.
    pub way_out: String,
}

/// Processes that are not back, as the end of a sentence.
pub fn tell_pids(pids: &[i32]) -> String {
    let words: Vec<String> = pids.iter().map(ToString::to_string).collect();
    match words.as_slice() {
        [] => String::new(),
        [one] => format!(": process {one} is not back"),
        several => format!(": processes {} are not back", several.join(", ")),
    }
}

/// What was seen of each, and what the user can do about it: a line each.
pub fn ways_out(problems: &[Problem]) -> String {
    let line = |one: &Problem| format!("{} ({}): {}; {}", one.comm, one.pid, one.evidence, one.way_out);
    problems.iter().map(line).collect::<Vec<_>>().join("\n")
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.what)?;
        if self.pid != 0 {
            write!(f, "{} ({}), ", self.comm, self.pid)?;
        }
        write!(f, "{}; {}", self.evidence, self.way_out)
    }
}

/// What the snapshot needs and what is known about the session.
#[derive(Clone, Debug)]
pub struct Needs {
    /// Where CRIU will write, if that has been decided.
    pub staging: Option<PathBuf>,
    /// Where the snapshot will be kept.
    pub store: PathBuf,
    /// The session's user; `None` if its processes may be anyone's.
    pub uid: Option<u32>,
    /// The box that it lives in, if it does, and the program that looks into it.
    pub boxed: Option<(Program, Identity)>,
    /// Processes whose GPU descriptors somebody else answers for: the driver closes them before the dump.
    pub on_gpu: BTreeSet<i32>,
    /// Bytes that the driver will add to the processes' memory.
    pub vram_bytes: u64,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Preflight {
    /// A snapshot will fail because of these.
    pub refusals: Vec<Problem>,
    /// It will not, but the user should know.
    pub warnings: Vec<Problem>,
    /// About how many bytes of memory CRIU will write.
    pub memory_bytes: u64,
}

impl Preflight {
    /// The warnings in words, or the refusals as an error.
    pub fn verdict(self) -> Result<Vec<String>> {
        if !self.refusals.is_empty() {
            return Err(PreflightError::Refused { problems: self.refusals });
        }
        Ok(self.warnings.iter().map(ToString::to_string).collect())
    }
}

/// Looks at the tree below `init` (its number on the machine).
pub fn look(init: i32, needs: &Needs) -> Result<Preflight> {
    let tree: Vec<i32> = sandbox::process::tree(init)?.iter().map(|process| process.pid).collect();
    let mut found = examine(Path::new("/proc"), init, &tree, needs);
    for connection in
        sandbox::unix_connections(&tree, needs.boxed.as_ref().map(|(program, holder)| (program, *holder)))?
    {
        let name = connection.name.unwrap_or_else(|| format!("socket:[{}]", connection.peer_inode));
        found.refusals.push(Problem {
            pid: connection.pid,
            comm: comm(Path::new("/proc"), connection.pid),
            what: "a connection to a process outside of the session",
            evidence: format!("descriptor {} is connected to {name}", connection.fd),
            way_out: "close the connection before the snapshot, or run its other end in the same session"
                .to_owned(),
        });
    }
    room::examine(needs, &mut found)?;
    Ok(found)
}

/// All that can be read from a `/proc`.
fn examine(proc: &Path, init: i32, tree: &[i32], needs: &Needs) -> Preflight {
    let mut found = Preflight::default();
    for pid in tree {
        let process = Process { directory: proc.join(pid.to_string()), pid: *pid, comm: comm(proc, *pid) };
        // one that has ended meanwhile is in nobody's way
        let Some(status) = process.read("status") else { continue };
        if state::field(&status, "State").starts_with('Z') {
            continue;
        }
        state::examine(proc, init, &process, &status, needs, &mut found);
        descriptors::examine(&process, needs, &mut found);
        if needs.boxed.is_some() {
            boxed::examine(&process, &status, &mut found);
        }
        found.memory_bytes = found.memory_bytes.saturating_add(state::private_memory(&status));
    }
    found.memory_bytes = found.memory_bytes.saturating_add(state::shared_memory(proc, tree));
    found.memory_bytes = found.memory_bytes.saturating_add(needs.vram_bytes);
    descriptors::locks(proc, tree, &mut found);
    found
}

/// A process that is looked at.
struct Process {
    directory: PathBuf,
    pid: i32,
    comm: String,
}

impl Process {
    fn read(&self, name: &str) -> Option<String> {
        fs::read(self.directory.join(name)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Whether it has ended, or is about to.
    fn is_ending(&self) -> bool {
        match self.read("stat") {
            Some(line) => Stat::parse(line.as_bytes()).is_some_and(|stat| stat.is_over() || stat.is_dying),
            None => !self.directory.exists(),
        }
    }

    fn problem(
        &self,
        what: &'static str,
        evidence: impl Into<String>,
        way_out: impl Into<String>,
    ) -> Problem {
        Problem {
            pid: self.pid,
            comm: self.comm.clone(),
            what,
            evidence: evidence.into(),
            way_out: way_out.into(),
        }
    }
}

fn comm(proc: &Path, pid: i32) -> String {
    fs::read_to_string(proc.join(pid.to_string()).join("comm")).unwrap_or_default().trim().to_owned()
}
