//! Reading another process's memory.
//!
//! `process_vm_readv` copies many runs in one call and is the fastest way there is. It ends early at the first page that cannot be read,
//! because it was unmapped since it was listed, or because the program may not read it now. Then nothing after that page has been read
//! either, however well it could have been: so what came up short is read again page by page. A page that cannot be
//! read so is tried once more through `/proc/PID/mem`, which does not ask for the program's own permissions.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::fs::FileExt;

use base::proc;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::error::{MemoryError, Result};
use crate::pages::{PAGE_BYTES, Run};

/// As many runs as the kernel takes in one call.
const MOST_RUNS: usize = 1024;

/// The memory of a process, as it is when this is opened. It is opened anew for every look: after an `exec` it would be that
/// of a program that is no more.
#[derive(Debug)]
pub(crate) struct Memory {
    pid: Pid,
    file: File,
}

impl Memory {
    pub(crate) fn open(pid: i32) -> Result<Self> {
        let file = File::open(proc::path(pid, "mem")).map_err(MemoryError::system("open the memory", pid))?;
        Ok(Self { pid: Pid::from_raw(pid), file })
    }

    /// Reads at one address, all or nothing.
    pub(crate) fn read_exactly(&self, address: u64, into: &mut [u8]) -> bool {
        self.file.read_exact_at(into, address).is_ok()
    }

    /// Reads runs one after the other into a buffer of their length. Gives the pages that could not be read; what is in the buffer in their
    /// place means nothing.
    pub(crate) fn read(&self, runs: &[Run], into: &mut [u8]) -> Vec<Run> {
        let mut unreadable = Vec::new();
        let mut rest = into;
        for some in runs.chunks(MOST_RUNS) {
            let length: usize = some.iter().map(length).sum();
            // A buffer that is too small would be the caller's mistake: what does not fit was not read.
            let Some(these) = rest.split_off_mut(..length) else {
                unreadable.extend(some);
                continue;
            };
            if !self.read_at_once(some, these) {
                self.read_page_by_page(some, these, &mut unreadable);
            }
        }
        unreadable
    }

    fn read_at_once(&self, runs: &[Run], into: &mut [u8]) -> bool {
        let remote: Vec<RemoteIoVec> = runs.iter().filter_map(remote).collect();
        let length = into.len();
        process_vm_readv(self.pid, &mut [IoSliceMut::new(into)], &remote) == Ok(length)
    }

    fn read_page_by_page(&self, runs: &[Run], into: &mut [u8], unreadable: &mut Vec<Run>) {
        let addresses = runs.iter().flat_map(Run::addresses);
        for (address, page) in addresses.zip(into.chunks_exact_mut(PAGE_BYTES)) {
            let run = Run::page(address);
            if !self.read_at_once(&[run], page) && !self.read_exactly(address, page) {
                unreadable.push(run);
            }
        }
    }
}

fn length(run: &Run) -> usize {
    usize::try_from(run.len()).unwrap_or(usize::MAX)
}

fn remote(run: &Run) -> Option<RemoteIoVec> {
    Some(RemoteIoVec { base: usize::try_from(run.start).ok()?, len: length(run) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::PAGE;

    #[test]
    fn what_comes_after_a_page_that_is_not_there_is_read_all_the_same() {
        // Whole pages of our own, with contents that tell them apart.
        let own: Vec<u8> = (1..9).flat_map(|number| [number; PAGE_BYTES]).collect();
        let first = (own.as_ptr() as u64).next_multiple_of(PAGE);
        let whole = Run { start: first, end: first + 6 * PAGE };
        // The kernel maps nothing so low.
        let hole = Run::page(PAGE);
        let memory = Memory::open(std::process::id().try_into().unwrap()).unwrap();
        let mut read = vec![0; 13 * PAGE_BYTES];
        assert_eq!(memory.read(&[whole, hole, whole], &mut read), [hole]);
        let skipped = usize::try_from(first - own.as_ptr() as u64).unwrap();
        let expected = &own[skipped..][..6 * PAGE_BYTES];
        assert_eq!(read[..6 * PAGE_BYTES], *expected);
        assert_eq!(read[7 * PAGE_BYTES..], *expected);
    }
}
