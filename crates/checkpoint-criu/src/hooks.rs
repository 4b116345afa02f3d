//! What CRIU tells on its way, and the say that we have in it.

/// A point in a dump or restore at which CRIU waits for our word.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A dump begins; nothing is frozen yet.
    PreDump,
    /// The tree is frozen, its network would be locked now.
    NetworkLock,
    /// The network would be unlocked.
    NetworkUnlock,
    /// The images are complete and the tree is still frozen.
    PostDump,
    /// A restore begins; no process exists yet.
    PreRestore,
    /// The namespaces exist, and the root process with them.
    SetupNamespaces {
        /// The root process, in CRIU's PID namespace.
        pid: i32,
    },
    /// The namespaces are filled.
    PostSetupNamespaces,
    /// The tree exists and is about to run.
    PostRestore {
        /// The root process, in CRIU's PID namespace.
        pid: i32,
    },
    /// The tree is about to be let go.
    PreResume,
    /// The tree runs.
    PostResume,
    /// A point that we have no name for.
    Other(String),
}

impl Event {
    /// The event behind CRIU's name for it.
    pub(crate) fn from_script(script: &str, pid: i32) -> Self {
        match script {
            "pre-dump" => Self::PreDump,
            "network-lock" => Self::NetworkLock,
            "network-unlock" => Self::NetworkUnlock,
            "post-dump" => Self::PostDump,
            "pre-restore" => Self::PreRestore,
            "setup-namespaces" => Self::SetupNamespaces { pid },
            "post-setup-namespaces" => Self::PostSetupNamespaces,
            "post-restore" => Self::PostRestore { pid },
            "pre-resume" => Self::PreResume,
            "post-resume" => Self::PostResume,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// What the caller does at CRIU's events.
pub trait Hooks {
    /// A worker was started, before anything is asked of it: for a journal that must find it again after we were killed.
    /// `start_time` is field 22 of `/proc/<pid>/stat`, so that a reused pid is not mistaken for it.
    fn worker(&mut self, pid: i32, start_time: u64) {
        let _ = (pid, start_time);
    }

    /// CRIU has come to `event` and waits. An error makes it give up: a dump lets the tree run on, a restore ends what it has made.
    /// The time limit of the call goes on counting.
    fn event(&mut self, event: &Event) -> Result<(), String> {
        let _ = event;
        Ok(())
    }
}

/// Hooks that do nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}
