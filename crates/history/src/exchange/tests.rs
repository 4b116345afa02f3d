//! Archives that become snapshots, and the other way round.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use cas_core::progress::Silent;
use cas_core::refs::{Expected, RefChange};
use cas_core::{ObjectId, OpenOptions, Store};
use checkpoint_archive::tar::{Entry, Kind, TarWriter};
use checkpoint_archive::{ArchiveWriter, Compression, Limits, Member};
use manifest::snapshot::{
    ArchiveFacts, ArchiveSection, CriuSection, MemorySection, WorkspacePolicy, WorkspaceSection,
};
use manifest::stored::FromStore;
use manifest::{
    Author, Commit, Extra, Figures, ManifestObject, Section, Snapshot, Thread, Tree, TypedSection,
};
use serde_json::{Value, json};

use super::{ArchiveForm, ArchiveIn, ArchiveOut, Arrived};
use crate::error::{HistoryError, Result};

const COMMON: u32 = 0x5456_4319;
const PAGE: usize = 4096;

/// An image: its magic numbers, then each message with its length.
fn image(magics: &[u32], messages: &[&[u8]]) -> Vec<u8> {
    let mut bytes: Vec<u8> = magics.iter().flat_map(|magic| magic.to_le_bytes()).collect();
    for message in messages {
        bytes.extend(u32::try_from(message.len()).unwrap().to_le_bytes());
        bytes.extend(*message);
    }
    bytes
}

/// The images of one process with two pages.
fn images() -> Vec<(&'static str, Vec<u8>)> {
    let pages: Vec<u8> = (0..2 * PAGE).map(|at| u8::try_from(at % 251).unwrap()).collect();
    // Address 0x10000, two pages, which are in the file.
    let entry = [0x08, 0x80, 0x80, 0x04, 0x10, 2, 0x20, 4, 0x28, 2];
    vec![
        ("inventory.img", image(&[0x5831_3116], &[&[0x08, 2]])),
        ("pstree.img", image(&[COMMON, 0x5027_3030], &[&[0x08, 1, 0x10, 0, 0x18, 1, 0x20, 1, 0x28, 1]])),
        ("core-1.img", image(&[COMMON, 0x5505_3847], &[&[0x08, 1]])),
        ("pagemap-1.img", image(&[COMMON, 0x5608_4025], &[&[0x08, 1], &entry])),
        ("pages-1.img", pages),
    ]
}

fn spec() -> Value {
    json!({
        "annotations": { "io.container.manager": "libpod", "cdi.k8s.io/x": "a.b/c=d" },
        "mounts": [{ "source": "/", "destination": "/host" }],
    })
}

fn layer() -> Vec<u8> {
    let mut tar = TarWriter::new(Vec::new());
    let file = |path: &str, size| Entry { uid: 1000, mode: 0o4755, mtime: (7, 8), ..Entry::file(path, size) };
    tar.put(&file("tmp/deep/a", 3), &mut &b"abc"[..]).unwrap();
    tar.entry(&Entry { mode: 0o1777, ..Entry::directory("tmp") }).unwrap();
    tar.entry(&Entry::new("tmp/link", Kind::Symlink(b"/etc/shadow".to_vec()), 0o777)).unwrap();
    tar.entry(&Entry::new("tmp/again", Kind::HardLink(b"tmp/deep/a".to_vec()), 0o600)).unwrap();
    tar.finish().unwrap()
}

