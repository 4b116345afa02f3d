//! What a process has written since the last look, at no cost to anybody but the writer of a page: 1 to 3 µs for its first write after a
//! look.
//!
//! The mechanism is a userfaultfd in asynchronous write-protect mode (Linux 6.7). Pages of a registered mapping can be
//! write-protected; the first write to such a page lifts the protection, in the kernel, without telling anybody; `PAGEMAP_SCAN` lists the
//! pages whose protection is gone and protects them again. It needs no privilege, because no fault is ever handled outside of the kernel. The
//! userfaultfd is made in the process itself ([`crate::inject`]), taken out by `pidfd_getfd`, and closed there, so the process
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
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::error::{MemoryError, NotHere, Result};
use crate::inject::{Call, Injection};
use crate::mappings::{Kind, Private, private_mappings};
use crate::pages::{Run, merged};
use crate::scan::Pagemap;
use crate::standing::{STOP_LIMIT, Standing, StandsStill};
use crate::sys::Userfault;

/// `O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY`: the last makes it a thing that anybody may have.
const FLAGS: u64 = 0x80801;

/// Attempts to find a thread that can make a call. A thread leaves the places where it cannot within microseconds.
const ATTEMPTS: usize = 20;

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
        Self::start_within(STOP_LIMIT, pid)
    }

    /// The same, if its threads stop within this time.
    pub(crate) fn start_within(limit: Duration, pid: i32) -> Result<Self> {
        let mut attempt = 1;
        loop {
            match Standing::within(limit, pid, Self::start_in) {
                Err(MemoryError::Busy { .. }) if attempt < ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }

    /// The same, for a process that stands already.
    pub(crate) fn start_in(standing: &Standing) -> Result<Self> {
        let pid = standing.pid();
        if !Pagemap::open(pid)?.is_known_to_the_kernel() {
            let missing = "PAGEMAP_SCAN";
            return Err(MemoryError::not_here(pid, NotHere::Kernel { missing }));
        }
        private_mappings(pid)?;
        let gone = || MemoryError::Gone { pid };
        let process = pidfd_open(Pid::from_raw(pid).ok_or_else(gone)?, PidfdFlags::empty())
            .map_err(MemoryError::number("open the process", pid))?;
        let userfault = make_userfault(standing, &process)?;
        Ok(Self { pid, process, userfault, list_lost: false })
    }

    /// The process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Registers all mappings that are not followed yet. Only while the process is stopped by us: the work may have to make a call
    /// in it, if it has become another program.
    pub fn register(&mut self, standing: &Standing) -> Result<Registered> {
        self.check_same(standing)?;
        let mappings = private_mappings(self.pid)?;
        let registered = self.register_all(&mappings)?;
        if registered.mappings > 0 {
            return Ok(registered);
        }
        // The userfaultfd belongs to the memory of the program that was there before.
        self.userfault = make_userfault(standing, &self.process)?;
        self.register_all(&mappings)
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

/// Makes a userfaultfd in the process and takes it out of there.
fn make_userfault(standing: &Standing, process: &OwnedFd) -> Result<Userfault> {
    let pid = standing.pid();
    let refused = |detail: String| MemoryError::not_here(pid, NotHere::Refused { detail });
    let mut injection = Injection::begin(standing)?;
    let inside =
        injection.call(Call::Userfaultfd { flags: FLAGS })?.map_err(|error| refused(error.to_string()))?;
    let number = i32::try_from(inside).map_err(|_| refused(format!("it gave {inside}")))?;
    let taken = pidfd_getfd(process, number, PidfdGetfdFlags::empty());
    let closed = injection.call(Call::Close { descriptor: inside })?;
    injection.finish()?;
    closed.map_err(MemoryError::system("close what was made in it", pid))?;
    let taken = taken.map_err(MemoryError::number("take the userfaultfd out", pid))?;
    Userfault::new(taken).map_err(|error| match error {
        Errno::INVAL => MemoryError::not_here(
            pid,
            NotHere::Kernel { missing: "asynchronous write protection (UFFD_FEATURE_WP_ASYNC)" },
        ),
        error => refused(error.to_string()),
    })
}
