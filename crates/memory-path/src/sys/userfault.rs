//! A userfaultfd of another process, used for one thing: asynchronous write protection.

use std::os::fd::OwnedFd;

use rustix::io::Result;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

use crate::pages::Run;

const UFFD: u8 = 0xAA;

/// `struct uffdio_api`.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_writeprotect`.
#[repr(C)]
struct WriteProtect {
    start: u64,
    len: u64,
    mode: u64,
}

const UFFDIO_API: Opcode = opcode::read_write::<Api>(UFFD, 0x3F);
const UFFDIO_REGISTER: Opcode = opcode::read_write::<Register>(UFFD, 0x00);
const UFFDIO_WRITEPROTECT: Opcode = opcode::read_write::<WriteProtect>(UFFD, 0x06);

const API_VERSION: u64 = 0xAA;
/// Write protection; of pages that are not there yet, too, without which a mapping is not fit for tracking; and without anybody who
/// answers: the kernel itself lifts the protection at the first write, and that it did is all that is ever asked.
const FEATURES: u64 = 1 | 1 << 13 | 1 << 15;
const MODE_WRITE_PROTECT: u64 = 1 << 1;
const MODE_LIFT: u64 = 0;

/// A userfaultfd. What it was registered for is free again when it is closed.
#[derive(Debug)]
pub(crate) struct Userfault(OwnedFd);

impl Userfault {
    /// Agrees with the kernel on what it is for. `EINVAL` from a kernel that does not know asynchronous write protection.
    pub(crate) fn new(descriptor: OwnedFd) -> Result<Self> {
        let mut api = Api { api: API_VERSION, features: FEATURES, ioctls: 0 };
        // SAFETY: the opcode is that of `UFFDIO_API`, whose argument is `Api`, which lives until the call has returned. On a
        // descriptor that is no userfaultfd the call fails. No safe crate has this call.
        unsafe { ioctl(&descriptor, Updater::<UFFDIO_API, Api>::new(&mut api))? };
        Ok(Self(descriptor))
    }

    /// Registers a mapping. One that is registered here already stays as it is.
    pub(crate) fn register(&self, run: Run) -> Result<()> {
        let mut register = Register { start: run.start, len: run.len(), mode: MODE_WRITE_PROTECT, ioctls: 0 };
        // SAFETY: the opcode is that of `UFFDIO_REGISTER`, whose argument is `Register`, which lives until the call has returned. It
        // changes flags of mappings of the process that the descriptor belongs to, not of ours: that is a process in which the
        // descriptor was made for this purpose, and whose memory keeps its contents.
        unsafe { ioctl(&self.0, Updater::<UFFDIO_REGISTER, Register>::new(&mut register)) }
    }

    /// Lifts the protection of all pages of a mapping: they count as written.
    pub(crate) fn lift(&self, run: Run) -> Result<()> {
        let mut lift = WriteProtect { start: run.start, len: run.len(), mode: MODE_LIFT };
        // SAFETY: the opcode is that of `UFFDIO_WRITEPROTECT`, whose argument is `WriteProtect`, which lives until the call has
        // returned. It changes the protection that `register` and the scan have put on pages of the other process.
        unsafe { ioctl(&self.0, Updater::<UFFDIO_WRITEPROTECT, WriteProtect>::new(&mut lift)) }
    }
}
