//! Whatever is forgotten and freed, in whatever order: what is left can be read back, and leads to what it came from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use cas_core::progress::Silent;
use cas_core::verify::Depth;
use manifest::stored::ManifestReferences;

use super::*;
use crate::OwnStore;
use crate::testing::{ada, assert_holds, commit_numbered, line};

fn store() -> (tempfile::TempDir, UserStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = OwnStore::new(dir.path().join("store"), None).unwrap().open().unwrap();
    (dir, store)
}

#[track_caller]
fn was_forgotten<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(HistoryError::Forgotten { .. })), "{result:?}");
}

fn free(_: &ObjectId) -> Option<String> {
    None
}

fn list(store: &UserStore, heads: &[ObjectId]) -> Vec<ObjectId> {
    store.log(heads.iter().copied()).unwrap().map(|(id, commit)| commit.map(|_| id).unwrap()).collect()
}

#[track_caller]
fn assert_sound(store: &UserStore) {
    let report = store.store().verify(&ManifestReferences::default(), Depth::Bytes, &Silent).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

#[test]
fn what_is_forgotten_leaves_history_at_once_and_the_store_with_the_next_gc() {
    let (_dir, store) = store();
    let commits = line(&store, 10);
    let gone = &commits[3..8];
    let outcome = store.forget(gone, &free, false).unwrap();
    assert_eq!((outcome.forgotten.as_slice(), outcome.kept.len()), (gone, 0));
    let left: Vec<_> = [9, 8, 2, 1, 0].map(|number: usize| commits[number]).into();
    assert_eq!(list(&store, &[commits[9]]), left);
    assert_eq!(store.commit_now(&commits[8]).unwrap().parents, [commits[2]]);
    assert_eq!(store.commit_of(&commits[8]).unwrap().parents, [commits[7]], "what was written stays");
    assert_eq!(store.resolve("main~2").unwrap(), commits[2]);
    assert!(store.is_ancestor(&commits[0], &commits[9]).unwrap());
    assert!(!store.is_ancestor(&commits[5], &commits[9]).unwrap());
    for named in [commits[5].to_string(), commits[5].to_string()[..16].to_owned()] {
        was_forgotten(store.resolve(&named));
    }
    was_forgotten(store.using(commits[5]));
    assert_sound(&store);

    let freed = store.gc(&Silent).unwrap();
    assert_eq!(freed.commits, 5);
    assert!(freed.freed_bytes > 5 * 2048 && freed.objects >= 15, "{freed:?}");
    assert_eq!(list(&store, &[commits[9]]), left);
    for number in [9, 8, 2, 1, 0] {
        assert_holds(&store, &commits[number], number);
    }
    assert!(!store.store().contains(&commits[5]).unwrap());
    // Only what a commit that is left came from is still listed.
    assert_eq!(store.grafts().unwrap().iter().collect::<Vec<_>>(), [&commits[7]]);
    assert_sound(&store);
    assert_eq!(store.forget(&[commits[7]], &free, false).unwrap().forgotten, [commits[7]], "again is fine");
    assert_eq!(store.gc(&Silent).unwrap().commits, 0);
}

#[test]
fn where_a_remote_was_last_seen_keeps_its_commit_unless_it_is_forced() {
    let (_dir, store) = store();
    let commits = line(&store, 4);
    let seen = "remotes/origin/threads/main";
    let set = |new, expected| RefChange { name: seen.to_owned(), expected, new: Some(new) };
    store.store().refs().update(&[set(commits[2], Expected::Absent)]).unwrap();
    // Only the remote's thread leads to the last two.
    let back = RefChange {
        name: "threads/main".to_owned(),
        expected: Expected::At(commits[3]),
        new: Some(commits[1]),
    };
    store.store().refs().update(&[back]).unwrap();
    let outcome = store.forget(&commits[2..3], &free, false).unwrap();
    assert_eq!(outcome.forgotten, []);
    assert_eq!(outcome.kept, [(commits[2], "in a remote it is where `origin/threads/main` is".to_owned())]);
    store.gc(&Silent).unwrap();
    assert_holds(&store, &commits[2], 2);
    assert!(!store.store().contains(&commits[3]).unwrap(), "nothing led to it");
    assert_sound(&store);

    // What is behind it is kept by nothing.
    assert_eq!(store.forget(&commits[..1], &free, false).unwrap().forgotten, commits[..1]);
    assert_eq!(store.forget(&commits[2..3], &free, true).unwrap().forgotten, commits[2..3]);
    assert_eq!(store.store().refs().get(seen).unwrap(), None);
    store.gc(&Silent).unwrap();
    for gone in [commits[0], commits[2]] {
        assert!(!store.store().contains(&gone).unwrap());
    }
    assert_holds(&store, &commits[1], 1);
    assert_sound(&store);
}

#[test]
fn tags_sessions_and_restores_keep_their_commits() {
    let (_dir, store) = store();
    let commits = line(&store, 6);
    store.set_tag("good one", commits[1], false).unwrap();
    store.set_tag("good one", commits[1], false).unwrap();
    let taken = store.set_tag("good one", commits[2], false).unwrap_err();
    assert!(matches!(taken, HistoryError::Store(StoreError::RefConflict { .. })), "{taken}");
    let using = store.using(commits[2]).unwrap();
    let head = commits[5];
    let needed = |id: &ObjectId| (*id == head).then(|| "it is the newest".to_owned());
    let outcome = store.forget(&commits, &needed, false).unwrap();
    assert_eq!(outcome.forgotten, [commits[0], commits[3], commits[4]]);
    let reasons: Vec<_> = outcome.kept.iter().map(|(id, reason)| (*id, reason.as_str())).collect();
    assert_eq!(
        reasons,
        [
            (commits[1], "it is tagged `good one`"),
            (commits[2], "it is being restored"),
            (commits[5], "it is the newest")
        ]
    );
    drop(using);
    was_forgotten(store.set_tag("late", commits[3], false));
    // With force the tag goes too, and no name is left that leads to nothing.
    store.forget(&commits[1..3], &needed, true).unwrap();
    assert!(store.tags().unwrap().is_empty());
    assert_eq!(list(&store, &[head]), [head]);
    store.gc(&Silent).unwrap();
    assert_holds(&store, &head, 5);
    assert_sound(&store);
}

#[test]
fn a_thread_that_nobody_goes_on_with_steps_back_or_ends() {
    let (_dir, store) = store();
    let commits = line(&store, 3);
    store.forget(&commits[1..], &free, false).unwrap();
    assert_eq!(store.head("main").unwrap(), Some(commits[0]));
    store.forget(&commits[..1], &free, false).unwrap();
    assert_eq!(store.head("main").unwrap(), None);
    store.gc(&Silent).unwrap();
    assert_eq!(store.gc(&Silent).unwrap().objects, 1, "the list itself, when nothing needs it");
    assert!(store.grafts().unwrap().is_empty());
    assert_sound(&store);
}

#[test]
fn a_snapshot_that_others_share_stays() {
    let (_dir, store) = store();
    let commits = line(&store, 3);
    let (back, _) = store.commit_rollback(("s", "main"), &commits[2], &commits[0], &ada(), None).unwrap();
    assert_eq!(store.back_to(&back), Some(commits[0]));
    store.forget(&commits, &free, false).unwrap();
    assert!(store.commit_now(&back).unwrap().parents.is_empty());
    store.gc(&Silent).unwrap();
    assert_holds(&store, &back, 0);
    assert_sound(&store);
}

#[test]
fn a_crash_between_two_refs_leaves_nothing_dangling() {
    let (_dir, store) = store();
    let commits = line(&store, 4);
    store.set_tag("t", commits[1], false).unwrap();
    // The tag went, and then the power.
    store.remove_tag("t").unwrap();
    assert_eq!(list(&store, &[commits[3]]).len(), 4);
    // The thread stepped back, and then the power: what a branch came from is still there for the branch.
    store.start_thread("branch", &commits[3]).unwrap();
    let name = Thread::new("main").unwrap().ref_path();
    let back = RefChange { name, expected: Expected::At(commits[3]), new: Some(commits[2]) };
    store.store().refs().update(&[back]).unwrap();
    store.gc(&Silent).unwrap();
    for (number, id) in commits.iter().enumerate() {
        assert_holds(&store, id, number);
    }
    assert_sound(&store);
}

/// A history as it should be: parents that were written, what was forgotten, and names.
#[derive(Default)]
struct Model {
    numbers: BTreeMap<ObjectId, usize>,
    parents: BTreeMap<ObjectId, Vec<ObjectId>>,
    forgotten: BTreeSet<ObjectId>,
}

impl Model {
    fn left_of(&self, id: &ObjectId) -> BTreeSet<ObjectId> {
        let mut left = BTreeSet::new();
        for parent in &self.parents[id] {
            if self.forgotten.contains(parent) {
                left.extend(self.left_of(parent));
            } else {
                left.insert(*parent);
            }
        }
        left
    }

    fn reachable(&self, heads: &[ObjectId]) -> BTreeSet<ObjectId> {
        let mut seen = BTreeSet::new();
        let mut rest = heads.to_vec();
        while let Some(id) = rest.pop() {
            if seen.insert(id) {
                rest.extend(self.left_of(&id));
            }
        }
        seen
    }
}

/// Random histories with branches and ways back, random ends, gc in between.
#[test]
fn random_histories_keep_what_is_left() {
    for seed in 0..6_u64 {
        let mut state = seed.wrapping_mul(0x5851_f42d_4c95_7f2d) + 1;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        let (_dir, store) = store();
        let mut model = Model::default();
        let mut threads = vec!["t0".to_owned()];
        for step in 0..90 {
            let heads: Vec<_> = store.threads().unwrap().into_iter().map(|(_, head)| head).collect();
            let known: Vec<_> =
                model.numbers.keys().filter(|id| !model.forgotten.contains(*id)).copied().collect();
            match random(10) {
                0 if known.len() > 3 => {
                    let name = format!("t{}", threads.len());
                    store.start_thread(&name, &known[random(known.len())]).unwrap();
                    threads.push(name);
                }
                1 | 2 if known.len() > 3 => {
                    let wanted: Vec<_> = (0..=random(5)).map(|_| known[random(known.len())]).collect();
                    let needed = |id: &ObjectId| heads.contains(id).then(|| "a head".to_owned());
                    model.forgotten.extend(store.forget(&wanted, &needed, true).unwrap().forgotten);
                }
                3 => drop(store.gc(&Silent).unwrap()),
                4 if known.len() > 3 => {
                    let _ = store.set_tag(&format!("tag{step}"), known[random(known.len())], true);
                }
                5 if !heads.is_empty() && store.head("t0").unwrap().is_some() => {
                    let head = store.head("t0").unwrap().unwrap();
                    let to = known[random(known.len())];
                    if to != head {
                        let (id, _) = store.commit_rollback(("s", "t0"), &head, &to, &ada(), None).unwrap();
                        model.numbers.insert(id, model.numbers[&to]);
                        model.parents.insert(id, vec![head, to]);
                    }
                }
                _ => {
                    let thread = &threads[random(threads.len())];
                    let parents: Vec<_> = store.head(thread).unwrap().into_iter().collect();
                    let id = commit_numbered(&store, thread, &parents, step).unwrap();
                    model.numbers.insert(id, step);
                    model.parents.insert(id, parents);
                }
            }
        }
        store.gc(&Silent).unwrap();
        let names: Vec<_> =
            store.threads().unwrap().into_iter().chain(store.tags().unwrap()).map(|(_, id)| id).collect();
        let expected = model.reachable(&names);
        assert_eq!(list(&store, &names).into_iter().collect::<BTreeSet<_>>(), expected, "seed {seed}");
        for id in &expected {
            assert_holds(&store, id, model.numbers[id]);
            let parents: BTreeSet<_> = store.commit_now(id).unwrap().parents.into_iter().collect();
            assert_eq!(parents, model.left_of(id), "seed {seed}");
        }
        let grafts = store.grafts().unwrap();
        assert!(grafts.len() <= 3 * expected.len() + 40, "{} for {}", grafts.len(), expected.len());
        assert_sound(&store);
    }
}

/// Snapshots are taken, others are forgotten and garbage is collected, all at once.
#[test]
fn writers_beside_forget_and_gc_lose_nothing() {
    let (_dir, store) = store();
    let stop = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2_usize)
            .map(|writer| {
                let store = store.clone();
                scope.spawn(move || {
                    let thread = format!("w{writer}");
                    let mut commits = Vec::new();
                    for number in 0..25 {
                        let parents: Vec<_> = commits.last().map(|(id, _)| *id).into_iter().collect();
                        // Every other state is one that was there before: its chunks may be garbage right now.
                        let number = writer * 1000 + number / 2;
                        commits.push((commit_numbered(&store, &thread, &parents, number).unwrap(), number));
                    }
                    commits
                })
            })
            .collect();
        let collector = {
            let (store, stop) = (store.clone(), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    match store.gc(&Silent) {
                        Ok(_) | Err(HistoryError::WritersBusy { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        };
        let forgetter = {
            let (store, stop) = (store.clone(), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    for (thread, head) in store.threads().unwrap() {
                        let wanted: Vec<_> = list(&store, &[head]).into_iter().skip(1).step_by(3).collect();
                        let needed = |id: &ObjectId| {
                            (store.head(&thread).unwrap() == Some(*id)).then(|| "a head".to_owned())
                        };
                        store.forget(&wanted, &needed, false).unwrap();
                    }
                }
            })
        };
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        stop.store(true, Ordering::Relaxed);
        collector.join().unwrap();
        forgetter.join().unwrap();
        written
    });
    store.gc(&Silent).unwrap();
    for commits in written {
        let left = list(&store, &[commits.last().unwrap().0]);
        assert_eq!(left[0], commits.last().unwrap().0);
        for (id, number) in commits.iter().filter(|(id, _)| left.contains(id)) {
            assert_holds(&store, id, *number);
        }
    }
    assert_sound(&store);
}

