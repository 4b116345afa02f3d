use std::path::{Path, PathBuf};

use proptest::prelude::*;
use zeroize::Zeroizing;

use super::*;

const SALT: [u8; 32] = [9; 32];

fn path() -> PathBuf {
    PathBuf::from("store/keyring")
}

fn passphrase(text: &str) -> Unlock {
    Unlock::Passphrase(Zeroizing::new(text.to_owned()))
}

fn key_file(byte: u8) -> Unlock {
    Unlock::KeyFile(Zeroizing::new(vec![byte; MIN_KEY_FILE_LEN]))
}

/// A keyring with a passphrase, a key file and two epochs.
fn sample() -> Keyring {
    let mut keyring = Keyring::create(&[passphrase("one"), key_file(1)], KdfCost::for_tests()).unwrap();
    assert_eq!((keyring.new_epoch().unwrap(), keyring.new_epoch().unwrap()), (1, 2));
    keyring
}

fn reopen(keyring: &Keyring, unlock: &Unlock) -> Result<Keyring> {
    Keyring::open(&path(), &keyring.encode().unwrap(), unlock)
}

/// Makes the checksum fit again after bytes were changed on purpose.
fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - 32;
    let checksum = blake3::hash(&bytes[..end]);
    bytes[end..].copy_from_slice(checksum.as_bytes());
    bytes
}

fn assert_damaged<T>(result: Result<T>) {
    assert_eq!(code(result), "IJ-S010");
}

fn code<T>(result: Result<T>) -> &'static str {
    result.map(|_| "success").unwrap_or_else(|error| error.code())
}

/// Whether `reader` reads what `writer` sealed in `epoch`.
fn reads(reader: &Keyring, writer: &Keyring, epoch: u32) -> bool {
    let mut sealed = Vec::new();
    writer.pack_key(epoch, &SALT).unwrap().seal(b"aad", b"plain", &mut sealed).unwrap();
    let mut plain = Vec::new();
    reader.pack_key(epoch, &SALT).unwrap().open(b"aad", &sealed, &mut plain).is_ok() && plain == b"plain"
}

#[test]
fn every_unlock_opens_the_same_keys() {
    let keyring = sample();
    for unlock in [passphrase("one"), key_file(1)] {
        let opened = reopen(&keyring, &unlock).unwrap();
        assert_eq!(opened.id_secret(), keyring.id_secret());
        assert_eq!(opened.generation(), 1);
        assert_eq!(opened.revision(), keyring.revision());
        assert_eq!(opened.epochs().collect::<Vec<_>>(), [1, 2]);
        assert!(reads(&opened, &keyring, 1) && reads(&opened, &keyring, 2));
    }
}

#[test]
fn other_secrets_do_not_open() {
    let keyring = sample();
    // The key file's bytes given as a passphrase are another secret too.
    for unlock in [passphrase("two"), passphrase("one "), passphrase(&"\u{1}".repeat(32)), key_file(2)] {
        assert_eq!(code(reopen(&keyring, &unlock)), "IJ-S021", "{unlock:?}");
    }
}

#[test]
fn secrets_that_protect_nothing_are_refused() {
    for unlock in [passphrase(""), Unlock::KeyFile(Zeroizing::new(vec![1; MIN_KEY_FILE_LEN - 1]))] {
        assert_eq!(code(Keyring::create(std::slice::from_ref(&unlock), KdfCost::for_tests())), "IJ-S061");
        assert_eq!(code(reopen(&sample(), &unlock)), "IJ-S061");
    }
    assert_eq!(code(Keyring::create(&[], KdfCost::for_tests())), "IJ-S061");
    let nine: Vec<_> = (0..9).map(key_file).collect();
    assert_eq!(code(Keyring::create(&nine, KdfCost::for_tests())), "IJ-S061");
    assert_eq!(
        reopen(&Keyring::create(&nine[1..], KdfCost::for_tests()).unwrap(), &nine[8]).unwrap().generation(),
        1
    );
}

#[test]
fn two_keyrings_share_nothing() {
    let (one, two) = (sample(), sample());
    assert_ne!(one.id_secret(), two.id_secret());
    assert!(!reads(&one, &two, 1));
    assert_ne!(one.encode().unwrap(), one.encode().unwrap(), "a nonce was used twice");
}

