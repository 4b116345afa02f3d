//! Every file of a store, damaged in every way that disks and people damage files.
//!
//! For each cell of the matrix a whole store is copied, damaged in one place, and used. What must hold everywhere:
//!
//! * nothing panics, and no error is a bug of ours;
//! * what reads back is what was stored: a read ends in the right bytes or in an error;
//! * the damage is noticed: on opening, on reading, or by `verify` of all bytes. A ref that was deleted is noticed by
//!   whoever asks for it, and by nobody else: the store keeps no list of refs beside the refs;
//! * what has nothing to do with the damaged part is still readable;
//! * what can be brought back is brought back (the last column of the table says how).
//!
//! What does not hold yet is listed in [`gaps_of`], printed with the cell, and counted, so that it cannot grow.
//!
//! `cargo test -p torture --test damage -- --nocapture` shows the matrix.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "clippy.toml allows these in #[test] functions only, not in their helpers"
)]

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cas_core::crypto::KdfCost;
use cas_core::pack::{HEADER_LEN, PackClass, PackReader, TRAILER_LEN, Trailer};
use cas_core::packs::PackBytes;
use cas_core::progress::Silent;
use cas_core::verify::Depth;
use cas_core::{Class, Encryption, ObjectId, OpenOptions, Store, StoreError, rebuild};
use torture::model::{Model, Rng};
use torture::passphrase;
use torture::snapshot::{self, Failure, Parent, Snapshots, set};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    DataPack,
    Payload,
    Header,
    Footer,
    Trailer,
    MetadataPack,
    Catalogue,
    Log,
    ThreadRef,
    TagRef,
    Keyring,
    KeyringCopy,
    Format,
    Fingerprints,
}

const PLACES: [Place; 14] = [
    Place::DataPack,
    Place::Payload,
    Place::Header,
    Place::Footer,
    Place::Trailer,
    Place::MetadataPack,
    Place::Catalogue,
    Place::Log,
    Place::ThreadRef,
    Place::TagRef,
    Place::Keyring,
    Place::KeyringCopy,
    Place::Format,
    Place::Fingerprints,
];

/// What happens to a file or, in a pack, to a part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    /// One bit in the middle.
    Flip,
    /// The file ends in the middle of it.
    Half,
    /// The file ends where it begins.
    Empty,
    /// It is taken out.
    Delete,
    /// It changes places with another of its kind.
    Swap,
    /// Noise of the same length.
    Garbage,
}

const ACTIONS: [Action; 6] =
    [Action::Flip, Action::Half, Action::Empty, Action::Delete, Action::Swap, Action::Garbage];

/// A store that is copied for each cell.
struct Base {
    directory: tempfile::TempDir,
    encrypted: bool,
    /// Ref, object, content. `threads/a` and `tags/v1` share a line; `threads/b`, `tags/v2` and `threads/c` have their own.
    snapshots: Vec<(&'static str, ObjectId, Model)>,
    /// First packs of threads a and b: data and metadata of each.
    packs: [[PathBuf; 2]; 2],
}

fn options(encrypted: bool, key: u32) -> OpenOptions {
    OpenOptions { unlock: encrypted.then(|| passphrase(key)), ..OpenOptions::default() }
}

impl Base {
    /// `closed` has all in the catalogue's database file; `open` is a copy made while the catalogue's log was in use.
    fn new(encrypted: bool, key: u32) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("closed");
        let encryption = Encryption { unlocks: vec![passphrase(key)], cost: KdfCost::for_tests() };
        let store = Store::init(&root, encrypted.then_some(&encryption), OpenOptions::default()).unwrap();
        let model = |line| Model { line, generation: 1, pages: 192 };
        let mut known = BTreeSet::new();
        let mut new_packs = || {
            let mut packs = [PathBuf::new(), PathBuf::new()];
            for path in pack_files(&root) {
                if known.insert(path.clone()) {
                    let class = PackReader::new(PackBytes::of_file(&path).unwrap()).unwrap().header().class;
                    packs[usize::from(class == PackClass::Metadata)] =
                        path.strip_prefix(&root).unwrap().to_path_buf();
                }
            }
            packs
        };
        let put = |model, parent, name: &str| {
            snapshot::write(&store, model, parent, |id| vec![set(name, id)]).unwrap()
        };
        let first = put(model(11), Parent::None, "tags/v1");
        let a = new_packs();
        let b = put(model(22), Parent::None, "threads/b");
        let packs = [a, new_packs()];
        let second = put(model(11).later(1), Parent::Keep(first), "threads/a");
        let c = put(model(33), Parent::None, "threads/c");
        store.refs().update(&[set("tags/v2", b)]).unwrap();
        copy(&root, &directory.path().join("open"));
        drop(store);
        let snapshots = vec![
            ("threads/a", second, model(11).later(1)),
            ("threads/b", b, model(22)),
            ("threads/c", c, model(33)),
            ("tags/v1", first, model(11)),
            ("tags/v2", b, model(22)),
        ];
        Self { directory, encrypted, snapshots, packs }
    }

