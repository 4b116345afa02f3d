//! A store that becomes an encrypted one keeps everything, whenever it is interrupted, and leaves nothing plain behind.

use cas_core::packs::{LocalPacks, Packs};
use cas_core::progress::Silent;

use super::*;
use crate::testing::{assert_holds, commit_numbered, line};
use crate::{OwnStore, UserStore};

/// A file with names of commits, for the records of sessions.
struct Names(PathBuf);

impl NamesCommits for Names {
    type Error = HistoryError;

    fn named(&self) -> Result<Vec<String>> {
        Ok(fs::read_to_string(&self.0).unwrap_or_default().lines().map(str::to_owned).collect())
    }

    fn rename(&self, new_names: &BTreeMap<String, String>) -> Result<()> {
        let name = |old: String| new_names.get(&old).cloned().unwrap_or(old);
        let renamed: Vec<String> = self.named()?.into_iter().map(name).collect();
        fs::write(&self.0, renamed.join("\n")).unwrap();
        Ok(())
    }
}

/// 4 KiB that nothing compresses, and that are found wherever they are plain.
fn secret() -> Vec<u8> {
    let mut out = vec![0; 4096];
    blake3::Hasher::new().update(b"a secret").finalize_xof().fill(&mut out);
    out
}

/// A state directory with four commits, of which one is forgotten, and somebody who names two.
struct World {
    home: tempfile::TempDir,
    commits: Vec<ObjectId>,
}

impl World {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        fs::create_dir(&state).unwrap();
        let store = OwnStore::new(state.join("store"), None).unwrap().open().unwrap();
        let commits = line(&store, 4);
        store.forget(&[commits[1]], &|_| None, false).unwrap();
        commit_numbered(&store, "branch", &[commits[2]], 9).unwrap();
        let session = store.write(&[]).unwrap();
        let blob = session.put_blob(&mut secret().as_slice(), &Silent).unwrap();
        let name = "tags/secret".to_owned();
        session.commit(&[RefChange { name, expected: Expected::Absent, new: Some(blob.id) }]).unwrap();
        let sealer = Sealer::open(&state).unwrap();
        commits[2..].iter().for_each(|commit| sealer.seal(&commit.to_string()).unwrap());
        fs::write(state.join("names"), format!("{}\n{}", commits[3], commits[2])).unwrap();
        for plain in ["cache", "staging"] {
            fs::create_dir_all(state.join(plain).join("x")).unwrap();
            fs::write(state.join(plain).join("x/pages-1.img"), secret()).unwrap();
        }
        Self { home, commits }
    }

    fn state(&self) -> PathBuf {
        self.home.path().join("state")
    }

    fn key(&self) -> PathBuf {
        self.home.path().join("config/store.key")
    }

    fn others(&self) -> Names {
        Names(self.state().join("names"))
    }

    fn encrypt(&self) -> Encrypted {
        self.try_encrypt(u64::MAX).unwrap()
    }

    fn try_encrypt(&self, free_bytes: u64) -> Result<Encrypted> {
        encrypt(&self.state(), &self.key(), &self.others(), free_bytes, &Silent)
    }

    fn finish(&self) -> Option<PathBuf> {
        finish(&self.state(), &self.others()).unwrap()
    }

    /// The state as it is now, elsewhere, with the same key.
    fn copied(&self) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut copy = std::process::Command::new("cp");
        let status = copy.arg("-a").arg(self.home.path().join(".")).arg(home.path()).status().unwrap();
        assert!(status.success());
        Self { home, commits: self.commits.clone() }
    }

    fn open(&self) -> UserStore {
        let key = StoreKey::read(&self.key()).unwrap();
        OwnStore::new(self.state().join("store"), Some(key)).unwrap().open().unwrap()
    }

    /// Everything is there, under new names, and encrypted.
    #[track_caller]
    fn assert_encrypted(&self) {
        let state = self.state();
        assert!(!holds(&state, &secret()), "something is plain");
        let store = self.open();
        let head = store.head("main").unwrap().unwrap();
        let log: Vec<ObjectId> = store.log([head]).unwrap().map(|(id, _)| id).collect();
        assert_eq!(log.len(), 3, "and what was forgotten still is");
        for (id, number) in log.iter().zip([3, 2, 0]) {
            assert_holds(&store, id, number);
            assert!(!self.commits.contains(id));
        }
        assert_holds(&store, &store.head("branch").unwrap().unwrap(), 9);
        let report = store.store().verify(&ManifestReferences::default(), Depth::Bytes, &Silent).unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
        let sealer = Sealer::open(&state).unwrap();
        let sealed = |id: &ObjectId| sealer.check(&id.to_string()).is_ok();
        assert_eq!((sealed(&log[0]), sealed(&log[1]), sealed(&log[2])), (true, true, false));
        assert!(!self.commits.iter().any(sealed));
        assert_eq!(self.others().named().unwrap(), [log[0].to_string(), log[1].to_string()]);
        for left in ["store.new", "store.plain", "encrypting.json"] {
            assert!(!state.join(left).exists(), "{left}");
        }
    }
}

