//! Looking many paths up that come in the order of the map.
//!
//! A search in a map of 50,000 paths compares with some thirty of them, letter by letter, and a snapshot looks each of its files up several times.
//! Who walks through a directory asks in order, and then one comparison is enough.

use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};
use std::iter::Peekable;
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// What is left of a map for those who ask in its order.
pub(crate) struct InOrder<'a, V> {
    rest: Peekable<btree_map::Range<'a, PathBuf, V>>,
}

impl<'a, V> InOrder<'a, V> {
    /// From some path on.
    pub(crate) fn new(map: &'a BTreeMap<PathBuf, V>, from: &Path) -> Self {
        Self { rest: map.range::<Path, _>((Bound::Included(from), Bound::Unbounded)).peekable() }
    }

    /// What is at a path, which must not come before one that was asked for earlier.
    pub(crate) fn get(&mut self, path: &Path) -> Option<&'a V> {
        loop {
            match self.rest.peek()?.0.as_path().cmp(path) {
                Ordering::Less => drop(self.rest.next()),
                Ordering::Equal => return self.rest.next().map(|(_, value)| value),
                Ordering::Greater => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn paths() -> impl Strategy<Value = BTreeMap<PathBuf, ()>> {
        // Names that sort in another way as text than by their parts.
        prop::collection::btree_map("(/[a-c.-]{1,2}){1,3}".prop_map(PathBuf::from), Just(()), 0..40)
    }

    proptest! {
        #[test]
        fn it_finds_what_a_search_finds(map in paths(), asked in paths()) {
            let mut in_order = InOrder::new(&map, Path::new("/"));
            for path in asked.keys() {
                prop_assert_eq!(in_order.get(path), map.get(path));
            }
        }
    }
}
