//! For root's own daemon CRIU's images are privileged input: what they ask for is compared with what their owner may have.
//!
//! In a box CRIU has the rights of its user and no more, and nothing of this is needed. But processes of other users that root has
//! adopted are restored outside of a box, by a CRIU that is root and believes its images. They say which user a process is, which
//! capabilities it has, which files are opened (by root) for it. Three walls stand before that:
//!
//! 1. Root's store is closed to everybody else, and each snapshot carries a *seal* of this installation (`lifecycle::seal`). Root's daemon
//!    refuses what came from elsewhere, even by force.
//! 2. [`check_images`] reads every image before CRIU does, and refuses what the user could not have got without CRIU. It
//!    denies by default: an image, a message field, a kind of file, a mount that is not known here is a refusal. Paths
//!    are tried by the kernel, with the user's rights (`reach`).
//! 3. [`check_restored`] looks at the processes when CRIU has made them and before they run, against a path that was changed
//!    between check and use (`restored`).
//!
//! Each wall is meant to hold without the others. The tests that craft images are in `tests/crafted/`; what is left is in
//! `docs/threat-model.md`.

#![forbid(unsafe_code)]

mod container;
mod error;
mod files;
mod images;
mod paths;
mod people;
mod procfs;
mod reach;
mod restored;
mod schema;
mod wire;

use std::path::Path;

use sandbox::User;

pub use crate::error::{Result, TrustError};

/// Refuses images that ask for more than `user` has. Root may restore anything.
///
/// `dir` belongs to root and is closed to the user, or the images could be changed after the check.
pub fn check_images(dir: &Path, user: &User) -> Result<()> {
    if user.uid == 0 {
        return Ok(());
    }
    let images = images::Images::read(dir, images::Of::Session)?;
    let mut findings = Findings::default();
    for fault in &images.faults {
        findings.add(fault.as_str());
    }
    people::check(&images, user, &mut findings);
    let wanted = files::check(&images, user, &mut findings);
    for refused in reach::check(&wanted, user)? {
        findings.add(refused);
    }
    findings.verdict(user)
}

/// What is wrong with the images of a container that somebody else has dumped; empty if nothing is.
///
/// Who its processes are, what they may and which mounts they have is not for images to say, and is not asked here: whoever restores them
/// makes the container from its live specification, and holds them to that.
pub fn faults_of_container(dir: &Path) -> Result<Vec<String>> {
    let images = images::Images::read(dir, images::Of::Container)?;
    let mut findings = Findings::default();
    for fault in &images.faults {
        findings.add(fault.as_str());
    }
    container::check(&images, &mut findings);
    Ok(findings.0)
}

/// Refuses restored processes that hold more than `user` may have. To be called when CRIU has restored everything and
/// before it lets anything run (its pre-resume hook); after a refusal the caller calls [`end_refused`].
pub fn check_restored(init: i32, user: &User) -> Result<()> {
    if user.uid == 0 {
        return Ok(());
    }
    let mut findings = Findings::default();
    restored::check(init, user, &mut findings)?;
    findings.verdict(user)
}

/// Ends restored processes that [`check_restored`] refused, and CRIU's worker with them.
///
/// CRIU does not ask at pre-resume, it tells: whatever the hook answers, the processes run. So they are killed while they
/// are still stopped; `init` takes its whole PID namespace with it. Then the worker must go too: the dead are traced by it and
/// cannot be reaped by anyone else, and it would wait for `init`, which waits for them.
pub fn end_refused(init: i32, worker: Option<i32>) -> Result<()> {
    let doomed: Vec<i32> = sandbox::process::tree(init)?.iter().map(|process| process.pid).collect();
    for pid in std::iter::once(init).chain(doomed).chain(worker) {
        if let Some(identity) = sandbox::process::Identity::of(pid)? {
            identity.signal(sandbox::Signal::KILL)?;
        }
    }
    Ok(())
}

/// What was found, in words.
#[derive(Default, Debug)]
struct Findings(Vec<String>);

impl Findings {
    /// More are not worth reading.
    const MOST: usize = 50;

    fn add(&mut self, finding: impl Into<String>) {
        let finding = finding.into();
        if self.0.len() < Self::MOST && !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    fn verdict(self, user: &User) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(TrustError::Refused { uid: user.uid, findings: self.0 })
    }
}
