//! What a container is to us, whichever runtime looks after it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::specification::Specification;

/// The longest id or name that a runtime gives a container. Docker's and podman's ids have 64 digits, containerd's at most 76 characters.
const LONGEST_ID: usize = 256;

/// The id of a container in its runtime.
///
/// It is part of paths and of command lines, so it holds letters, digits, `.`, `_` and `-` only, and does not begin with `-` or `.`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContainerId(String);

impl ContainerId {
    /// An id as a runtime writes it; `None` if it is none.
    pub fn new(id: impl Into<String>) -> Option<Self> {
        let id = id.into();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+');
        let is_id = id.len() <= LONGEST_ID
            && id.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && id.chars().all(plain);
        is_id.then_some(Self(id))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As people shorten it: the first twelve characters of the long ones that nobody has chosen.
    pub fn short(&self) -> &str {
        let is_random = self.0.len() == 64 && self.0.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_random { self.0.get(..12).unwrap_or(&self.0) } else { &self.0 }
    }
}

impl TryFrom<String> for ContainerId {
    type Error = &'static str;

    fn try_from(id: String) -> Result<Self, Self::Error> {
        Self::new(id).ok_or("not the id of a container")
    }
}

impl From<ContainerId> for String {
    fn from(id: ContainerId) -> Self {
        id.0
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which program looks after a container.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// containerd, also below Kubernetes (`k8s.io`) and Docker (`moby`).
    Containerd,
    /// runc by itself.
    Runc,
    /// crun by itself.
    Crun,
    /// podman, root's or a user's own.
    Podman,
}

impl Kind {
    /// The name of its program.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Runc => "runc",
            Self::Crun => "crun",
            Self::Podman => "podman",
        }
    }
}

/// Who looks after a container, and how that one is asked.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Runtime {
    /// containerd, by its socket.
    Containerd {
        /// Where it listens.
        socket: PathBuf,
    },
    /// runc, by its command line.
    Runc {
        /// The program.
        program: PathBuf,
        /// Its state directory (`--root`).
        root: PathBuf,
    },
    /// crun, by its command line.
    Crun {
        /// The program.
        program: PathBuf,
        /// Its state directory (`--root`).
        root: PathBuf,
    },
    /// podman, by its command line.
    Podman {
        /// The program.
        program: PathBuf,
        /// Options before its command, such as `--root DIR`, that say which of its stores is meant.
        options: Vec<String>,
    },
}

impl Runtime {
    /// Which program it is.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Containerd { .. } => Kind::Containerd,
            Self::Runc { .. } => Kind::Runc,
            Self::Crun { .. } => Kind::Crun,
            Self::Podman { .. } => Kind::Podman,
        }
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().word())?;
        match self {
            Self::Containerd { socket } => write!(f, " at {}", socket.display()),
            Self::Runc { root, .. } | Self::Crun { root, .. } => write!(f, " in {}", root.display()),
            Self::Podman { options, .. } if options.is_empty() => Ok(()),
            Self::Podman { options, .. } => write!(f, " {}", options.join(" ")),
        }
    }
}

/// What the runtime itself says about a container. runc and crun tell paused from running by the freezer, whoever used it; containerd and
/// podman remember whether they were asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Made, and not started yet.
    Created,
    /// It runs.
    Running,
    /// It is about to be paused.
    Pausing,
    /// It is paused.
    Paused,
    /// Its first process has ended, or it never had one.
    Stopped,
    /// A word that we do not know.
    Unknown,
}

impl Status {
    /// The word in reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Pausing => "pausing",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Unknown => "unknown",
        }
    }
}

/// What a container was made from.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Image {
    /// Its name, as the container was asked for.
    pub name: String,
    /// The digest of its manifest (`sha256:…`), if the runtime knows it. A name can be moved to another image; a digest cannot.
    pub digest: Option<String>,
}

/// The pod that a container is part of.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Kubernetes' namespace; `None` for podman's pods.
    pub namespace: Option<String>,
    /// Its id: Kubernetes' uid, podman's id.
    pub id: Option<String>,
    /// The container that holds the pod's namespaces open.
    pub sandbox: Option<String>,
}

/// The files that a container sees as its root.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct RootFilesystem {
    /// Where it is mounted, or simply lies, on this machine.
    pub path: Option<PathBuf>,
    /// The directory on this machine that takes what the container writes: overlayfs' upper directory, or the whole root of one without layers.
    /// `None` if nobody could say.
    pub writable: Option<PathBuf>,
    /// The read-only layers below it, the topmost first. Empty without layers.
    pub lower: Vec<PathBuf>,
    /// What is mounted there: `overlay`, `bind` …
    pub mounted_as: Option<String>,
    /// Whether the container may not write to it.
    pub read_only: bool,
}

/// A container, as its runtime describes it now.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Container {
    /// Who looks after it.
    pub runtime: Runtime,
    /// containerd's namespace (`default`, `k8s.io`, `moby` …); `None` elsewhere.
    pub namespace: Option<String>,
    /// Its id there.
    pub id: ContainerId,
    /// The name that somebody gave it, if that is not the id.
    pub name: Option<String>,
    /// What the runtime says that it does.
    pub status: Status,
    /// Its first process, as this machine numbers it; `None` if it has none.
    pub pid: Option<i32>,
    /// Its cgroup, below the mount points of the hierarchies, as the kernel says it of its first process.
    pub cgroup: Option<String>,
    /// The live specification: what the runtime made the container from. Never one that came with a snapshot.
    pub specification: Specification,
    /// The directory with `config.json` that the runtime works from.
    pub bundle: Option<PathBuf>,
    /// Its files.
    pub root: RootFilesystem,
    /// Who keeps its layers: `overlayfs`, `native` (containerd), `overlay`, `vfs` (podman).
    pub snapshotter: Option<String>,
    /// The key of its layer there.
    pub snapshot_key: Option<String>,
    /// What it was made from; `None` for a bundle without an image.
    pub image: Option<Image>,
    /// The program that really runs it: `io.containerd.runc.v2`, `/usr/bin/crun` …
    pub low_level: Option<String>,
    /// The annotations of its specification.
    pub annotations: BTreeMap<String, String>,
    /// Labels that the runtime keeps.
    pub labels: BTreeMap<String, String>,
    /// The pod that it is part of.
    pub pod: Option<Pod>,
}

impl Container {
    /// What people call it: its name, or its id shortened.
    pub fn called(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.id.short())
    }
}

/// With what is needed to ask for it again.
impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.id.short(), self.runtime)?;
        if let Some(namespace) = &self.namespace {
            write!(f, ", namespace {namespace}")?;
        }
        if let Some(name) = &self.name {
            write!(f, ", named {name}")?;
        }
        if let Some(pod) = &self.pod {
            write!(f, ", pod {}", pod.name)?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_leave_a_path_or_become_an_option_is_no_id() {
        for good in ["c1", "a.b_c-d", &"ab".repeat(32), "_x"] {
            assert_eq!(ContainerId::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "..", "../x", "-v", ".hidden", "a/b", "a b", "a\n", "é", &"a".repeat(257)] {
            assert_eq!(ContainerId::new(bad), None, "{bad}");
        }
        serde_json::from_str::<ContainerId>("\"../etc\"").unwrap_err();
    }

    #[test]
    fn only_ids_that_nobody_chose_are_shortened() {
        assert_eq!(ContainerId::new("ab".repeat(32)).unwrap().short(), "abababababab");
        assert_eq!(ContainerId::new("a-name-that-is-longer").unwrap().short(), "a-name-that-is-longer");
    }
}
