//! One file of a snapshot, found by its path without a look at all others.
//!
//! A path is only ever a way through the stored trees, part by part. Nothing on the machine is looked at, and a link leads nowhere: what is not a
//! file itself has no content. Paths come from outside, so one that is not plain, has more parts than a tree may be deep or is longer than the
//! system allows leads nowhere either.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use cas_core::{ObjectId, Store};
use manifest::snapshot::{OutsideSection, WorkspaceSection};
use manifest::{BlobRef, ManifestObject, Node, Snapshot, Tree};

use crate::error::Result;
use crate::listing::{MAX_DEPTH, content, root_of};

/// As long as a path may be (`PATH_MAX`).
const LONGEST: usize = 4096;

/// The stored content of a file. A path that does not begin at `/` is one below the workspace.
pub fn content_at(store: &Store, snapshot: &Snapshot, path: &Path) -> Result<Option<BlobRef>> {
    find(store, snapshot.get()?.as_ref(), snapshot.get()?.as_ref(), path)
}

fn find(
    store: &Store,
    workspace: Option<&WorkspaceSection>,
    outside: Option<&OutsideSection>,
    path: &Path,
) -> Result<Option<BlobRef>> {
    if path.as_os_str().len() > LONGEST {
        return Ok(None);
    }
    if let Some(section) = workspace {
        let root = root_of(section)?;
        let below = if path.is_absolute() { path.strip_prefix(&root).ok() } else { Some(path) };
        if let (Some(below), Some((tree, _))) = (below, section.tree)
            && let Some(found) = walk(store, &tree, below)?
        {
            return Ok(Some(found));
        }
    }
    match (outside.and_then(|section| section.tree), path.strip_prefix("/")) {
        (Some((tree, _)), Ok(below)) => walk(store, &tree, below),
        _ => Ok(None),
    }
}

/// The file at the end of a path.
fn walk(store: &Store, tree: &ObjectId, below: &Path) -> Result<Option<BlobRef>> {
    let mut parts = Vec::new();
    for part in below.components() {
        match part {
            Component::Normal(name) if parts.len() <= MAX_DEPTH => parts.push(name.as_bytes()),
            _ => return Ok(None),
        }
    }
    let Some((last, directories)) = parts.split_last() else { return Ok(None) };
    let mut at = *tree;
    for name in directories {
        match load(store, &at)?.get(name).map(|entry| &entry.node) {
            Some(Node::Dir { tree }) => at = *tree,
            _ => return Ok(None),
        }
    }
    Ok(load(store, &at)?.get(last).and_then(content))
}

fn load(store: &Store, tree: &ObjectId) -> Result<Tree> {
    Ok(Tree::decode(&store.get(Tree::KIND, tree)?)?)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;
    use crate::Listing;
    use crate::testing::{Home, tree};

    /// Words of which both true paths and false ones are made.
    fn words() -> impl Strategy<Value = Vec<&'static str>> {
        let word = prop::sample::select(vec![
            "", ".", "..", "work", "a", "b", "link", "one", "no\0ne", "\u{fffd}", "etc",
        ]);
        prop::collection::vec(word, 0..6)
    }

    #[test]
    fn a_path_leads_to_the_file_that_a_list_of_all_has_there_and_nowhere_else() {
        let home = Home::new();
        let (one, two) = (home.write("work/a/one", "1"), home.write("work/a/b/one", "2"));
        std::os::unix::fs::symlink("a", home.path("work/link")).unwrap();
        std::os::unix::fs::symlink("/etc", home.path("work/etc")).unwrap();
        let (captured, listing) = home.capture_with(&tree(), &[], &Listing::default(), &[]);
        let section = captured.workspace;
        let at = |path: &Path| find(&home.store, Some(&section), None, path).unwrap();
        assert!(at(&one).is_some() && at(&one) == listing.content(&one));
        assert_eq!(at(Path::new("a/b/one")), listing.content(&two), "below the workspace");
        for nothing in
            ["", "/", "a", "link/one", "etc/passwd", "/etc/passwd", "a/../a/one", "../work/a/one", "a/one/x"]
        {
            assert_eq!(at(Path::new(nothing)), None, "{nothing}");
        }
        assert_eq!(at(Path::new(&"a/".repeat(MAX_DEPTH * 2))), None, "deeper than a tree");
        assert_eq!(at(Path::new(&"a".repeat(LONGEST + 1))), None);
        let root = home.path("work");
        proptest!(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() }, |(words in words(), absolute: bool)| {
            let path = PathBuf::from(words.join("/"));
            let path = if absolute { Path::new("/").join(root.strip_prefix("/").unwrap()).join(path.strip_prefix("/").unwrap_or(&path)) } else { path };
            let full = root.join(&path);
            let plain = full.components().all(|part| !matches!(part, Component::ParentDir));
            let expected = if plain { listing.content(&full) } else { None };
            prop_assert_eq!(at(&path), expected, "{:?}", path);
        });
    }
}