/// An archive like podman's, changed before it is packed.
fn archive(change: impl FnOnce(&mut Vec<(Member, Vec<u8>)>)) -> Vec<u8> {
    let config = json!({ "id": "ab".repeat(32), "name": "web", "rootfsImageName": "localhost/py:1", "runtime": "runc" });
    let mut members = vec![
        (Member::Config, config.to_string().into_bytes()),
        (Member::Spec, spec().to_string().into_bytes()),
        (Member::Deleted, br#"["/etc/motd"]"#.to_vec()),
        (Member::Log("ctr.log"), b"hello".to_vec()),
        (Member::Layer, layer()),
        (Member::volume("data").unwrap(), layer()),
    ];
    members.extend(images().into_iter().map(|(name, bytes)| (Member::image(name).unwrap(), bytes)));
    change(&mut members);
    let mut out = ArchiveWriter::new(Vec::new(), Compression::Zstd, 0).unwrap();
    for (member, bytes) in members {
        out.bytes(&member, &bytes).unwrap();
    }
    out.finish().unwrap().0
}

fn author() -> Author {
    Author { name: "ada".into(), uid: 1, host: "h".into(), extra: Extra::default() }
}

struct Place {
    dir: tempfile::TempDir,
    store: Arc<Store>,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::init(&dir.path().join("store"), None, OpenOptions::default()).unwrap();
        Self { dir, store }
    }

    fn read(&self, mut bytes: &[u8]) -> Result<(Arrived, ObjectId)> {
        let transaction = self.store.write(&[])?;
        let limits = Limits::default();
        let job = ArchiveIn { transaction: &transaction, beside: self.dir.path(), limits, progress: &Silent };
        let arrived = job.read(&mut bytes)?;
        let id = arrived.commit(&transaction, author(), Thread::new("imported")?, "m")?;
        let named =
            RefChange { name: format!("tags/{}", id.short()), expected: Expected::Any, new: Some(id) };
        transaction.commit(&[named])?;
        Ok((arrived, id))
    }

    fn write(&self, id: &ObjectId, form: ArchiveForm, compression: Compression) -> Vec<u8> {
        let mut out = Vec::new();
        let job =
            ArchiveOut { store: &self.store, form, compression, beside: self.dir.path(), progress: &Silent };
        let written = job.write(id, &mut out).unwrap();
        assert!(written.members >= 8 && written.warnings.is_empty(), "{written:?}");
        out
    }

    fn snapshot(&self, id: &ObjectId) -> Snapshot {
        let source = FromStore(&self.store);
        Snapshot::load(&source, &Commit::load(&source, id).unwrap().snapshot).unwrap()
    }

    /// Whatever was made on the way is gone.
    #[track_caller]
    fn is_tidy(&self) {
        let left: Vec<_> =
            std::fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["store"]);
    }
}

#[track_caller]
fn refused(code: &str, bytes: &[u8]) {
    let place = Place::new();
    match place.read(bytes) {
        Err(HistoryError::Archive(error)) => assert_eq!(error.code(), code, "{error}"),
        other => panic!("{:?}", other.map(|(_, id)| id)),
    }
    assert!(place.store.refs().list("").unwrap().is_empty());
    place.is_tidy();
}

#[test]
fn an_archive_is_a_snapshot_and_says_what_it_would_have_liked() {
    let place = Place::new();
    let (arrived, id) = place.read(&archive(|_| {})).unwrap();
    let snapshot = place.snapshot(&id);
    let criu = snapshot.get::<CriuSection>().unwrap().unwrap();
    assert_eq!(criu.images.len(), 4, "all but the pages");
    let memory = snapshot.get::<MemorySection>().unwrap().unwrap();
    assert_eq!((memory.spaces[0].name.as_str(), memory.spaces[0].bytes), ("pid:1", 2 * PAGE as u64));
    let section = snapshot.get::<ArchiveSection>().unwrap().unwrap();
    assert_eq!((section.said.engine.as_str(), section.said.container.as_str()), ("podman", "web"));
    assert_eq!(section.said.never_applied["mount"], 1);
    assert_eq!(section.said.never_applied["cdi"], 1);
    assert_eq!(
        section.members.keys().collect::<Vec<_>>(),
        ["config.dump", "ctr.log", "deleted.files", "spec.dump"]
    );
    assert_eq!(section.files.keys().collect::<Vec<_>>(), ["rootfs-diff.tar", "volumes/data.tar"]);
    assert!(arrived.never_applied.iter().any(|claim| claim.text.contains("source=/")));
    // Nothing that a restore reads from: no workspace, no session, no files outside.
    let names: Vec<&str> = snapshot.sections().iter().map(|section| section.name.as_str()).collect();
    assert_eq!(names, ["archive", "criu", "memory"]);
    let tree = Tree::load(&FromStore(&place.store), &section.files["rootfs-diff.tar"].0).unwrap();
    assert_eq!(tree.get(b"tmp").unwrap().mode, 0o1777);
    place.is_tidy();
}

