//! A store whose packs are not in its directory. The port is all that a store knows of its packs, so one that keeps them in
//! memory, as an object store would keep them far away, must do everything that a directory does.

use std::io;
use std::sync::{Mutex, MutexGuard};

use super::*;
use crate::fsio::ReadAt;
use crate::packs::{PackBytes, Packs};
use crate::testing::{encryption, passphrase, remove};
use crate::{OpenOptions, PackId, StoreError, rebuild_from};

#[derive(Clone, Debug, Default)]
struct FarAway(Arc<Mutex<BTreeMap<PackId, Arc<Vec<u8>>>>>);

impl FarAway {
    fn all(&self) -> MutexGuard<'_, BTreeMap<PackId, Arc<Vec<u8>>>> {
        self.0.lock().unwrap()
    }
}

fn place(pack: &PackId) -> PathBuf {
    PathBuf::from(format!("far-away:{pack}"))
}

impl Packs for FarAway {
    fn list(&self) -> Result<Vec<PackId>> {
        Ok(self.all().keys().copied().collect())
    }

    fn open(&self, pack: &PackId) -> Result<PackBytes> {
        let bytes = self.all().get(pack).cloned().ok_or(StoreError::MissingPack { pack: *pack })?;
        Ok(PackBytes::new(place(pack), Box::new(Bytes(bytes))))
    }

    fn put_new(&self, pack: &PackId, staged: &Path) -> Result<()> {
        let bytes = std::fs::read(staged).map_err(StoreError::io("read", staged))?;
        if self.all().insert(*pack, Arc::new(bytes)).is_some() {
            return Err(StoreError::io("put", place(pack))(io::ErrorKind::AlreadyExists.into()));
        }
        std::fs::remove_file(staged).map_err(StoreError::io("remove", staged))
    }

    fn remove(&self, packs: &[PackId]) -> Result<u64> {
        let mut all = self.all();
        Ok(packs.iter().filter(|pack| all.remove(pack).is_some()).count() as u64)
    }
}

/// Gives a few bytes at a time.
#[derive(Debug)]
struct Bytes(Arc<Vec<u8>>);

impl ReadAt for Bytes {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap().min(self.0.len());
        let some = buffer.len().min(self.0.len() - from).min(10_000);
        buffer[..some].copy_from_slice(&self.0[from..from + some]);
        Ok(some)
    }
}

/// A store that has never seen its packs as files.
struct Far {
    packs: FarAway,
    root: PathBuf,
    encrypted: bool,
    _directory: tempfile::TempDir,
}

impl Far {
    fn new(encrypted: bool) -> (Self, Arc<Store>) {
        let directory = tempfile::tempdir().unwrap();
        let far = Self {
            packs: FarAway::default(),
            root: directory.path().join("near"),
            encrypted,
            _directory: directory,
        };
        let encryption = encrypted.then(|| encryption("far"));
        let packs = Arc::new(far.packs.clone());
        let store = Store::init_with(&far.root, encryption.as_ref(), packs, OpenOptions::default()).unwrap();
        (far, store)
    }

    fn open(&self) -> Result<Arc<Store>> {
        let unlock = self.encrypted.then(|| passphrase("far"));
        Store::open_with(
            &self.root,
            Arc::new(self.packs.clone()),
            OpenOptions { unlock, ..OpenOptions::default() },
        )
    }
}

#[test]
fn a_store_lives_without_a_pack_in_its_directory() {
    for encrypted in [false, true] {
        let (far, store) = Far::new(encrypted);
        let kept = Snapshot::take(&store, 1, "kept");
        let gone = Snapshot::take(&store, 2, "gone");
        gone.check(&far.open().unwrap());
        let before = far.packs.all().len();
        store.refs().update(&[remove("gone")]).unwrap();
        assert!(collect(&store).packs_removed > 0);
        assert!(far.packs.all().len() < before);
        assert!(!store.contains(&gone.id).unwrap());
        let dropped = store.write(&[]).unwrap();
        Snapshot::put(&dropped, 3, None).unwrap();
        drop(dropped);
        assert_clean(&store);
        drop(store);

        for name in ["catalogue.sqlite", "catalogue.sqlite-wal", "catalogue.sqlite-shm"] {
            let _ = std::fs::remove_file(far.root.join(name));
        }
        let report = rebuild_from(&far.root, &far.packs, &Silent).unwrap();
        assert_eq!(report.packs, far.packs.all().len() as u64);
        let store = far.open().unwrap();
        kept.check(&store);
        assert_clean(&store);
        Snapshot::take(&store, 4, "later").check(&store);
        let local = crate::packs::LocalPacks::below(&far.root);
        assert!(local.list().unwrap().is_empty(), "a pack was left in the directory");
    }
}

#[test]
fn errors_name_the_place_that_the_port_names() {
    let (far, store) = Far::new(false);
    let snapshot = Snapshot::take(&store, 1, "main");
    let id = *far.packs.all().keys().next().unwrap();
    let cut = Arc::new(far.packs.all()[&id][..100].to_vec());
    far.packs.all().insert(id, cut);
    let error = snapshot.read(&far.open().unwrap()).unwrap_err();
    assert!(error.to_string().contains(place(&id).to_str().unwrap()), "{error}");
    far.packs.all().remove(&id);
    let error = snapshot.read(&far.open().unwrap()).unwrap_err();
    assert!(matches!(error, StoreError::MissingPack { pack } if pack == id), "{error}");
}