/// A page asks for a history of thousands each time that it is opened.
#[test]
fn a_long_history_is_listed_from_commits_alone_and_from_memory_the_second_time() {
    const COMMITS: usize = 2000;
    let (dir, store) = store();
    let session = store.write(&[]).unwrap();
    let mut parents = Vec::new();
    let mut commit = None;
    let mut first = store.commit_of(&commit_numbered(&store, "seed", &[], 0).unwrap()).unwrap();
    // Their snapshots were never there: who looks at one fails.
    first.snapshot = ObjectId::from_bytes([7; 32]);
    for number in 0..COMMITS {
        let mut next = first.clone();
        next.parents.clone_from(&parents);
        next.message = format!("number {number}");
        next.time = first.time + jiff::SignedDuration::from_secs(number.try_into().unwrap());
        let id = manifest::stored::save(&next, &session).unwrap();
        parents = vec![id];
        commit = Some(id);
    }
    let head = commit.unwrap();
    let name = Thread::new("long").unwrap().ref_path();
    session.commit(&[RefChange { name, expected: Expected::Absent, new: Some(head) }]).unwrap();
    let begun = std::time::Instant::now();
    let cold = list(&store, &[head]);
    let cold_took = begun.elapsed();
    assert_eq!(cold.len(), COMMITS);
    // Without its packs the store can give nothing any more.
    let packs = dir.path().join("store/objects");
    assert!(packs.is_dir());
    std::fs::rename(&packs, packs.with_extension("away")).unwrap();
    let begun = std::time::Instant::now();
    assert_eq!(list(&store, &[head]), cold);
    let warm_took = begun.elapsed();
    // Far above what they take, and far below what loading snapshots would.
    assert!(cold_took.as_secs() < 20 && warm_took.as_secs() < 5, "{cold_took:?} {warm_took:?}");
    println!("{COMMITS} commits: {cold_took:?}, then {warm_took:?}");
}
