//! What a process has written since the last look, at no cost to anybody but the writer of a page: 1 to 3 µs for its first write after a
//! look.
//!
//! The mechanism is a userfaultfd in asynchronous write-protect mode (Linux 6.7). Pages of a registered mapping can be
//! write-protected; the first write to such a page lifts the protection, in the kernel, without telling anybody; `PAGEMAP_SCAN` lists the
//! pages whose protection is gone and protects them again. It needs no privilege, because no fault is ever handled outside of the kernel. The
//! userfaultfd is made in the process itself ([`crate::injector`]), taken out by `pidfd_getfd`, and closed there, so the process
//! keeps nothing of it.
//!
//! **The safe side.** A page counts as written unless the kernel says that it is registered *and* protected. So everything that
//! happens to a process without our doing errs on the right side: a new mapping, one that `mremap` has moved, a child (which inherits
//! nothing), a program after `exec` (whose memory the userfaultfd does not know), a mapping that somebody else's userfaultfd has.
//!
//! **The traps**, each of which has lost or broken something before it was closed, each with a test in `tests/tracking`:
//! 1. listing, protecting and complaining in one call loses the list (`scan.rs`): two passes;
//! 2. registering while threads run splits mappings that grow: [`StandsStill`] is asked for, and only [`Standing`] registers;
//! 3. a read that ends early leaves later pages stale: they are read page by page (`memory.rs`);
//! 4. the kernel stops a scan where it likes: it is asked again until the end (`scan.rs`);
//! 5. bits outlive a registration: unregistered pages count as written, and when a mapping that has pages is registered, old bits are
//!    lifted before anything else;
//! 6. a page of a private mapping of a file that is thrown away leaves a marker that looks like a clean page: such mappings are not
//!    registered (`mappings.rs`).

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::error::{MemoryError, NotHere, Result};
use crate::injector::{Injector, make_and_take};
use crate::mappings::{Kind, Private, private_mappings};
use crate::pages::{Run, merged};
use crate::scan::Pagemap;
use crate::standing::{STOP_LIMIT, Standing, StandsStill};
use crate::sys::Userfault;

/// Follows the writes of one process.
#[derive(Debug)]
pub struct Tracker {
    pid: i32,
    process: OwnedFd,
    userfault: Userfault,
    /// A list was lost on its way to the caller: what it named is protected and looks clean, so nothing may be believed.
    list_lost: bool,
}

/// What registering has come to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Registered {
    /// Mappings that are followed.
    pub mappings: usize,
    /// Mappings that cannot be, and count as written.
    pub left_out: usize,
}

impl Tracker {
    /// Begins to follow a process. Until it is registered and looked at for the first time, all its pages count as written.
    pub fn start(pid: i32) -> Result<Self> {
        Self::start_by(&Injector::Here, STOP_LIMIT, pid)
    }

    /// The same, with somebody else to make the call, and if its threads stop within this time.
    pub fn start_by(injector: &Injector, limit: Duration, pid: i32) -> Result<Self> {
        Self::begin(pid, |process| injector.make(limit, pid, process))
    }

    /// The same, for a process that stands already, and dies with us if we do.
    pub(crate) fn start_in(standing: &Standing) -> Result<Self> {
        Self::begin(standing.pid(), |process| make_and_take(standing, process))
    }

    fn begin(pid: i32, make: impl FnOnce(&OwnedFd) -> Result<OwnedFd>) -> Result<Self> {
        if !Pagemap::open(pid)?.is_known_to_the_kernel() {
            let missing = "PAGEMAP_SCAN";
            return Err(MemoryError::not_here(pid, NotHere::Kernel { missing }));
        }
        private_mappings(pid)?;
        let gone = || MemoryError::Gone { pid };
        let process = pidfd_open(Pid::from_raw(pid).ok_or_else(gone)?, PidfdFlags::empty())
            .map_err(MemoryError::number("open the process", pid))?;
        let userfault = userfault(pid, make(&process)?)?;
        Ok(Self { pid, process, userfault, list_lost: false })
    }

    /// The process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Registers all mappings that are not followed yet. Only while the process is stopped by us. If none can be, the process may have become
    /// another program: the userfaultfd belongs to the memory of the one before, and a new tracker is needed.
    pub fn register(&mut self, standing: &Standing) -> Result<Registered> {
        self.check_same(standing)?;
        self.register_all(&private_mappings(self.pid)?)
    }

