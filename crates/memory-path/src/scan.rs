//! The questions to the kernel about pages, and how they are asked so that no page is missed.
//!
//! What belongs to a process's state is a page that is there (in memory or swapped out), that is not the file's own and not
//! the zero page that all share, and that is no guard. CRIU asks the same, so its list and ours agree.
//!
//! **Written** is found in two passes over each mapping:
//! 1. *registered mappings*: pages that are not write-protected. Those are listed and write-protected in the same stroke, so that
//!    no write can fall between.
//! 2. *what is not registered* counts as written, whatever its bits say. A mapping that was moved by `mremap` may have lost its
//!    registration and kept the bits of its pages, which no write clears any more: they would look clean for ever.
//!
//! Why not in one: the first pass passes over unregistered mappings without a word, and the flag that would make it complain
//! (`PM_SCAN_CHECK_WPASYNC`) makes it complain after it has protected what came before; that list would be lost, and the pages look clean.
//! If the first pass fails for any reason, what it has protected is not known, and everything that is there counts as written.
//!
//! Pages are protected only together with being listed, and only if they are there. Protecting by category alone would put markers
//! in place of pages that were never touched, and to CRIU they look like pages that are swapped out.

use std::fs::File;
use std::os::fd::AsFd;

use base::proc;
use rustix::io::Errno;

use crate::error::MemoryError;
use crate::pages::Run;
use crate::sys::{Category, Question, Region, scan};

/// The answers of the kernel, in its own words.
type Result<T> = std::result::Result<T, Errno>;

/// Regions that fit into one call.
const ROOM: usize = 16 << 10;

const THERE: Category = Category::PRESENT.and(Category::SWAPPED);

/// The page tables of a process, as it is when this is opened: see [`crate::memory::Memory`].
#[derive(Debug)]
pub(crate) struct Pagemap {
    file: File,
    room: Vec<Region>,
    /// What is not the process's own.
    foreign: Category,
}

impl Pagemap {
    pub(crate) fn open(pid: i32) -> crate::error::Result<Self> {
        let file = File::open(proc::path(pid, "pagemap"))
            .map_err(MemoryError::system("open the page tables", pid))?;
        let known = Category::FILE.and(Category::ZERO);
        // A kernel that knows no guards refuses to be asked about them.
        let with_guards = known.and(Category::GUARD);
        let foreign = if is_understood(&file, with_guards) { with_guards } else { known };
        Ok(Self { file, room: vec![Region::default(); ROOM], foreign })
    }

    /// Whether the kernel can be asked at all.
    pub(crate) fn is_known_to_the_kernel(&self) -> bool {
        is_understood(&self.file, Category::FILE)
    }

    /// Pages of a mapping that were written since they were last listed here. They are protected from now on, where that is possible.
    pub(crate) fn take_written(&mut self, mapping: Run, into: &mut Vec<Run>) -> Result<()> {
        let before = into.len();
        let registered = Question { all: Category::WRITTEN, none: self.foreign, any: THERE, arm: true };
        if self.ask(mapping, registered, into).is_err() {
            into.truncate(before);
            return self.all(mapping, into);
        }
        let unregistered = Question { none: self.foreign.and(Category::TRACKED), ..self.there() };
        self.ask(mapping, unregistered, into)
    }

    /// All pages of a mapping that are the process's own.
    pub(crate) fn all(&mut self, mapping: Run, into: &mut Vec<Run>) -> Result<()> {
        self.ask(mapping, self.there(), into)
    }

    /// Whether a page of the mapping is there without being registered, of whatever sort.
    pub(crate) fn has_unregistered(&mut self, mapping: Run) -> Result<bool> {
        let question = Question { none: Category::TRACKED, ..self.there() };
        let mut found = Vec::new();
        self.ask(mapping, question, &mut found)?;
        Ok(!found.is_empty())
    }

    /// Whether the mapping is registered, be there pages in it or not.
    pub(crate) fn is_registered(&mut self, mapping: Run) -> Result<bool> {
        let nothing = Category(0);
        let question = Question { all: Category::TRACKED, none: nothing, any: nothing, arm: false };
        let mut found = Vec::new();
        self.ask(Run::page(mapping.start), question, &mut found)?;
        Ok(!found.is_empty())
    }

    fn there(&self) -> Question {
        Question { all: Category(0), none: self.foreign, any: THERE, arm: false }
    }

    /// One question about a whole mapping. The kernel may stop anywhere, also with room left, and is asked again from there.
    fn ask(&mut self, mapping: Run, question: Question, into: &mut Vec<Run>) -> Result<()> {
        let mut start = mapping.start;
        while start < mapping.end {
            let scanned = scan(self.file.as_fd(), start, mapping.end, question, &mut self.room)?;
            let found = self.room.iter().take(scanned.found);
            into.extend(found.map(|region| Run { start: region.start, end: region.end }));
            if scanned.up_to <= start {
                // Not a step forward: better an error than a list that ends here.
                return Err(Errno::IO);
            }
            start = scanned.up_to;
        }
        Ok(())
    }
}

/// Whether the kernel answers a question about these sorts of pages.
fn is_understood(file: &File, sorts: Category) -> bool {
    let question = Question { all: Category(0), none: sorts, any: THERE, arm: false };
    scan(file.as_fd(), 0, crate::pages::PAGE, question, &mut [Region::default()]).is_ok()
}
