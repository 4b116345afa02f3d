//! What images ask for, as far as a specification has a say in it.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// What images ask for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Claimed {
    /// Mounts.
    pub mounts: Vec<ClaimedMount>,
    /// Threads of its processes.
    pub threads: Vec<ClaimedThread>,
    /// How many different cgroups its threads are in.
    pub cgroups: usize,
    /// Namespaces of the machine that any of its processes would live in, in the specification's words.
    pub shared: BTreeSet<&'static str>,
}

/// A mount that images ask for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ClaimedMount {
    /// Where.
    pub at: PathBuf,
    /// What file system CRIU would mount.
    pub kind: String,
    /// The name by which it is given, if somebody else makes it.
    pub given_as: Option<PathBuf>,
}

/// A thread that images ask for. Capabilities are bits, by their numbers.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ClaimedThread {
    /// Its number and that of its process, for people.
    pub who: String,
    /// What it can ever gain.
    pub bounding: u64,
    /// What it has in any of the other sets.
    pub has: u64,
    /// Whether it gains nothing from programs that it runs.
    pub no_new_privileges: bool,
    /// Whether its system calls are filtered.
    pub filtered: bool,
    /// Its users, as the specification numbers them: real, effective, saved, of files.
    pub users: Vec<u32>,
    /// Its groups: the same four, and more that it is in.
    pub groups: Vec<u32>,
    /// How far it may raise its resource limits, by the kernel's numbers.
    pub limits: Vec<u64>,
    /// How much sooner than others the kernel ends it when memory is short; less than nothing: later.
    pub oom_score_adj: Option<i64>,
    /// The profile of AppArmor, or the label of SELinux, that it has.
    pub profile: Option<String>,
    /// Whether this machine has one of the two at work.
    pub could_be_confined: bool,
}