    fn root_for(&self, place: Place) -> PathBuf {
        self.directory.path().join(if place == Place::Log { "open" } else { "closed" })
    }
}

fn pack_files(root: &Path) -> Vec<PathBuf> {
    let directories = fs::read_dir(root.join("objects")).unwrap().map(|entry| entry.unwrap().path());
    let files = directories.flat_map(|path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
    files.filter(|path| path.extension().is_some_and(|extension| extension == "pack")).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// One damaged store.
struct Cell<'a> {
    base: &'a Base,
    foreign: &'a Base,
    place: Place,
    action: Action,
    root: PathBuf,
}

/// A row of the table.
#[derive(Debug, Default)]
struct Outcome {
    noticed_by: Vec<&'static str>,
    readable: usize,
    mended_by: &'static str,
    readable_after: usize,
    /// When the lost memory could be stored again.
    stored_again: &'static str,
}

impl Cell<'_> {
    /// The damaged file below the store, and the one that it changes places with.
    fn files(&self) -> (PathBuf, PathBuf) {
        let [a, b] = &self.base.packs;
        let foreign = |name: &str| (self.root.join(name), self.foreign.root_for(self.place).join(name));
        let own = |one: &str, other: &str| (self.root.join(one), self.root.join(other));
        let prints = |index: usize| {
            let (_, id, _) = &self.base.snapshots[index];
            let store = Store::open(&self.root, options(self.base.encrypted, 1)).unwrap();
            let memory = snapshot::load(&store, id).unwrap().memory;
            self.root.join("cache/fingerprints").join(memory.id.to_string())
        };
        match self.place {
            Place::DataPack | Place::Payload | Place::Header | Place::Footer | Place::Trailer => {
                (self.root.join(&a[0]), self.root.join(&b[0]))
            }
            Place::MetadataPack => (self.root.join(&a[1]), self.root.join(&b[1])),
            Place::Catalogue => foreign("catalogue.sqlite"),
            Place::Log => foreign("catalogue.sqlite-wal"),
            Place::Keyring => foreign("keyring"),
            Place::KeyringCopy => foreign("keyring.bak"),
            Place::Format => foreign("format"),
            Place::ThreadRef => own("refs/threads/a", "refs/threads/b"),
            Place::TagRef => own("refs/tags/v1", "refs/tags/v2"),
            Place::Fingerprints => (prints(0), prints(1)),
        }
    }

    /// The part of the file that is meant; `None` for all of it.
    fn part(&self, content: &[u8]) -> Option<Range<usize>> {
        let trailer = || Trailer::parse(content).unwrap();
        let footer = || usize::try_from(trailer().footer_offset).unwrap();
        match self.place {
            Place::Payload => Some(HEADER_LEN + 1000..footer() - 1000),
            Place::Header => Some(0..HEADER_LEN),
            Place::Footer => Some(footer()..content.len() - TRAILER_LEN),
            Place::Trailer => Some(content.len() - TRAILER_LEN..content.len()),
            _ => None,
        }
    }

    fn damage(&self) {
        let (path, other) = self.files();
        let mut content = fs::read(&path).unwrap();
        let part = self.part(&content);
        let range = part.clone().unwrap_or(0..content.len());
        let middle = range.start + range.len() / 2;
        match self.action {
            Action::Flip => {
                let at = if self.place == Place::Catalogue { self.row_in(&content) } else { middle };
                content[at] ^= 0x10;
            }
            Action::Half => content.truncate(middle),
            Action::Empty => content.truncate(range.start),
            Action::Delete if part.is_none() => {
                fs::remove_file(&path).unwrap();
                return;
            }
            Action::Delete => drop(content.drain(range)),
            Action::Swap => {
                let theirs = fs::read(&other).unwrap();
                let their_range = part.map_or(0..theirs.len(), |_| self.part(&theirs).unwrap());
                let (mut mine_now, mut theirs_now) = (content.clone(), theirs.clone());
                mine_now.splice(range.clone(), theirs[their_range.clone()].iter().copied());
                theirs_now.splice(their_range, content[range].iter().copied());
                content = mine_now;
                if other.starts_with(&self.root) {
                    fs::write(&other, theirs_now).unwrap();
                }
            }
            Action::Garbage => Rng(99).fill(&mut content[range]),
        }
        fs::write(&path, content).unwrap();
    }

    /// Where the catalogue keeps the id of a snapshot. SQLite has no checksums, so any other bit might be one that nobody
    /// ever looks at.
    fn row_in(&self, content: &[u8]) -> usize {
        let (_, id, _) = &self.base.snapshots[0];
        let rest = &id.as_bytes()[8..];
        content.windows(rest.len()).position(|window| window == rest).unwrap() + 7
    }

    fn open(&self) -> cas_core::Result<Arc<Store>> {
        Store::open(&self.root, options(self.base.encrypted, 1))
    }

    /// The refs whose snapshots read back. Wrong bytes and bugs end the test.
    fn readable(&self, store: &Store) -> BTreeSet<&'static str> {
        let mut readable = BTreeSet::new();
        for (name, expected, model) in &self.base.snapshots {
            let read = || {
                let id =
                    store.refs().get(name)?.ok_or(StoreError::RefMissing { name: (*name).to_owned() })?;
                if id != *expected {
                    return Err(Failure::Wrong(format!("ref {name} points elsewhere")));
                }
                snapshot::read_back(store, &id, model)
            };
            match read() {
                Ok(_) => _ = readable.insert(*name),
                Err(Failure::Refused(error)) => self.no_bug(&error),
                Err(failure @ Failure::Wrong(_)) => panic!("{self}: {name}: {failure}"),
            }
        }
        readable
    }

    fn no_bug(&self, error: &StoreError) {
        assert_ne!(error.class(), Class::Bug, "{self}: {error}");
    }

    fn run(&self) -> Outcome {
        self.damage();
        let mut outcome = Outcome::default();
        let all = self.base.snapshots.len();
        match self.open() {
            Err(error) => {
                self.no_bug(&error);
                outcome.noticed_by.push("open");
            }
            Ok(store) => {
                let readable = self.readable(&store);
                outcome.readable = readable.len();
                if readable.len() < all {
                    outcome.noticed_by.push("read");
                }
                self.check_the_others(&readable);
                match store.verify(&Snapshots, Depth::Bytes, &Silent) {
                    Ok(report) if report.is_clean() => {}
                    Ok(report) => {
                        report
                            .problems
                            .iter()
                            .filter_map(|problem| problem.error.as_ref())
                            .for_each(|error| self.no_bug(error));
                        outcome.noticed_by.push("verify");
                    }
                    Err(error) => {
                        self.no_bug(&error);
                        outcome.noticed_by.push("verify");
                    }
                }
            }
        }
        self.mend(&mut outcome);
        outcome
    }

    /// What does not depend on the damaged part reads back.
    fn check_the_others(&self, readable: &BTreeSet<&'static str>) {
        let swap = self.action == Action::Swap;
        let expected: &[&str] = match self.place {
            Place::DataPack | Place::Payload | Place::Header | Place::MetadataPack if swap => &["threads/c"],
            Place::DataPack | Place::Payload | Place::Header | Place::MetadataPack => {
                &["threads/b", "threads/c", "tags/v2"]
            }
            // Reading does not need the end of a pack, only rebuilding does.
            Place::Footer | Place::Trailer | Place::Keyring | Place::KeyringCopy | Place::Fingerprints => {
                &["threads/a", "threads/b", "threads/c", "tags/v1", "tags/v2"]
            }
            Place::ThreadRef if swap => &["threads/c", "tags/v1", "tags/v2"],
            Place::ThreadRef => &["threads/b", "threads/c", "tags/v1", "tags/v2"],
            Place::TagRef if swap => &["threads/a", "threads/b", "threads/c"],
            Place::TagRef => &["threads/a", "threads/b", "threads/c", "tags/v2"],
            Place::Catalogue | Place::Log | Place::Format => &[],
        };
        let missing: Vec<_> = expected.iter().filter(|name| !readable.contains(*name)).collect();
        assert!(missing.is_empty(), "{self}: {missing:?} should be readable");
    }

    /// Does what the operator's guide says for this damage.
    fn mend(&self, outcome: &mut Outcome) {
        let all = self.base.snapshots.len();
        let (_, first, model) = self.base.snapshots[0];
        outcome.mended_by = match self.place {
            Place::Catalogue | Place::Log => {
                rebuild(&self.root, &Silent).unwrap();
                "rebuild"
            }
            Place::Format => {
                fs::copy(self.base.root_for(self.place).join("format"), self.root.join("format")).unwrap();
                "format file from elsewhere"
            }
            Place::ThreadRef | Place::TagRef => {
                let refs = self.open().unwrap().refs();
                refs.update(
                    &self.base.snapshots.iter().map(|(name, id, _)| set(name, *id)).collect::<Vec<_>>(),
                )
                .unwrap();
                "refs set again"
            }
            Place::Keyring | Place::KeyringCopy => {
                let store = self.open().unwrap();
                snapshot::write(&store, model.later(5), Parent::None, |id| vec![set("threads/new", id)])
                    .unwrap();
                "the next write"
            }
            Place::Fingerprints => {
                let store = self.open().unwrap();
                let next = model.later(1);
                let id =
                    snapshot::write(&store, next, Parent::Share(first), |id| vec![set("threads/new", id)])
                        .unwrap();
                snapshot::read_back(&store, &id, &next).unwrap();
                "not needed"
            }
            // What was in a pack is lost. What is still there in life can be stored again.
            _ => "",
        };
        if outcome.mended_by.is_empty() {
            outcome.stored_again = self.store_again();
            outcome.readable_after = self.readable(&self.open().unwrap()).len();
            return;
        }
        let store = self.open().unwrap();
        outcome.readable_after = self.readable(&store).len();
        assert_eq!(outcome.readable_after, all, "{self}: after {}", outcome.mended_by);
        let report = store.verify(&Snapshots, Depth::Bytes, &Silent).unwrap();
        assert!(report.is_clean(), "{self}: after {}: {:?}", outcome.mended_by, report.problems);
    }
}

