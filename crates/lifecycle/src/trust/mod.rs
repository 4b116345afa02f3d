//! CRIU's images are privileged input: what they ask for is compared with what their owner may have.
//!
//! CRIU restores as root and believes its images. They say which user a process is, which capabilities it has, which files
//! are opened (by root) for it, what is mounted where. Whoever can make the daemon restore images of their own making is
//! root. Three walls stand before that:
//!
//! 1. The store of a user is closed to the user, and each snapshot carries a *seal* of this installation
//!    (`seal`). What came from elsewhere is refused to anyone but root.
//! 2. [`check_images`] reads every image before CRIU does, and refuses what the user could not have got without CRIU. It
//!    denies by default: an image, a message field, a kind of file, a mount that is not known here is a refusal. Paths
//!    are tried by the kernel, with the user's rights (`reach`).
//! 3. [`check_restored`] looks at the processes when CRIU has made them and before they run, against a path that was changed
//!    between check and use (`restored`).
//!
//! Each wall is meant to hold without the others. The tests that craft images are in `tests/trust/`; what is left is in
//! `docs/threat-model.md`.

mod archive;
mod files;
mod images;
mod mounts;
mod people;
mod procfs;
mod reach;
mod restored;
mod schema;
mod stale_nodes;
mod wire;

use std::path::{Path, PathBuf};

use sandbox::{DeviceNode, User};

use crate::error::{LifecycleError, Result, io_error};

/// A bind mount from outside that the restore will make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpectedMount {
    /// CRIU's key for it.
    pub key: String,
    /// Where the session sees it.
    pub inside: PathBuf,
    /// What is mounted there.
    pub source: PathBuf,
}

/// What the restore is about to give the session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expectations {
    /// Its mounts from outside, other than the root.
    pub mounts: Vec<ExpectedMount>,
    /// The key of its network namespace; `None` if it uses the machine's.
    pub network: Option<String>,
    /// What its `/` is: a bind of the machine's.
    pub root: PathBuf,
    /// Whether it lives in namespaces of its own. Not so for processes that were attached.
    pub boxed: bool,
    /// The nodes of GPUs as this machine has them. Its `/dev` may contain these and no others.
    pub devices: Vec<DeviceNode>,
}

/// Refuses images that ask for more than `user` has. Root may restore anything.
///
/// `dir` belongs to root and is closed to the user, or the images could be changed after the check.
pub fn check_images(dir: &Path, user: &User, expected: &Expectations) -> Result<()> {
    if user.uid == 0 {
        return Ok(());
    }
    let images = images::Images::read(dir)?;
    let mut findings = Findings::default();
    for fault in &images.faults {
        findings.add(fault.as_str());
    }
    people::check(&images, user, expected, &mut findings);
    let view = mounts::check(&images, expected, &mut findings);
    let wanted = files::check(&images, &view, user, expected, &mut findings);
    for refused in reach::check(&wanted, user, !expected.boxed)? {
        findings.add(refused);
    }
    for archive in &images.archives {
        for fault in archive::check(archive, user, &expected.devices) {
            findings.add(fault);
        }
    }
    findings.verdict(user)
}

/// Leaves nodes of GPUs that do not fit this machine out of the images in `dir`, before they are checked. A session that slept through
/// a reboot may have some; it gets those of now before it runs.
pub(crate) fn drop_stale_nodes(dir: &Path, user: &User, expected: &Expectations) -> Result<()> {
    stale_nodes::drop_from(dir, user, &expected.devices)
        .map_err(io_error("take stale device nodes out of", dir))
}

/// Refuses restored processes that hold more than `user` may have. To be called when CRIU has restored everything and
/// before it lets anything run (its pre-resume hook); after a refusal the caller calls [`end_refused`].
pub fn check_restored(init: i32, user: &User, expected: &Expectations) -> Result<()> {
    if user.uid == 0 {
        return Ok(());
    }
    let mut findings = Findings::default();
    restored::check(init, user, expected, &mut findings)?;
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
        Err(LifecycleError::Untrusted { uid: user.uid, findings: self.0 })
    }
}
