//! The OCI runtime specification of a container: the `config.json` that it was made from.
//!
//! It is kept as it is, because runtimes add fields of their own and a restore hands it back whole; what we need of it is read by name.
//! Everything that is missing or of another type than it should be reads as if it were not there.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The most bytes of one that are read. Kubernetes' own limit for an object is 1.5 MiB; real ones have 5 to 60 KiB.
pub const MOST_BYTES: usize = 4 << 20;

/// A container's specification.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Specification(Value);

/// A mount that a specification asks for.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SpecifiedMount {
    /// Where, inside.
    pub destination: PathBuf,
    /// Of what kind: `bind`, `tmpfs`, `proc` …
    #[serde(default, rename = "type")]
    pub kind: String,
    /// From where, outside, for a bind mount.
    #[serde(default)]
    pub source: PathBuf,
    /// How.
    #[serde(default)]
    pub options: Vec<String>,
}

impl SpecifiedMount {
    /// Whether it shows files of this machine.
    pub fn is_bind(&self) -> bool {
        self.kind == "bind" || self.options.iter().any(|option| matches!(option.as_str(), "bind" | "rbind"))
    }

    /// Whether it may not be written to: of options that contradict each other the last one holds.
    pub fn is_read_only(&self) -> bool {
        let says = |option: &String| match option.as_str() {
            "ro" | "rro" => Some(true),
            "rw" | "rrw" => Some(false),
            _ => None,
        };
        self.options.iter().rev().find_map(says).unwrap_or(false)
    }
}

/// A device node that a specification asks for.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SpecifiedDevice {
    /// Its path, inside.
    pub path: PathBuf,
    /// `c` or `b`.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// Its major number.
    #[serde(default)]
    pub major: i64,
    /// Its minor number.
    #[serde(default)]
    pub minor: i64,
}

/// A namespace that a specification asks for.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SpecifiedNamespace {
    /// `pid`, `network`, `mount` …
    #[serde(rename = "type")]
    pub kind: String,
    /// That of somebody else, to be joined; `None` for a new one.
    #[serde(default)]
    pub path: Option<PathBuf>,
}

impl Specification {
    /// Reads one. `None` if it is too large or no JSON object.
    pub fn parse(json: &[u8]) -> Option<Self> {
        if json.len() > MOST_BYTES {
            return None;
        }
        let value: Value = serde_json::from_slice(json).ok()?;
        value.is_object().then_some(Self(value))
    }

    /// All of it.
    pub const fn raw(&self) -> &Value {
        &self.0
    }

    /// What is at a path such as `/linux/cgroupsPath`.
    pub fn at(&self, pointer: &str) -> Option<&Value> {
        self.0.pointer(pointer)
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.at(pointer)?.as_str().filter(|text| !text.is_empty())
    }

    fn list<T: for<'de> Deserialize<'de>>(&self, pointer: &str) -> Vec<T> {
        let items = self.at(pointer).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        items.iter().filter_map(|item| T::deserialize(item).ok()).collect()
    }

    /// The mounts, in their order.
    pub fn mounts(&self) -> Vec<SpecifiedMount> {
        self.list("/mounts")
    }

    /// A mount that shows something of this machine under the name of a link to it. Runtimes follow the link; CRIU does not, whichever of them asks it.
    pub fn mount_of_a_link(&self) -> Option<SpecifiedMount> {
        let is_link = |mount: &SpecifiedMount| {
            fs::symlink_metadata(&mount.source).is_ok_and(|there| there.is_symlink())
        };
        self.mounts().into_iter().find(|mount| mount.is_bind() && is_link(mount))
    }

    /// Device nodes beside those that every container has.
    pub fn devices(&self) -> Vec<SpecifiedDevice> {
        self.list("/linux/devices")
    }

    /// Paths that are hidden from it.
    pub fn masked_paths(&self) -> Vec<PathBuf> {
        self.list("/linux/maskedPaths")
    }

    /// Namespaces.
    pub fn namespaces(&self) -> Vec<SpecifiedNamespace> {
        self.list("/linux/namespaces")
    }

