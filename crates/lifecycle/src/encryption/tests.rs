//! A store that becomes an encrypted one keeps everything, whenever it is interrupted, and leaves nothing plain behind.

use cas_core::packs::{LocalPacks, Packs};
use cas_core::progress::Silent;

use super::*;
use crate::history::testing::{assert_holds, commit, line};
use crate::history::{OwnStore, UserStore};
use crate::record::{Record, SessionId};

/// A record that names two commits.
const RECORD: &str = r#"{"id": "0123456789ab", "name": "a", "owner": {"uid": 0, "gid": 0, "groups": [], "name": "root",
    "home": "/root", "shell": "/bin/sh"}, "state": "suspended", "command": ["a"], "cwd": "/",
    "created": "2026-11-15T09:12:09Z", "network": "private", "outside": false, "workspace": "/",
    "files": {"policy": "open"}, "memory_limit": null, "pids_limit": null, "kernel": null, "thread": "main",
    "head": "HEAD", "origin": {"session": "0123456789ab", "commit": "ORIGIN"}, "files_at": "/", "init": null,
    "forwarder": null, "pasta": null, "exit": null}"#;

/// 4 KiB that nothing compresses, and that are found wherever they are plain.
fn secret() -> Vec<u8> {
    let mut out = vec![0; 4096];
    blake3::Hasher::new().update(b"a secret").finalize_xof().fill(&mut out);
    out
}

/// A state directory with four commits, of which one is forgotten, and a session.
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
        commit(&store, "branch", &[commits[2]], 9).unwrap();
        let session = store.write(&[]).unwrap();
        let blob = session.put_blob(&mut secret().as_slice(), &Silent).unwrap();
        let name = "tags/secret".to_owned();
        session.commit(&[RefChange { name, expected: Expected::Absent, new: Some(blob.id) }]).unwrap();
        let sealer = Sealer::open(&state).unwrap();
        commits[2..].iter().for_each(|commit| sealer.seal(&commit.to_string()).unwrap());
        let place = place_of(&state).unwrap();
        let id = SessionId::try_from("0123456789ab".to_owned()).unwrap();
        make(&place.session(&id)).unwrap();
        let record = RECORD.replace("HEAD", &commits[3].to_string());
        fs::write(place.record(&id), record.replace("ORIGIN", &commits[2].to_string())).unwrap();
        for plain in ["cache", "staging"] {
            make(&state.join(plain).join("x")).unwrap();
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

    fn encrypt(&self) -> Encrypted {
        encrypt(&self.state(), &self.key(), &Silent).unwrap()
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
        let mut record = Record::read(&state.join("sessions/0123456789ab/record.json")).unwrap();
        assert_eq!(record.commits_mut(), [&log[0].to_string(), &log[1].to_string()]);
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
    assert_eq!(finish(&world.state()).unwrap(), Some(world.key()));
    settled(&world.state()).unwrap();
    assert_eq!(finish(&world.state()).unwrap(), None);
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
    let place = |world: &World| place_of(&world.state()).unwrap();
    type Step<'a> = &'a dyn Fn(&World);
    let steps: [Step<'_>; 5] = [
        &|world| fs::rename(place(world).store(), plain_store(&world.state())).unwrap(),
        &|world| exchange(&place(world)).unwrap(),
        &|world| rename_in_records(&place(world), &notes(world)).unwrap(),
        &|world| rename_seals(&world.state(), &notes(world)).unwrap(),
        &|world| fs::remove_dir_all(plain_store(&world.state()).join("objects")).unwrap(),
    ];
    for done in 0..=steps.len() {
        let mut world = decided.copied();
        // The notes name the key of the first world.
        let mut notes = notes(&world);
        notes.key_file = world.key();
        write_json(&notes_path(&world.state()), &notes).unwrap();
        steps[..done].iter().for_each(|step| step(&world));
        // Finished, and killed before that was noted.
        finish(&world.state()).unwrap();
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
    assert_eq!(finish(&world.state()).unwrap(), None);
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
    encrypt(&world.state(), &world.key(), &Silent).unwrap_err();
    assert!(!new_store(&world.state()).exists() && !notes_path(&world.state()).exists());
    assert!(!Format::read(&Layout::new(&world.state().join("store"))).unwrap().encrypted);
}

#[test]
fn there_need_be_no_store_and_no_operation_may_wait() {
    let home = tempfile::tempdir().unwrap();
    let (state, key) = (home.path().join("state"), home.path().join("key"));
    fs::create_dir(&state).unwrap();
    let journal = Journal::open(state.join("journal")).unwrap();
    let id = SessionId::try_from("0123456789ab".to_owned()).unwrap();
    let entry = journal.begin(&id, &crate::journal::Phase::Stopping).unwrap();
    let refused = encrypt(&state, &key, &Silent).unwrap_err();
    assert!(refused.code() == "IJ-L092" && refused.to_string().contains("0123456789ab"), "{refused}");
    entry.done().unwrap();
    assert_eq!(encrypt(&state, &key, &Silent).unwrap().commits, 0);
    finish(&state).unwrap();
    settled(&state).unwrap();
    assert!(Format::read(&Layout::new(&state.join("store"))).unwrap().encrypted);
    assert_eq!(encrypt(&state, Path::new("key"), &Silent).unwrap_err().code(), "IJ-L015");
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
    assert_eq!(open(Some(&other)).unwrap_err().code(), "IJ-L091", "a plain store needs no key");
    world.encrypt();
    finish_all(&world);
    let missing = open(None).unwrap_err();
    assert!(
        missing.code() == "IJ-L090" && missing.to_string().contains("`key_file` is not set"),
        "{missing}"
    );
    let wrong = open(Some(&other)).unwrap_err();
    assert!(wrong.code() == "IJ-L090" && wrong.to_string().contains("not the key of"), "{wrong}");
    open(Some(&world.key())).unwrap();
    let none = OwnStore::new(world.home.path().join("new"), Some(StoreKey::read(&other).unwrap())).unwrap();
    assert!(none.open().unwrap().store().format().encrypted, "a new one is encrypted from the start");
}
