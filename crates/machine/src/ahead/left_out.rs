//! The pages of a dump that is over, for whoever stores them.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use checkpoint_criu::{LeftOut, MapId};
use memory_path::{Spool, Task};
use sandbox::process::Identity;

use super::Courses;
use super::course::{Course, Stored};
use super::way_out::Pages;

/// What was copied, and the course that goes on when it is stored.
#[derive(Debug)]
pub(super) struct CopiedPages {
    courses: Arc<Courses>,
    root: Identity,
    /// There until this is dropped.
    course: Option<Course>,
    spool: Spool,
    pages: Pages,
    maps: Mutex<BTreeMap<Task, MapId>>,
    copied_frozen: u64,
}

impl CopiedPages {
    pub(super) fn new(
        courses: Arc<Courses>,
        root: Identity,
        course: Course,
        spool: Spool,
        pages: Pages,
        copied_frozen: u64,
    ) -> Self {
        Self { courses, root, course: Some(course), spool, pages, maps: Mutex::default(), copied_frozen }
    }
}

fn task_of(pid: u32) -> Task {
    // No kernel has numbers above 2^22.
    Task(i32::try_from(pid).unwrap_or(i32::MAX))
}

impl LeftOut for CopiedPages {
    fn copied_frozen(&self) -> u64 {
        self.copied_frozen
    }

    fn read(&self, pid: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.spool.read(task_of(pid), address, buffer)
    }

    fn written(&self, pid: u32, map: &MapId) -> Option<Vec<Range<u64>>> {
        let task = task_of(pid);
        let stored = self.course.as_ref()?.stored(task)?;
        let ranges = || self.spool.pages_of(task).iter().map(|run| run.start..run.end).collect();
        (stored.map == *map).then(ranges)
    }

    fn stored(&self, pid: u32, map: &MapId) {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner).insert(task_of(pid), *map);
    }
}

impl Drop for CopiedPages {
    /// The course goes on with the tasks that were stored; the others begin anew at the next dump.
    fn drop(&mut self) {
        let maps = std::mem::take(self.maps.get_mut().unwrap_or_else(PoisonError::into_inner));
        let Some(mut course) = self.course.take() else { return };
        if maps.is_empty() || !self.root.is_alive() {
            return;
        }
        let pages = &mut self.pages;
        let stored = maps
            .into_iter()
            .map(|(task, map)| (task, Stored { map, pages: pages.remove(&task).unwrap_or_default() }))
            .collect();
        course.is_stored(stored);
        self.courses.bring_back(self.root, course);
    }
}