    fn register_all(&self, mappings: &[Private]) -> Result<Registered> {
        let mut pagemap = Pagemap::open(self.pid)?;
        let failed = MemoryError::number::<Errno>("read the page tables", self.pid);
        let mut registered = Registered::default();
        for Private { run, kind, .. } in mappings {
            if *kind != Kind::Anonymous {
                continue;
            }
            let has_old_bits = pagemap.has_unregistered(*run).map_err(&failed)?;
            // What the kernel does not take, for whatever reason, stays unregistered and counts as written.
            let taken = self.userfault.register(*run).is_ok();
            match (taken, pagemap.is_registered(*run).map_err(&failed)?) {
                (true, true) => {
                    if has_old_bits {
                        self.userfault
                            .lift(*run)
                            .map_err(MemoryError::number("lift old protection", self.pid))?;
                    }
                    registered.mappings += 1;
                }
                // Somebody else follows it, and would take from us what is listed to them.
                (false, true) => return Err(MemoryError::not_here(self.pid, NotHere::FollowedTwice)),
                // Not registered, or, if the process has called `exec`, registered in memory that is no longer its own.
                (_, false) => registered.left_out += 1,
            }
        }
        Ok(registered)
    }

    /// The pages that were written since they were last listed, in order. They are protected from now on, where that is possible.
    ///
    /// Pages that the program may not read are left out: CRIU copies them itself. They are listed once they can be read.
    pub fn written(&mut self, still: &dyn StandsStill) -> Result<Vec<Run>> {
        self.check_same(still)?;
        let everything = std::mem::replace(&mut self.list_lost, true);
        let mappings = private_mappings(self.pid)?;
        let mut pagemap = self.pagemap()?;
        let mut found = Vec::new();
        for Private { run, readable, kind } in mappings {
            match (readable, kind) {
                (false, _) => {}
                (true, Kind::Vdso) => found.push(run),
                (true, _) => {
                    let before = found.len();
                    pagemap
                        .take_written(run, &mut found)
                        .and_then(|()| match everything {
                            true => {
                                found.truncate(before);
                                pagemap.all(run, &mut found)
                            }
                            false => Ok(()),
                        })
                        .map_err(MemoryError::number("list the written pages", self.pid))?;
                }
            }
        }
        self.list_lost = false;
        Ok(merged(found))
    }

    /// All pages of the process that it may read, written or not, in order.
    pub fn present(&self, still: &dyn StandsStill) -> Result<Vec<Run>> {
        self.check_same(still)?;
        let mut pagemap = self.pagemap()?;
        let mut found = Vec::new();
        for Private { run, readable, kind } in private_mappings(self.pid)? {
            match (readable, kind) {
                (false, _) => {}
                (true, Kind::Vdso) => found.push(run),
                (true, _) => {
                    pagemap.all(run, &mut found).map_err(MemoryError::number("list the pages", self.pid))?
                }
            }
        }
        Ok(merged(found))
    }

    fn pagemap(&self) -> Result<Pagemap> {
        let pagemap = Pagemap::open(self.pid)?;
        // Opened by number. If the process still lives now, it was its own.
        self.check_alive()?;
        Ok(pagemap)
    }

    fn check_same(&self, still: &dyn StandsStill) -> Result<()> {
        let pid = still.pid();
        if pid != self.pid {
            return Err(MemoryError::NotStill { pid: self.pid, thread: self.pid, state: '?' });
        }
        self.check_alive()
    }

    /// A process that has ended makes its descriptor readable, and its number can be another's by now.
    fn check_alive(&self) -> Result<()> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut [PollFd::new(&self.process, PollFlags::IN)], Some(&at_once)) {
            Ok(0) => Ok(()),
            Ok(_) => Err(MemoryError::Gone { pid: self.pid }),
            Err(error) => Err(MemoryError::number("look at the process", self.pid)(error)),
        }
    }
}

/// Whether the kernel can be asked at all which pages were written; an error says what it lacks. Whether a process can be followed is
/// found out when that is tried.
pub fn kernel_lists_pages() -> Result<()> {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    match Pagemap::open(pid)?.is_known_to_the_kernel() {
        true => Ok(()),
        false => Err(MemoryError::not_here(pid, NotHere::Kernel { missing: "PAGEMAP_SCAN" })),
    }
}

fn userfault(pid: i32, taken: OwnedFd) -> Result<Userfault> {
    Userfault::new(taken).map_err(|error| match error {
        Errno::INVAL => MemoryError::not_here(
            pid,
            NotHere::Kernel { missing: "asynchronous write protection (UFFD_FEATURE_WP_ASYNC)" },
        ),
        error => MemoryError::not_here(pid, NotHere::Refused { detail: error.to_string() }),
    })
}