    /// The root's path as it is written, perhaps seen from the bundle.
    pub fn root_path(&self) -> Option<PathBuf> {
        self.text("/root/path").map(PathBuf::from)
    }

    /// Whether the root may not be written to.
    pub fn root_is_read_only(&self) -> bool {
        self.at("/root/readonly").and_then(Value::as_bool).unwrap_or(false)
    }

    /// The cgroup that was asked for, in the words of the runtime's cgroup manager (a path, or `slice:prefix:name`).
    pub fn cgroups_path(&self) -> Option<&str> {
        self.text("/linux/cgroupsPath")
    }

    /// Whether system calls are filtered.
    pub fn has_seccomp(&self) -> bool {
        self.at("/linux/seccomp").is_some_and(|filter| !filter.is_null())
    }

    /// The user and group that its first process begins as.
    pub fn user(&self) -> (u64, u64) {
        let number = |pointer| self.at(pointer).and_then(Value::as_u64).unwrap_or(0);
        (number("/process/user/uid"), number("/process/user/gid"))
    }

    /// Whether it has ids of its own, mapped to others outside.
    pub fn has_user_namespace(&self) -> bool {
        self.namespaces().iter().any(|one| one.kind == "user")
    }

    /// What its makers have written down with it.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let map = self.at("/annotations").and_then(Value::as_object);
        let pair = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
        map.into_iter().flatten().filter_map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXAMPLE: &str = r#"{
        "ociVersion": "1.2.0",
        "process": {"user": {"uid": 7, "gid": 8}},
        "root": {"path": "rootfs", "readonly": true},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/data", "source": "/srv/data", "options": ["rbind", "ro"]},
            {"type": "nonsense without a destination"}
        ],
        "annotations": {"a": "b", "number": 7},
        "linux": {
            "cgroupsPath": "/default/c1",
            "devices": [{"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 0}],
            "namespaces": [{"type": "pid"}, {"type": "network", "path": "/run/netns/x"}],
            "seccomp": {"defaultAction": "SCMP_ACT_ERRNO"}
        }
    }"#;

    #[test]
    fn what_is_needed_is_read_and_nonsense_passed_over() {
        let specification = Specification::parse(EXAMPLE.as_bytes()).unwrap();
        let mounts = specification.mounts();
        assert_eq!(mounts.len(), 2);
        assert!(!mounts[0].is_bind() && mounts[1].is_bind() && mounts[1].is_read_only());
        assert_eq!(specification.devices()[0].major, 195);
        assert_eq!(specification.namespaces()[1].path, Some(PathBuf::from("/run/netns/x")));
        assert_eq!(specification.root_path(), Some(PathBuf::from("rootfs")));
        assert!(specification.root_is_read_only() && specification.has_seccomp());
        assert!(!specification.has_user_namespace());
        assert_eq!(specification.cgroups_path(), Some("/default/c1"));
        assert_eq!(specification.user(), (7, 8));
        assert_eq!(specification.annotations(), BTreeMap::from([("a".to_owned(), "b".to_owned())]));
    }

    #[test]
    fn a_mount_that_is_named_by_a_link_is_found() {
        let home = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", home.path().join("link")).unwrap();
        let of = |name: &str| {
            let source = home.path().join(name);
            let text = format!(
                r#"{{"mounts": [{{"destination": "/data", "type": "bind", "source": "{}"}}]}}"#,
                source.display()
            );
            Specification::parse(text.as_bytes()).unwrap().mount_of_a_link()
        };
        assert_eq!(of("link").unwrap().destination, PathBuf::from("/data"));
        assert_eq!((of("."), of("gone")), (None, None));
    }

    #[test]
    fn what_is_no_object_or_too_large_is_no_specification() {
        assert_eq!(Specification::parse(b"[]"), None);
        assert_eq!(Specification::parse(b"{"), None);
        assert_eq!(Specification::parse(&vec![b' '; MOST_BYTES + 1]), None);
        let empty = Specification::parse(b"{}").unwrap();
        assert!(empty.mounts().is_empty() && !empty.has_seccomp() && empty.root_path().is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(specification) = Specification::parse(&bytes) {
                let _ = (specification.mounts(), specification.annotations(), specification.user());
            }
        }
    }
}
