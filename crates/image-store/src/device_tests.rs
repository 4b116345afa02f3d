//! Device memory into the store while it comes, and out again.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cas_core::progress::Silent;
use cas_core::{OpenOptions, Store};
use manifest::snapshot::MemorySection;
use manifest::{Snapshot, TypedSection};

use crate::device::{DevicePart, Storing};
use crate::device_back::lay_out_device_memory;
use crate::ingest::IngestStats;

const GPU: &str = "GPU-00000000-0000-0000-0000-000000000001";

fn store(home: &Path) -> Arc<Store> {
    Store::init(&home.join("store"), None, OpenOptions::default()).unwrap()
}

fn content(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| u8::try_from((at / 4096 * 7 + at % 251) % 256).unwrap() ^ seed).collect()
}

/// Stores `content` while it is written in pieces, and gives the snapshot of it.
fn take(
    store: &Arc<Store>,
    home: &Path,
    content: &[u8],
    parent: Option<&Snapshot>,
) -> (Snapshot, IngestStats) {
    let file = home.join("growing");
    let mut grows = File::create(&file).unwrap();
    let storing = Storing::begin(store.write(&[]).unwrap(), parent, home.into()).unwrap();
    storing.comes(DevicePart { pid: 301, gpu: GPU.into(), bytes: content.len() as u64, file }).unwrap();
    for piece in content.chunks(300_000) {
        grows.write_all(piece).unwrap();
        thread::sleep(Duration::from_millis(2));
    }
    assert!(!storing.came());
    storing.is_whole();
    assert!(storing.came());
    let stored = storing.finish().unwrap();
    let section = MemorySection { spaces: stored.spaces }.to_section().unwrap();
    stored.session.flush().unwrap();
    (Snapshot::new(vec![section]).unwrap(), stored.stats)
}

fn back(store: &Store, snapshot: &Snapshot) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    assert!(lay_out_device_memory(store, "it", snapshot, dir.path(), &Silent).unwrap());
    fs::read(dir.path().join(format!("301/{GPU}.vram"))).unwrap()
}

#[test]
fn what_grows_is_stored_and_comes_back_whatever_its_length() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    for bytes in [1, 4096, 5 << 20, (5 << 20) + 512] {
        let content = content(bytes, 3);
        let (snapshot, stats) = take(&store, home.path(), &content, None);
        assert_eq!(stats.memory_bytes, (bytes as u64).next_multiple_of(4096));
        assert!(back(&store, &snapshot) == content, "{bytes} bytes came back as others");
    }
}

#[test]
fn what_did_not_change_is_not_stored_again() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let mut content = content(8 << 20, 9);
    let (first, stats) = take(&store, home.path(), &content, None);
    assert_eq!(stats.new_bytes, 8 << 20);
    content[5 << 20] ^= 1;
    let (second, stats) = take(&store, home.path(), &content, Some(&first));
    assert_eq!(stats.new_bytes, 4096);
    assert!(back(&store, &second) == content);
}

#[test]
fn what_does_not_come_is_given_up_and_what_is_too_short_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let file = home.path().join("short");
    fs::write(&file, [1; 8192]).unwrap();
    let part = || DevicePart { pid: 1, gpu: GPU.into(), bytes: 1 << 20, file: file.clone() };
    let begin = || Storing::begin(store.write(&[]).unwrap(), None, home.path().into()).unwrap();
    let storing = begin();
    storing.comes(part()).unwrap();
    drop(storing);
    let storing = begin();
    storing.comes(part()).unwrap();
    storing.is_whole();
    assert!(storing.finish().unwrap_err().to_string().contains("memory at 0x"));
    assert!(begin().comes(DevicePart { file: home.path().join("none"), ..part() }).is_err());
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let (snapshot, _) = take(&store, home.path(), &content(4096, 1), None);
    let spaces = snapshot.get::<MemorySection>().unwrap().unwrap().spaces;
    for name in ["gpu:../1:x", "gpu:1:../../x", "gpu:1:", "gpu::x"] {
        let mut spaces = spaces.clone();
        spaces[0].name = name.to_owned();
        let snapshot = Snapshot::new(vec![MemorySection { spaces }.to_section().unwrap()]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let result = lay_out_device_memory(&store, "it", &snapshot, &dir.path().join("in"), &Silent);
        // A file that is only called `.vram` is strange, and harms nobody.
        assert!(result.is_err() || name == "gpu:1:", "{name}");
    }
}
