//! Archives as engines write them, and as people with other intentions do.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy.toml allows these in #[test] functions only, not in their helpers"
)]

mod hostile;
mod images;
mod round_trip;

use std::collections::BTreeMap;
use std::io::Read;

use checkpoint_archive::tar::{Entry, TarWriter};
use checkpoint_archive::{ArchiveError, Found, Limits, Member, MemoryBlobs, Take, read_archive};
use serde_json::{Value, json};

/// Keeps members in memory.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct Kept(pub(crate) BTreeMap<String, Vec<u8>>);

impl Take for Kept {
    fn take(&mut self, member: &Member, size: u64, content: &mut dyn Read) -> Result<(), ArchiveError> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).map_err(|_| ArchiveError::NotKept)?;
        assert_eq!(bytes.len() as u64, size, "{member}");
        self.0.insert(member.to_string(), bytes);
        Ok(())
    }
}

pub(crate) fn read_with(bytes: &[u8], limits: &Limits) -> Result<(Found, Kept), ArchiveError> {
    let mut kept = Kept::default();
    let found = read_archive(bytes, limits, &mut MemoryBlobs::default(), &mut kept)?;
    Ok((found, kept))
}

pub(crate) fn read(bytes: &[u8]) -> Result<(Found, Kept), ArchiveError> {
    read_with(bytes, &Limits::default())
}

/// What every engine writes.
pub(crate) fn config() -> Value {
    json!({ "id": "ab".repeat(32), "name": "web", "rootfsImageName": "localhost/py:1", "runtime": "runc" })
}

pub(crate) fn spec() -> Value {
    json!({ "ociVersion": "1.1.0", "annotations": { "io.container.manager": "libpod" } })
}

/// The least that is an archive, with more entries behind it.
pub(crate) fn archive_of(spec: &Value, config: &Value, more: &[(Entry, Vec<u8>)]) -> Vec<u8> {
    let mut tar = TarWriter::new(Vec::new());
    let mut put = |entry: &Entry, content: &[u8]| tar.put(entry, &mut &content[..]).unwrap();
    for (name, value) in [("config.dump", config), ("spec.dump", spec)] {
        let text = value.to_string();
        put(&Entry::file(name, text.len() as u64), text.as_bytes());
    }
    put(&Entry::directory("checkpoint"), b"");
    put(&Entry::file("checkpoint/inventory.img", 3), b"inv");
    for (entry, content) in more {
        put(entry, content);
    }
    tar.finish().unwrap()
}

pub(crate) fn archive(more: &[(Entry, Vec<u8>)]) -> Vec<u8> {
    archive_of(&spec(), &config(), more)
}

pub(crate) fn file(path: &str, content: impl Into<Vec<u8>>) -> (Entry, Vec<u8>) {
    let content = content.into();
    (Entry::file(path, content.len() as u64), content)
}

#[test]
fn an_honest_archive_is_read() {
    let more = [
        file("network.status", "{}"),
        file("checkpoint/core-1.img", "core"),
        file("deleted.files", r#"["/etc/motd"]"#),
        file("ctr.log", "a line"),
        file("volumes/data.tar", TarWriter::new(Vec::new()).finish().unwrap()),
        file("io.kubernetes.cri-o.LogPath", "x"),
        (Entry::directory("artifacts"), Vec::new()),
        file("artifacts/create-config", "x"),
    ];
    let (found, kept) = read(&archive(&more)).unwrap();
    assert_eq!((found.engine(), found.config_text("name")), ("podman", "web"));
    assert_eq!(found.deleted, ["/etc/motd"]);
    assert_eq!(found.left_out, ["io.kubernetes.cri-o.LogPath", "artifacts/create-config"]);
    let names: Vec<&str> = kept.0.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "checkpoint/core-1.img",
            "checkpoint/inventory.img",
            "config.dump",
            "ctr.log",
            "deleted.files",
            "network.status",
            "spec.dump",
            "volumes/data.tar"
        ]
    );
    assert_eq!(kept.0["checkpoint/core-1.img"], b"core");
}

#[test]
fn without_its_main_parts_it_is_none() {
    let mut tar = TarWriter::new(Vec::new());
    tar.put(&Entry::file("config.dump", 2), &mut &b"{}"[..]).unwrap();
    let error = read(&tar.finish().unwrap()).unwrap_err();
    assert_eq!((error.code(), error.to_string()), ("IJ-A011", "the archive has no `spec.dump`".to_owned()));
    assert_eq!(read(b"").unwrap_err().code(), "IJ-A002");
    assert_eq!(read(&[7; 2000]).unwrap_err().code(), "IJ-A002");
    assert_eq!(read(&TarWriter::new(Vec::new()).finish().unwrap()).unwrap_err().code(), "IJ-A002");
    let whole = archive(&[]);
    for cut in [600, 1100, whole.len() - 1024, whole.len() - 512] {
        let error = read(&whole[..cut]).unwrap_err();
        assert!(["IJ-A002", "IJ-A010"].contains(&error.code()), "{cut}: {error}");
    }
}