#[test]
fn out_and_in_again_is_the_same_snapshot() {
    let place = Place::new();
    let (_, first) = place.read(&archive(|_| {})).unwrap();
    let before = place.snapshot(&first);
    for form in [ArchiveForm::Archive, ArchiveForm::Image] {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let bytes = place.write(&first, form, compression);
            let elsewhere = Place::new();
            let (_, again) = elsewhere.read(&bytes).unwrap();
            let after = elsewhere.snapshot(&again);
            for name in ["criu", "memory"] {
                assert_eq!(before.section(name), after.section(name), "{form:?} {compression:?}");
            }
            let section = |snapshot: &Snapshot| {
                let mut section = snapshot.get::<ArchiveSection>().unwrap().unwrap();
                // What the image around it says is claimed, too.
                section.said.annotations.clear();
                section.said.never_applied.remove("annotation");
                section.claims = None;
                section
            };
            assert_eq!(section(&before), section(&after), "{form:?} {compression:?}");
        }
    }
    // The plain form adds nothing at all.
    let bytes = place.write(&first, ArchiveForm::Archive, Compression::None);
    let (_, again) = place.read(&bytes).unwrap();
    assert_eq!(before, place.snapshot(&again));
    place.is_tidy();
}

/// A container that was taken here is described by what its snapshot knows.
#[test]
fn a_container_of_ours_is_an_archive_with_its_name_and_specification() {
    let place = Place::new();
    let (_, id) = place.read(&archive(|_| {})).unwrap();
    let came = place.snapshot(&id);
    let transaction = place.store.write(&[id]).unwrap();
    let mut criu = came.get::<CriuSection>().unwrap().unwrap();
    let specification = br#"{"ociVersion":"1.2.0","annotations":{"io.container.manager":"libpod"}}"#;
    let blob = transaction.put_blob(&mut &specification[..], &Silent).unwrap();
    criu.images.insert("infinijup-specification.json".into(), blob.into());
    let layer = came.get::<ArchiveSection>().unwrap().unwrap().files["rootfs-diff.tar"];
    let workspace = WorkspaceSection {
        policy: WorkspacePolicy::Tree,
        root: "/".into(),
        tree: Some(layer),
        not_captured: Vec::new(),
        open: None,
    };
    let container = json!({
        "runtime": { "kind": "podman" }, "id": "cd".repeat(32), "name": "own",
        "image": { "name": "localhost/py:2", "digest": format!("sha256:{}", "ef".repeat(32)) },
    });
    let session = Section {
        name: "session".into(),
        version: 1,
        attributes: [("container".to_owned(), container)].into(),
        roots: Vec::new(),
        extra: Extra::default(),
    };
    let memory = came.section("memory").unwrap().clone();
    let sections = vec![criu.to_section().unwrap(), memory, workspace.to_section().unwrap(), session];
    let arrived = Arrived {
        snapshot: Snapshot::new(sections).unwrap(),
        said: ArchiveFacts::default(),
        never_applied: Vec::new(),
        figures: Figures::default(),
    };
    let own = arrived.commit(&transaction, author(), Thread::new("own").unwrap(), "").unwrap();
    transaction.commit(&[]).unwrap();
    let bytes = place.write(&own, ArchiveForm::Image, Compression::Zstd);
    let (again, id) = Place::new().read(&bytes).map(|(again, id)| (again.said, id)).unwrap();
    assert_eq!(
        (again.engine.as_str(), again.container.as_str(), again.runtime.as_str()),
        ("podman", "own", "runc")
    );
    assert_eq!((again.image.as_str(), again.image_id), ("localhost/py:2", "ef".repeat(32)));
    assert_eq!(again.annotations["io.podman.annotations.checkpoint.runtime.name"], "runc");
    assert_ne!(id, own);
    let (_, id) = place.read(&bytes).unwrap();
    let section = place.snapshot(&id).get::<ArchiveSection>().unwrap().unwrap();
    assert_eq!(section.files["rootfs-diff.tar"], layer);
    assert_eq!(section.members["spec.dump"].len, specification.len() as u64);
    let images = place.snapshot(&id).get::<CriuSection>().unwrap().unwrap().images;
    assert!(!images.contains_key("infinijup-specification.json"));
}

