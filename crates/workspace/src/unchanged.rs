//! Directories that are as they were in the snapshot before, with all that is below them.
//!
//! Their trees are in the store, so nothing of them has to be put together, hashed and written again. What a directory holds is looked at file by
//! file all the same: only if every entry below it came out equal, and none has a content that is still on its way, is its tree taken over. A
//! tree has the hash of its content for a name, so taking it over is the same as making it again.
//!
//! What is entered later, while the processes stand still or by the second look, takes away all directories above it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cas_core::ObjectId;
use manifest::{Entry, Node};

use crate::listing::Listing;
use crate::taking::{Copy, Item};

/// Directories with the trees that they have in the store.
#[derive(Default, Debug)]
pub(crate) struct Unchanged(BTreeMap<PathBuf, ObjectId>);

impl Unchanged {
    /// Compares what was found below `root` with what the snapshot before knows of it.
    pub(crate) fn find(
        root: &Path,
        volumes: &[PathBuf],
        parent: &Listing,
        items: &BTreeMap<PathBuf, Item>,
    ) -> Self {
        // Else some of a directory may not be in the tree of its name.
        if !parent.whole_tree || parent.root.as_deref() != Some(root) {
            return Self::default();
        }
        let mut changed = BTreeSet::new();
        let mut before = parent.entries.iter().filter(|(path, _)| path.starts_with(root)).peekable();
        for (path, item) in items.iter().filter(|(path, _)| path.starts_with(root)) {
            while let Some((gone, _)) = before.next_if(|(known, _)| *known < path) {
                note(&mut changed, root, gone);
            }
            match before.next_if(|(known, _)| *known == path) {
                Some((_, entry)) if is_same(item, entry) => {}
                _ => note(&mut changed, root, path),
            }
        }
        before.for_each(|(gone, _)| note(&mut changed, root, gone));
        // What is in a volume that was chosen is in a tree of its own.
        let chosen: Vec<&PathBuf> = parent.volumes.iter().chain(volumes).collect();
        chosen.iter().for_each(|volume| note(&mut changed, root, volume));
        let in_volume = |path: &Path| chosen.iter().any(|volume| path.starts_with(volume));
        let directories = items.iter().filter(|(_, item)| matches!(item.entry.node, Node::Dir { .. }));
        let same = directories
            .map(|(path, _)| path)
            .filter(|path| *path != root && !changed.contains(path.as_path()) && !in_volume(path));
        Self(same.filter_map(|path| Some((path.clone(), tree_of(parent.entries.get(path)?)?))).collect())
    }

    /// Something below these directories is another.
    pub(crate) fn forget_above(&mut self, path: &Path) {
        if !self.0.is_empty() {
            for above in path.ancestors() {
                self.0.remove(above);
            }
        }
    }

    /// The tree of a directory that is as it was.
    pub(crate) fn get(&self, path: &Path) -> Option<ObjectId> {
        self.0.get(path).copied()
    }
}

/// All directories above a path that is another.
fn note<'a>(changed: &mut BTreeSet<&'a Path>, root: &Path, path: &'a Path) {
    for above in path.ancestors().skip(1).take_while(|above| above.starts_with(root)) {
        // Those above it were noted with it.
        if !changed.insert(above) {
            break;
        }
    }
}

fn is_same(item: &Item, before: &Entry) -> bool {
    if !matches!(item.copy, Copy::No) {
        return false;
    }
    match (&item.entry.node, &before.node) {
        // Which tree it has is what is to be found out.
        (Node::Dir { .. }, Node::Dir { .. }) => {
            Entry { node: before.node.clone(), ..item.entry.clone() } == *before
        }
        _ => item.entry == *before,
    }
}

