//! Walking history, newest first.
//!
//! A heap holds the commits that were met but not yet given out, ordered by [`Commit::order`]. A parent enters it when its
//! child leaves, and is older than every child by that order, so no commit comes before one of its children. Only what
//! is asked for is loaded: the newest twenty of ten thousand cost about twenty loads.
//!
//! [`Commit::order_after`] keeps the order right when clocks are wrong. A history that was made without it is still walked
//! completely and each commit once, but a parent may then come before a child that is reached by another way.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};

use cas_core::ObjectId;
use jiff::{SignedDuration, Timestamp};

use crate::commit::Commit;
use crate::error::ReadError;
use crate::object::ObjectSource;

/// All commits that `heads` lead to, newest first, each once and never before one of its children. A commit that cannot
/// be read is an error in its place, just after the child that leads to it, and the walk goes on with the others. Where the
/// source knows what was forgotten, a commit comes with the parents that are left.
pub fn walk<S: ObjectSource>(source: S, heads: impl IntoIterator<Item = ObjectId>) -> Walk<S> {
    let mut walk = Walk { source, heap: BinaryHeap::new(), seen: HashSet::new() };
    for head in heads {
        walk.push(head, Timestamp::MAX);
    }
    walk
}

/// The iterator that [`walk`] gives.
pub struct Walk<S: ObjectSource> {
    source: S,
    heap: BinaryHeap<Pending<S::Error>>,
    seen: HashSet<ObjectId>,
}

struct Pending<E> {
    order: Timestamp,
    id: ObjectId,
    commit: Result<Commit, ReadError<E>>,
}

impl<S: ObjectSource> Walk<S> {
    /// Loads a commit that was not met before. `latest` is where it goes if it does not say so itself.
    fn push(&mut self, id: ObjectId, latest: Timestamp) {
        if self.seen.insert(id) {
            let commit = self.source.commit(&id);
            let order = commit.as_ref().map_or(latest, |commit| commit.order().min(latest));
            self.heap.push(Pending { order, id, commit });
        }
    }
}

impl<S: ObjectSource> Iterator for Walk<S> {
    type Item = (ObjectId, Result<Commit, ReadError<S::Error>>);

    fn next(&mut self) -> Option<Self::Item> {
        let Pending { order, id, commit } = self.heap.pop()?;
        if let Ok(commit) = &commit {
            let before = order.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(order);
            for parent in &commit.parents {
                self.push(*parent, before);
            }
        }
        Some((id, commit))
    }
}

impl<E> Pending<E> {
    fn key(&self) -> (Timestamp, ObjectId) {
        (self.order, self.id)
    }
}

impl<E> PartialEq for Pending<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Pending<E> {}

