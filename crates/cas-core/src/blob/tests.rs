use proptest::prelude::*;

use super::*;
use crate::progress::Silent;
use crate::testing::{TestStore, noise};

fn store(test: &TestStore, content: &[u8]) -> (Blob, crate::WriteStats) {
    let transaction = test.store.write(&[]).unwrap();
    let blob = transaction.put_blob(&mut &content[..], &Silent).unwrap();
    (blob, transaction.commit(&[]).unwrap())
}

fn read(test: &TestStore, blob: &Blob) -> Vec<u8> {
    let mut out = Vec::new();
    test.store.read_blob(blob, &mut out, &Silent).unwrap();
    out
}

#[test]
fn blobs_of_every_size_come_back() {
    for test in [TestStore::plain(), TestStore::encrypted()] {
        for len in [0, 1, 5000, 300_000, 20_000_000] {
            let content = noise(3, len);
            let (blob, _) = store(&test, &content);
            assert_eq!(blob.len, len as u64);
            assert!(read(&test, &blob) == content);
            let mut by_pieces = Vec::new();
            std::io::copy(&mut test.store.open_blob(&blob).unwrap(), &mut by_pieces).unwrap();
            assert!(by_pieces == content);
        }
    }
}

#[test]
fn an_insertion_costs_a_few_chunks() {
    let test = TestStore::plain();
    let mut content = noise(3, 20_000_000);
    store(&test, &content);
    content.splice(7_000_000..7_000_000, *b"a few bytes more");
    let (blob, written) = store(&test, &content);
    assert!(written.new_plain < 1_000_000, "{written:?}");
    assert!(read(&test, &blob) == content);
}

#[test]
fn a_list_that_lies_about_lengths_is_refused() {
    let test = TestStore::plain();
    let transaction = test.store.write(&[]).unwrap();
    let chunk = transaction.put(Kind::CHUNK, vec![1; 10]).unwrap();
    let items = vec![Item { id: chunk, len: 11 }];
    let list = transaction.put(Kind::CHUNK_LIST, List { level: 0, items }.encode()).unwrap();
    let nested = List { level: 0, items: vec![Item { id: list, len: 11 }] }.encode();
    let nested = transaction.put(Kind::CHUNK_LIST, nested).unwrap();
    transaction.commit(&[]).unwrap();
    for id in [list, nested] {
        let blob = Blob { id, kind: Kind::CHUNK_LIST, len: 11 };
        assert!(test.store.read_blob(&blob, &mut Vec::new(), &Silent).is_err());
    }
}

proptest! {
    #[test]
    fn lists_round_trip_and_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(list) = List::parse(&bytes) {
            prop_assert_eq!(list.encode(), bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn any_content_comes_back(pieces in prop::collection::vec((any::<u8>(), 0usize..200_000), 0..8)) {
        let test = TestStore::plain();
        let content: Vec<u8> =
            pieces.iter().flat_map(|(seed, len)| if seed % 3 == 0 { vec![*seed; *len] } else { noise(u64::from(*seed), *len) }).collect();
        let (blob, _) = store(&test, &content);
        prop_assert!(read(&test, &blob) == content);
    }
}
