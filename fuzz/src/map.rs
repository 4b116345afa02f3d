//! Leaves and nodes of an extent map. What is accepted has exactly one encoding.

use cas_core::memory::{LeafMap, parse_node};

pub(crate) fn run(bytes: &[u8]) {
    if let Ok(leaf) = LeafMap::parse(bytes) {
        assert_eq!(leaf.encode(), bytes);
        assert!(leaf.present() <= 512);
    }
    let _ = parse_node(bytes);
}
