//! Where the pages of one process go.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use nix::sys::uio::{RemoteIoVec, process_vm_writev};
use nix::unistd::Pid;

use crate::pages::{PAGE, PAGE_BYTES, Run};
use crate::spool::print_of;
use crate::table::PageTable;

/// The memory of one process that stands still. Pages come from several threads at once.
#[derive(Debug)]
pub struct Target {
    pid: Pid,
    /// What is missing: in order, and apart.
    missing: Vec<Run>,
    /// Pages of it that are there all the same, whatever is in them.
    there: Vec<Run>,
    /// Bytes that were given.
    given: AtomicU64,
    /// Of these, bytes that were written.
    written: AtomicU64,
    /// What was written, if that is to be known: fingerprints of the pages with content.
    prints: Option<Mutex<PageTable<u64>>>,
}

impl Target {
    pub(super) fn new(pid: i32, missing: Vec<Run>, there: Vec<Run>, remember: bool) -> Self {
        let none = AtomicU64::new;
        let prints = remember.then(Mutex::default);
        Self { pid: Pid::from_raw(pid), missing, there, given: none(0), written: none(0), prints }
    }

    /// Whole pages with content.
    pub fn pages(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let len = bytes.len() as u64;
        self.check(address, len)?;
        self.write(address, bytes)?;
        if let Some(prints) = &self.prints {
            let new: Vec<u64> = bytes.chunks_exact(PAGE_BYTES).map(print_of).collect();
            let mut prints = prints.lock().unwrap_or_else(PoisonError::into_inner);
            for (address, print) in (address..).step_by(PAGE_BYTES).zip(new) {
                prints.set(address, print);
            }
        }
        self.given.fetch_add(len, Ordering::AcqRel);
        Ok(())
    }

    /// Whole pages of zeros. Memory that nobody has touched is so already.
    pub fn zeros(&self, address: u64, len: u64) -> io::Result<()> {
        self.check(address, len)?;
        let end = address + len;
        let first = self.there.partition_point(|run| run.end <= address);
        for run in self.there.iter().skip(first).take_while(|run| run.start < end) {
            for page in (run.start.max(address)..run.end.min(end)).step_by(PAGE_BYTES) {
                self.write(page, &[0; PAGE_BYTES])?;
            }
        }
        self.given.fetch_add(len, Ordering::AcqRel);
        Ok(())
    }

    /// How many bytes are missing.
    pub(super) fn wanted(&self) -> u64 {
        self.missing.iter().map(Run::len).sum()
    }

    pub(super) fn given(&self) -> u64 {
        self.given.load(Ordering::Acquire)
    }

    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// The fingerprints of the pages with content; nothing if they were not to be known.
    pub(super) fn into_prints(self) -> PageTable<u64> {
        self.prints
            .map(|prints| prints.into_inner().unwrap_or_else(PoisonError::into_inner))
            .unwrap_or_default()
    }

    /// Nothing is written where nothing is missing, whatever we are given.
    fn check(&self, address: u64, len: u64) -> io::Result<()> {
        let whole = address.is_multiple_of(PAGE) && len.is_multiple_of(PAGE);
        let end = address.checked_add(len).filter(|_| whole);
        let first = self.missing.partition_point(|run| run.end <= address);
        let missing = self.missing.get(first);
        match (end, missing) {
            (Some(end), Some(run)) if run.start <= address && end <= run.end => Ok(()),
            _ => Err(io::Error::other(format!("{len} bytes at {address:#x} are not missing"))),
        }
    }

    fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let base = usize::try_from(address).map_err(io::Error::other)? + done;
            let remote = RemoteIoVec { base, len: rest.len() };
            match process_vm_writev(self.pid, &[IoSlice::new(rest)], &[remote]) {
                Ok(0) => return Err(io::Error::other(format!("nothing can be written at {base:#x}"))),
                Ok(count) => done += count,
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.written.fetch_add(done as u64, Ordering::AcqRel);
        Ok(())
    }
}
