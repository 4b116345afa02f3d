//! The numbers that the kernel knows nodes by.
//!
//! A number is a hash of the way to a node. So it is the same whenever the node is looked up, in another mount, too, and listing a directory
//! makes no node. What the kernel has looked up is kept until the kernel forgets it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::node::Node;

/// The number of a name in a directory. The root has 1, so nothing else has; that two of a billion nodes share one is
/// as good as impossible.
pub(crate) fn number(parent: u64, name: &[u8]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&parent.to_le_bytes()).update(name);
    let (first, _) =
        hasher.finalize().as_bytes().split_first_chunk().map_or(([0; 8], ()), |(first, _)| (*first, ()));
    u64::from_le_bytes(first).max(2)
}

/// Nodes that the kernel knows, and how often each was looked up.
#[derive(Default)]
pub(crate) struct Inodes(Mutex<HashMap<u64, (Node, u64)>>);

impl Inodes {
    pub(crate) fn get(&self, number: u64) -> Option<Node> {
        self.all().get(&number).map(|(node, _)| node.clone())
    }

    /// The kernel has been told of a node.
    pub(crate) fn told(&self, node: Node) {
        self.all().entry(node.facts.number).or_insert((node, 0)).1 += 1;
    }

    /// The kernel forgets so many of the times that it was told.
    pub(crate) fn forget(&self, number: u64, times: u64) {
        let mut all = self.all();
        if let Some((_, told)) = all.get_mut(&number) {
            *told = told.saturating_sub(times);
            if *told == 0 {
                all.remove(&number);
            }
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<u64, (Node, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_way_and_never_the_roots() {
        assert_eq!(number(1, b"a"), number(1, b"a"));
        assert_ne!(number(1, b"a"), number(1, b"b"));
        assert_ne!(number(1, b"a"), number(2, b"a"));
        assert!(number(1, b"a") > 1);
    }
}