impl Cell<'_> {
    /// Stores the memory whose pack was damaged once more. A commit that returns is a promise, so the new snapshot must read
    /// back at once, whatever the store's old copies of the same objects look like.
    fn store_again(&self) -> &'static str {
        let (_, _, model) = self.base.snapshots[3];
        let store = self.open().unwrap();
        let id = snapshot::write(&store, model, Parent::None, |id| vec![set("threads/again", id)]).unwrap();
        snapshot::read_back(&store, &id, &model)
            .unwrap_or_else(|failure| panic!("{self}: stored again: {failure}"));
        "at once"
    }
}

impl std::fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let store = if self.base.encrypted { "encrypted" } else { "plain" };
        write!(f, "{store:9} {:13} {:8}", format!("{:?}", self.place), format!("{:?}", self.action))
    }
}

/// What is not as it should be, and not mended yet. Each of these is a cell that would fail otherwise.
fn gaps_of(place: Place, action: Action, outcome: &Outcome) -> Vec<&'static str> {
    let mut gaps = Vec::new();
    let keyring = matches!(place, Place::Keyring | Place::KeyringCopy);
    if keyring && action == Action::Swap && outcome.noticed_by.is_empty() {
        gaps.push("verify does not ask whether our key opens both copies of the keyring");
    }
    gaps
}