/// The tree of a directory, if it is known.
fn tree_of(entry: &Entry) -> Option<ObjectId> {
    match entry.node {
        Node::Dir { tree } if tree != ObjectId::from_bytes([0; 32]) => Some(tree),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::capture::{CaptureRequest, ahead, begin};
    use crate::policy::FilePolicy;
    use crate::testing::{Home, age, tree};

    const DIRECTORIES: [&str; 4] = ["a", "a/b", "a/b/c", "d"];

    fn home() -> Home {
        let home = Home::new();
        for directory in DIRECTORIES {
            for name in ["one", "two"] {
                home.write(format!("work/{directory}/{name}"), directory);
            }
        }
        age(&home.write("work/clock", "tick"));
        home
    }

    /// What can happen to a file between two snapshots.
    fn happen(home: &Home, what: u8, directory: &str, name: &str) {
        let path = home.path(format!("work/{directory}/{name}"));
        match what {
            0 => drop(home.write(format!("work/{directory}/{name}"), "other")),
            1 => drop(fs::remove_file(&path)),
            2 => drop(fs::set_permissions(
                path.parent().unwrap(),
                std::os::unix::fs::PermissionsExt::from_mode(0o700),
            )),
            3 => drop(fs::rename(&path, path.with_file_name("three"))),
            4 => drop(std::os::unix::fs::symlink("one", path.with_file_name("link"))),
            // Something else of the same length and in the same moment.
            _ => drop(fs::write(&path, directory.to_uppercase())),
        }
    }

    #[test]
    fn a_tree_that_was_taken_over_is_the_one_that_would_have_been_made() {
        let steps = prop::collection::vec(
            (
                0_u8..6,
                prop::sample::select(DIRECTORIES.to_vec()),
                prop::sample::select(vec!["one", "two", "new"]),
            ),
            0..4,
        );
        proptest!(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() }, |(rounds in prop::collection::vec(steps, 1..4))| {
            let home = home();
            let mut known = home.capture_with(&tree(), &[], &Listing::default(), &[]).0.listing;
            for steps in rounds {
                for (what, directory, name) in steps {
                    happen(&home, what, directory, name);
                }
                // Later, a file that changed a moment ago is entered in another way.
                age(&home.write("work/clock", "tick"));
                let (captured, _) = home.capture_with(&tree(), &[], &known, &[]);
                let (anew, _) = home.capture_with(&tree(), &[], &Listing::default(), &[]);
                prop_assert_eq!(captured.workspace.tree, anew.workspace.tree);
                known = captured.listing;
            }
        });
    }

    #[test]
    fn what_has_no_content_of_its_own_is_compared_too() {
        let home = home();
        let link = home.path("work/d/link");
        std::os::unix::fs::symlink("one", &link).unwrap();
        let policy = FilePolicy::Tree {
            include: Vec::new(),
            exclude: Vec::new(),
            max_bytes: 100,
            volumes: Vec::new(),
        };
        age(&home.write("work/a/b/c/large", vec![1; 1000]));
        let known = home.capture_with(&policy, &[], &Listing::default(), &[]).0.listing;
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("two", &link).unwrap();
        age(&home.write("work/a/b/c/large", vec![1; 2000]));
        let (captured, listing) = home.capture_with(&policy, &[], &known, &[]);
        let (anew, _) = home.capture_with(&policy, &[], &Listing::default(), &[]);
        assert_eq!(captured.workspace.tree, anew.workspace.tree);
        assert_eq!(listing.entries[&link].node, Node::Symlink { target: "two".into() });
    }

    #[test]
    fn only_directories_above_a_change_are_made_again() {
        let home = home();
        let known = home.capture_with(&tree(), &[], &Listing::default(), &[]).0.listing;
        age(&home.write("work/a/b/one", "other"));
        let staging = home.path("staging");
        let (policy, named) = (tree(), []);
        let request = CaptureRequest {
            user: &home.user,
            places: &home.places,
            policy: &policy,
            named: &named,
            staging: &staging,
            parent: &known,
        };
        let mut pending = begin(&request, ahead(&request).unwrap(), &[]).unwrap();
        let kept =
            |pending: &crate::Pending, name: &str| pending.taking.unchanged.get(&home.path(name)).is_some();
        assert_eq!(
            ["work", "work/a", "work/a/b", "work/a/b/c", "work/d"].map(|name| kept(&pending, name)),
            [false, false, false, true, true]
        );
        pending.taking.unchanged.forget_above(&home.path("work/d/one"));
        assert!(!kept(&pending, "work/d") && kept(&pending, "work/a/b/c"));
        // Where the snapshot before was of something else, nothing is taken over.
        let elsewhere = Listing { root: Some("/elsewhere".into()), ..known.clone() };
        assert!(Unchanged::find(&home.path("work"), &[], &elsewhere, &pending.taking.items).0.is_empty());
    }
}
