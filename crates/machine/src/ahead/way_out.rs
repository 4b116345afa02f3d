//! One dump of a tree that is followed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use checkpoint_criu::{DumpStats, LeftOut, Plain, WayOut};
use lifecycle::SessionId;
use lifecycle::ports::explain;
use memory_path::parent::{Doubt, Plan, write_parent};
use memory_path::{PAGE, Rest, Run, Sample, Settled, Spool, Task, Verdict, difference, merged};
use sandbox::process::Identity;

use super::course::Course;
use super::figures::{Plainly, When};
use super::left_out::CopiedPages;
use super::{AheadPath, Courses, Mistrust};

/// The parent that claims every page, among the images for as long as the dump lasts.
const CLAIMS: &str = "claims";
/// What CRIU calls its way to a parent.
const PARENT: &str = "parent";

/// What is known between the moments of a dump.
pub(super) struct AheadOut {
    courses: Arc<Courses>,
    mistrust: Mistrust,
    session: SessionId,
    root: Identity,
    course: Course,
    spool: Spool,
    sample: Sample,
    rest: Option<Rest>,
}

impl AheadOut {
    /// Copies ahead, and lays the claims down.
    pub(super) fn begin(path: &AheadPath, images: &Path) -> Result<Box<dyn WayOut>, String> {
        let mut course = path.courses.take(path.root);
        course.agree_with(&path.stored);
        let mut spool = course.spool_for(images)?;
        let rounds = course.copy_ahead(path.root, &mut spool)?;
        let figures = &path.courses.figures;
        figures.rounds(When::Dump, &rounds);
        let tasks = course.tasks();
        if tasks.is_empty() {
            figures.plain(Plainly::NoProcess);
            return Ok(Box::new(Plain));
        }
        let claims = images.join(CLAIMS);
        fs::create_dir(&claims).map_err(|error| format!("cannot make `{}`: {error}", claims.display()))?;
        write_parent(&claims, tasks).map_err(|error| explain(&error))?;
        Ok(Box::new(Self {
            courses: Arc::clone(&path.courses),
            mistrust: path.mistrust.clone(),
            session: path.session.clone(),
            root: path.root,
            course,
            spool,
            sample: path.sample,
            rest: None,
        }))
    }

    /// What CRIU has written and what was copied are one whole.
    fn check(&self, images: &Path, settled: &Settled, stats: Option<&DumpStats>) -> Result<Pages, Doubt> {
        let mut plans = Vec::new();
        for task in listed(images)? {
            plans.push(Plan::read(images, task, &settled.tasks)?);
        }
        Plan::check_counts(&plans, stats.map_or(0, |stats| stats.pages_skipped_parent))?;
        for plan in &plans {
            let task = plan.task();
            let mut here = self.spool.pages_of(task);
            here.extend(self.course.stored(task).into_iter().flat_map(|stored| &stored.pages));
            if let Some(missing) = difference(&plan.left_out(), &merged(here)).first() {
                return Err(Doubt::Missing { task, address: missing.start });
            }
        }
        Ok(plans.iter().map(|plan| (plan.task(), plan.pages())).collect())
    }
}

/// All pages of each task, in order.
pub(super) type Pages = BTreeMap<Task, Vec<Run>>;

impl WayOut for AheadOut {
    fn parent(&self) -> Option<PathBuf> {
        Some(CLAIMS.into())
    }

    fn frozen(&mut self) -> Result<(), String> {
        let looked = self.course.last_look(self.root, self.sample);
        self.rest = Some(looked.inspect_err(|_| self.courses.doubt(self.root))?);
        Ok(())
    }

    fn thawed(
        self: Box<Self>,
        images: &Path,
        stats: Option<&DumpStats>,
    ) -> Result<Option<Arc<dyn LeftOut>>, String> {
        let (courses, root) = (Arc::clone(&self.courses), self.root);
        let used = self.use_copies(images, stats).inspect_err(|_| courses.doubt(root))?;
        Ok(Some(Arc::new(used)))
    }
}

impl AheadOut {
    /// Sees that what was copied can be used.
    fn use_copies(mut self, images: &Path, stats: Option<&DumpStats>) -> Result<CopiedPages, String> {
        let rest = self.rest.take().ok_or("nobody has looked at the tree while it stood still")?;
        let settled = self.course.settle(rest, &mut self.spool)?;
        if let Verdict::Stale { task, address } = settled.verdict {
            let what = format!("page {address:x} of task {task} was written and nobody noticed");
            self.mistrust.begin(&self.session, &what);
            self.courses.figures.stale();
            return Err(format!("{what}; this session is not followed any more"));
        }
        tidy(images).map_err(|error| format!("cannot tidy `{}`: {error}", images.display()))?;
        let pages = self.check(images, &settled, stats).map_err(|doubt| explain(&doubt))?;
        self.courses.figures.frozen(settled.copied);
        let Self { courses, root, course, spool, .. } = self;
        Ok(CopiedPages::new(courses, root, course, spool, pages, settled.copied * PAGE))
    }
}

/// Takes away what was among the images for CRIU alone.
fn tidy(images: &Path) -> io::Result<()> {
    match fs::remove_file(images.join(PARENT)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::remove_dir_all(images.join(CLAIMS))
}

/// The tasks of which there are lists of pages.
fn listed(images: &Path) -> Result<Vec<Task>, Doubt> {
    let failed = |source| Doubt::Io { what: "list", path: images.to_owned(), source };
    let mut tasks = Vec::new();
    for entry in fs::read_dir(images).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("pagemap-")?.strip_suffix(".img"));
        // Shared memory has lists of its own, with a word before the number; it is always written.
        tasks.extend(number.and_then(|number| number.parse().ok()).map(Task));
    }
    Ok(tasks)
}
