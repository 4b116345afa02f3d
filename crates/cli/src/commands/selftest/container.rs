//! A container with GPUs, as people have it: made by podman, which gives it what NVIDIA's CDI specification names.
//!
//! The image is the one that was named, and only the program in it is ours. Root's own daemon takes it as it is: it is detected, its GPUs are
//! locked and saved while it runs, it is put to sleep, and podman brings it back.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use api::{AttachRequest, ContainerName, JobResult};
use gpu_detect::HostGpu;
use rustix::process::geteuid;

use super::checks;
use super::python::Place;
use super::report::skip;
use super::subject::{Subject, Wanted};
use crate::commands::online::Online;
use crate::commands::online::job::expect_result;

/// All GPUs, in the words of NVIDIA's container toolkit.
const ALL_GPUS: &str = "nvidia.com/gpu=all";

/// What is tried; `image` is what was named.
pub(super) fn check(
    online: &Online<'_>,
    image: Option<&str>,
    place: &Place,
    gpus: &[HostGpu],
    bytes: u64,
) -> Result<((), String)> {
    if !geteuid().is_root() {
        return skip("not tried: only root's own daemon takes containers, so run it as root");
    }
    let Some(podman) = program("podman") else {
        return skip(
            "not tried: there is no podman here, and it knows no other runtime that is given GPUs by CDI",
        );
    };
    let Some(image) = image else {
        return skip("not tried: name an image that has python3 and cuda-bindings with --image");
    };
    if program("runc").is_none() {
        return skip(
            "not tried: there is no runc here, and what podman runs with crun cannot be brought back",
        );
    }
    let directory = place.for_session("container")?;
    let name = format!("infinijup-selftest-{}", std::process::id());
    let box_of_podman = Made { podman: &podman, name: &name };
    box_of_podman.run(image, &directory, bytes, gpus.len())?;
    let which = ContainerName {
        which: name.clone(),
        runtime: Some("podman".to_owned()),
        address: None,
        namespace: None,
        runtime_root: None,
    };
    let request = AttachRequest { pid: None, container: Some(which), name: None };
    let result = online.post_job("/v1/attach".to_owned(), &request)?;
    let session = *expect_result!(result, JobResult::Session(session) => session);
    let subject = Subject::of(online, session, directory, Wanted { bytes, gpus: gpus.len() })?;
    let tried = all(online, &subject, gpus);
    // The session of a container that is gone can be forgotten.
    drop(box_of_podman);
    let removed = subject.remove();
    let said = tried?;
    removed.context("its session is still there")?;
    Ok(((), said))
}

fn all(online: &Online<'_>, subject: &Subject<'_>, gpus: &[HostGpu]) -> Result<String> {
    checks::detect(subject).context("detect")?;
    let (_, taken) = checks::snapshot(online, subject).context("snapshot")?;
    let ((), freed) = checks::suspend(online, subject, gpus).context("suspend")?;
    let ((), back) = checks::resume(online, subject).context("resume")?;
    Ok(format!("snapshot: {taken}; suspend: {freed}; resume: {back}"))
}

/// A program in the path.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// A container, which is removed when this is dropped.
struct Made<'a> {
    podman: &'a Path,
    name: &'a str,
}

impl Made<'_> {
    fn run(&self, image: &str, directory: &Path, bytes: u64, gpus: usize) -> Result<()> {
        let mut volume = directory.as_os_str().to_owned();
        volume.push(":");
        volume.push(directory);
        let mut command = Command::new(self.podman);
        command.args(["--runtime", "runc", "run", "--detach", "--name", self.name, "--network", "none"]);
        command.arg("--volume").arg(volume).arg("--workdir").arg(directory).args(["--device", ALL_GPUS]);
        command.args([image, "python3", "-u"]).arg(directory.join("program.py"));
        command.args([bytes.to_string(), gpus.to_string()]);
        let done = command.stdin(Stdio::null()).output();
        let done = done.with_context(|| format!("cannot run `{}`", self.podman.display()))?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            let last = said.lines().rev().find(|line| !line.trim().is_empty());
            bail!("podman did not start it: {}", last.unwrap_or("it said nothing"));
        }
        Ok(())
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        let mut command = Command::new(self.podman);
        command.args(["rm", "--force", "--time", "0", self.name]);
        // There may be none, if it could not be started.
        let _removed = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}
