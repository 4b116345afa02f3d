//! How the memory of trees in boxes comes back.
//!
//! What is not in CRIU's images is put into the processes by us, before they run (`memory_path::back`). The daemon may do so because the
//! box's user namespace is its user's.
//!
//! What was put there is known, page by page, and so is the map of the store that it is from. So the tree is followed from its first
//! instruction on, if it may be, and its first dump copies what was written since and what CRIU has brought.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use checkpoint_criu::{ComingBack, Leaving, MapId, MemoryPath, Missing, Plain, TakePages, WayBack, WayOut};
use lifecycle::ports::{Hold, explain};
use memory_path::back::{Begun, Source, Target, fill, fill_and_follow, fill_then};
use memory_path::{Run, SinkError, Task};
use sandbox::process::Identity;

use crate::ahead::Courses;

/// Fills what comes back. How memory leaves is not its business ([`crate::ahead`]), but where what comes back is followed, that begins here.
#[derive(Debug)]
pub(crate) struct Filling {
    pub(crate) courses: Arc<Courses>,
}

impl MemoryPath for Filling {
    fn leave(&self, dump: &Leaving<'_>) -> Result<Box<dyn WayOut>, String> {
        Plain.leave(dump)
    }

    fn come_back(&self, restore: &ComingBack<'_>) -> Result<Box<dyn WayBack>, String> {
        match restore.missing {
            Some(missing) => Ok(Box::new(Fill {
                missing: Arc::clone(missing),
                courses: restore.follow.then(|| Arc::clone(&self.courses)),
                images: restore.images.to_owned(),
            })),
            None => Plain.come_back(restore),
        }
    }
}

/// Fills what comes back, and then holds it until it is wanted. Until then it is the daemon's: it is killed if the daemon ends. It is followed
/// all the while, and has a course when it goes.
pub(crate) struct FillAndHold {
    pub(crate) hold: Hold,
    pub(crate) courses: Arc<Courses>,
}

impl std::fmt::Debug for FillAndHold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FillAndHold").finish_non_exhaustive()
    }
}

impl MemoryPath for FillAndHold {
    fn leave(&self, dump: &Leaving<'_>) -> Result<Box<dyn WayOut>, String> {
        Plain.leave(dump)
    }

    fn come_back(&self, restore: &ComingBack<'_>) -> Result<Box<dyn WayBack>, String> {
        let missing = restore.missing.map_or_else(|| Arc::new(NothingMissing::default()) as _, Arc::clone);
        let courses = restore.follow.then(|| Arc::clone(&self.courses));
        let fill = Fill { missing, courses, images: restore.images.to_owned() };
        Ok(Box::new(Held { fill, hold: Arc::clone(&self.hold) }))
    }
}

/// Of a small tree all pages are in the images. It is held all the same.
#[derive(Debug, Default)]
struct NothingMissing(BTreeMap<u32, Vec<Range<u64>>>);

impl Missing for NothingMissing {
    fn runs(&self) -> &BTreeMap<u32, Vec<Range<u64>>> {
        &self.0
    }

    fn map(&self, _: u32) -> Option<MapId> {
        None
    }

    fn read(&self, pid: u32, _: &dyn TakePages) -> io::Result<()> {
        Err(io::Error::other(format!("no pages of process {pid} are missing")))
    }
}

/// One restore that waits.
struct Held {
    fill: Fill,
    hold: Hold,
}

impl WayBack for Held {
    fn has_more(&self) -> bool {
        true
    }

    fn fill(self: Box<Self>, root: i32) -> Result<(), String> {
        let Self { fill, hold } = *self;
        let (_, begun, wanted) =
            fill_then(root, &fill, fill.courses.is_some(), || hold(root)).map_err(|error| explain(&error))?;
        if !wanted {
            return Err("nobody wants it any more".to_owned());
        }
        fill.begin_course(root, begun);
        Ok(())
    }
}

/// One restore.
struct Fill {
    missing: Arc<dyn Missing>,
    /// Where its course begins, if it may be followed.
    courses: Option<Arc<Courses>>,
    images: PathBuf,
}

impl Fill {
    /// It was filled and has not run yet.
    fn begin_course(&self, root: i32, begun: Begun) {
        // One that is gone needs no course, and whoever waits for it will see.
        if let (Some(courses), Ok(Some(root))) = (&self.courses, Identity::of(root)) {
            let map = |task: Task| self.missing.map(u32::try_from(task.0).ok()?);
            courses.begin(root, begun, map, &self.images);
        }
    }
}

impl WayBack for Fill {
    fn has_more(&self) -> bool {
        true
    }

    fn fill(self: Box<Self>, root: i32) -> Result<(), String> {
        let words = |error| explain(&error);
        if self.courses.is_none() {
            return fill(root, self.as_ref()).map(drop).map_err(words);
        }
        let (_, begun) = fill_and_follow(root, self.as_ref()).map_err(words)?;
        self.begin_course(root, begun);
        Ok(())
    }
}

impl Source for Fill {
    fn missing(&self) -> BTreeMap<Task, Vec<Run>> {
        let runs = self.missing.runs().iter().map(|(pid, runs)| {
            // A number that is none finds no process, and that is said.
            let task = Task(i32::try_from(*pid).unwrap_or(-1));
            (task, runs.iter().map(|run| Run { start: run.start, end: run.end }).collect())
        });
        runs.collect()
    }

    fn give(&self, task: Task, to: &Target) -> Result<(), SinkError> {
        Ok(self.missing.read(u32::try_from(task.0)?, &Handed(to))?)
    }
}

/// Hands pages on.
struct Handed<'a>(&'a Target);

impl TakePages for Handed<'_> {
    fn pages(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.pages(address, bytes)
    }

    fn zeros(&self, address: u64, len: u64) -> io::Result<()> {
        self.0.zeros(address, len)
    }
}
