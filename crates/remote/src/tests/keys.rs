//! A store is cloned by whoever has what opens it, and by nobody else.

use std::sync::Arc;

use cas_core::crypto::{KdfCost, Keyring, Unlock};
use cas_core::progress::Silent;
use cas_core::{Encryption, ObjectId, OpenOptions, Store, StoreError};

use super::faulty::{Fate, Faulty};
use super::transfer::everything;
use super::{Local, NOTE, Notes, patience, push, server};
use crate::bucket::{Condition, Objects};
use crate::error::{RemoteError, Result};
use crate::keys::{KEY, is_sealed, unlock};
use crate::remote::Remote;

fn passphrase(text: &str) -> Unlock {
    Unlock::Passphrase(text.to_owned().into())
}

fn key_file(byte: u8) -> Unlock {
    Unlock::KeyFile(vec![byte; 32].into())
}

fn encryption(unlocks: &[Unlock]) -> Encryption {
    Encryption { unlocks: unlocks.to_vec(), cost: KdfCost::for_tests() }
}

fn sealed(unlocks: &[Unlock]) -> Local {
    Local::with(Some(&encryption(unlocks)))
}

/// A sealed store that a passphrase and a key file open, with a note, pushed.
fn pushed() -> (Arc<dyn Objects>, Local, ObjectId) {
    let (server, here) = (server(), sealed(&[passphrase("right"), key_file(7)]));
    let note = here.note("threads/main", "first", 5, None);
    push(&here.remote(&server), "threads/main", note).unwrap();
    (server, here, note)
}

fn keys(server: &Arc<dyn Objects>, with: &[Unlock]) -> Result<Keyring> {
    unlock(server.clone(), patience(), with)
}

/// Puts bytes in the place of an object, as somebody who has the bucket can.
fn replace(server: &Arc<dyn Objects>, key: &str, bytes: Vec<u8>) {
    server.delete(key).unwrap();
    server.put(key, bytes, &Condition::Absent).unwrap();
}

fn bytes_of(server: &Arc<dyn Objects>, key: &str) -> Vec<u8> {
    server.get(key, 1 << 20).unwrap().unwrap().0
}

