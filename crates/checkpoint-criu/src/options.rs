//! What can be asked of a dump and of a restore, with the reason for each.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::memory_path::{MemoryPath, Missing, Plain};

/// Where CRIU runs, seen from the tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Habitat {
    /// In the machine's namespaces, as root: the tree lives there, too.
    #[default]
    Host,
    /// In the namespaces of a box, with their capabilities only. There it has other process numbers than we, and finds directories
    /// by the paths that the runner gives it.
    Box {
        /// The images directory, as CRIU sees it.
        images: PathBuf,
        /// The log directory, as CRIU sees it.
        log_dir: PathBuf,
        /// The tree's root, as CRIU sees it.
        root: i32,
    },
}

/// What of a container somebody else makes before a restore: its runtime, from the specification that it has then. CRIU leaves it out of
/// the images but for the name by which it will be given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Surroundings {
    /// The directory that is the container's root.
    pub root: PathBuf,
    /// Mounts and namespaces, in the words of CRIU's `--external`.
    pub external: Vec<OsString>,
    /// Whether connections come back closed. CRIU wants to be told the same at the restore; without it, a tree that has some is refused.
    pub tcp_close: bool,
    /// Whether the cgroups come back as they are, with those that were made below the container's. Otherwise the images have the names alone, and
    /// somebody else makes what is so named.
    pub cgroups_below: bool,
}

/// What becomes of a tree after its dump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    /// It runs on.
    Running,
    /// It stands still until [`crate::release()`] lets it go on, or somebody ends it.
    Stopped,
    /// It is ended, in the same stroke in which its state is complete.
    Ended,
}

/// Words put before `criu … swrk 0`, for a program that prepares what CRIU runs in and then becomes it (`exec`); empty: run CRIU
/// itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Runner(pub Vec<OsString>);

/// What a dump needs to know.
#[derive(Clone, Debug)]
pub struct DumpOptions {
    /// The root of the tree, as we see it.
    pub tree: i32,
    /// Where it lives.
    pub habitat: Habitat,
    /// The container that it is, if it is one.
    pub container: Option<Surroundings>,
    /// Where the images go: a directory that exists and is empty.
    pub images: PathBuf,
    /// Where the log goes: a directory of ours that exists.
    pub log_dir: PathBuf,
    /// What becomes of the tree.
    pub leave: Leave,
    /// Directories that CRIU, in a box, looks through for the files that a tree watches by inotify: it cannot open a file by its
    /// handle there. Searched while the tree is frozen, so give the narrowest.
    pub watched: Vec<PathBuf>,
    /// Leave out unix sockets that are connected to something outside the tree (they are closed after a restore).
    pub unix_sockets: bool,
    /// The tree belongs to a session or a terminal outside of it (a process that was adopted).
    pub shell_job: bool,
    /// The call ends after this time, whatever happens.
    pub time_limit: Duration,
    /// What is put before CRIU.
    pub runner: Runner,
    /// How the memory leaves the tree.
    pub memory: Arc<dyn MemoryPath>,
}

/// What a restore needs to know.
#[derive(Debug)]
pub struct RestoreOptions {
    /// Where the images are.
    pub images: PathBuf,
    /// Where the log goes: a directory of ours that exists.
    pub log_dir: PathBuf,
    /// Where the tree will live.
    pub habitat: Habitat,
    /// Take file locks again. Not for a branch: while the original holds the lock, CRIU waits for it for ever.
    pub file_locks: bool,
    /// As at the dump.
    pub unix_sockets: bool,
    /// As at the dump.
    pub shell_job: bool,
    /// The call ends after this time, whatever happens.
    pub time_limit: Duration,
    /// What is put before CRIU.
    pub runner: Runner,
    /// How the memory comes back.
    pub memory: Arc<dyn MemoryPath>,
    /// The pages that are not in the images.
    pub missing: Option<Arc<dyn Missing>>,
    /// Whether the writes of the processes may be followed from their first instruction on.
    pub follow: bool,
}

/// A time limit that fits a tree of some GiB on a busy machine.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(120);

impl DumpOptions {
    /// A leave-running dump of `tree` to `images`, in the machine's namespaces.
    pub fn new(tree: i32, images: impl Into<PathBuf>, log_dir: impl Into<PathBuf>) -> Self {
        Self {
            tree,
            images: images.into(),
            log_dir: log_dir.into(),
            leave: Leave::Running,
            habitat: Habitat::Host,
            container: None,
            watched: Vec::new(),
            unix_sockets: false,
            shell_job: false,
            time_limit: DEFAULT_TIME_LIMIT,
            runner: Runner::default(),
            memory: Arc::new(Plain),
        }
    }
}

impl RestoreOptions {
    /// A restore of `images`, in the machine's namespaces.
    pub fn new(images: impl Into<PathBuf>, log_dir: impl Into<PathBuf>) -> Self {
        Self {
            images: images.into(),
            log_dir: log_dir.into(),
            habitat: Habitat::Host,
            file_locks: false,
            unix_sockets: false,
            shell_job: false,
            time_limit: DEFAULT_TIME_LIMIT,
            runner: Runner::default(),
            memory: Arc::new(Plain),
            missing: None,
            follow: false,
        }
    }
}
