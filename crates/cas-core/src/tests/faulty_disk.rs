//! A disk that fails when it is told to.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::fsio::{self, Disk, DiskFile, Listed, LocalDisk, ReadAt};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Op {
    Create,
    CreateDir,
    Write,
    Sync,
    RenameNew,
    RenameOver,
    Remove,
    SyncDir,
    Open,
    Size,
    ReadAt,
    List,
}

impl Op {
    pub(super) fn is_read(self) -> bool {
        matches!(self, Self::Open | Self::Size | Self::ReadAt | Self::List)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// This one time: EIO.
    Once,
    /// This time and from now on: ENOSPC for a write, EIO for a read.
    ForGood,
    /// Half of what was to be written is, then ENOSPC.
    Half,
    /// A read returns nothing, this one time, though there is something.
    Nothing,
}

impl Fault {
    fn error(self, op: Op) -> io::Error {
        io::Error::from_raw_os_error(if self == Self::Once || op.is_read() { 5 } else { 28 })
    }
}

/// What the disk is to do, and what it has done since it was told.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) counts: BTreeMap<Op, u64>,
    /// What each operation was on that has failed.
    pub(super) failed: Vec<PathBuf>,
    /// Which operation fails, and how.
    plan: Option<(Op, u64, Fault)>,
    /// No write and no read takes more than a few bytes.
    short: bool,
}

/// The disk. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct FaultyDisk(Arc<Mutex<Script>>);

impl FaultyDisk {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap()
    }

    pub(super) fn arm(&self, op: Op, n: u64, fault: Fault) {
        *self.script() = Script { plan: Some((op, n, fault)), ..Script::default() };
    }

    pub(super) fn be_short(&self) {
        self.script().short = true;
    }

    /// The disk is well again. Returns what it has done.
    pub(super) fn heal(&self) -> Script {
        std::mem::take(&mut *self.script())
    }

    /// Counts an operation; says whether it fails.
    fn next(&self, op: Op, path: &Path) -> Option<Fault> {
        let mut script = self.script();
        let count = script.counts.entry(op).or_default();
        let n = *count;
        *count += 1;
        let (planned, at, fault) = script.plan?;
        let hit = planned == op && (n == at || n > at && fault == Fault::ForGood);
        if hit {
            script.failed.push(path.to_path_buf());
        }
        hit.then_some(fault)
    }

    fn step<T>(&self, op: Op, path: &Path, does: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self.next(op, path) {
            None => does(),
            Some(fault) => Err(fault.error(op)),
        }
    }

    /// How much of `len` bytes is done at once.
    fn some_of(&self, len: usize, op: Op) -> usize {
        let script = self.script();
        let n = script.counts[&op];
        if script.short { usize::try_from(n * n % 701 + 1).unwrap().min(len) } else { len }
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.step(Op::Create, path, || LocalDisk.create(path))?;
        Ok(Box::new(FaultyFile { file, path: path.to_path_buf(), disk: self.clone() }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.step(Op::CreateDir, path, || LocalDisk.create_dir(path))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(Op::RenameNew, to, || LocalDisk.rename_new(from, to))
    }

    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(Op::RenameOver, to, || LocalDisk.rename_over(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step(Op::Remove, path, || LocalDisk.remove(path))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step(Op::SyncDir, path, || LocalDisk.sync_dir(path))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadAt>> {
        let bytes = self.step(Op::Open, path, || LocalDisk.open(path))?;
        Ok(Box::new(FaultyBytes { bytes, path: path.to_path_buf(), disk: self.clone() }))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Listed>> {
        self.step(Op::List, path, || LocalDisk.list(path))
    }
}

struct FaultyFile {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    disk: FaultyDisk,
}

impl DiskFile for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.disk.next(Op::Write, &self.path) {
            Some(Fault::Half) => {
                fsio::write_all(self.file.as_mut(), &bytes[..bytes.len() / 2])?;
                Err(Fault::Half.error(Op::Write))
            }
            Some(fault) => Err(fault.error(Op::Write)),
            None => self.file.write(&bytes[..self.disk.some_of(bytes.len(), Op::Write)]),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.step(Op::Sync, &self.path, || self.file.sync())
    }
}

#[derive(Debug)]
struct FaultyBytes {
    bytes: Box<dyn ReadAt>,
    path: PathBuf,
    disk: FaultyDisk,
}

impl ReadAt for FaultyBytes {
    fn size(&self) -> io::Result<u64> {
        self.disk.step(Op::Size, &self.path, || self.bytes.size())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.disk.next(Op::ReadAt, &self.path) {
            Some(Fault::Nothing) => {
                // At the end that is the right answer.
                if self.bytes.size()? <= offset {
                    self.disk.script().failed.pop();
                }
                Ok(0)
            }
            Some(fault) => Err(fault.error(Op::ReadAt)),
            None => {
                let some = self.disk.some_of(buffer.len(), Op::ReadAt);
                self.bytes.read_at(&mut buffer[..some], offset)
            }
        }
    }
}
