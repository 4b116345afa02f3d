use proptest::prelude::*;

use super::format::encode_footer;
use super::*;
use crate::codec::Codec;
use crate::fsio::LocalDisk;
use crate::id::{IdHasher, Kind, PackId};
use crate::packs::PackBytes;
use crate::testing::noise;

fn open(path: &std::path::Path) -> crate::Result<PackReader> {
    PackReader::new(PackBytes::of_file(path)?)
}

fn salvage_file(path: &std::path::Path) -> Salvaged {
    salvage(&PackBytes::of_file(path).unwrap()).unwrap()
}

fn entry(n: u8, stored: &[u8]) -> Entry {
    Entry {
        id: IdHasher::plain().id(Kind::CHUNK, &[n]),
        kind: Kind::CHUNK,
        codec: Codec::Raw,
        plain_len: u32::try_from(stored.len()).unwrap(),
        stored_len: u32::try_from(stored.len()).unwrap(),
        checksum: stored_checksum(stored),
    }
}

/// A pack of ten objects, and what is in it.
fn sample(dir: &std::path::Path) -> (SealedPack, Vec<Vec<u8>>) {
    let mut pack = PackWriter::create(&LocalDisk, &dir.join("p"), PackClass::Data, None, [9; 32]).unwrap();
    let objects: Vec<Vec<u8>> = (0..10).map(|n| noise(n, 100 + usize::try_from(n).unwrap() * 50)).collect();
    for (n, object) in (0u8..).zip(&objects) {
        pack.append(entry(n, object), object).unwrap();
    }
    (pack.seal().unwrap(), objects)
}

#[test]
fn a_sealed_pack_describes_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (sealed, objects) = sample(dir.path());
    let reader = open(&sealed.path).unwrap();
    assert_eq!(reader.footer(&sealed.id).unwrap(), sealed.records);
    assert!(reader.footer(&PackId::from_bytes([1; 32])).is_err(), "another name does not fit");
    assert_eq!(std::fs::metadata(&sealed.path).unwrap().len(), sealed.file_len);
    let mut buffer = Vec::new();
    for (record, object) in sealed.records.iter().zip(&objects) {
        let raw = reader.read(&record.entry.id, record.offset, record.entry.stored_len, &mut buffer).unwrap();
        assert_eq!((raw.entry, raw.stored), (record.entry, &object[..]));
    }
    let salvaged = salvage_file(&sealed.path);
    assert_eq!(salvaged.records, sealed.records, "the walk finds what the footer lists");
}

#[test]
fn every_flipped_byte_is_noticed_by_whoever_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let (sealed, objects) = sample(dir.path());
    let whole = std::fs::read(&sealed.path).unwrap();
    let path = dir.path().join("damaged");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&path, &bytes).unwrap();
        let salvaged = salvage_file(&path);
        assert!(
            salvaged.records.len() >= 9 || salvaged.header.is_none(),
            "byte {at}: one flip costs one object at most"
        );
        let Ok(reader) = open(&path) else { continue };
        let footer_is_whole = reader.footer(&sealed.id).is_ok();
        let mut buffer = Vec::new();
        let mut unreadable = 0;
        for (record, object) in sealed.records.iter().zip(&objects) {
            match reader.read(&record.entry.id, record.offset, record.entry.stored_len, &mut buffer) {
                Ok(raw) => assert_eq!(raw.stored, &object[..], "byte {at}: a wrong byte was returned"),
                Err(_) => unreadable += 1,
            }
        }
        // Bytes 12..16 and 44..48 of the trailer are padding; everything else is covered by something.
        let padding = at >= whole.len() - TRAILER_LEN + 12 && at < whole.len() - TRAILER_LEN + 16;
        assert!(unreadable == 1 || !footer_is_whole || padding, "byte {at} went unnoticed");
    }
}

#[test]
fn a_truncated_pack_keeps_its_whole_objects() {
    let dir = tempfile::tempdir().unwrap();
    let (sealed, _) = sample(dir.path());
    let whole = std::fs::read(&sealed.path).unwrap();
    let path = dir.path().join("short");
    for len in (0..whole.len()).step_by(13) {
        std::fs::write(&path, &whole[..len]).unwrap();
        let salvaged = salvage_file(&path);
        let expected = sealed
            .records
            .iter()
            .filter(|record| {
                record.offset + ENTRY_LEN as u64 + u64::from(record.entry.stored_len) <= len as u64
            })
            .count();
        assert_eq!(salvaged.records.len(), expected, "cut at {len}");
        if let Ok(reader) = open(&path) {
            reader.footer(&sealed.id).unwrap_err();
        }
    }
}

proptest! {
    #[test]
    fn parsers_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = PackHeader::parse(&bytes);
        let _ = Entry::parse(&bytes);
        let _ = Trailer::parse(&bytes);
        let _ = parse_footer(&bytes);
    }

    #[test]
    fn footers_round_trip(count in 0u8..40, sealed: bool, epoch: u32, salt: [u8; 32]) {
        let header = PackHeader { class: PackClass::Metadata, epoch: sealed.then_some(epoch), salt };
        let records: Vec<_> =
            (0..count).map(|n| FooterRecord { offset: u64::from(n) * 1000, entry: entry(n, &[n; 77]) }).collect();
        let bytes = encode_footer(&header, &records);
        prop_assert_eq!(parse_footer(&bytes), Ok((header, records)));
        prop_assert!(parse_footer(&bytes[..bytes.len() - 1]).is_err());
    }
}
