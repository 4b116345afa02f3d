//! Rounds while trees rest.
//!
//! One thread looks at all trees that are followed once a second and copies what a tree has written when it has worked and rests now
//! ([`super::quiet`]). What is copied goes to the spool that the next dump begins with. It is given up at once when a dump wants the tree: what was
//! listed and not copied is owed, and the dump's own rounds copy it.
//!
//! It is gentle ([`super::gentle`]), and processes stand still only while what they wrote is listed: a millisecond or two, and some
//! more for each GiB.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use memory_path::MemoryError;

use super::courses::{Courses, Lent};
use super::figures::When;

/// How often trees are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// A round with so few pages was of no use: they are copied in some milliseconds when they are needed.
const FEW: u64 = 2048;

/// Looks after the trees that are followed, for as long as there is somebody who follows them.
pub(crate) fn begin(courses: &Arc<Courses>) {
    let courses = Arc::downgrade(courses);
    // Without the thread nothing is copied beforehand, and everything else works.
    let _ = thread::Builder::new().name("resting".to_owned()).spawn(move || look_after(&courses));
}

fn look_after(courses: &Weak<Courses>) {
    let begun = Instant::now();
    loop {
        thread::sleep(EVERY);
        let Some(courses) = courses.upgrade() else { return };
        for root in courses.roots() {
            if let Some(mut lent) = courses.lend(root, |course| course.rests(begun.elapsed())) {
                round(&courses, &mut lent, begun);
            }
        }
    }
}

fn round(courses: &Courses, lent: &mut Lent<'_>, begun: Instant) {
    let Some(course) = &mut lent.course else { return };
    let began = Instant::now();
    let result = course.copy_resting(lent.root, &lent.wanted);
    let (now, took) = (begun.elapsed(), began.elapsed());
    match result {
        Ok(round) => {
            courses.figures.rounds(When::Rest, std::slice::from_ref(&round));
            let slow =
                |error: &MemoryError| matches!(error, MemoryError::TooSlow { .. } | MemoryError::Busy { .. });
            match round.left_out.iter().any(|(_, error)| slow(error)) {
                true => course.quiet.cut_short(now, took),
                false => course.quiet.copied(now, took, round.copied > FEW),
            }
        }
        Err(MemoryError::Sink { .. }) if !lent.wanted.load(Ordering::Acquire) => course.quiet.is_full(),
        Err(_) => course.quiet.cut_short(now, took),
    }
}