#[test]
fn a_changed_byte_is_damage() {
    let bytes = sample().encode().unwrap();
    for at in 0..bytes.len() {
        for mask in [1, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= mask;
            assert_damaged(Keyring::open(&path(), &changed, &key_file(1)));
            assert_damaged(inspect(&path(), &changed));
        }
    }
}

#[test]
fn a_byte_changed_on_purpose_never_opens() {
    let bytes = sample().encode().unwrap();
    let body = 28 + 2 * 120;
    for at in 0..bytes.len() - 32 {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let changed = with_checksum(changed);
        for unlock in [passphrase("one"), key_file(1)] {
            let code = code(Keyring::open(&path(), &changed, &unlock));
            match at {
                // A version from the future is not damage.
                8..10 => assert!(["IJ-S004", "IJ-S010"].contains(&code), "byte {at}: {code}"),
                _ if at < body => assert!(["IJ-S010", "IJ-S021"].contains(&code), "byte {at}: {code}"),
                _ => assert_eq!(code, "IJ-S010", "byte {at}"),
            }
        }
    }
}

#[test]
fn a_slot_from_another_keyring_does_not_fit() {
    let (one, two) = (sample().encode().unwrap(), sample().encode().unwrap());
    let mut mixed = one;
    mixed[28..28 + 240].copy_from_slice(&two[28..28 + 240]);
    // The slots open, with the other keyring's KEK, but the body is not sealed under that.
    assert_damaged(Keyring::open(&path(), &with_checksum(mixed), &passphrase("one")));
}

#[test]
fn a_truncated_file_is_damage() {
    let bytes = sample().encode().unwrap();
    for len in 0..bytes.len() {
        assert_damaged(Keyring::open(&path(), &bytes[..len], &key_file(1)));
        if len >= 32 {
            assert_damaged(Keyring::open(&path(), &with_checksum(bytes[..len].to_vec()), &key_file(1)));
        }
    }
    let mut longer = bytes;
    longer.push(0);
    assert_damaged(Keyring::open(&path(), &longer, &key_file(1)));
    assert_damaged(Keyring::open(&path(), &with_checksum(longer), &key_file(1)));
}

#[test]
fn a_file_cannot_ask_for_any_amount_of_memory_or_time() {
    let bytes = sample().encode().unwrap();
    let max = u32::MAX;
    let hostile = [
        (max, 1, 1),
        (8, max, 1),
        (max, max, max),
        (8, 1, 0),
        (0, 1, 1),
        (8, 0, 1),
        (8, 1, max),
        (2 << 20, 3, 1),
    ];
    for (memory_kib, passes, lanes) in hostile {
        let mut changed = bytes.clone();
        for (at, number) in [(32, memory_kib), (36, passes), (40, lanes)] {
            changed[at..at + 4].copy_from_slice(&u32::to_le_bytes(number));
        }
        let changed = with_checksum(changed);
        assert_damaged(inspect(&path(), &changed));
        assert_damaged(Keyring::open(&path(), &changed, &passphrase("one")));
        let cost = KdfCost { memory_kib, passes, lanes };
        assert_eq!(code(Keyring::create(&[passphrase("one")], cost)), "IJ-S061");
    }
}

#[test]
fn the_recommended_costs_are_allowed() {
    for (memory_kib, passes, lanes) in [(2 << 20, 1, 4), (64 << 10, 3, 4), (19 << 10, 2, 1), (46 << 10, 1, 1)]
    {
        assert!(KdfCost { memory_kib, passes, lanes }.is_acceptable());
    }
    assert!(KdfCost::default().is_acceptable() && KdfCost::for_tests().is_acceptable());
}

#[test]
fn rotation_locks_out_the_old_secrets_and_keeps_the_packs() {
    let before = sample();
    let mut after = reopen(&before, &passphrase("one")).unwrap();
    after.rotate(&[passphrase("new"), key_file(3)], KdfCost::for_tests()).unwrap();
    assert_eq!(after.generation(), 2);
    assert!(after.revision() > before.revision());
    for old in [passphrase("one"), key_file(1)] {
        assert_eq!(code(reopen(&after, &old)), "IJ-S021");
    }
    for new in [passphrase("new"), key_file(3)] {
        let opened = reopen(&after, &new).unwrap();
        assert_eq!(opened.id_secret(), before.id_secret());
        assert!(reads(&opened, &before, 1) && reads(&before, &opened, 2));
    }
    // With the old KEK, too, nothing opens: an old slot does not fit the new body.
    let mut mixed = after.encode().unwrap();
    mixed[28..28 + 240].copy_from_slice(&before.encode().unwrap()[28..28 + 240]);
    assert_damaged(Keyring::open(&path(), &with_checksum(mixed), &passphrase("one")));
}