/// Whatever an archive calls its image, its container or itself (CVE-2026-50195), and whatever else it asks for: what is named here is named by
/// whoever reads it, and what a restore reads is the same.
#[test]
fn what_an_archive_asks_for_changes_its_evidence_and_nothing_else() {
    let hostile = json!({
        "id": "cd".repeat(32), "name": "../../tags/latest", "runtime": "/bin/sh",
        "rootfsImageName": "docker.io/library/postgres:16", "rootfsImageRef": format!("sha256:{}", "0".repeat(64)),
        "RawImageName": "postgres:latest", "labels": { "containerd.io/restart.loguri": "binary:///bin/sh" },
        "cdiDevices": ["nvidia.com/gpu=all"], "privileged": true, "logPath": "/etc/shadow",
        "spec": { "hooks": { "prestart": [{ "path": "/bin/sh" }] }, "root": { "path": "/" } },
    });
    let crafted = archive(|members| members[0].1 = hostile.to_string().into_bytes());
    let place = Place::new();
    let (_, plain) = place.read(&archive(|_| {})).unwrap();
    let names = || -> BTreeSet<String> {
        place.store.refs().list("").unwrap().into_iter().map(|(name, _)| name).collect()
    };
    let before = names();
    let (arrived, id) = place.read(&crafted).unwrap();
    let after = names();
    let new: Vec<_> = after.difference(&before).collect();
    assert_eq!(new.len(), 1, "one name, which the reader has given: {new:?}");
    let (plain, crafted) = (place.snapshot(&plain), place.snapshot(&id));
    assert_eq!(crafted.get::<CriuSection>().unwrap(), plain.get::<CriuSection>().unwrap());
    assert_eq!(crafted.get::<MemorySection>().unwrap(), plain.get::<MemorySection>().unwrap());
    assert_eq!(crafted.sections().len(), plain.sections().len());
    for word in ["postgres:16", "postgres:latest", "binary:///bin/sh", "nvidia.com/gpu=all", "/etc/shadow"] {
        assert!(arrived.never_applied.iter().any(|claim| claim.text.contains(word)), "{word}");
    }
}

#[test]
fn images_are_checked_before_anything_leads_to_them() {
    let with = |name: &str, bytes: Vec<u8>| {
        archive(|members| {
            let member = Member::image(name).unwrap();
            members.retain(|(other, _)| *other != member);
            members.push((member, bytes));
        })
    };
    place_reads(&with("stats.txt", b"x".to_vec()));
    refused("IJ-A024", &with("bpfmap-file.img", b"x".to_vec()));
    refused("IJ-A024", &with("core-2.img", image(&[COMMON, 0x5505_3847], &[&[0x08, 1]])));
    refused("IJ-A024", &with("pstree.img", image(&[COMMON, 0x5027_3030], &[&[0x98, 6, 1]])));
    // Pages that lie in another dump.
    let parent = [0x08, 0x80, 0x80, 0x04, 0x10, 2, 0x20, 1, 0x28, 2];
    refused("IJ-A024", &with("pagemap-1.img", image(&[COMMON, 0x5608_4025], &[&[0x08, 1], &parent])));
    // A file with a path that leads elsewhere: kind 1, id 7, and in it id, flags, position, name.
    let path = b"/../etc/shadow";
    let mut regular = vec![0x08, 7, 0x10, 0, 0x18, 0, 0x32, u8::try_from(path.len()).unwrap()];
    regular.extend(path);
    let mut file = vec![0x08, 1, 0x10, 7, 0x1a, u8::try_from(regular.len()).unwrap()];
    file.extend(regular);
    refused("IJ-A024", &with("files.img", image(&[COMMON, 0x5630_3138], &[&file])));
}

#[track_caller]
fn place_reads(bytes: &[u8]) {
    Place::new().read(bytes).unwrap();
}

#[test]
fn what_criu_would_unpack_is_looked_into() {
    let with = |kind: Kind| {
        let mut tar = TarWriter::new(Vec::new());
        tar.entry(&Entry::new("./x", kind, 0o666)).unwrap();
        let bytes = tar.finish().unwrap();
        archive(|members| members.push((Member::image("tmpfs-dev-73.tar.gz.img").unwrap(), bytes)))
    };
    place_reads(&with(Kind::Char(1, 3)));
    refused("IJ-A022", &with(Kind::Block(8, 0)));
    refused("IJ-A022", &with(Kind::Char(1, 1)));
}

