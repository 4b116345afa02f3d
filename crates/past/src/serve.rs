//! The kernel's requests, and their answers.
//!
//! What cannot be read is an I/O error for whoever asked for it, and is told once to whoever mounted; everything else stays readable.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use base::proc::mounts_in;
use cas_core::Store;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};

use crate::content::Reader;
use crate::error::{PastError, Result};
use crate::inodes::Inodes;
use crate::node::{Facts, Line, Node, Past, What};

/// Files and directories that can be open at a time.
const OPEN: usize = 4096;
/// Requests that are answered at a time.
const THREADS: usize = 4;
/// No single read is longer.
const READ: u32 = 1 << 20;
/// How long those who still read have when it is unmounted.
const GRACE: Duration = Duration::from_secs(2);

/// What it is called among mounts, and its kind.
const NAME: &str = "infinijup";
const KIND: &str = "fuse.infinijup";

/// Is told of what cannot be read.
pub type Complain = Box<dyn Fn(&PastError) + Send + Sync>;

/// Snapshots that are mounted.
pub struct Mounted {
    session: BackgroundSession,
    place: Place,
}

/// Mounts all snapshots of a store at a directory, for its user alone.
pub fn mount(store: Arc<Store>, at: &Path, complain: Complain) -> Result<Mounted> {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::RO,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoAtime,
        MountOption::FSName(NAME.to_owned()),
        MountOption::Subtype(NAME.to_owned()),
    ];
    config.n_threads = Some(THREADS);
    let serve = Serve {
        past: Past::new(store),
        inodes: Inodes::default(),
        open: Mutex::default(),
        next: AtomicU64::new(1),
        complain,
    };
    let failed = |source| PastError::Mount { path: at.to_owned(), source };
    // Before it is mounted: then nobody who is asked about the path can be ourselves.
    let path = at.canonicalize().map_err(failed)?;
    let session = fuser::spawn_mount(serve, at, &config).map_err(failed)?;
    Ok(Mounted { session, place: Place::now(path) })
}

impl Mounted {
    /// Whether somebody has unmounted it.
    pub fn is_over(&self) -> bool {
        self.session.guard.is_finished()
    }

    /// Unmounts it. Those who still have a file open are waited for a moment, and then find it gone.
    pub fn unmount(self) -> io::Result<()> {
        // Nobody had unmounted it, and nobody is answered any more.
        let fell = self.is_over() && self.place.is_mounted();
        let Self { session, place } = self;
        let (sent, ended) = std::sync::mpsc::channel();
        let unmounting = std::thread::spawn(move || {
            // Whoever waits has gone when it took too long.
            let _late = sent.send(session.umount_and_join());
        });
        let asked = Instant::now();
        match ended.recv_timeout(GRACE) {
            Ok(done) => {
                let _done = unmounting.join();
                judge(done, fell, || place.is_mounted())
            }
            Err(_) if asked.elapsed() >= GRACE && place.is_mounted() => {
                Err(io::Error::other("it is still mounted; `fusermount3 -u` takes it away"))
            }
            // It is taken out of the tree already; the end of this process ends the rest.
            Err(_) if asked.elapsed() >= GRACE => Ok(()),
            Err(_) => Err(io::Error::other("unmounting was cut short")),
        }
    }
}

/// What came of unmounting. The last thing that a connection to the kernel says is often an error: it is cut while a thread of ours takes the
/// request of somebody who still reads. That is how a folder that is read ends, and says nothing of whether it was unmounted.
fn judge(done: io::Result<()>, fell: bool, is_mounted: impl FnOnce() -> bool) -> io::Result<()> {
    done.or_else(|error| if fell || is_mounted() { Err(error) } else { Ok(()) })
}

/// Where it is mounted.
struct Place {
    path: PathBuf,
    /// How many such folders were mounted there with it, one above the other.
    mounts: usize,
}

impl Place {
    fn now(path: PathBuf) -> Self {
        let mounts = mounts_at(&path).unwrap_or(0);
        Self { path, mounts }
    }

    /// Asks the kernel's table and not the folder: what is mounted there may have nobody who answers. Where the table cannot be read,
    /// nothing is known to be gone.
    fn is_mounted(&self) -> bool {
        mounts_at(&self.path).is_none_or(|mounts| mounts >= self.mounts)
    }
}

fn mounts_at(path: &Path) -> Option<usize> {
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    Some(mounts_in(&table).filter(|mount| mount.target == path && mount.kind == KIND).count())
}

/// Something that is open.
enum Open {
    File(Mutex<Reader>, u64),
    Directory(Vec<Line>),
}

struct Serve {
    past: Past,
    inodes: Inodes,
    open: Mutex<HashMap<u64, Arc<Open>>>,
    next: AtomicU64,
    complain: Complain,
}

impl Serve {
    fn node(&self, number: INodeNo) -> Option<Node> {
        if number == INodeNo::ROOT { Some(self.past.root()) } else { self.inodes.get(number.0) }
    }

