//! Commits, snapshots, trees and lists of what was forgotten. What is accepted encodes to the same bytes, and its references can be listed.

use manifest::history::Grafts;
use manifest::{COMMIT, Commit, GRAFTS, Header, ManifestObject, SNAPSHOT, Snapshot, TREE, Tree, references};

fn check<T: ManifestObject>(kind: cas_core::Kind, bytes: &[u8]) {
    if let Ok(object) = T::decode(bytes) {
        assert_eq!(object.encode().unwrap(), bytes);
        references(kind, bytes).unwrap();
    }
}

pub(crate) fn run(bytes: &[u8]) {
    let _ = Header::read(bytes);
    check::<Commit>(COMMIT, bytes);
    check::<Snapshot>(SNAPSHOT, bytes);
    check::<Tree>(TREE, bytes);
    check::<Grafts>(GRAFTS, bytes);
    for kind in [COMMIT, SNAPSHOT, TREE, GRAFTS] {
        let _ = references(kind, bytes);
    }
}