/// What all places and actions of one sort of store have come to.
#[derive(Default)]
struct Sum {
    cells: usize,
    gaps: usize,
    failures: Vec<String>,
}

fn damage_all(encrypted: bool) -> Sum {
    let mut sum = Sum::default();
    let base = Base::new(encrypted, 1);
    // Catalogues, logs and keyrings of another store of the same sort; a format file of the other sort, because one
    // of the same sort says the same except for a name that nothing depends on.
    let foreign = Base::new(encrypted, 9);
    let other_sort = Base::new(!encrypted, 9);
    for place in PLACES {
        if !encrypted && matches!(place, Place::Keyring | Place::KeyringCopy) {
            continue;
        }
        for action in ACTIONS {
            sum.cells += 1;
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().join(".infinijup");
            copy(&base.root_for(place), &root);
            let foreign = if place == Place::Format { &other_sort } else { &foreign };
            let cell = Cell { base: &base, foreign, place, action, root };
            let outcome = match catch_unwind(AssertUnwindSafe(|| cell.run())) {
                Ok(outcome) => outcome,
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                    sum.failures.push(format!("{cell}: {text}"));
                    continue;
                }
            };
            let mended = match outcome.stored_again {
                "" => format!("by {}", outcome.mended_by),
                when => format!("stored again: {when}"),
            };
            println!(
                "{cell} noticed by: {:12} readable: {} -> {}, {mended}",
                outcome.noticed_by.join(", "),
                outcome.readable,
                outcome.readable_after,
            );
            let cell_gaps = gaps_of(place, action, &outcome);
            sum.gaps += cell_gaps.len();
            cell_gaps.iter().for_each(|gap| println!("    KNOWN GAP: {gap}"));
            if outcome.noticed_by.is_empty() && place != Place::Fingerprints && cell_gaps.is_empty() {
                sum.failures.push(format!("{cell}: not noticed"));
            }
            let harmless = matches!(place, Place::Footer | Place::Trailer);
            if harmless && outcome.stored_again != "at once" {
                sum.failures.push(format!("{cell}: could not be stored again"));
            }
        }
    }
    sum
}

#[test]
fn damage_is_noticed_contained_and_mended() {
    // Both sorts at the same time.
    let [plain, encrypted] = std::thread::scope(|scope| {
        [false, true]
            .map(|encrypted| scope.spawn(move || damage_all(encrypted)))
            .map(|sort| sort.join().unwrap())
    });
    let (cells, gaps) = (plain.cells + encrypted.cells, plain.gaps + encrypted.gaps);
    let failures = [plain.failures, encrypted.failures].concat();
    assert!(failures.is_empty(), "{} of {cells} cells:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(cells, (PLACES.len() - 2) * ACTIONS.len() + PLACES.len() * ACTIONS.len());
    assert_eq!(cells, 156);
    println!("{cells} cells, {gaps} known gaps");
    assert!(gaps <= 2, "there are more known gaps than there were: {gaps}");
}