#[test]
fn a_failed_rotation_changes_nothing() {
    let mut keyring = sample();
    assert_eq!(code(keyring.rotate(&[passphrase("new"), passphrase("")], KdfCost::for_tests())), "IJ-S061");
    assert_eq!(keyring.generation(), 1);
    assert_eq!(reopen(&keyring, &passphrase("one")).unwrap().id_secret(), keyring.id_secret());
}

#[test]
fn a_forgotten_epoch_is_gone_and_its_number_is_not_used_again() {
    let mut keyring = sample();
    let revision = keyring.revision();
    assert!(keyring.forget_epoch(2));
    assert!(!keyring.forget_epoch(2), "forgotten twice");
    assert_eq!(keyring.revision(), revision + 1);
    let mut opened = reopen(&keyring, &key_file(1)).unwrap();
    assert_eq!(opened.epochs().collect::<Vec<_>>(), [1]);
    assert!(opened.pack_key(2, &SALT).is_none());
    assert_eq!(opened.new_epoch().unwrap(), 3);
    assert_eq!(reopen(&opened, &passphrase("one")).unwrap().epochs().collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn every_change_raises_the_revision_and_shows_without_a_key() {
    let mut keyring = sample();
    let show = |keyring: &Keyring| inspect(&path(), &keyring.encode().unwrap()).unwrap();
    let slots = vec![SlotInfo::Passphrase(KdfCost::for_tests()), SlotInfo::KeyFile];
    assert_eq!(show(&keyring), KeyringInfo { version: 1, generation: 1, revision: 3, slots });
    keyring.new_epoch().unwrap();
    assert_eq!(show(&keyring).revision, 4);
    keyring.rotate(&[key_file(1)], KdfCost::for_tests()).unwrap();
    let slots = vec![SlotInfo::KeyFile];
    assert_eq!(show(&keyring), KeyringInfo { version: 1, generation: 2, revision: 5, slots });
}

#[test]
fn a_sealed_object_opens_only_with_its_own_key_and_aad() {
    let keyring = sample();
    let key = keyring.pack_key(1, &SALT).unwrap();
    let mut sealed = b"before".to_vec();
    key.seal(b"entry 1", b"content", &mut sealed).unwrap();
    assert_eq!(sealed.len(), 6 + 7 + SEAL_OVERHEAD);
    let sealed = &sealed[6..];

    let mut out = b"before".to_vec();
    key.open(b"entry 1", sealed, &mut out).unwrap();
    assert_eq!(out, b"beforecontent");

    let others = [keyring.pack_key(2, &SALT).unwrap(), keyring.pack_key(1, &[8; 32]).unwrap()];
    for other in others {
        assert_eq!(other.open(b"entry 1", sealed, &mut out), Err(OpenFailed));
    }
    assert_eq!(key.open(b"entry 2", sealed, &mut out), Err(OpenFailed));
    assert_eq!(key.open(b"", sealed, &mut out), Err(OpenFailed));
    for at in 0..sealed.len() {
        let mut changed = sealed.to_vec();
        changed[at] ^= 1;
        assert_eq!(key.open(b"entry 1", &changed, &mut out), Err(OpenFailed), "byte {at}");
        assert_eq!(key.open(b"entry 1", &sealed[..at], &mut out), Err(OpenFailed), "length {at}");
    }
    assert_eq!(out, b"beforecontent", "a failure left bytes behind");
}

#[test]
fn debug_output_shows_no_secret() {
    let keyring = sample();
    let texts = [
        format!("{:?}", passphrase("one")),
        format!("{:?}", key_file(1)),
        format!("{:?}", keyring.pack_key(1, &SALT).unwrap()),
        format!("{keyring:?}"),
    ];
    assert_eq!(texts[..3], ["Passphrase(..)", "KeyFile(..)", "PackKey(..)"]);
    assert_eq!(texts[3], "Keyring { generation: 1, revision: 3, slots: 2, epochs: 2, .. }");
}

#[test]
fn errors_name_the_file() {
    let error = Keyring::open(Path::new("here/keyring"), b"", &passphrase("one")).unwrap_err();
    assert_eq!(error.to_string(), "damaged keyring in `here/keyring`: it is too short");
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_never_a_keyring(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        assert_damaged(inspect(&path(), &bytes));
    }

    /// With a fitting checksum and magic, so that the parser is reached.
    #[test]
    fn arbitrary_headers_do_not_panic(
        version in 0..3u16,
        slot_count in 0..10u16,
        rest in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(2), any::<u8>()], 32..1200),
    ) {
        let mut bytes = b"IJKEYRNG".to_vec();
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&slot_count.to_le_bytes());
        bytes.extend_from_slice(&rest);
        let bytes = with_checksum(bytes);
        if let Ok(info) = inspect(&path(), &bytes) {
            prop_assert_eq!(info.slots.len(), usize::from(slot_count));
        }
        prop_assert_ne!(code(Keyring::open(&path(), &bytes, &key_file(1))), "success");
    }

    #[test]
    fn what_was_sealed_opens(aad in prop::collection::vec(any::<u8>(), 0..100), plain in prop::collection::vec(any::<u8>(), 0..5000)) {
        let key = PackKey::new(&Secret::random().unwrap());
        let (mut sealed, mut opened) = (Vec::new(), Vec::new());
        key.seal(&aad, &plain, &mut sealed).unwrap();
        prop_assert_eq!(sealed.len(), plain.len() + SEAL_OVERHEAD);
        key.open(&aad, &sealed, &mut opened).unwrap();
        prop_assert_eq!(opened, plain);
    }
}

