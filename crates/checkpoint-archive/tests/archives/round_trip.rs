//! What is written is read, whatever it is; and whatever is read, nothing breaks.

use std::collections::BTreeMap;
use std::io::Read;

use checkpoint_archive::tar::{Entry, Kind, TarReader, TarWriter};
use checkpoint_archive::{ArchiveWriter, Compression, Limits, Member, read_files};
use proptest::prelude::*;

use crate::{archive, config, read, spec};

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9][a-z0-9._-]{0,12}\\.img", "pages-[0-9]{1,4}\\.img", "[a-z]{150,190}"]
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::File),
        Just(Kind::Directory),
        Just(Kind::Fifo),
        prop::collection::vec(1u8.., 1..300).prop_map(Kind::Symlink),
        any::<(u32, u32)>().prop_map(|(major, minor)| Kind::Char(major & 0xfff, minor & 0xfff)),
    ]
}

prop_compose! {
    fn entry()(
        path in "[a-zA-Z0-9._ é-]{1,120}(/[a-z]{1,60}){0,4}",
        kind in kind(),
        mode in 0u32..0o10000,
        ids in any::<(u32, u32)>(),
        mtime in (-5_000_000_000i64..90_000_000_000, 0u32..1_000_000_000),
        xattrs in prop::collection::btree_map("user\\.[a-z]{1,9}", prop::collection::vec(any::<u8>(), 0..40), 0..3),
        content in prop::collection::vec(any::<u8>(), 0..1500),
    ) -> (Entry, Vec<u8>) {
        let content = if kind == Kind::File { content } else { Vec::new() };
        let xattrs = xattrs.into_iter().map(|(name, value)| (name.into_bytes(), value)).collect();
        let size = content.len() as u64;
        (Entry { path: path.into_bytes(), kind, size, mode, uid: ids.0, gid: ids.1, mtime, xattrs }, content)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn tar_files_come_back(entries in prop::collection::vec(entry(), 0..8)) {
        let mut out = TarWriter::new(Vec::new());
        for (entry, content) in &entries {
            out.put(entry, &mut content.as_slice()).unwrap();
        }
        let bytes = out.finish().unwrap();
        let mut tar = TarReader::new(bytes.as_slice(), &Limits::default());
        for (entry, content) in entries {
            let mut found = tar.next_entry().unwrap().unwrap();
            if found.kind == Kind::Directory {
                prop_assert_eq!(found.path.pop(), Some(b'/'));
            }
            prop_assert_eq!(&found, &entry);
            let mut bytes = Vec::new();
            tar.read_to_end(&mut bytes).unwrap();
            prop_assert_eq!(bytes, content);
        }
        prop_assert!(tar.next_entry().unwrap().is_none());
    }

    #[test]
    fn archives_come_back(
        images in prop::collection::btree_map(name(), prop::collection::vec(any::<u8>(), 0..5000), 0..12),
        how in prop_oneof![Just(Compression::None), Just(Compression::Gzip), Just(Compression::Zstd)],
        time in 0i64..4_000_000_000,
    ) {
        let mut members: BTreeMap<Member, Vec<u8>> =
            images.into_iter().map(|(name, bytes)| (Member::image(&name).unwrap(), bytes)).collect();
        members.insert(Member::image("inventory.img").unwrap(), b"inv".to_vec());
        members.insert(Member::Config, config().to_string().into_bytes());
        members.insert(Member::Spec, spec().to_string().into_bytes());
        let mut out = ArchiveWriter::new(Vec::new(), how, time).unwrap();
        for (member, bytes) in &members {
            out.bytes(member, bytes).unwrap();
        }
        let (file, _) = out.finish().unwrap();
        let (found, kept) = read(&file).unwrap();
        let expected: BTreeMap<String, Vec<u8>> =
            members.iter().map(|(member, bytes)| (member.to_string(), bytes.clone())).collect();
        prop_assert_eq!(kept.0, expected);
        prop_assert_eq!(found.members.len(), members.len());
        prop_assert_eq!(found.spec, spec());
    }

    #[test]
    fn nothing_breaks_on_what_was_changed(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = archive(&[]);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let _ = read(&bytes);
        let _ = read_files(&mut bytes.as_slice(), &Limits::default(), &mut |_, _| Ok(()));
    }

    #[test]
    fn nothing_breaks_on_anything(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        let _ = read(&bytes);
    }
}
