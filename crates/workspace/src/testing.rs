//! For the tests of this module: a home with a store, and a user whose rights are not ours.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cas_core::progress::Silent;
use cas_core::{OpenOptions, Store};
use manifest::Entry;
use sandbox::User;

use super::capture::{CaptureRequest, Captured, ahead, begin};
use super::listing::{Listing, content};
use super::{AtWork, Pending, Places, PutBack};
use crate::policy::FilePolicy;

static UNKNOWN: AtWork = AtWork::unknown();
static NOTHING: BTreeSet<PathBuf> = BTreeSet::new();

/// A number that nobody has.
const NOBODY: u32 = 234_567;

pub(crate) struct Home {
    directory: tempfile::TempDir,
    _store: tempfile::TempDir,
    pub(crate) store: Arc<Store>,
    pub(crate) user: User,
    pub(crate) places: Places,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// In a directory of a certain file system.
    pub(crate) fn below(directory: &Path) -> Self {
        let directory = tempfile::tempdir_in(directory).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = fs::canonicalize(directory.path()).unwrap();
        let store_directory = in_memory();
        let store = Store::init(&store_directory.path().join("store"), None, OpenOptions::default()).unwrap();
        let root = rustix::process::geteuid().is_root();
        let uid = if root { NOBODY } else { rustix::process::geteuid().as_raw() };
        let gid = if root { NOBODY } else { rustix::process::getegid().as_raw() };
        let user = User {
            uid,
            gid,
            groups: vec![gid],
            name: "ada".to_owned(),
            home: path.clone(),
            shell: "/bin/sh".into(),
        };
        let (work, elsewhere) = (path.join("work"), path.join("elsewhere"));
        for directory in [&work, &elsewhere, &path.join("staging")] {
            fs::create_dir(directory).unwrap();
        }
        chown(&work, Some(uid), Some(gid)).unwrap();
        chown(&elsewhere, Some(uid), Some(gid)).unwrap();
        let places = Places::of_box(&work, &work, &[]);
        // What is temporary here may be in one of the directories that a box has of its own.
        let places = Places { private: vec!["/dev".into(), "/proc".into()], ..places };
        Self { directory, _store: store_directory, store, user, places }
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        fs::canonicalize(self.directory.path()).unwrap().join(name)
    }

