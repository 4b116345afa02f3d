//! Device memory on its way into the store, while it is still coming.
//!
//! Where a driver can copy device memory elsewhere than into the process that it belongs to, it goes into files, one for each process and
//! GPU, and from there into the store, as an extent map like the memory of a process: by page, against the parent's map of the same name, so
//! that what did not change on the GPU is not stored again. Its addresses are those of the file.
//!
//! Work on the GPU stands still until the files are whole, and no longer. But hashing and compressing take longer than copying, so they begin
//! with the first bytes: [`Storing`] has a thread that follows each file as it grows. Nothing waits for it before the snapshot is kept.
//! What is in the way of the store never reaches the copy, and the files, which whoever made them needs until the processes have their
//! memory back, are only ever read here. They may be removed while they are read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base::io_error;
use cas_core::WriteTransaction;
use cas_core::memory::{MapRoot, PAGE, PageSource, Region};
use cas_core::progress::Silent;
use manifest::Snapshot;
use manifest::snapshot::AddressSpace;

use crate::error::{ImageError, Result};
use crate::ingest::{IngestStats, parent_maps};

/// How soon to look again for bytes that are not there yet.
const AGAIN: Duration = Duration::from_millis(1);

/// All memory of a process on one GPU, in a file that may still be growing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DevicePart {
    /// The process, by the number that it has in its own namespace.
    pub pid: u32,
    /// UUID of the GPU.
    pub gpu: String,
    /// How long the file will be.
    pub bytes: u64,
    /// Where it is.
    pub file: PathBuf,
}

/// The name of that memory in a snapshot.
pub(crate) fn device_space(pid: u32, gpu: &str) -> String {
    format!("gpu:{pid}:{gpu}")
}

/// Device memory that is being stored. Dropped, it is given up.
#[derive(Debug)]
pub struct Storing {
    directory: PathBuf,
    parts: Mutex<Option<Sender<(DevicePart, File)>>>,
    coming: Arc<Coming>,
    thread: Option<JoinHandle<Result<Stored>>>,
}

/// What became of it, with the transaction that it is in.
#[derive(Debug)]
pub struct Stored {
    /// For what else belongs to the snapshot.
    pub session: WriteTransaction,
    /// What was stored.
    pub spaces: Vec<AddressSpace>,
    /// What it took.
    pub stats: IngestStats,
}

impl Stored {
    /// Nothing, in a transaction that has just begun.
    pub fn nothing(session: WriteTransaction) -> Self {
        Self { session, spaces: Vec::new(), stats: IngestStats::default() }
    }
}

impl Storing {
    /// Begins, for files that will be in `directory`. `parent` is the snapshot before, whose commit `session` has pinned.
    pub fn begin(session: WriteTransaction, parent: Option<&Snapshot>, directory: PathBuf) -> Result<Self> {
        let before = parent.map(parent_maps).transpose()?.unwrap_or_default();
        let (send, parts) = channel();
        let coming = Arc::new(Coming::default());
        let watched = Arc::clone(&coming);
        let work = move || store_all(session, &before, &parts, &watched);
        let thread = thread::Builder::new().name("device memory".to_owned()).spawn(work);
        let thread = thread.map_err(io_error("start", Path::new("a thread")))?;
        Ok(Self { directory, parts: Mutex::new(Some(send)), coming, thread: Some(thread) })
    }

    /// Where the files will be. Whoever makes them removes them.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A file is there, and grows.
    pub fn comes(&self, part: DevicePart) -> Result<()> {
        let file = File::open(&part.file).map_err(io_error("open", &part.file))?;
        if let Some(parts) = self.parts().as_ref() {
            // Nobody listens if the store has failed already, and `finish` says why.
            let _ = parts.send((part, file));
        }
        Ok(())
    }

    /// All files are whole.
    pub fn is_whole(&self) {
        self.coming.is_whole();
        self.parts().take();
    }

    /// Whether all files were whole.
    pub fn came(&self) -> bool {
        self.coming.is(WHOLE)
    }

    fn parts(&self) -> std::sync::MutexGuard<'_, Option<Sender<(DevicePart, File)>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until everything is stored.
    pub fn finish(mut self) -> Result<Stored> {
        self.parts().take();
        let thread = self.thread.take().ok_or_else(|| gone("it was waited for already"))?;
        thread.join().map_err(|_| gone("its thread panicked"))?
    }
}

impl Drop for Storing {
    fn drop(&mut self) {
        self.coming.give_up();
        self.parts().take();
        if let Some(thread) = self.thread.take() {
            let _given_up = thread.join();
        }
    }
}

fn gone(detail: &str) -> ImageError {
    ImageError::NotWhole { commit: "device memory".to_owned(), detail: detail.to_owned() }
}

fn store_all(
    session: WriteTransaction,
    before: &BTreeMap<String, MapRoot>,
    parts: &Receiver<(DevicePart, File)>,
    coming: &Arc<Coming>,
) -> Result<Stored> {
    let mut spaces = Vec::new();
    let mut stats = IngestStats::default();
    for (part, file) in parts {
        let name = device_space(part.pid, &part.gpu);
        let source: Arc<dyn PageSource> =
            Arc::new(Growing { file, bytes: part.bytes, coming: Arc::clone(coming) });
        let (map, pages) = session.put_memory(&source, before.get(&name), &Silent)?;
        stats.add(&pages);
        spaces.push(AddressSpace { name, map: map.into(), bytes: part.bytes });
    }
    Ok(Stored { session, spaces, stats })
}

const STILL: u8 = 0;
const WHOLE: u8 = 1;
const GIVEN_UP: u8 = 2;

/// How far those are who write the files.
#[derive(Default, Debug)]
struct Coming(AtomicU8);

impl Coming {
    fn is_whole(&self) {
        let _given_up = self.0.compare_exchange(STILL, WHOLE, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Also what is whole: nobody wants it any more.
    fn give_up(&self) {
        self.0.store(GIVEN_UP, Ordering::Release);
    }

    fn is(&self, word: u8) -> bool {
        self.0.load(Ordering::Acquire) == word
    }
}

/// A file that is read behind the one who writes it.
#[derive(Debug)]
struct Growing {
    file: File,
    bytes: u64,
    coming: Arc<Coming>,
}

impl PageSource for Growing {
    fn regions(&self) -> Vec<Region> {
        let len = self.bytes.next_multiple_of(PAGE as u64);
        if len == 0 { Vec::new() } else { vec![Region { start: 0, len }] }
    }

    fn read(&self, mut address: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let left = usize::try_from(self.bytes.saturating_sub(address)).unwrap_or(usize::MAX);
            let wanted = left.min(buffer.len());
            let (now, beyond) = buffer.split_at_mut(wanted);
            if now.is_empty() {
                beyond.fill(0);
                return Ok(());
            }
            if self.coming.is(GIVEN_UP) {
                return Err(io::Error::other("device memory is not wanted any more"));
            }
            // Asked before the read: what was whole then is all there.
            let whole = self.coming.is(WHOLE);
            match self.file.read_at(now, address) {
                Ok(0) if whole => return Err(io::Error::other("device memory is shorter than it should be")),
                Ok(0) => thread::sleep(AGAIN),
                Ok(count) => {
                    address += count as u64;
                    buffer = &mut buffer[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
