//! What holds for every commit, snapshot and tree, and for arbitrary bytes.
#![expect(
    clippy::unwrap_used,
    reason = "allow-unwrap-in-tests sees #[test] functions only, not their helpers"
)]

use std::collections::BTreeMap;

use cas_core::{Kind, ObjectId};
use manifest::history::Grafts;
use manifest::tree::{Time, Xattr};
use manifest::{
    Author, BlobRef, ByteText, COMMIT, CellNote, Commit, CommitReason, Entry, Extra, Figures, FileName,
    GRAFTS, Header, ManifestObject, MapRef, Node, Root, RootTarget, SNAPSHOT, Section, Snapshot, TREE, Tag,
    Thread, Tree, references,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::Value;

fn any_id() -> impl Strategy<Value = ObjectId> {
    any::<[u8; 32]>().prop_map(ObjectId::from_bytes)
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,8}", any::<String>()]
}

fn any_name() -> impl Strategy<Value = String> {
    any_text().prop_filter("not empty", |name| !name.is_empty())
}

fn any_blob() -> impl Strategy<Value = BlobRef> {
    (any_id(), prop_oneof![Just(Kind::CHUNK), Just(Kind::CHUNK_LIST)], any::<u64>())
        .prop_map(|(id, kind, len)| BlobRef { id, kind, len })
}

fn any_thread() -> impl Strategy<Value = Thread> {
    any_text().prop_map(|name| Thread::new(name).unwrap_or_else(|_| Thread::new("main").unwrap()))
}

fn any_reason() -> impl Strategy<Value = CommitReason> {
    prop_oneof![
        proptest::sample::select(CommitReason::KNOWN.to_vec()),
        "x-[a-z]{1,5}".prop_map(|text| CommitReason::from(text.as_str())),
    ]
}

/// Any moment that has a text form.
fn any_time() -> impl Strategy<Value = jiff::Timestamp> {
    let (first, last) = (jiff::Timestamp::MIN.as_second(), jiff::Timestamp::MAX.as_second());
    (first + 1..last, 0..1_000_000_000_i32).prop_map(|(s, ns)| jiff::Timestamp::new(s, ns).unwrap())
}

fn any_figures() -> impl Strategy<Value = Figures> {
    let three = || any::<(Option<u64>, Option<u64>, Option<u64>)>();
    (three(), three()).prop_map(
        |((bytes, new_bytes, memory_bytes), (vram_bytes, frozen_us, gpu_paused_us))| Figures {
            bytes,
            new_bytes,
            memory_bytes,
            vram_bytes,
            frozen_us,
            gpu_paused_us,
            extra: Extra::default(),
        },
    )
}

fn any_cell() -> impl Strategy<Value = CellNote> {
    (option::of(any_text()), any::<Option<u32>>(), any_text()).prop_map(|(id, number, source)| CellNote {
        id,
        number,
        source,
        extra: Extra::default(),
    })
}