impl<E> PartialOrd for Pending<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Pending<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// Whether `descendant` came from `ancestor`; a commit comes from itself. If the answer is hidden behind a commit that
/// cannot be read, that is the error: "no" would be a guess.
pub fn is_ancestor<S: ObjectSource>(
    source: S,
    ancestor: &ObjectId,
    descendant: &ObjectId,
) -> Result<bool, ReadError<S::Error>> {
    if ancestor == descendant {
        return Ok(true);
    }
    // Nothing that is ordered before the ancestor can come from it. If it cannot be read, everything is looked at.
    let oldest = source.commit(ancestor).map_or(Timestamp::MIN, |commit| commit.order());
    let mut unreadable = None;
    let mut seen = HashSet::from([*descendant]);
    let mut rest = vec![*descendant];
    while let Some(id) = rest.pop() {
        match source.commit(&id) {
            Ok(commit) if commit.parents.contains(ancestor) => return Ok(true),
            Ok(commit) if commit.order() <= oldest => {}
            Ok(commit) => rest.extend(commit.parents.into_iter().filter(|parent| seen.insert(*parent))),
            Err(error) => unreadable = unreadable.or(Some(error)),
        }
    }
    unreadable.map_or(Ok(false), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Thread;
    use crate::wire::Extra;
    use crate::{Author, CommitReason, ManifestObject, ObjectSink};
    use cas_core::{IdHasher, Kind};
    use std::cell::{Cell, RefCell};
    use std::collections::HashMap;

    #[derive(Default)]
    struct Shelf {
        objects: RefCell<HashMap<ObjectId, Vec<u8>>>,
        loads: Cell<usize>,
    }

    impl ObjectSource for Shelf {
        type Error = &'static str;

        fn load(&self, _kind: Kind, id: &ObjectId) -> Result<Vec<u8>, &'static str> {
            self.loads.set(self.loads.get() + 1);
            self.objects.borrow().get(id).cloned().ok_or("not there")
        }
    }

    impl ObjectSink for Shelf {
        type Error = &'static str;

        fn save(&self, kind: Kind, content: Vec<u8>) -> Result<ObjectId, &'static str> {
            let id = IdHasher::plain().id(kind, &content);
            self.objects.borrow_mut().insert(id, content);
            Ok(id)
        }
    }

    impl Shelf {
        fn commit(&self, second: i64, parents: &[ObjectId]) -> ObjectId {
            let mut commit = Commit {
                snapshot: ObjectId::from_bytes([0; 32]),
                parents: parents.to_vec(),
                thread: Thread::new("main").unwrap(),
                author: Author { name: "ada".into(), uid: 1, host: "box".into(), extra: Extra::default() },
                time: Timestamp::from_second(second).unwrap(),
                order: None,
                message: String::new(),
                label: None,
                reason: CommitReason::Manual,
                tags: [].into(),
                tool: "0".into(),
                session: None,
                cell: None,
                figures: None,
                has_notebook: false,
                has_variables: false,
                extra: Extra::default(),
            };
            let parents: Vec<_> = parents.iter().filter_map(|id| Commit::load(self, id).ok()).collect();
            commit.order_after(&parents);
            commit.save(self).unwrap()
        }

        fn walked(&self, heads: &[ObjectId]) -> Vec<ObjectId> {
            walk(self, heads.iter().copied()).map(|(id, _)| id).collect()
        }
    }

    #[test]
    fn branches_are_interleaved_by_time() {
        let shelf = Shelf::default();
        let root = shelf.commit(1, &[]);
        let (a1, b1) = (shelf.commit(2, &[root]), shelf.commit(3, &[root]));
        let (a2, b2) = (shelf.commit(4, &[a1]), shelf.commit(5, &[b1]));
        assert_eq!(shelf.walked(&[a2, b2]), [b2, a2, b1, a1, root]);
        assert_eq!(shelf.walked(&[a2]), [a2, a1, root]);
        assert_eq!(shelf.walked(&[a2, a1, a2]), [a2, a1, root]);
        assert_eq!(shelf.walked(&[]), []);
    }

    #[test]
    fn no_commit_comes_before_its_child_whatever_the_clock_says() {
        let shelf = Shelf::default();
        // The root and the second child were made by a clock that was an hour ahead.
        let root = shelf.commit(4000, &[]);
        let (a1, b1) = (shelf.commit(10, &[root]), shelf.commit(5000, &[root]));
        let (a2, b2) = (shelf.commit(20, &[a1]), shelf.commit(30, &[b1]));
        let order = shelf.walked(&[a2, b2]);
        let place = |id| order.iter().position(|other| *other == id).unwrap();
        for (child, parent) in [(a2, a1), (a1, root), (b2, b1), (b1, root)] {
            assert!(place(child) < place(parent));
        }
        assert_eq!(order.len(), 5);
    }

    #[test]
    fn a_missing_and_a_damaged_commit_are_errors_in_their_place() {
        let shelf = Shelf::default();
        let old = shelf.commit(1, &[]);
        let damaged = shelf.commit(2, &[old]);
        let a = shelf.commit(3, &[damaged]);
        let other_root = shelf.commit(2, &[]);
        let missing = ObjectId::from_bytes([9; 32]);
        let b = shelf.commit(4, &[missing, other_root]);
        shelf.objects.borrow_mut().get_mut(&damaged).unwrap()[20] ^= 1;
        let all: Vec<_> = walk(&shelf, [a, b, missing]).collect();
        let readable: Vec<_> = all.iter().filter(|(_, commit)| commit.is_ok()).map(|(id, _)| *id).collect();
        assert_eq!(readable, [b, a, other_root]);
        let broken: Vec<_> = all.iter().filter(|(_, commit)| commit.is_err()).map(|(id, _)| *id).collect();
        assert_eq!(broken, [missing, damaged]);
        assert!(matches!(all[0], (_, Err(ReadError::Source { .. }))));
        let after_a = all.iter().position(|(id, _)| *id == a).unwrap() + 1;
        assert!(matches!(&all[after_a], (id, Err(ReadError::Object { .. })) if *id == damaged));
    }

    #[test]
    fn ancestors() {
        let shelf = Shelf::default();
        let root = shelf.commit(1, &[]);
        let (a1, b1) = (shelf.commit(2, &[root]), shelf.commit(3, &[root]));
        let a2 = shelf.commit(4, &[a1]);
        for (ancestor, descendant, expected) in [
            (root, a2, true),
            (a1, a2, true),
            (a2, a2, true),
            (b1, a2, false),
            (a2, a1, false),
            (a2, root, false),
        ] {
            assert_eq!(is_ancestor(&shelf, &ancestor, &descendant).unwrap(), expected);
        }
        shelf.objects.borrow_mut().remove(&a1);
        is_ancestor(&shelf, &root, &a2).unwrap_err();
        assert!(is_ancestor(&shelf, &a1, &a2).unwrap());
    }

    #[test]
    fn ten_thousand_commits_are_loaded_once_and_only_when_asked_for() {
        let shelf = Shelf::default();
        let mut ids = vec![shelf.commit(0, &[])];
        for second in 1..10_000 {
            ids.push(shelf.commit(second, &[*ids.last().unwrap()]));
        }
        let newest = *ids.last().unwrap();
        shelf.loads.set(0);
        assert_eq!(walk(&shelf, [newest]).take(20).count(), 20);
        assert!(shelf.loads.get() <= 21, "{} loads", shelf.loads.get());
        shelf.loads.set(0);
        assert_eq!(shelf.walked(&[newest]).len(), 10_000);
        assert_eq!(shelf.loads.get(), 10_000);
        shelf.loads.set(0);
        assert!(is_ancestor(&shelf, &ids[9_990], &newest).unwrap());
        assert!(shelf.loads.get() <= 12, "{} loads", shelf.loads.get());
        shelf.loads.set(0);
        assert!(!is_ancestor(&shelf, &newest, &ids[5_000]).unwrap());
        assert!(shelf.loads.get() <= 2, "{} loads", shelf.loads.get());
    }
}