#[test]
fn a_store_is_cloned_with_any_of_its_secrets_and_works_like_the_first() {
    let (server, here, first) = pushed();
    assert!(is_sealed(server.clone(), patience()).unwrap());
    for secret in [passphrase("right"), key_file(7)] {
        let keyring = keys(&server, &[key_file(9), secret]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("s");
        let there = Store::init_like(&root, &keyring, OpenOptions::default()).unwrap();
        let remote = Remote::open(server.clone(), there.clone(), patience()).unwrap();
        remote.fetch(&everything(), &Notes, &Silent).unwrap();
        assert_eq!(there.get(NOTE, &first).unwrap(), here.store.get(NOTE, &first).unwrap());
        drop((there, remote));
        // It opens with the other one, too, and has nothing plain on disk.
        for unlock in [passphrase("right"), key_file(7)] {
            Store::open(&root, OpenOptions { unlock: Some(unlock), ..OpenOptions::default() }).unwrap();
        }
        let closed = Store::open(&root, OpenOptions::default());
        assert!(matches!(closed, Err(StoreError::KeyNeeded { .. })), "{closed:?}");
    }
}

#[test]
fn what_was_written_in_a_clone_comes_back_to_the_first() {
    let (server, here, first) = pushed();
    let keyring = keys(&server, &[passphrase("right")]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::init_like(&dir.path().join("s"), &keyring, OpenOptions::default()).unwrap();
    let there = Local { _dir: dir, store };
    let remote = there.remote(&server);
    remote.fetch(&everything(), &Notes, &Silent).unwrap();
    let second = there.note("threads/main", "second", 3, Some(first));
    push(&remote, "threads/main", second).unwrap();
    here.remote(&server).fetch(&everything(), &Notes, &Silent).unwrap();
    assert_eq!(here.store.get(NOTE, &second).unwrap(), there.store.get(NOTE, &second).unwrap());
}

#[test]
fn nothing_else_opens_it() {
    let (server, _, _) = pushed();
    for wrong in [vec![], vec![passphrase("wrong")], vec![key_file(8), passphrase("")]] {
        let outcome = keys(&server, &wrong);
        let refused =
            matches!(outcome, Err(RemoteError::WrongKey | RemoteError::Store(StoreError::Invalid { .. })));
        assert!(refused, "{wrong:?}: {outcome:?}");
    }
    let plain = Local::new().remote(&super::server());
    assert!(matches!(plain.bucket.get(KEY, 100), Ok(None)));
    server.delete(KEY).unwrap();
    assert!(matches!(keys(&server, &[key_file(7)]), Err(RemoteError::NoKey)));
}

#[test]
fn neither_the_secret_nor_what_opens_it_lies_there() {
    let (server, here, _) = pushed();
    let keyring = here.store.wrapped_secret().unwrap().unwrap();
    let secret = cas_core::id::hex(keyring.id_secret());
    for listed in ["", "keys/", "packs/", "index/", "refs/", "leases/"]
        .iter()
        .flat_map(|prefix| server.list(prefix).unwrap())
    {
        let bytes = bytes_of(&server, &listed.key);
        let has = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
        assert!(!has(secret.as_bytes()) && !has(keyring.id_secret()) && !has(&[7; 32]), "{}", listed.key);
    }
}

#[test]
fn the_old_passphrase_opens_nothing_after_the_next_push() {
    let (server, here, first) = pushed();
    here.store.rotate_keys(&encryption(&[passphrase("new")])).unwrap();
    let remote = here.remote(&server);
    assert!(keys(&server, &[passphrase("right")]).is_ok(), "nobody has told the remote yet");
    push(&remote, "threads/main", first).unwrap();
    keys(&server, &[passphrase("new")]).unwrap();
    assert!(matches!(keys(&server, &[passphrase("right"), key_file(7)]), Err(RemoteError::WrongKey)));
}

#[test]
fn a_clone_that_knows_only_the_old_passphrase_does_not_bring_it_back() {
    let (server, here, first) = pushed();
    let old = keys(&server, &[passphrase("right")]).unwrap();
    here.store.rotate_keys(&encryption(&[passphrase("new")])).unwrap();
    push(&here.remote(&server), "threads/main", first).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = Store::init_like(&dir.path().join("s"), &old, OpenOptions::default()).unwrap();
    let there = Local { _dir: dir, store };
    let remote = there.remote(&server);
    remote.fetch(&everything(), &Notes, &Silent).unwrap();
    push(&remote, "threads/other", there.note("threads/other", "other", 1, None)).unwrap();
    assert!(matches!(keys(&server, &[passphrase("right")]), Err(RemoteError::WrongKey)));
    keys(&server, &[passphrase("new")]).unwrap();
}

#[test]
fn a_server_that_gives_another_key_is_noticed() {
    let (ours, here, first) = pushed();
    // Somebody else's store that happens to open with the same passphrase.
    let (others, _, _) = {
        let (server, there) = (server(), sealed(&[passphrase("right")]));
        let note = there.note("threads/main", "other", 2, None);
        push(&there.remote(&server), "threads/main", note).unwrap();
        (server, there, note)
    };
    let right = [passphrase("right"), key_file(7)];
    let good = bytes_of(&ours, KEY);
    replace(&ours, KEY, bytes_of(&others, KEY));
    let outcome = keys(&ours, &right);
    assert!(matches!(outcome, Err(RemoteError::OtherDomain { .. })), "{outcome:?}");
    // Every bit of it matters.
    for at in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[at] ^= 1;
        replace(&ours, KEY, bad);
        assert!(keys(&ours, &right).is_err(), "{at}");
    }
    // A keyring that was made with the right passphrase and another secret does not make another state pass either.
    replace(&ours, KEY, good);
    replace(&ours, "root", bytes_of(&others, "root"));
    let outcome = keys(&ours, &right);
    assert!(matches!(outcome, Err(RemoteError::OtherDomain { .. })), "{outcome:?}");
    for nonsense in
        [vec![], b"{}".to_vec(), b"{\"generation\":1,\"keyring\":\"\"}\nx\n".to_vec(), vec![b' '; 17 << 10]]
    {
        replace(&ours, KEY, nonsense);
        assert!(matches!(keys(&ours, &right), Err(RemoteError::Damaged { .. })));
    }
    // The owner notices, too, and the next push after it was taken away puts it back.
    assert!(here.open(ours.clone()).leave_key().is_err());
    ours.delete(KEY).unwrap();
    here.open(ours.clone()).leave_key().unwrap();
    here.store.get(NOTE, &first).unwrap();
}

#[test]
fn a_push_that_is_cut_short_leaves_no_packs_without_the_key() {
    let (server, here) = (server(), sealed(&[passphrase("right")]));
    here.remote(&server);
    let note = here.note("threads/main", "first", 5, None);
    for number in 0.. {
        let faulty =
            Faulty::new(
                server.clone(),
                move |request| {
                    if request.number < number { Fate::Well } else { Fate::Dies }
                },
            );
        let done = push(&here.open(faulty), "threads/main", note).is_ok();
        if !server.list("packs/").unwrap().is_empty() {
            keys(&server, &[passphrase("right")]).unwrap();
        }
        if done {
            break;
        }
        // Everybody who died would be one more whose lease the next one reads, and the number of requests would grow with them.
        server.list("leases/").unwrap().iter().for_each(|lease| server.delete(&lease.key).unwrap());
    }
}
