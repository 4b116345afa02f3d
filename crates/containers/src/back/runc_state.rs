//! What runc has written down about a container that it runs: `state.json` in its state directory.
//!
//! It is runc's own file, and its fields are not promised to anybody; they have had these names since runc 1.0. containerd and podman have
//! runc keep the same file. Of the live container it says what a specification cannot: what was made of it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use base::io_error;
use serde::Deserialize;

use super::error::{BackError, Result};
use crate::container::ContainerId;

/// Beside the images: what the standard descriptors of the first process were.
pub const DESCRIPTORS: &str = "descriptors.json";
/// No state file is larger: the specification is most of it.
const MOST_BYTES: u64 = 8 << 20;

/// A container that runc runs.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct RuncState {
    /// Its first process.
    pub init_process_pid: i32,
    /// What was made for it.
    pub config: Config,
    /// What the standard descriptors of its first process were when it began.
    #[serde(default)]
    pub external_descriptors: Vec<String>,
    /// What is hidden from it has which names in images.
    #[serde(skip)]
    pub masks: Masks,
}

/// How a runtime calls what it hides when it restores a container.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Masks {
    /// runc: a file is `/dev/null`; a directory is an empty file system of the container's own, and has no name.
    #[default]
    DevNull,
    /// crun: by the path that is hidden.
    ByPath,
}

/// What was made for a container.
#[derive(Clone, PartialEq, Eq, Default, Debug, Deserialize)]
pub struct Config {
    /// Its root directory on this machine.
    pub rootfs: PathBuf,
    /// Mounts, in their order.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// Device nodes.
    #[serde(default)]
    pub devices: Option<Vec<Device>>,
    /// Namespaces that are its own, or were joined.
    #[serde(default)]
    pub namespaces: Vec<Namespace>,
    /// Paths that are hidden from it.
    #[serde(default)]
    pub mask_paths: Option<Vec<PathBuf>>,
}

/// A mount.
#[derive(Clone, PartialEq, Eq, Default, Debug, Deserialize)]
pub struct Mount {
    /// Where, inside.
    pub destination: PathBuf,
    /// Of what kind: `bind`, `tmpfs`, `cgroup` …
    #[serde(default)]
    pub device: String,
}

/// A device node.
#[derive(Clone, PartialEq, Eq, Default, Debug, Deserialize)]
pub struct Device {
    /// Its path, inside.
    pub path: PathBuf,
}

/// A namespace.
#[derive(Clone, PartialEq, Eq, Default, Debug, Deserialize)]
pub struct Namespace {
    /// `NEWNET`, `NEWPID` …
    #[serde(rename = "type")]
    pub kind: String,
    /// Where it was joined; empty for a new one.
    #[serde(default)]
    pub path: PathBuf,
}

impl RuncState {
    /// Reads that of a container below runc's state directory.
    pub fn read(root: &Path, id: &ContainerId) -> Result<Self> {
        let path = root.join(id.as_str()).join("state.json");
        let file = File::open(&path).map_err(io_error("open", &path))?;
        let mut text = Vec::new();
        file.take(MOST_BYTES + 1).read_to_end(&mut text).map_err(io_error("read", &path))?;
        let wrong = |why: String| BackError::State { path: path.clone(), why };
        if u64::try_from(text.len()).unwrap_or(u64::MAX) > MOST_BYTES {
            return Err(wrong(format!("it has more than {MOST_BYTES} bytes")));
        }
        let state: Self = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        if state.init_process_pid < 1 || !state.config.rootfs.is_absolute() {
            return Err(wrong("it has no first process or no root directory".to_owned()));
        }
        Ok(state)
    }

    /// A namespace of this kind (`NEWNET` …), if it has one of its own or has joined one.
    pub(super) fn namespace(&self, kind: &str) -> Option<&Namespace> {
        self.config.namespaces.iter().find(|one| one.kind == kind)
    }

    /// A file of the machine that it has as standard input, output or error. CRIU saves no file that a container does not see.
    pub fn file_outside(&self) -> Option<&str> {
        let is_file =
            |name: &&str| name.starts_with('/') && *name != "/dev/null" && !name.starts_with("/dev/pts/");
        self.external_descriptors.iter().map(String::as_str).find(is_file)
    }

    /// For `descriptors.json`.
    pub fn descriptors(&self) -> String {
        // Strings alone cannot fail to be written.
        serde_json::to_string(&self.external_descriptors).unwrap_or_else(|_| "[]".to_owned())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// As runc 1.3 writes it, without what nobody here reads.
    pub(crate) const EXAMPLE: &str = r#"{
        "id": "c1", "init_process_pid": 4711, "init_process_start": 99, "created": "2026-11-18T07:00:00Z",
        "config": {
            "no_pivot_root": false, "rootfs": "/srv/bundle/rootfs",
            "mounts": [
                {"source": "proc", "destination": "/proc", "device": "proc", "flags": 0},
                {"source": "tmpfs", "destination": "/dev", "device": "tmpfs"},
                {"source": "/srv/data", "destination": "/data", "device": "bind"},
                {"source": "cgroup", "destination": "/sys/fs/cgroup", "device": "cgroup"}
            ],
            "devices": [{"type": 99, "major": 1, "minor": 3, "path": "/dev/null"}],
            "namespaces": [{"type": "NEWPID", "path": ""}, {"type": "NEWNET", "path": "/proc/self/ns/net"}],
            "mask_paths": ["/proc/kcore", "/proc/acpi"]
        },
        "external_descriptors": ["/dev/null", "pipe:[4711]", "pipe:[4712]"]
    }"#;

    #[test]
    fn what_runc_writes_is_read_and_nonsense_named() {
        let root = tempfile::tempdir().unwrap();
        let id = ContainerId::new("c1").unwrap();
        std::fs::create_dir(root.path().join("c1")).unwrap();
        let write = |text: &str| std::fs::write(root.path().join("c1/state.json"), text).unwrap();
        write(EXAMPLE);
        let state = RuncState::read(root.path(), &id).unwrap();
        assert_eq!((state.init_process_pid, state.config.mounts.len()), (4711, 4));
        assert_eq!(state.descriptors(), r#"["/dev/null","pipe:[4711]","pipe:[4712]"]"#);
        assert_eq!(state.file_outside(), None);
        let external_descriptors = vec!["/dev/null".to_owned(), "/var/log/x".to_owned()];
        let logging = RuncState { external_descriptors, ..state };
        assert_eq!(logging.file_outside(), Some("/var/log/x"));
        for nonsense in ["", "{}", &EXAMPLE.replace("4711,", "0,"), &EXAMPLE.replace("/srv/bundle/", "")] {
            write(nonsense);
            assert_eq!(RuncState::read(root.path(), &id).unwrap_err().code(), "IJ-O041", "{nonsense}");
        }
        let gone = ContainerId::new("c2").unwrap();
        assert_eq!(RuncState::read(root.path(), &gone).unwrap_err().code(), "IJ-O030");
    }
}