    fn opened(&self) -> MutexGuard<'_, HashMap<u64, Arc<Open>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, open: Open) -> Result<FileHandle> {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        let mut opened = self.opened();
        if opened.len() >= OPEN {
            return Err(PastError::TooMany);
        }
        opened.insert(handle, Arc::new(open));
        Ok(FileHandle(handle))
    }

    fn get(&self, handle: FileHandle) -> Option<Arc<Open>> {
        self.opened().get(&handle.0).cloned()
    }

    fn end(&self, handle: FileHandle) {
        self.opened().remove(&handle.0);
    }

    /// What the kernel is told of an error.
    fn number_of(&self, error: &PastError) -> Errno {
        match error {
            PastError::NotCaptured => Errno::ENODATA,
            PastError::TooMany => Errno::EMFILE,
            error => {
                (self.complain)(error);
                Errno::EIO
            }
        }
    }
}

impl Filesystem for Serve {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // As much as the kernel allows.
        if let Err(most) = config.set_max_readahead(READ) {
            let _as_it_is = config.set_max_readahead(most);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let Some(directory) = self.node(parent) else { return reply.error(Errno::ESTALE) };
        match self.past.child(&directory, name.as_bytes()) {
            Ok(Some(node)) => {
                let facts = node.facts;
                self.inodes.told(node);
                reply.entry(&facts.stays, &attributes(&facts), Generation(0));
            }
            Ok(None) => reply.error(Errno::ENOENT),
            Err(error) => reply.error(self.number_of(&error)),
        }
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        self.inodes.forget(number.0, times);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.node(number) {
            Some(node) => reply.attr(&node.facts.stays, &attributes(&node.facts)),
            None => reply.error(Errno::ESTALE),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.node(number).map(|node| node.what) {
            Some(What::Link(target)) => reply.data(&target),
            _ => reply.error(Errno::EINVAL),
        }
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let Some(node) = self.node(number) else { return reply.error(Errno::ESTALE) };
        let What::File(content) = &node.what else { return reply.error(Errno::EINVAL) };
        let opened = Reader::open(&self.past.store, content)
            .and_then(|reader| self.begin(Open::File(Mutex::new(reader), node.facts.size)));
        match opened {
            Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(self.number_of(&error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let open = self.get(handle);
        let Some(Open::File(reader, length)) = open.as_deref() else { return reply.error(Errno::EBADF) };
        let left = length.saturating_sub(offset).min(size.min(READ).into());
        let size = usize::try_from(left).unwrap_or(0);
        let read = reader.lock().unwrap_or_else(PoisonError::into_inner).read(offset, size);
        match read {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(self.number_of(&error)),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.end(handle);
        reply.ok();
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let Some(node) = self.node(number) else { return reply.error(Errno::ESTALE) };
        let opened = self.past.lines(&node).and_then(|lines| self.begin(Open::Directory(lines)));
        match opened {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(self.number_of(&error)),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let open = self.get(handle);
        let Some(Open::Directory(lines)) = open.as_deref() else { return reply.error(Errno::EBADF) };
        let dots = [&b"."[..], b".."].map(|name| Line {
            number: number.0,
            kind: fuser::FileType::Directory,
            name: name.into(),
        });
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (at, line) in dots.iter().chain(lines).enumerate().skip(from) {
            let next = at as u64 + 1;
            if reply.add(INodeNo(line.number), next, line.kind, OsStr::from_bytes(&line.name)) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.end(handle);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(0, 0, 0, 0, 0, 4096, 255, 4096);
    }

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOTSUP);
    }

    fn listxattr(&self, _: &Request, _: INodeNo, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOTSUP);
    }
}

fn attributes(facts: &Facts) -> FileAttr {
    FileAttr {
        ino: INodeNo(facts.number),
        size: facts.size,
        blocks: facts.size.div_ceil(512),
        atime: facts.changed,
        mtime: facts.changed,
        ctime: facts.changed,
        crtime: SystemTime::UNIX_EPOCH,
        kind: facts.kind,
        perm: facts.mode,
        nlink: facts.links,
        uid: facts.owner.0,
        gid: facts.owner.1,
        rdev: facts.device,
        blksize: 128 << 10,
        flags: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aborted() -> io::Result<()> {
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    #[test]
    fn unmounting_is_judged_by_what_is_still_mounted() {
        judge(Ok(()), false, || true).unwrap();
        // A reader was cut off, and it is gone.
        judge(aborted(), false, || false).unwrap();
        // It is still there.
        judge(aborted(), false, || true).unwrap_err();
        // It had failed before anybody wanted it gone.
        judge(aborted(), true, || false).unwrap_err();
    }

    #[test]
    fn a_folder_where_nothing_of_ours_is_mounted_is_told_from_one_that_is() {
        let mut place = Place::now("/proc".into());
        assert_eq!(place.mounts, 0, "something is mounted there, but not ours");
        place.mounts = 1;
        assert!(!place.is_mounted());
    }
}