#[test]
fn files_of_layers_and_volumes_are_held_to_the_rules() {
    for member in [Member::Layer, Member::volume("data").unwrap(), Member::SharedMemory] {
        let mut tar = TarWriter::new(Vec::new());
        tar.entry(&Entry::new("a", Kind::Symlink(b"/etc".to_vec()), 0o777)).unwrap();
        tar.put(&Entry::file("a/passwd", 1), &mut &b"x"[..]).unwrap();
        let bytes = tar.finish().unwrap();
        let hostile = archive(|members| {
            members.retain(|(other, _)| *other != member);
            members.push((member.clone(), bytes));
        });
        refused("IJ-A021", &hostile);
    }
    // A tar file that is cut short.
    refused(
        "IJ-A010",
        &archive(|members| {
            for (member, bytes) in members {
                if *member == Member::Layer {
                    bytes.truncate(700);
                }
            }
        }),
    );
}

/// Rights that a file would get by its attributes, and what overlayfs would be told, are named and left out.
#[test]
fn attributes_that_give_rights_are_not_taken() {
    let mut tar = TarWriter::new(Vec::new());
    let xattrs = vec![
        (b"security.capability".to_vec(), vec![1; 20]),
        (b"trusted.overlay.redirect".to_vec(), b"/etc".to_vec()),
        (b"user.note".to_vec(), b"n".to_vec()),
    ];
    tar.put(&Entry { xattrs, ..Entry::file("x", 0) }, &mut &b""[..]).unwrap();
    let bytes = tar.finish().unwrap();
    let place = Place::new();
    let (arrived, id) = place
        .read(&archive(|members| {
            members.retain(|(other, _)| *other != Member::Layer);
            members.push((Member::Layer, bytes));
        }))
        .unwrap();
    assert_eq!(arrived.said.left_out.len(), 2, "{:?}", arrived.said.left_out);
    let section = place.snapshot(&id).get::<ArchiveSection>().unwrap().unwrap();
    let tree = Tree::load(&FromStore(&place.store), &section.files["rootfs-diff.tar"].0).unwrap();
    assert_eq!(tree.entries()[0].xattrs.len(), 1);
}

#[test]
fn a_snapshot_without_processes_has_no_archive() {
    let place = Place::new();
    let transaction = place.store.write(&[]).unwrap();
    let arrived = Arrived {
        snapshot: Snapshot::new(Vec::new()).unwrap(),
        said: ArchiveFacts::default(),
        never_applied: Vec::new(),
        figures: Figures::default(),
    };
    let id = arrived.commit(&transaction, author(), Thread::new("t").unwrap(), "").unwrap();
    transaction.flush().unwrap();
    let job = ArchiveOut {
        store: &place.store,
        form: ArchiveForm::Archive,
        compression: Compression::None,
        beside: place.dir.path(),
        progress: &Silent,
    };
    match job.write(&id, &mut Vec::new()) {
        Err(HistoryError::Archive(error)) => assert_eq!(error.code(), "IJ-A004"),
        other => panic!("{other:?}"),
    }
}

/// Reading stops where the archive does, and a reader that fails says so.
#[test]
fn a_disk_that_fails_is_not_a_damaged_archive() {
    struct Failing<'a>(&'a [u8]);
    impl Read for Failing<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                return Err(std::io::Error::from_raw_os_error(5));
            }
            self.0.read(buffer)
        }
    }
    let place = Place::new();
    let bytes = archive(|_| {});
    let transaction = place.store.write(&[]).unwrap();
    let job = ArchiveIn {
        transaction: &transaction,
        beside: Path::new(place.dir.path()),
        limits: Limits::default(),
        progress: &Silent,
    };
    let error = job.read(&mut Failing(&bytes[..bytes.len() / 2])).unwrap_err();
    assert!(matches!(&error, HistoryError::Archive(error) if error.code() == "IJ-A001"), "{error}");
}
