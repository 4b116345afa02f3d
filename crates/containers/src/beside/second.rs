//! What is different about the second one.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::back::{BackError, Result, inside};
use crate::container::ContainerId;
use crate::specification::Specification;

/// A second container that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Second<'a> {
    /// Its id: one that nobody else has.
    pub id: &'a ContainerId,
    /// The specification of the first one, as it is now.
    pub of: &'a Specification,
    /// Where that lies: what it names by half of a path is meant from there.
    pub bundle: &'a Path,
    /// The first one's own files.
    pub root: &'a Path,
    /// A directory of ours for what the runtime does not keep itself.
    pub home: &'a Path,
    /// Where its own files go, if the runtime leaves that to us.
    pub files: &'a Path,
    /// Directories that it sees at these places, in place of what the first one sees there.
    pub volumes: &'a [(PathBuf, PathBuf)],
}

/// A second container that is there, and has not been started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    /// Its id: the one that was asked for, unless the runtime gives its own.
    pub id: ContainerId,
    /// The directory with its specification.
    pub bundle: PathBuf,
    /// Its own files: empty, or what the image has.
    pub files: PathBuf,
}

impl Second<'_> {
    /// Why there cannot be one, if its specification says so.
    pub(super) fn check(&self) -> Result<()> {
        let joined = |kind: &str| {
            self.of.namespaces().into_iter().find(|one| one.kind == kind).and_then(|one| one.path)
        };
        let not = |why: String| {
            Err(BackError::NotThisSort {
                container: self.id.to_string(),
                why: format!("there cannot be a second one beside the first: {why}"),
            })
        };
        if let Some(path) = joined("network") {
            return not(format!(
                "its network was made by somebody else, at {}, and who gave it an address there gives none to another",
                path.display()
            ));
        }
        Ok(())
    }

    /// The specification of the second one. With `root`, that is its root directory.
    pub(super) fn specification(&self, root: Option<&Path>) -> Result<Vec<u8>> {
        let mut all = self.of.raw().clone();
        if let Some(root) = root {
            set(&mut all, "/root", "path", text(root)?);
        }
        if let Some(path) = self.of.cgroups_path() {
            set(&mut all, "/linux", "cgroupsPath", sibling(path, self.id));
        }
        self.set_volumes(&mut all)?;
        // Values of JSON alone cannot fail to be written.
        Ok(serde_json::to_vec(&all).unwrap_or_default())
    }

    /// A specification that the runtime has made for the second one, with the volumes that were named for it.
    pub(super) fn with_volumes(&self, made: &Specification) -> Result<Vec<u8>> {
        let mut all = made.raw().clone();
        self.set_volumes(&mut all)?;
        Ok(serde_json::to_vec(&all).unwrap_or_default())
    }

    fn set_volumes(&self, all: &mut Value) -> Result<()> {
        for mount in all.pointer_mut("/mounts").and_then(Value::as_array_mut).into_iter().flatten() {
            let field = |name: &str| mount.get(name).and_then(Value::as_str).map(PathBuf::from);
            let (at, from) = (field("destination"), field("source"));
            let at = at.map(|at| inside(self.root, &at));
            let other = self.volumes.iter().find(|(inside, _)| at.as_ref() == Some(inside));
            let is_bind = mount.get("type").and_then(Value::as_str).is_none_or(|kind| kind == "bind");
            let source = match (other, from) {
                (Some((_, other)), _) => text(other)?,
                // The bundle is another.
                (None, Some(from)) if is_bind && from.is_relative() => text(&self.bundle.join(from))?,
                _ => continue,
            };
            if let Some(mount) = mount.as_object_mut() {
                mount.insert("source".to_owned(), Value::String(source));
            }
        }
        Ok(())
    }
}

fn set(all: &mut Value, object: &str, name: &str, value: String) {
    if let Some(object) = all.pointer_mut(object).and_then(Value::as_object_mut) {
        object.insert(name.to_owned(), Value::String(value));
    }
}

fn text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| BackError::NotThisSort {
        container: path.display().to_string(),
        why: "a specification names its directories in UTF-8".to_owned(),
    })
}

/// The cgroup beside: a path, or systemd's `slice:prefix:name`.
fn sibling(path: &str, id: &ContainerId) -> String {
    let above = path.rfind(['/', ':']).and_then(|at| path.get(..=at)).unwrap_or_default();
    format!("{above}{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(of: &Specification, check: impl FnOnce(Second<'_>)) {
        let id = ContainerId::new("idea-1").unwrap();
        let volumes = [("/work".into(), "/copies/0".into())];
        let (bundle, home, files) = (Path::new("/b"), Path::new("/home"), Path::new("/files"));
        let root = Path::new("/nowhere");
        check(Second { id: &id, of, bundle, root, home, files, volumes: &volumes });
    }

    #[test]
    fn only_what_two_cannot_share_is_another() {
        let of = Specification::parse(
            br#"{"root": {"path": "rootfs", "readonly": true}, "hostname": "h", "annotations": {"a": "b"},
                "process": {"user": {"uid": 7}},
                "mounts": [{"destination": "/work", "type": "bind", "source": "/srv/work", "options": ["rw"]},
                           {"destination": "/data", "source": "data", "options": ["rbind"]},
                           {"destination": "/proc", "type": "proc", "source": "proc"}],
                "linux": {"cgroupsPath": "/pods/c1", "namespaces": [{"type": "pid"}, {"type": "network"}]}}"#,
        )
        .unwrap();
        second(&of, |second| {
            second.check().unwrap();
            let json = second.specification(Some(Path::new("/files"))).unwrap();
            let made = Specification::parse(&json).unwrap();
            assert_eq!(made.root_path(), Some(PathBuf::from("/files")));
            assert_eq!(made.cgroups_path(), Some("/pods/idea-1"));
            let sources: Vec<PathBuf> = made.mounts().into_iter().map(|mount| mount.source).collect();
            assert_eq!(sources, [PathBuf::from("/copies/0"), "/b/data".into(), "proc".into()]);
            // All else is as it was.
            let (mut before, mut after) = (of.raw().clone(), made.raw().clone());
            for one in [&mut before, &mut after] {
                for (object, name) in [("/root", "path"), ("/linux", "cgroupsPath")] {
                    set(one, object, name, String::new());
                }
                one["mounts"] = Value::Null;
            }
            assert_eq!(before, after);
        });
    }

    #[test]
    fn a_network_that_somebody_made_for_the_first_is_not_the_seconds() {
        let of = Specification::parse(
            br#"{"linux": {"namespaces": [{"type": "network", "path": "/run/netns/x"}]}}"#,
        );
        second(&of.unwrap(), |second| {
            let refused = second.check().unwrap_err();
            assert_eq!(refused.code(), "IJ-O040");
            assert!(refused.to_string().contains("/run/netns/x"), "{refused}");
        });
    }

    #[test]
    fn cgroups_lie_beside_each_other_in_the_words_of_both_managers() {
        let id = ContainerId::new("new").unwrap();
        for (path, beside) in
            [("/a/b/c1", "/a/b/new"), ("pods.slice:cri:c1", "pods.slice:cri:new"), ("c1", "new")]
        {
            assert_eq!(sibling(path, &id), beside);
        }
    }
}
