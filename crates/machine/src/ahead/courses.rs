//! The trees that are followed, each with its course.
//!
//! A course is with one of three: here, with a dump, or with a round that is made while its tree rests. Two at once would trace the same
//! processes, and know different things of them. A dump takes a course for good and brings it back when its pages are stored; a
//! round only borrows it, and gives it up when a dump waits.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use checkpoint_criu::MapId;
use memory_path::back::Begun;
use memory_path::{Injector, Task};
use sandbox::process::Identity;

use super::course::Course;
use super::figures::{Counted, Figures, Plainly};

/// The trees that are followed.
#[derive(Debug, Default)]
pub struct Courses {
    injector: Injector,
    known: Mutex<BTreeMap<Identity, Known>>,
    /// A round has brought a course back.
    back: Condvar,
    /// Trees whose next dump is plain because what was copied could not be used.
    doubted: Mutex<BTreeSet<Identity>>,
    pub(super) figures: Figures,
}

/// Where a course is.
#[derive(Debug)]
enum Known {
    Here(Box<Course>),
    /// With a round; it is told that somebody waits.
    Away(Arc<AtomicBool>),
}

impl Courses {
    /// None yet. This one makes the calls that are needed to follow a process that runs.
    pub(crate) fn by(injector: Injector) -> Self {
        Self { injector, ..Self::default() }
    }

    /// A tree was filled and has not run yet. `map` is what the store has of a task, and was filled from.
    pub(crate) fn begin(
        &self,
        root: Identity,
        begun: Begun,
        map: impl Fn(Task) -> Option<MapId>,
        images: &Path,
    ) {
        if !begun.filled.is_empty() {
            self.figures.begun();
            let mut course = Course::begun(begun, map, images);
            course.inject_by(self.injector.clone());
            self.bring_back(root, course);
        }
    }

    /// A tree is dumped plainly, and not followed any more.
    pub(crate) fn forget(&self, root: Identity, why: Plainly) {
        drop(self.take(root));
        let doubted = self.doubted.lock().unwrap_or_else(PoisonError::into_inner).remove(&root);
        self.figures.plain(if doubted { Plainly::Doubt } else { why });
    }

    /// What was copied of a tree cannot be used: it is dumped plainly next.
    pub(super) fn doubt(&self, root: Identity) {
        let mut doubted = self.doubted.lock().unwrap_or_else(PoisonError::into_inner);
        doubted.retain(Identity::is_alive);
        doubted.insert(root);
    }

    /// Takes a tree's course, a new one if there is none; a dump that succeeds brings it back. A round that has it is waited for, which
    /// ends at once.
    pub(super) fn take(&self, root: Identity) -> Course {
        let mut known = self.known();
        known.retain(|root, _| root.is_alive());
        loop {
            match known.remove(&root) {
                None => {
                    let mut course = Course::default();
                    course.inject_by(self.injector.clone());
                    return course;
                }
                Some(Known::Here(course)) => return *course,
                Some(Known::Away(wanted)) => {
                    wanted.store(true, Ordering::Release);
                    known.insert(root, Known::Away(wanted));
                    known = self.back.wait(known).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    pub(super) fn bring_back(&self, root: Identity, course: Course) {
        self.known().insert(root, Known::Here(Box::new(course)));
    }

    /// The trees whose courses are here.
    pub(super) fn roots(&self) -> Vec<Identity> {
        let mut known = self.known();
        // The number of one that is gone may be another's by now.
        known.retain(|root, _| root.is_alive());
        known.iter().filter(|(_, known)| matches!(known, Known::Here(_))).map(|(root, _)| *root).collect()
    }

    /// Lends a course for a round, if it is here and rests.
    pub(super) fn lend(&self, root: Identity, rests: impl FnOnce(&mut Course) -> bool) -> Option<Lent<'_>> {
        let mut known = self.known();
        let place = known.get_mut(&root)?;
        let Known::Here(course) = place else { return None };
        if !rests(course) {
            return None;
        }
        let wanted = Arc::<AtomicBool>::default();
        let course = match std::mem::replace(place, Known::Away(Arc::clone(&wanted))) {
            Known::Here(course) => Some(course),
            Known::Away(_) => None,
        };
        Some(Lent { courses: self, root, course, wanted })
    }

    /// What was counted so far.
    pub fn counted(&self) -> Counted {
        let mut counted = self.figures.counted();
        for course in self.known().values() {
            counted.trees += 1;
            if let Known::Here(course) = course {
                let (prints, waiting) = course.takes();
                counted.print_bytes += prints;
                counted.waiting_bytes += waiting;
            }
        }
        counted
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Identity, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A course that is lent. It comes back when this is dropped, whatever happens.
pub(super) struct Lent<'a> {
    courses: &'a Courses,
    pub(super) root: Identity,
    /// There until this is dropped.
    pub(super) course: Option<Box<Course>>,
    /// Somebody waits for it.
    pub(super) wanted: Arc<AtomicBool>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut known = self.courses.known();
        match self.course.take() {
            Some(course) => _ = known.insert(self.root, Known::Here(course)),
            None => _ = known.remove(&self.root),
        }
        drop(known);
        self.courses.back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn this_process() -> Identity {
        Identity::of(i32::try_from(std::process::id()).unwrap()).unwrap().unwrap()
    }

    #[test]
    fn a_dump_waits_for_a_round_and_the_round_is_told() {
        let (courses, root) = (Courses::default(), this_process());
        courses.bring_back(root, Course::default());
        assert!(courses.lend(root, |_| false).is_none(), "it does not rest");
        let lent = courses.lend(root, |_| true).unwrap();
        assert!(courses.roots().is_empty() && courses.lend(root, |_| true).is_none(), "it is away");
        std::thread::scope(|scope| {
            let dump = scope.spawn(|| courses.take(root));
            while !lent.wanted.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            assert!(!dump.is_finished());
            drop(lent);
            drop(dump.join().unwrap());
        });
        assert!(courses.lend(root, |_| true).is_none(), "the dump has it, or it is gone");
        courses.bring_back(root, Course::default());
        assert_eq!((courses.roots(), courses.counted().trees), (vec![root], 1));
    }

    #[test]
    fn a_plain_dump_is_counted_by_its_reason() {
        let (courses, root) = (Courses::default(), this_process());
        courses.forget(root, Plainly::Device);
        courses.doubt(root);
        courses.forget(root, Plainly::Device);
        courses.forget(root, Plainly::Mistrusted);
        assert_eq!(courses.counted().plain, [1, 0, 1, 0, 1]);
    }
}