/// A keyring of version 1 and an object sealed in its epoch 2, as the first release wrote them. This test is never adapted
/// to the code: stores depend on it.
#[test]
fn the_first_format_stays_readable() {
    let keyring = Keyring::open(&path(), &unhex(KEYRING_V1), &passphrase("one")).unwrap();
    assert_eq!(
        crate::id::hex(keyring.id_secret()),
        "160c38bd5d60852534aeb3a9051e7070dc8745ea4c44b93a93523b2dc42cb8bc"
    );
    assert_eq!(keyring.epochs().collect::<Vec<_>>(), [1, 2]);
    let mut plain = Vec::new();
    keyring.pack_key(2, &SALT).unwrap().open(b"entry", &unhex(SEALED_V1), &mut plain).unwrap();
    assert_eq!(plain, b"content");
    assert_eq!(
        Keyring::open(&path(), &unhex(KEYRING_V1), &key_file(1)).unwrap().id_secret(),
        keyring.id_secret()
    );
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

const KEYRING_V1: &str = "\
    494a4b4559524e4701000200010000000000000003000000000000000100000008000000010000000100000054e8c3da\
    a95c9282d662ec916416b1faa663143fce434b7b50893c3e72ced0f65fa183b798310e9d63452f75dc0d50892ffdfc77\
    b49ceb6c304bbdeb5c085eed40cb76e7fbae0e11f3c88b8821c6922401cc6e783fbce15b27e7c941c1e70a7d6e06b5cf\
    e2e33d12020000000000000000000000000000001213c8e68bd4e8aa9aac80b5c049f0a2d7faa6236f01327c1358e5e7\
    1ecc12a49ddea2a484a5f56cfffa9ee52d3b662325ee86cdbe86045263458b466d5c0e63820855151e781dc900e51aa1\
    ea844c296ad185ece4c3339d35f4b71be4ec2ad1c6dcbeced828fb39cfe639750ab9fea8d4154b961f7a8da51aab252d\
    b98ceb30f288c72f040353f342e75f14f82d5fea07c2eb827e63a65dbfa3aa681c345094dbbd1238bf32519af425293c\
    1fe1a44c8953616d56c29fa13aa2614b65513ced844eb1bc49152a1c6b9b533f6871072ed225d613b970ee36dd9b07c4\
    9f2773bb73f179156ff86ee62e0d45d6da404e6d7e26d82152009d827bed90b4e71f70cf71c7e4b4ecc6c84968735d7d\
    02e283d5b23e5d3297ba59db3ae3526347380301\
";

const SEALED_V1: &str = "\
    e887828b5835c7200854ce9bc0269384a345914d645b72f8a14467c9e9a69563ab0185e20c9a02ede6fcd54eaafd1b\
";
