//! Objects for tests, with something in every field.
#![allow(dead_code, reason = "each test binary uses a part of this")]
#![expect(
    clippy::unwrap_used,
    reason = "allow-unwrap-in-tests sees #[test] functions only, not their helpers"
)]

use std::collections::BTreeMap;

use cas_core::{Kind, ObjectId};
use manifest::history::Grafts;
use manifest::host::{Cpu, Gpu, HostFingerprint};
use manifest::snapshot::{
    AddressSpace, CriuSection, GpuProcess, GpuSection, HostSection, LabelSection, MemorySection, NotCaptured,
    NotebookSection, WorkspacePolicy, WorkspaceSection,
};
use manifest::tree::{Time, Xattr};
use manifest::{
    Author, BlobRef, ByteText, CellNote, Commit, CommitReason, Entry, Extra, Figures, FileName, HEADER_LEN,
    ManifestObject, MapRef, Node, Root, RootTarget, Section, Snapshot, Tag, Thread, Tree, TypedSection,
};
use serde_json::{Value, json};

pub(crate) fn id(byte: u8) -> ObjectId {
    ObjectId::from_bytes([byte; 32])
}

pub(crate) fn blob(byte: u8, len: u64) -> BlobRef {
    BlobRef { id: id(byte), kind: Kind::CHUNK_LIST, len }
}

pub(crate) fn commit() -> Commit {
    Commit {
        snapshot: id(1),
        parents: vec![id(3), id(2)],
        thread: Thread::new("lr sweep/run 2").unwrap(),
        author: Author { name: "ada".into(), uid: 1000, host: "gpu-box".into(), extra: Extra::default() },
        time: "2026-11-15T02:07:09.000000123Z".parse().unwrap(),
        order: Some("2026-11-15T03:00:00.000000001Z".parse().unwrap()),
        message: "first line\n\n\"quoted\" \\ über \u{1f600} \u{7f}".into(),
        label: Some("before the big run".into()),
        reason: CommitReason::BeforeCell,
        tags: [Tag::new("paper/fig-3").unwrap(), Tag::new("best").unwrap()].into(),
        tool: "0.1.0".into(),
        session: None,
        cell: None,
        figures: None,
        has_notebook: false,
        has_variables: false,
        extra: Extra::default(),
    }
}

/// One of a daemon: with what history shows.
pub(crate) fn noted_commit() -> Commit {
    Commit {
        session: Some("0a1b2c3d4e5f".into()),
        cell: Some(CellNote {
            id: Some("c1".into()),
            number: Some(7),
            source: "model.fit(x)".into(),
            extra: Extra::default(),
        }),
        figures: Some(Figures {
            bytes: Some(u64::MAX),
            new_bytes: Some(0),
            memory_bytes: Some(1 << 53),
            vram_bytes: Some((1 << 53) + 1),
            frozen_us: Some(41_000),
            gpu_paused_us: None,
            extra: Extra::default(),
        }),
        has_notebook: true,
        has_variables: true,
        ..commit()
    }
}

/// Two forgotten commits, one after the other.
pub(crate) fn grafts() -> Grafts {
    let mut grafts = Grafts::default();
    grafts.forget(&[(id(3), vec![id(2)]), (id(2), vec![id(1)]), (id(9), Vec::new())]);
    grafts
}

pub(crate) fn fingerprint() -> HostFingerprint {
    let gpu = |uuid: &str, peer: &str, bus: &str| Gpu {
        uuid: uuid.into(),
        pci_id: "10de:2330".into(),
        bus_id: format!("00000000:{bus}:00.0"),
        name: "NVIDIA H100 80GB HBM3".into(),
        memory_bytes: 85_520_809_984,
        nvlink_peers: [peer.to_owned()].into(),
        mig: (bus == "5d").then(|| vec!["1g.10gb".into(), "1g.10gb".into()]),
        compute_capability: "9.0".into(),
    };
    HostFingerprint {
        hostname: "gpu-box".into(),
        architecture: "x86_64".into(),
        cpu: Cpu {
            vendor: "GenuineIntel".into(),
            model_name: "Intel(R) Xeon(R) Platinum 8480C".into(),
            family: 6,
            model: 143,
            stepping: 8,
            features: ["avx2", "avx512f", "fpu", "sse2"].map(String::from).into(),
        },
        kernel_release: "6.8.0-45-generic".into(),
        page_size: 4096,
        criu_version: Some("4.2".into()),
        driver_version: Some("580.105.08".into()),
        gpus: vec![gpu("GPU-a", "GPU-b", "1b"), gpu("GPU-b", "GPU-a", "5d")],
    }
}

