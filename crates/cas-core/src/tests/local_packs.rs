//! Packs as files: the directories that they lie in are made when the first one comes.

use super::faulty_disk::{Fault, FaultyDisk, Op};
use super::*;
use crate::id::PackId;
use crate::layout::Layout;
use crate::packs::{LocalPacks, Packs};

struct Place {
    directory: tempfile::TempDir,
    disk: FaultyDisk,
}

impl Place {
    fn new() -> Self {
        let place = Self { directory: tempfile::tempdir().unwrap(), disk: FaultyDisk::default() };
        place.layout().create(&place.disk).unwrap();
        place
    }

    fn layout(&self) -> Layout {
        Layout::new(&self.directory.path().join("store"))
    }

    /// As another process sees them.
    fn packs(&self) -> LocalPacks {
        LocalPacks::new(self.layout(), Arc::new(self.disk.clone()))
    }

    fn staged(&self, pack: &PackId) -> PathBuf {
        let staged = self.layout().temporary().join(format!("{pack}.new"));
        std::fs::write(&staged, "a pack").unwrap();
        staged
    }

    /// Puts a pack there; how many directories were asked for and how many made durable.
    fn put(&self, packs: &LocalPacks, pack: &PackId) -> (u64, u64) {
        self.disk.heal();
        packs.put_new(pack, &self.staged(pack)).unwrap();
        let counts = self.disk.heal().counts;
        (counts.get(&Op::CreateDir).copied().unwrap_or(0), counts[&Op::SyncDir])
    }
}

fn pack(first: u8, last: u8) -> PackId {
    let mut bytes = [0; 32];
    (bytes[0], bytes[31]) = (first, last);
    PackId::from_bytes(bytes)
}

#[test]
fn a_directory_is_there_for_good_before_a_pack_is() {
    let place = Place::new();
    let (ours, theirs) = (place.packs(), place.packs());
    assert!(!place.layout().pack_dir(&pack(0xab, 1)).exists());
    assert_eq!(place.put(&ours, &pack(0xab, 1)), (1, 2), "its directory, and the one above");
    assert_eq!(place.put(&ours, &pack(0xab, 2)), (0, 1));
    assert_eq!(place.put(&theirs, &pack(0xab, 3)), (1, 2), "who had made it might not have come to that");
    assert_eq!(ours.list().unwrap(), [pack(0xab, 1), pack(0xab, 2), pack(0xab, 3)]);
}

#[test]
fn where_a_directory_may_not_stay_there_is_no_pack() {
    for (op, n) in [(Op::CreateDir, 0), (Op::SyncDir, 0)] {
        let place = Place::new();
        let (packs, id) = (place.packs(), pack(7, 1));
        let staged = place.staged(&id);
        place.disk.arm(op, n, Fault::Once);
        packs.put_new(&id, &staged).unwrap_err();
        assert_eq!(place.disk.heal().failed.len(), 1, "{op:?}");
        assert!(packs.list().unwrap().is_empty() && staged.exists(), "{op:?}");
        assert_eq!(place.put(&packs, &id), (1, 2), "{op:?}: it was taken for durable");
    }
}

#[test]
fn only_directories_of_packs_are_looked_into_and_none_need_be_there() {
    let place = Place::new();
    let packs = place.packs();
    place.put(&packs, &pack(0xcd, 1));
    let objects = place.layout().objects();
    for name in ["tmp", "CD", "c", "cde", "zz"] {
        std::fs::create_dir_all(objects.join(name)).unwrap();
        std::fs::write(objects.join(name).join(format!("{}.pack", pack(0xcd, 2))), "").unwrap();
    }
    std::fs::write(objects.join("ef"), "no directory").unwrap();
    assert_eq!(packs.list().unwrap(), [pack(0xcd, 1)]);
    assert_eq!(packs.remove(&[pack(0xcd, 1), pack(0x12, 1)]).unwrap(), 1);
    std::fs::remove_dir_all(&objects).unwrap();
    assert!(packs.list().unwrap().is_empty());
}