    /// A file of the user's, with the directories that lead to it.
    pub(crate) fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        let mut missing: Vec<&Path> = path.ancestors().skip(1).take_while(|path| !path.exists()).collect();
        missing.reverse();
        for directory in missing {
            fs::create_dir(directory).unwrap();
            self.give(directory);
        }
        fs::write(&path, content).unwrap();
        self.give(&path);
        path
    }

    pub(crate) fn give(&self, path: &Path) {
        std::os::unix::fs::lchown(path, Some(self.user.uid), Some(self.user.gid)).unwrap();
    }

    pub(crate) fn request<'a>(
        &'a self,
        policy: &'a FilePolicy,
        staging: &'a Path,
        parent: &'a Listing,
    ) -> CaptureRequest<'a> {
        let (user, places) = (&self.user, &self.places);
        CaptureRequest { user, places, policy, named: &[], staging, parent }
    }

    pub(crate) fn capture_with(
        &self,
        policy: &FilePolicy,
        named: &[PathBuf],
        parent: &Listing,
        pids: &[i32],
    ) -> (Captured, Listing) {
        let staging = self.path("staging");
        let request = CaptureRequest {
            user: &self.user,
            places: &self.places,
            policy,
            named,
            staging: &staging,
            parent,
        };
        let ahead = ahead(&request).unwrap();
        let pending = begin(&request, ahead, pids).unwrap();
        assert_eq!(fs::read_dir(&staging).unwrap().count(), 0, "staging has no names");
        self.store_pending(pending)
    }

    /// The last part of a capture.
    pub(crate) fn store_pending(&self, pending: Pending) -> (Captured, Listing) {
        let transaction = self.store.write(&[]).unwrap();
        let captured = pending.finish(&transaction, &Silent).unwrap();
        transaction.commit(&[]).unwrap();
        let listing = Listing::load(&self.store, Some(&captured.workspace), Some(&captured.outside)).unwrap();
        let files = |listing: &Listing| -> Vec<_> {
            listing.files().map(|(path, entry)| (path.to_owned(), entry.clone())).collect()
        };
        assert_eq!(files(&captured.listing), files(&listing), "what is remembered is what is stored");
        let within = self.path("work");
        let differ = |(path, entry): &(&PathBuf, &Entry)| {
            path.starts_with(&within) && **path != within && listing.entries.get(*path) != Some(*entry)
        };
        assert_eq!(captured.listing.entries.iter().find(differ), None, "so are directories and links");
        assert_eq!(
            (&captured.listing.not_captured, &captured.listing.open),
            (&listing.not_captured, &listing.open)
        );
        (captured, listing)
    }

    /// The whole directory.
    pub(crate) fn capture_tree(&self) -> Listing {
        self.capture_with(&tree(), &[], &Listing::default(), &[]).1
    }

    /// Just these files.
    pub(crate) fn capture_named(&self, named: &[&Path]) -> Listing {
        let named: Vec<PathBuf> = named.iter().map(|path| path.to_path_buf()).collect();
        self.capture_with(&FilePolicy::Open, &named, &Listing::default(), &[]).1
    }

    pub(crate) fn put_back<'a>(&'a self, policy: &'a FilePolicy, to: &'a Listing) -> PutBack<'a> {
        PutBack {
            store: &self.store,
            user: &self.user,
            places: &self.places,
            policy,
            to,
            head: None,
            running: true,
            open: &[],
            at_work: &UNKNOWN,
            force: false,
            spared: &NOTHING,
        }
    }

    pub(crate) fn content_of(&self, entry: &Entry) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.store.read_blob(&content(entry).unwrap().into(), &mut bytes, &Silent).unwrap();
        bytes
    }

    pub(crate) fn content_in(&self, listing: &Listing, path: &Path) -> Option<Vec<u8>> {
        let entry = listing.entries.get(path)?;
        content(entry).map(|_| self.content_of(entry))
    }
}

/// Most of a test's time would go into syncing the store.
fn in_memory() -> tempfile::TempDir {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { tempfile::tempdir_in(shared).unwrap() } else { tempfile::tempdir().unwrap() }
}

pub(crate) fn tree() -> FilePolicy {
    FilePolicy::Tree { include: Vec::new(), exclude: Vec::new(), max_bytes: u64::MAX, volumes: Vec::new() }
}

/// Waits until the clock has gone on so far that another change would have another ctime.
pub(crate) fn age(path: &Path) {
    let stat = fs::symlink_metadata(path).unwrap();
    let changed = Duration::new(stat.ctime().try_into().unwrap(), stat.ctime_nsec().try_into().unwrap());
    while SystemTime::now().duration_since(UNIX_EPOCH).unwrap() < changed + Duration::from_millis(100) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process of the user's that has files open, until it is dropped.
pub(crate) struct Holder(Child);

impl Holder {
    pub(crate) fn new(home: &Home, stdin: impl Into<Stdio>, stdout: impl Into<Stdio>) -> Self {
        Self::within(home, Path::new("/"), stdin, stdout)
    }

    /// In a certain directory.
    pub(crate) fn within(
        home: &Home,
        directory: &Path,
        stdin: impl Into<Stdio>,
        stdout: impl Into<Stdio>,
    ) -> Self {
        let mut command = Command::new("sleep");
        command.arg("1000").stdin(stdin).stdout(stdout).stderr(Stdio::null()).current_dir(directory);
        if rustix::process::geteuid().is_root() {
            command.uid(home.user.uid).gid(home.user.gid);
        }
        Self(command.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.id().try_into().unwrap()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