pub(crate) fn snapshot() -> Snapshot {
    let space = |name: &str, byte, pages| AddressSpace {
        name: name.into(),
        map: MapRef { id: id(byte), pages },
        bytes: pages * 4096,
    };
    let unknown = Section {
        name: "x-unknown".into(),
        version: 7,
        attributes: BTreeMap::from([(
            "nested".into(),
            json!({ "z": [1, null, true, "é"], "a": { "deep": -5 } }),
        )]),
        roots: vec![
            Root {
                name: "odd".into(),
                target: RootTarget::Object(Kind(200), id(90)),
                bytes: 0,
                extra: Extra::default(),
            },
            Root::tree("dir", id(91), u64::MAX),
        ],
        extra: Extra::default(),
    };
    let sections = [
        MemorySection {
            spaces: vec![space("pid:1", 10, 1 << 20), space("shm:3", 11, 2), space("gpu:GPU-a", 12, 9)],
        }
        .to_section(),
        CriuSection {
            images: [("core-1.img".into(), blob(20, 900)), ("mm-1.img".into(), blob(21, 1 << 54))].into(),
        }
        .to_section(),
        GpuSection {
            processes: vec![GpuProcess {
                pid: 7,
                devices: vec!["GPU-a".into(), "GPU-b".into()],
                strategy: "driver".into(),
                vram_bytes: 40 << 30,
                by_device: Vec::new(),
            }],
        }
        .to_section(),
        WorkspaceSection {
            policy: WorkspacePolicy::Tree,
            root: "/home/ada/work".into(),
            tree: Some((id(30), 12_345)),
            open: None,
            not_captured: vec![NotCaptured {
                path: ByteText::new(*b"data/\xff.bin"),
                reason: "larger than 1 GiB".into(),
            }],
        }
        .to_section(),
        NotebookSection {
            path: "lr.ipynb".into(),
            content: BlobRef { id: id(40), kind: Kind::CHUNK, len: 5_000 },
            kernel_name: "python3".into(),
            cell: Some("c0ffee".into()),
        }
        .to_section(),
        HostSection { fingerprint: fingerprint() }.to_section(),
        LabelSection {
            label: "before the big run".into(),
            cell: Some("c0ffee".into()),
            fields: [("lr".into(), "0.1".into())].into(),
        }
        .to_section(),
        Ok(unknown),
    ];
    Snapshot::new(sections.into_iter().map(Result::unwrap).collect()).unwrap()
}

pub(crate) fn tree() -> Tree {
    let entry = |name: &[u8], node| Entry::new(FileName::new(name).unwrap(), node);
    let full = Entry {
        mode: 0o4755,
        uid: 1000,
        gid: 100,
        mtime: Time { seconds: -1, nanoseconds: 999_999_999 },
        ino: Some(u64::MAX),
        ctime: Some(Time { seconds: i64::MAX, nanoseconds: 0 }),
        nlink: Some(2),
        xattrs: vec![
            Xattr { name: ByteText::new(*b"user.\xfe"), value: "text".into() },
            Xattr { name: "user.comment".into(), value: ByteText::new([0, 255]) },
        ],
        ..entry(b"huge", Node::File { size: (1 << 53) + 1, content: Some(blob(50, (1 << 53) + 1)) })
    };
    let mut full = full;
    full.xattrs.sort();
    Tree::new(vec![
        entry(b"not \xff utf-8", Node::File { size: 5, content: Some(blob(51, 5)) }),
        entry("größe\n".as_bytes(), Node::Symlink { target: ByteText::new(*b"../\xff/target") }),
        entry(b"...", Node::Dir { tree: id(52) }),
        entry(b" ", Node::Fifo),
        entry(b"\\\"", Node::Socket),
        entry(b"null", Node::Char { major: 1, minor: 3 }),
        entry(b"loop", Node::Block { major: 7, minor: u32::MAX }),
        entry(b"not captured", Node::File { size: 1 << 40, content: None }),
        full,
    ])
    .unwrap()
}

/// The bytes of an object with `change` made to its body.
pub(crate) fn newer<T: ManifestObject>(object: &T, change: fn(&mut Value)) -> Vec<u8> {
    let bytes = object.encode().unwrap();
    let mut body: Value = serde_json::from_slice(&bytes[HEADER_LEN..]).unwrap();
    change(&mut body);
    sealed(T::KIND, &body.to_string())
}

/// A header of version 1 and this body, whatever it is.
pub(crate) fn sealed(kind: Kind, body: &str) -> Vec<u8> {
    let mut bytes = b"IJMF".to_vec();
    bytes.extend(u16::from(kind.0).to_le_bytes());
    bytes.extend([1, 0, 0, 0]);
    bytes.extend(u32::try_from(body.len()).unwrap().to_le_bytes());
    bytes.extend(body.bytes());
    bytes
}

fn reference(byte: u8, kind: &str) -> Value {
    json!({ "id": id(byte).to_string(), "kind": kind, "future": true })
}

pub(crate) fn newer_commit(body: &mut Value) {
    body["signature"] = json!({ "by": "host key", "blob": reference(0xa0, "chunk") });
    body["author"]["email"] = json!("ada@example.org");
}

pub(crate) fn newer_snapshot(body: &mut Value) {
    body["screens"] = json!([reference(0xa1, "chunk-list"), { "x": reference(0xa2, "memory") }]);
    body["sections"][0]["parent"] = reference(0xa3, "snapshot");
    body["sections"][4]["roots"][0]["dirty"] = reference(0xa4, "object-99");
}

pub(crate) fn newer_tree(body: &mut Value) {
    body["checked"] = json!(true);
    body["entries"][0]["acl"] = reference(0xa5, "chunk");
    body["entries"][1]["alt"] = json!([[reference(0xa6, "tree")]]);
}