fn any_commit() -> impl Strategy<Value = Commit> {
    let who = (any_text(), any::<u32>(), any_text());
    let when = (any_time(), option::of(any_time()));
    let what = (any_text(), option::of(any_text()), any_reason(), btree_set("[a-z]{1,3}", 0..3), any_text());
    let notes =
        (option::of(any_text()), option::of(any_cell()), option::of(any_figures()), any::<(bool, bool)>());
    (any_id(), btree_set(any_id(), 0..4), any_thread(), who, when, what, notes).prop_map(
        |(
            snapshot,
            parents,
            thread,
            (name, uid, host),
            (time, order),
            (message, label, reason, tags, tool),
            (session, cell, figures, (has_notebook, has_variables)),
        )| Commit {
            snapshot,
            parents: parents.into_iter().collect(),
            thread,
            author: Author { name, uid, host, extra: Extra::default() },
            time,
            order: order.filter(|order| *order > time),
            message,
            label,
            reason,
            tags: tags.into_iter().map(|tag| Tag::new(tag).unwrap()).collect(),
            tool,
            session,
            cell,
            figures,
            has_notebook,
            has_variables,
            extra: Extra::default(),
        },
    )
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53)..=1 << 53).prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(any_text(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_target() -> impl Strategy<Value = (RootTarget, u64)> {
    let sizes = (any::<u64>(), any::<u64>());
    prop_oneof![
        any_blob().prop_map(|blob| (RootTarget::Blob(blob), blob.len)),
        (any_id(), sizes).prop_map(|(id, (pages, bytes))| (RootTarget::Memory(MapRef { id, pages }), bytes)),
        (any_id(), any::<u64>()).prop_map(|(id, bytes)| (RootTarget::Tree(id), bytes)),
        (any_id(), 35..=255_u8, any::<u64>())
            .prop_map(|(id, kind, bytes)| (RootTarget::Object(Kind(kind), id), bytes)),
    ]
}

fn any_section() -> impl Strategy<Value = (u32, BTreeMap<String, Value>, Vec<Root>)> {
    let roots = btree_map(any_text(), any_target(), 0..5).prop_map(|roots| {
        let root = |(name, (target, bytes))| Root { name, target, bytes, extra: Extra::default() };
        roots.into_iter().map(root).collect()
    });
    (any::<u32>(), btree_map(any_text(), any_json(), 0..4), roots)
}

fn any_snapshot() -> impl Strategy<Value = Snapshot> {
    btree_map(any_name(), any_section(), 0..4).prop_map(|sections| {
        let section = |(name, (version, attributes, roots))| Section {
            name,
            version,
            attributes,
            roots,
            extra: Extra::default(),
        };
        Snapshot::new(sections.into_iter().map(section).collect()).unwrap()
    })
}

fn any_bytes() -> impl Strategy<Value = ByteText> {
    prop_oneof![
        any_text().prop_map(|text| ByteText::from(text.as_str())),
        vec(any::<u8>(), 0..6).prop_map(ByteText::new)
    ]
}

fn any_node() -> impl Strategy<Value = Node> {
    prop_oneof![
        any_blob().prop_map(|blob| Node::File { size: blob.len, content: Some(blob) }),
        any::<u64>().prop_map(|size| Node::File { size, content: None }),
        any_id().prop_map(|tree| Node::Dir { tree }),
        vec(1..=255_u8, 1..9).prop_map(|target| Node::Symlink { target: ByteText::new(target) }),
        Just(Node::Fifo),
        Just(Node::Socket),
        any::<(u32, u32)>().prop_map(|(major, minor)| Node::Char { major, minor }),
        any::<(u32, u32)>().prop_map(|(major, minor)| Node::Block { major, minor }),
    ]
}

fn any_file_time() -> impl Strategy<Value = Time> {
    (any::<i64>(), 0..1_000_000_000_u32).prop_map(|(seconds, nanoseconds)| Time { seconds, nanoseconds })
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let owner = (0..=0o7777_u32, any::<u32>(), any::<u32>());
    let times = (any_file_time(), option::of(any_file_time()));
    let xattrs = btree_map("user\\.[a-z\u{e9}]{1,3}", any_bytes(), 0..3);
    (any_node(), owner, times, any::<(Option<u64>, Option<u64>)>(), xattrs).prop_map(
        |(node, (mode, uid, gid), (mtime, ctime), (ino, nlink), xattrs)| {
            let xattr = |(name, value): (String, ByteText)| Xattr { name: name.as_str().into(), value };
            let xattrs = xattrs.into_iter().map(xattr).collect();
            let entry = Entry::new(FileName::new("x").unwrap(), node);
            Entry { mode, uid, gid, mtime, ctime, ino, nlink, xattrs, ..entry }
        },
    )
}

fn any_tree() -> impl Strategy<Value = Tree> {
    btree_map(vec(any::<u8>(), 1..6), any_entry(), 0..6).prop_map(|entries| {
        let named =
            |(name, entry): (Vec<u8>, Entry)| Some(Entry { name: FileName::new(name).ok()?, ..entry });
        Tree::new(entries.into_iter().filter_map(named).collect()).unwrap()
    })
}

fn found(kind: Kind, bytes: &[u8]) -> Vec<(Kind, ObjectId)> {
    let mut found: Vec<_> =
        references(kind, bytes).unwrap().into_iter().map(|found| (found.target.kind(), found.id)).collect();
    found.sort();
    found
}

proptest! {
    #[test]
    fn commits_come_back_with_their_references(commit in any_commit()) {
        let bytes = commit.encode().unwrap();
        prop_assert_eq!(&Commit::decode(&bytes).unwrap(), &commit);
        let mut put: Vec<_> = commit.parents.iter().map(|parent| (COMMIT, *parent)).collect();
        put.push((SNAPSHOT, commit.snapshot));
        put.sort();
        prop_assert_eq!(found(COMMIT, &bytes), put);
    }

    /// What is left of a line of commits does not depend on the order in which the others were forgotten.
    #[test]
    fn grafts_come_back_and_lead_to_what_is_left(gone in proptest::sample::subsequence((1..12_u8).collect::<Vec<_>>(), 0..=11).prop_shuffle()) {
        let number = |number: u8| ObjectId::from_bytes([number; 32]);
        let mut grafts = Grafts::default();
        for commit in &gone {
            grafts.forget(&[(number(*commit), vec![number(commit - 1)])]);
        }
        let bytes = grafts.encode().unwrap();
        prop_assert_eq!(&Grafts::decode(&bytes).unwrap(), &grafts);
        prop_assert!(references(GRAFTS, &bytes).unwrap().is_empty());
        for commit in 1..13_u8 {
            let nearest = (0..commit).rev().find(|before| !gone.contains(before)).unwrap();
            prop_assert_eq!(grafts.parents(&[number(commit - 1)]), [number(nearest)]);
        }
    }

    #[test]
    fn snapshots_come_back_with_their_references(snapshot in any_snapshot()) {
        let bytes = snapshot.encode().unwrap();
        prop_assert_eq!(&Snapshot::decode(&bytes).unwrap(), &snapshot);
        let roots = snapshot.sections().iter().flat_map(|section| &section.roots);
        let mut put: Vec<_> = roots.map(|root| match root.target {
            RootTarget::Blob(blob) => (blob.kind, blob.id),
            RootTarget::Memory(map) => (Kind::MAP_NODE, map.id),
            RootTarget::Tree(id) => (TREE, id),
            RootTarget::Object(kind, id) => (kind, id),
        }).collect();
        put.sort();
        prop_assert_eq!(found(SNAPSHOT, &bytes), put);
    }

    #[test]
    fn trees_come_back_with_their_references(tree in any_tree()) {
        let bytes = tree.encode().unwrap();
        prop_assert_eq!(&Tree::decode(&bytes).unwrap(), &tree);
        let mut put: Vec<_> = tree.entries().iter().filter_map(|entry| match &entry.node {
            Node::File { content: Some(blob), .. } => Some((blob.kind, blob.id)),
            Node::Dir { tree } => Some((TREE, *tree)),
            _ => None,
        }).collect();
        put.sort();
        prop_assert_eq!(found(TREE, &bytes), put);
    }

    /// Unknown fields anywhere that fields may be added survive, whatever is in them.
    #[test]
    fn unknown_fields_come_back(tree in any_tree(), value in any_json()) {
        let bytes = tree.encode().unwrap();
        let mut body: Value = serde_json::from_slice(&bytes[manifest::HEADER_LEN..]).unwrap();
        body["zz unknown"] = value.clone();
        for entry in body["entries"].as_array_mut().unwrap() {
            entry["a unknown"] = value.clone();
        }
        let bytes = sealed(TREE, body.to_string().as_bytes());
        prop_assert_eq!(Tree::decode(&bytes).unwrap().encode().unwrap(), bytes);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        all_readers(&bytes);
    }

    /// Past the header, where more code is.
    #[test]
    fn arbitrary_bodies_never_panic(body in prop_oneof![
        vec(any::<u8>(), 0..100),
        any_json().prop_map(|value| value.to_string().into_bytes()),
    ]) {
        for kind in [TREE, SNAPSHOT, COMMIT, GRAFTS] {
            all_readers(&sealed(kind, &body));
        }
    }

    /// A flipped bit is noticed by the store; should one get past it, nothing panics here and nothing has two spellings.
    #[test]
    fn damaged_objects_never_panic(commit in any_commit(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let mut bytes = commit.encode().unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        all_readers(&bytes);
        if let Ok(other) = Commit::decode(&bytes) {
            prop_assert_ne!(&other, &commit);
            prop_assert_eq!(other.encode().unwrap(), bytes);
        }
    }
}

fn sealed(kind: Kind, body: &[u8]) -> Vec<u8> {
    let mut bytes = b"IJMF".to_vec();
    bytes.extend(u16::from(kind.0).to_le_bytes());
    bytes.extend([1, 0, 0, 0]);
    bytes.extend(u32::try_from(body.len()).unwrap().to_le_bytes());
    bytes.extend(body);
    bytes
}

fn all_readers(bytes: &[u8]) {
    let _ = Header::read(bytes);
    let _ = Commit::decode(bytes);
    let _ = Snapshot::decode(bytes);
    let _ = Tree::decode(bytes);
    let _ = Grafts::decode(bytes);
    for kind in [TREE, SNAPSHOT, COMMIT, GRAFTS, Kind::CHUNK, Kind(77)] {
        let _ = references(kind, bytes);
    }
}
