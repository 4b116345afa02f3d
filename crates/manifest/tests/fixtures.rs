//! Objects that were written by earlier versions stay readable, byte for byte. See `fixtures/v1/README.md`.
#![expect(
    clippy::unwrap_used,
    reason = "allow-unwrap-in-tests sees #[test] functions only, not their helpers"
)]

mod samples;

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use cas_core::{IdHasher, Kind};
use manifest::history::Grafts;
use manifest::snapshot::{
    CriuSection, GpuSection, HostSection, LabelSection, MemorySection, NotebookSection, WorkspaceSection,
};
use manifest::{Commit, HEADER_LEN, ManifestObject, Node, Snapshot, Tree, references};
use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1")
}

/// What a fixture's JSON file says of its bytes.
fn description(kind: Kind, bytes: &[u8]) -> Value {
    json!({
        "id": IdHasher::plain().id(kind, bytes).to_string(),
        "kind": kind.0,
        "references": references(kind, bytes).unwrap().len(),
        "body": serde_json::from_slice::<Value>(&bytes[HEADER_LEN..]).unwrap(),
    })
}

#[track_caller]
fn unchanged<T: ManifestObject + PartialEq + Debug>(name: &str) -> T {
    let bytes = fs::read(folder().join(format!("{name}.bin"))).unwrap();
    let expected: Value =
        serde_json::from_slice(&fs::read(folder().join(format!("{name}.json"))).unwrap()).unwrap();
    assert_eq!(description(T::KIND, &bytes), expected);
    let object = T::decode(&bytes).unwrap();
    assert_eq!(serde_json::to_value(&object).unwrap(), expected["body"]);
    assert_eq!(object.encode().unwrap(), bytes);
    object
}

#[test]
fn commit() {
    let commit: Commit = unchanged("commit");
    assert_eq!(commit.thread.as_str(), "lr sweep/run 2");
    assert_eq!(commit.time.to_string(), "2026-11-15T02:07:09.000000123Z");
    assert_eq!(commit.parents.len(), 2);
    assert!(commit.extra.is_empty());
}

#[test]
fn commit_with_notes_and_figures() {
    let commit: Commit = unchanged("commit-noted");
    assert_eq!(commit, samples::noted_commit());
    let old: Commit = unchanged("commit");
    assert_eq!((old.session, old.cell, old.figures), (None, None, None));
    assert!(!old.has_notebook && !old.has_variables);
}

#[test]
fn grafts() {
    let grafts: Grafts = unchanged("grafts");
    assert_eq!(grafts, samples::grafts());
    assert_eq!(grafts.parents(&[samples::id(3)]), [samples::id(1)]);
}

#[test]
fn snapshot() {
    let snapshot: Snapshot = unchanged("snapshot");
    let names: Vec<_> = snapshot.sections().iter().map(|section| section.name.as_str()).collect();
    assert_eq!(names, ["criu", "gpu", "host", "label", "memory", "notebook", "workspace", "x-unknown"]);
    assert_eq!(snapshot.get::<CriuSection>().unwrap().unwrap().images.len(), 2);
    assert_eq!(snapshot.get::<GpuSection>().unwrap().unwrap().processes[0].vram_bytes, 40 << 30);
    assert_eq!(snapshot.get::<HostSection>().unwrap().unwrap().fingerprint.gpus[0].pci_id, "10de:2330");
    assert_eq!(snapshot.get::<LabelSection>().unwrap().unwrap().label, "before the big run");
    assert_eq!(snapshot.get::<MemorySection>().unwrap().unwrap().spaces.len(), 3);
    assert_eq!(snapshot.get::<NotebookSection>().unwrap().unwrap().kernel_name, "python3");
    assert_eq!(snapshot.get::<WorkspaceSection>().unwrap().unwrap().not_captured.len(), 1);
}

#[test]
fn tree() {
    let tree: Tree = unchanged("tree");
    assert!(matches!(tree.get(b"not \xff utf-8").unwrap().node, Node::File { size: 5, .. }));
    assert!(matches!(tree.get("größe\n".as_bytes()).unwrap().node, Node::Symlink { .. }));
    assert_eq!(tree.get(b"huge").unwrap().ino, Some(u64::MAX));
}

/// A commit, a snapshot and a tree that a newer program wrote: they have fields that this version does not know, some with
/// references.
#[test]
fn fields_of_a_newer_version() {
    let commit: Commit = unchanged("commit-newer-fields");
    assert_eq!(commit.extra.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["signature"]);
    let snapshot: Snapshot = unchanged("snapshot-newer-fields");
    assert_eq!(snapshot.extra().iter().count(), 1);
    let tree: Tree = unchanged("tree-newer-fields");
    assert!(!tree.entries()[0].extra.is_empty());
}

#[test]
fn every_fixture_is_tested() {
    let mut names: Vec<_> = fs::read_dir(folder())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".bin").map(str::to_owned))
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "commit",
            "commit-newer-fields",
            "commit-noted",
            "grafts",
            "snapshot",
            "snapshot-newer-fields",
            "tree",
            "tree-newer-fields"
        ]
    );
}

/// Writes the fixtures that are not there yet; never overwrites one.
#[test]
#[ignore = "run by hand to add fixtures"]
fn make_fixtures() {
    let put = |name: &str, kind: Kind, bytes: Vec<u8>| {
        let path = folder().join(format!("{name}.bin"));
        if !path.exists() {
            let text = format!("{:#}\n", description(kind, &bytes));
            fs::write(folder().join(format!("{name}.json")), text).unwrap();
            fs::write(path, bytes).unwrap();
        }
    };
    put("commit", Commit::KIND, samples::commit().encode().unwrap());
    put("commit-noted", Commit::KIND, samples::noted_commit().encode().unwrap());
    put("grafts", Grafts::KIND, samples::grafts().encode().unwrap());
    put("snapshot", Snapshot::KIND, samples::snapshot().encode().unwrap());
    put("tree", Tree::KIND, samples::tree().encode().unwrap());
    put("commit-newer-fields", Commit::KIND, samples::newer(&samples::commit(), samples::newer_commit));
    put(
        "snapshot-newer-fields",
        Snapshot::KIND,
        samples::newer(&samples::snapshot(), samples::newer_snapshot),
    );
    put("tree-newer-fields", Tree::KIND, samples::newer(&samples::tree(), samples::newer_tree));
}
