//! Data that is elsewhere, too, goes, and nothing else does.

use super::*;
use crate::beyond::Beyond;
use crate::elsewhere::Elsewhere;
use crate::reach;

/// Another place, which has copies of what it is given.
#[derive(Clone, Debug)]
pub(super) struct Other(Arc<TestStore>);

impl Default for Other {
    fn default() -> Self {
        Self(Arc::new(TestStore::plain()))
    }
}

impl Other {
    pub(super) fn take_a_copy(&self, of: &Snapshot) {
        let transaction = self.0.store.write(&[]).unwrap();
        let copy = Snapshot::put_content(&transaction, of.memory.clone(), of.file.clone(), None).unwrap();
        transaction.commit(&[point(&copy.id.to_string(), copy.id)]).unwrap();
    }
}

impl std::fmt::Debug for TestStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TestStore")
    }
}

impl Beyond for Other {
    fn read(&self, kind: Kind, id: &ObjectId) -> Result<Option<Vec<u8>>> {
        if self.0.store.contains(id)? { self.0.store.get(kind, id).map(Some) } else { Ok(None) }
    }

    fn first_absent(&self, ids: &[ObjectId]) -> Result<Option<ObjectId>> {
        Ok(ids.iter().find(|id| !self.0.store.contains(id).unwrap()).copied())
    }

    fn expect(&self, _: &[ObjectId]) {}
}

/// Whether any data of a snapshot is in the store.
pub(super) fn has_data_of(store: &Store, snapshot: &Snapshot) -> bool {
    let mut open = vec![Reference::strong(NOTE, snapshot.id)];
    while let Some(reference) = open.pop() {
        if !reference.kind.is_metadata() {
            if store.contains(&reference.id).unwrap() {
                return true;
            }
            continue;
        }
        let content = store.get(reference.kind, &reference.id).unwrap();
        let below = reach::references(reference.kind, &content, &Notes).unwrap();
        open.extend(below.into_iter().filter(|below| !below.weak));
    }
    false
}

fn let_go(store: &Arc<Store>, of: &[&Snapshot]) -> GcReport {
    let ids: Vec<ObjectId> = of.iter().map(|one| one.id).collect();
    let options = GcOptions { repack_below_percent: 100, ..at_once() };
    store.let_go(&ids, "origin", &Notes, &options, &Silent).unwrap()
}

/// A snapshot, and a child that shares all of its memory but a page.
fn a_line(test: &TestStore) -> (Snapshot, Snapshot) {
    let transaction = test.store.write(&[]).unwrap();
    let first = Snapshot::put(&transaction, 1, None).unwrap();
    transaction.flush().unwrap();
    let mut memory = first.memory.clone();
    memory.touch(0x7000_0000_0000, 9);
    let second = Snapshot::put_content(&transaction, memory, noise(2, 300_000), Some(&first)).unwrap();
    transaction.commit(&[point("main", second.id)]).unwrap();
    (first, second)
}

#[test]
fn what_others_need_stays_and_the_rest_comes_from_elsewhere() {
    let (test, other) = (TestStore::plain(), Other::default());
    let (first, second) = a_line(&test);
    other.take_a_copy(&first);
    let before = test.store.catalogue.totals().unwrap().plain;
    let_go(&test.store, &[&first]);
    assert!(test.store.catalogue.totals().unwrap().plain + 250_000 < before, "its own file has gone");
    // All that the child shares with it is here.
    second.check(&test.store);
    assert_clean(&test.store);
    assert!(test.store.contains(&first.id).unwrap(), "history is as it was");
    assert!(first.read(&test.store).is_err(), "nobody is asked yet");
    let reader = test.open("").unwrap();
    reader.look_beyond(Arc::new(other));
    first.check(&reader);
    // A gc afterwards has nothing against it.
    assert!(collect(&test.store).plan.unreadable.is_empty());
    second.check(&test.store);
}

#[test]
fn what_is_built_upon_keeps_its_data() {
    let test = TestStore::plain();
    let (first, second) = a_line(&test);
    let writer = test.store.write(&[first.id]).unwrap();
    assert_eq!(let_go(&test.store, &[&first, &second]).waiting_for, 1);
    first.check(&test.store);
    second.check(&test.store);
    // Its child shares what it does not look up, and is in the way as a snapshot of its own.
    let mut memory = first.memory.clone();
    memory.touch(0x7000_0000_1000, 7);
    let third = Snapshot::put_content(&writer, memory, noise(3, 500), Some(&first)).unwrap();
    writer.commit(&[point("other", third.id)]).unwrap();
    let_go(&test.store, &[&first, &second]);
    third.check(&test.store);
    assert!(!has_data_of_file(&test.store, &first) && !has_data_of_file(&test.store, &second));
    assert_clean(&test.store);
}

fn has_data_of_file(store: &Store, snapshot: &Snapshot) -> bool {
    let list = store.get(snapshot.blob.kind, &snapshot.blob.id).unwrap();
    let chunks = reach::references(snapshot.blob.kind, &list, &Notes).unwrap();
    chunks.iter().any(|chunk| store.contains(&chunk.id).unwrap())
}

#[test]
fn what_was_brought_back_meanwhile_stays() {
    let test = TestStore::plain();
    let (first, second) = a_line(&test);
    let ids = [first.id, second.id];
    test.store.change_elsewhere(|list: &mut Elsewhere| list.add(second.id, "origin")).unwrap();
    // As if a fetch had struck the first one off the list after it was written down.
    let options = GcOptions { repack_below_percent: 100, ..at_once() };
    test.store.gc_letting_go(&ids, &Notes, &options, &Silent).unwrap();
    first.check(&test.store);
    assert!(!has_data_of_file(&test.store, &second));
}

#[test]
fn the_dearest_stay_as_long_as_there_is_room() {
    let test = TestStore::plain();
    let taken: Vec<Snapshot> =
        (0..4).map(|n| Snapshot::take(&test.store, n, &format!("thread-{n}"))).collect();
    // The last one belongs to somebody and is no candidate; the newest of the others come first.
    let candidates = [taken[2].id, taken[1].id, taken[0].id];
    let all: u64 = test.store.catalogue.packs().unwrap().iter().map(|pack| pack.stored).sum();
    let surplus = |limit| test.store.surplus(&candidates, limit, &Notes, &Silent).unwrap();
    assert_eq!(surplus(all), []);
    assert_eq!(surplus(all - 1), [taken[0].id]);
    assert_eq!(surplus(all / 2 + 10_000), [taken[1].id, taken[0].id]);
    assert_eq!(surplus(0), candidates);
    // What cannot be read could lead to anything.
    let list = packs_of(&test, PackClass::Metadata);
    list.iter().for_each(|pack| flip(pack, 200));
    let reopened = test.open("").unwrap();
    assert_eq!(reopened.surplus(&candidates, 0, &Notes, &Silent).unwrap(), []);
}
