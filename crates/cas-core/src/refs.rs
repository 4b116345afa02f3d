//! Refs: names for objects, one small file each, changed by compare-and-swap.
//!
//! A ref's file holds the object's id and a checksum over name and id, so that a flipped bit and two files that changed
//! places are both noticed. Replacing the file by rename is the store's commit point: everything the id leads to was
//! made durable before. Updates happen under one lock, which is held for microseconds.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Result, StoreError};
use crate::fsio::{self, Disk};
use crate::id::ObjectId;
use crate::layout::Layout;
use crate::lock;

const REF_LIMIT: u64 = 256;

/// What a ref must be for an update to go through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// Whatever it is.
    Any,
    /// It must not exist.
    Absent,
    /// It must point here.
    At(ObjectId),
}

/// One change to one ref.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefChange {
    /// Full name: `threads/main`, `tags/v1`.
    pub name: String,
    /// What it must be now.
    pub expected: Expected,
    /// What it shall be; `None` removes it.
    pub new: Option<ObjectId>,
}

/// The refs of a store.
#[derive(Clone, Debug)]
pub struct Refs {
    layout: Layout,
    disk: Arc<dyn Disk>,
}

impl Refs {
    pub(crate) fn new(layout: Layout, disk: Arc<dyn Disk>) -> Self {
        Self { layout, disk }
    }

    /// What a ref points at; `None` if there is no such ref.
    pub fn get(&self, name: &str) -> Result<Option<ObjectId>> {
        check_name(name)?;
        let path = self.path(name);
        match fsio::read_small(self.disk.as_ref(), &path, REF_LIMIT) {
            Ok(Some(content)) => {
                parse(name, &content).map(Some).map_err(|detail| StoreError::damaged("ref", &path, detail))
            }
            Ok(None) => Ok(None),
            // `a/b` was asked for and `a` is a ref, or the other way round: there is no such ref.
            Err(StoreError::Io { source, .. }) if is_shape_error(&source) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Every ref whose name starts with `prefix`, sorted by name. A damaged one is listed with its error.
    pub fn list(&self, prefix: &str) -> Result<Vec<(String, Result<ObjectId>)>> {
        let mut names = Vec::new();
        self.collect_names(&self.layout.refs(), "", &mut names)?;
        names.retain(|name| name.starts_with(prefix));
        names.sort_unstable();
        let read = |name: String| match self.get(&name) {
            Ok(Some(id)) => Some((name, Ok(id))),
            Ok(None) => None,
            Err(error) => Some((name, Err(error))),
        };
        Ok(names.into_iter().filter_map(read).collect())
    }

    /// Applies all changes or, if one of them meets something unexpected, none. Each single change is atomic and durable
    /// when this returns; a crash in the middle of several leaves the first ones done.
    pub fn update(&self, changes: &[RefChange]) -> Result<()> {
        let _guard = lock::exclusive(&self.layout.lock("refs"))?;
        for change in changes {
            check_name(&change.name)?;
            let found = match (self.get(&change.name), change.expected) {
                // A damaged ref can be replaced, but only by someone who said that they do not care what it was.
                (Err(StoreError::Damaged { .. }), Expected::Any) => None,
                (found, _) => found?,
            };
            let expected = match change.expected {
                Expected::Any => continue,
                Expected::Absent => None,
                Expected::At(id) => Some(id),
            };
            if found != expected {
                return Err(StoreError::RefConflict { name: change.name.clone(), expected, found });
            }
        }
        changes.iter().try_for_each(|change| match change.new {
            Some(id) => self.write(&change.name, &id),
            None => self.remove(&change.name),
        })
    }

    fn write(&self, name: &str, id: &ObjectId) -> Result<()> {
        let path = self.path(name);
        let directory = path.parent().unwrap_or(Path::new("."));
        if !directory.is_dir() {
            fs::create_dir_all(directory).map_err(StoreError::io("create directory", directory))?;
            // The directories' own names must be durable before a ref in them can be.
            for parent in
                directory.ancestors().skip(1).take_while(|parent| parent.starts_with(self.layout.refs()))
            {
                self.disk.sync_dir(parent).map_err(StoreError::io("sync directory", parent))?;
            }
        }
        fsio::replace(self.disk.as_ref(), &path, encode(name, id).as_bytes())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        match self.disk.remove(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(StoreError::io("remove", &path))?,
        }
        let directory = path.parent().unwrap_or(Path::new("."));
        self.disk.sync_dir(directory).map_err(StoreError::io("sync directory", directory))
    }

    fn collect_names(&self, directory: &Path, prefix: &str, names: &mut Vec<String>) -> Result<()> {
        for entry in self.disk.list(directory).map_err(StoreError::io("list", directory))? {
            let Some(name) = entry.name.to_str().filter(|name| !name.starts_with('.')) else { continue };
            let full = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
            if entry.is_dir {
                self.collect_names(&directory.join(name), &full, names)?;
            } else {
                names.push(full);
            }
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.layout.refs().join(name)
    }
}

fn is_shape_error(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotADirectory | std::io::ErrorKind::IsADirectory)
}

fn encode(name: &str, id: &ObjectId) -> String {
    format!("{id} {:016x}\n", checksum(name, id))
}

fn checksum(name: &str, id: &ObjectId) -> u64 {
    xxhash_rust::xxh3::xxh3_64(format!("ref {name} {id}").as_bytes())
}

/// Reads a ref's file.
pub fn parse(name: &str, content: &[u8]) -> Result<ObjectId, String> {
    let text = std::str::from_utf8(content).map_err(|_| "is not text")?;
    let id: ObjectId = text.get(..64).and_then(|id| id.parse().ok()).ok_or("does not start with an id")?;
    if text == encode(name, &id) { Ok(id) } else { Err("does not fit its checksum".to_owned()) }
}

/// A ref's name becomes a path below `refs/`. The layer above may be stricter.
fn check_name(name: &str) -> Result<()> {
    base::names::check_ref_path(name).map_err(|reason| StoreError::RefName { name: name.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fsio::LocalDisk;
    use crate::id::{IdHasher, Kind};

    fn refs() -> (tempfile::TempDir, Refs) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(&dir.path().join("s"));
        layout.create(&LocalDisk).unwrap();
        (dir, Refs::new(layout, Arc::new(LocalDisk)))
    }

    fn id(text: &str) -> ObjectId {
        IdHasher::plain().id(Kind::CHUNK, text.as_bytes())
    }

    fn set(name: &str, expected: Expected, new: Option<ObjectId>) -> [RefChange; 1] {
        [RefChange { name: name.to_owned(), expected, new }]
    }

    #[test]
    fn compare_and_swap() {
        let (_dir, refs) = refs();
        refs.update(&set("threads/main", Expected::Absent, Some(id("a")))).unwrap();
        assert!(matches!(
            refs.update(&set("threads/main", Expected::Absent, Some(id("b")))),
            Err(StoreError::RefConflict { .. })
        ));
        refs.update(&set("threads/main", Expected::At(id("a")), Some(id("b")))).unwrap();
        assert_eq!(refs.get("threads/main").unwrap(), Some(id("b")));
        refs.update(&set("threads/main", Expected::At(id("b")), None)).unwrap();
        assert_eq!(refs.get("threads/main").unwrap(), None);
    }

    #[test]
    fn one_unexpected_ref_stops_all_changes() {
        let (_dir, refs) = refs();
        let mut both = set("threads/a", Expected::Absent, Some(id("a"))).to_vec();
        both.extend(set("threads/b", Expected::At(id("x")), Some(id("b"))));
        assert!(refs.update(&both).is_err());
        assert!(refs.list("").unwrap().is_empty());
    }

    #[test]
    fn racing_updates_let_exactly_one_through() {
        let (_dir, refs) = refs();
        let won: usize = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..8)
                .map(|n| {
                    let refs = &refs;
                    scope.spawn(move || {
                        usize::from(
                            refs.update(&set("tags/t", Expected::Absent, Some(id(&n.to_string())))).is_ok(),
                        )
                    })
                })
                .collect();
            tries.into_iter().map(|handle| handle.join().unwrap()).sum()
        });
        assert_eq!(won, 1);
    }

