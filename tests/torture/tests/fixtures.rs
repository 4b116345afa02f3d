//! Stores that were written by older programs are read by this one.
//!
//! The stores in `tests/fixtures/stores` were made once, by [`make_fixtures`], and are never made again: a store that
//! does not open any more means that the program is wrong, not the fixture. A new format adds new ones.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy.toml allows these in #[test] functions only, not in their helpers"
)]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use cas_core::crypto::KdfCost;
use cas_core::pack::{HEADER_LEN, PackClass, PackReader};
use cas_core::packs::PackBytes;
use cas_core::progress::Silent;
use cas_core::verify::{Depth, VerifyReport};
use cas_core::{Encryption, OpenOptions, Store};
use torture::model::Model;
use torture::passphrase;
use torture::snapshot::{self, Parent, Snapshots, set};

/// What is in every fixture: `tags/first`, and `threads/main` one generation later.
const FIRST: Model = Model { line: 2026, generation: 4, pages: 24 };

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/stores")
}

fn tar(arguments: &[&str], archive: &Path, place: &Path) {
    let mut command = Command::new("tar");
    command.args(arguments).arg(archive).arg("-C").arg(place).arg(".infinijup");
    let output =
        command.output().unwrap_or_else(|error| panic!("the fixtures need the program `tar`: {error}"));
    assert!(output.status.success(), "tar: {}", String::from_utf8_lossy(&output.stderr));
}

fn options(encrypted: bool) -> OpenOptions {
    OpenOptions { unlock: encrypted.then(|| passphrase(1)), ..OpenOptions::default() }
}

/// Unpacks a fixture and opens it.
fn unpack(name: &str) -> (tempfile::TempDir, Arc<Store>) {
    let place = tempfile::tempdir().unwrap();
    tar(&["-xf"], &directory().join(name), place.path());
    let store = Store::open(&place.path().join(".infinijup"), options(name.contains("encrypted"))).unwrap();
    (place, store)
}

fn reads_back(name: &str) {
    let (_place, store) = unpack(name);
    for (reference, model) in [("tags/first", FIRST), ("threads/main", FIRST.later(1))] {
        let id = store.refs().get(reference).unwrap().unwrap();
        snapshot::read_back(&store, &id, &model).unwrap();
    }
    let report = store.verify(&Snapshots, Depth::Bytes, &Silent).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    assert!(report.objects_read > 5);
    // And it is not only read: history goes on.
    let id = store.refs().get("threads/main").unwrap().unwrap();
    let next = FIRST.later(2);
    let id = snapshot::write(&store, next, Parent::Keep(id), |id| vec![set("threads/main", id)]).unwrap();
    snapshot::read_back(&store, &id, &next).unwrap();
}

#[test]
fn a_plain_store_of_version_1() {
    reads_back("v1-plain.tar");
}

#[test]
fn an_encrypted_store_of_version_1() {
    reads_back("v1-encrypted.tar");
}

#[test]
fn a_damaged_store_of_version_1_is_reported_as_it_always_was() {
    let (_place, store) = unpack("v1-damaged.tar");
    let report = store.verify(&Snapshots, Depth::Bytes, &Silent).unwrap();
    let expected = fs::read_to_string(directory().join("v1-damaged.txt")).unwrap();
    assert_eq!(summary(&report), expected);
}

/// What of a report must stay the same. Sentences may become better; codes, and what is affected, do not change.
fn summary(report: &VerifyReport) -> String {
    let mut out = format!("objects {} read {}\n", report.objects, report.objects_read);
    for problem in &report.problems {
        let code = problem.error.as_ref().map_or("-", |error| error.code());
        writeln!(out, "problem {code} data lost: {}", problem.data_lost).unwrap();
    }
    for name in &report.affected_refs {
        writeln!(out, "affected {name}").unwrap();
    }
    out
}

/// Makes fixtures that are not there yet.
#[test]
#[ignore = "fixtures are made once for each format, and then only read"]
fn make_fixtures() {
    fs::create_dir_all(directory()).unwrap();
    for name in ["v1-plain.tar", "v1-encrypted.tar", "v1-damaged.tar"] {
        let archive = directory().join(name);
        if archive.exists() {
            continue;
        }
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join(".infinijup");
        let encryption = Encryption { unlocks: vec![passphrase(1)], cost: KdfCost::for_tests() };
        let encrypted = name.contains("encrypted").then_some(&encryption);
        let store = Store::init(&root, encrypted, OpenOptions::default()).unwrap();
        let first = snapshot::write(&store, FIRST, Parent::None, |id| vec![set("tags/first", id)]).unwrap();
        let damaged = data_pack(&root);
        let change = |id| vec![set("threads/main", id)];
        snapshot::write(&store, FIRST.later(1), Parent::Keep(first), change).unwrap();
        drop(store);
        if name.contains("damaged") {
            let mut content = fs::read(&damaged).unwrap();
            content[HEADER_LEN + 2000] ^= 1;
            fs::write(&damaged, content).unwrap();
            let store = Store::open(&root, options(false)).unwrap();
            let report = store.verify(&Snapshots, Depth::Bytes, &Silent).unwrap();
            assert!(!report.is_clean());
            fs::write(directory().join("v1-damaged.txt"), summary(&report)).unwrap();
        }
        tar(&["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-cf"], &archive, place.path());
        let size = fs::metadata(&archive).unwrap().len();
        assert!(size < 1 << 20, "{name} has {size} bytes");
    }
}

fn data_pack(root: &Path) -> PathBuf {
    let directories = fs::read_dir(root.join("objects")).unwrap().map(|entry| entry.unwrap().path());
    let files = directories.flat_map(|path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "pack"))
        .find(|path| {
            PackReader::new(PackBytes::of_file(path).unwrap()).unwrap().header().class == PackClass::Data
        })
        .unwrap()
}