/// Whether a file below has these bytes in it.
fn holds(path: &Path, bytes: &[u8]) -> bool {
    if path.is_dir() {
        return fs::read_dir(path).unwrap().any(|entry| holds(&entry.unwrap().path(), bytes));
    }
    fs::read(path).unwrap().windows(bytes.len()).any(|window| window == bytes)
}

#[track_caller]
fn finish_all(world: &World) {
    assert_eq!(world.finish(), Some(world.key()));
    settled(&world.state()).unwrap();
    assert_eq!(world.finish(), None);
}

#[test]
fn everything_is_kept_and_nothing_stays_plain() {
    let world = World::new();
    assert!(holds(&world.state().join("store"), &secret()), "the test would see it");
    let done = world.encrypt();
    assert_eq!((done.already, done.commits), (false, 4));
    finish_all(&world);
    world.assert_encrypted();
    assert!(world.encrypt().already);
}

#[test]
fn whoever_is_interrupted_is_finished_by_the_next() {
    let decided = World::new();
    decided.encrypt();
    let notes = |world: &World| {
        let text = fs::read(notes_path(&world.state())).unwrap();
        serde_json::from_slice::<Notes>(&text).unwrap()
    };
    type Step<'a> = &'a dyn Fn(&World);
    let steps: [Step<'_>; 5] = [
        &|world| fs::rename(store(&world.state()), plain_store(&world.state())).unwrap(),
        &|world| exchange(&world.state()).unwrap(),
        &|world| world.others().rename(&notes(world).commits).unwrap(),
        &|world| rename_seals(&world.state(), &notes(world)).unwrap(),
        &|world| fs::remove_dir_all(plain_store(&world.state()).join("objects")).unwrap(),
    ];
    for done in 0..=steps.len() {
        let mut world = decided.copied();
        // The notes name the key of the first world.
        let mut notes = notes(&world);
        notes.key_file = world.key();
        note(&world.state(), &notes).unwrap();
        steps[..done].iter().for_each(|step| step(&world));
        // Finished, and killed before that was noted.
        world.finish();
        finish_all(&world);
        world.assert_encrypted();
        world.commits.clear();
    }
}

#[test]
fn whoever_is_interrupted_before_anything_was_decided_has_done_nothing() {
    let world = World::new();
    world.encrypt();
    fs::remove_file(notes_path(&world.state())).unwrap();
    fs::remove_file(new_store(&world.state()).join("format")).unwrap();
    assert_eq!(world.finish(), None);
    assert!(!new_store(&world.state()).exists());
    let store = OwnStore::new(world.state().join("store"), None).unwrap().open().unwrap();
    assert_eq!(store.head("main").unwrap(), Some(world.commits[3]));
    drop(store);
    world.encrypt();
    finish_all(&world);
    world.assert_encrypted();
}

#[test]
fn a_damaged_store_is_not_exchanged() {
    let world = World::new();
    let packs = LocalPacks::below(&world.state().join("store")).list().unwrap();
    for pack in &packs {
        let path = Layout::new(&world.state().join("store")).pack(pack);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    world.try_encrypt(u64::MAX).unwrap_err();
    assert!(!new_store(&world.state()).exists() && !notes_path(&world.state()).exists());
    assert!(!Format::read(&Layout::new(&world.state().join("store"))).unwrap().encrypted);
}

#[test]
fn there_need_be_no_store_but_room_for_a_copy_of_one() {
    let home = tempfile::tempdir().unwrap();
    let (state, key) = (home.path().join("state"), home.path().join("key"));
    fs::create_dir(&state).unwrap();
    let others = Names(state.join("names"));
    assert_eq!(encrypt(&state, &key, &others, 0, &Silent).unwrap().commits, 0);
    finish(&state, &others).unwrap();
    settled(&state).unwrap();
    assert!(Format::read(&Layout::new(&state.join("store"))).unwrap().encrypted);

    let refused = World::new().try_encrypt(1).unwrap_err();
    assert!(matches!(refused, HistoryError::NoRoom { available: 1, .. }), "{refused}");
}

#[test]
fn a_store_and_its_key_belong_together() {
    let world = World::new();
    let root = world.state().join("store");
    let open = |key: Option<&Path>| {
        let key = key.map(|path| StoreKey::read_or_make(path).unwrap());
        OwnStore::new(&root, key).map(drop)
    };
    let other = world.home.path().join("other.key");
    let useless = open(Some(&other)).unwrap_err();
    assert!(matches!(useless, HistoryError::NotEncrypted { .. }), "a plain store needs no key: {useless}");
    world.encrypt();
    finish_all(&world);
    let missing = open(None).unwrap_err();
    assert!(missing.to_string().contains("`key_file` is not set"), "{missing}");
    let wrong = open(Some(&other)).unwrap_err();
    assert!(wrong.to_string().contains("not the key of"), "{wrong}");
    open(Some(&world.key())).unwrap();
    let none = OwnStore::new(world.home.path().join("new"), Some(StoreKey::read(&other).unwrap())).unwrap();
    assert!(none.open().unwrap().store().format().encrypted, "a new one is encrypted from the start");
}