    #[test]
    fn swapped_and_flipped_ref_files_are_noticed() {
        let (dir, refs) = refs();
        refs.update(&set("threads/a", Expected::Any, Some(id("a")))).unwrap();
        refs.update(&set("threads/b", Expected::Any, Some(id("b")))).unwrap();
        let path = |name: &str| dir.path().join("s/refs").join(name);
        let (a, b) = (fs::read(path("threads/a")).unwrap(), fs::read(path("threads/b")).unwrap());
        fs::write(path("threads/a"), &b).unwrap();
        fs::write(path("threads/b"), &a[..a.len() - 1]).unwrap();
        assert!(matches!(refs.get("threads/a"), Err(StoreError::Damaged { .. })));
        assert!(matches!(refs.get("threads/b"), Err(StoreError::Damaged { .. })));
        assert_eq!(refs.list("threads/").unwrap().iter().filter(|(_, id)| id.is_err()).count(), 2);
        refs.update(&set("threads/a", Expected::Any, Some(id("c")))).unwrap();
        assert_eq!(refs.get("threads/a").unwrap(), Some(id("c")));
    }

    #[test]
    fn names_cannot_leave_the_directory() {
        let (_dir, refs) = refs();
        for name in ["", "..", "threads/../../x", "/etc/passwd", "threads/.tmp-1", "a//b", "tags/a\nb"] {
            assert!(matches!(refs.get(name), Err(StoreError::RefName { .. })), "{name:?}");
        }
        refs.update(&set("threads/a/b", Expected::Absent, Some(id("a")))).unwrap();
        assert_eq!(refs.get("threads/a").unwrap(), None);
        assert_eq!(refs.get("threads/a/b/c").unwrap(), None);
    }
}
