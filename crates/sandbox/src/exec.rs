//! Running something in a box that is up: commands of the user, CRIU, and small errands of ours.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

use crate::error::{Result, SandboxError};
use crate::launch::last_line;
use crate::process::Identity;
use crate::program::Program;
use crate::user::User;

/// How much of each stream [`exec_in`] keeps; the rest is read and dropped.
pub const OUTPUT_LIMIT: usize = 16 << 20;

/// The helper ends so when it could not even start the command, as `docker exec` does.
pub(crate) const ENTER_FAILED: u8 = 125;

/// The descriptor by which a program that runs [`inside`] finds the first directory that it was given.
pub(crate) const FIRST_DIRECTORY: i32 = 3;

/// What the entering helper reads from stdin.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) holder: Identity,
    pub(crate) command: Vec<OsString>,
    pub(crate) cwd: OsString,
    pub(crate) env: Vec<(OsString, OsString)>,
}

/// Runs a command of the user's inside a box, without capabilities, and waits for it.
///
/// It gets no stdin. Its output goes through pipes to us, so CRIU cannot dump the box while it runs. The status is the
/// command's, as a shell would give it. There is no time limit: a caller who needs one wraps the command in `timeout`. What
/// the command leaves running in the background is not waited for.
pub fn exec_in(
    program: &Program,
    holder: Identity,
    command: &[OsString],
    cwd: &Path,
    env: &[(OsString, OsString)],
) -> Result<Output> {
    let failed = |detail: String| SandboxError::Enter { pid: holder.pid, detail };
    let entry =
        Entry { holder, command: command.to_vec(), cwd: cwd.as_os_str().to_owned(), env: env.to_vec() };
    if entry.command.is_empty() {
        return Err(failed("the command has no words".to_owned()));
    }
    let entry = serde_json::to_vec(&entry).map_err(|error| failed(error.to_string()))?;
    let mut helper = program.role("enter").spawn().map_err(SandboxError::io("run", program.path()))?;
    if let Some(mut stdin) = helper.stdin.take() {
        // A helper that died early says why below.
        let _ = io::Write::write_all(&mut stdin, &entry);
    }
    let (status, stdout, stderr) =
        collect(&mut helper).map_err(SandboxError::io("wait for", program.path()))?;
    if let Some(failure) = own_failure(status, &stderr) {
        return Err(failed(failure));
    }
    Ok(Output { status, stdout, stderr })
}

/// What the helper itself complained about, if it did.
fn own_failure(status: ExitStatus, stderr: &[u8]) -> Option<String> {
    let own = status.code() == Some(i32::from(ENTER_FAILED)) && stderr.starts_with(FAILURE_MARK.as_bytes());
    own.then(|| last_line(stderr).trim_start_matches(FAILURE_MARK).to_owned())
}

/// The words to put before a program so that it runs inside a box with the capabilities of its user namespace, with CRIU's notes on
/// the kernel at hand. It finds `directories` by [`inside_directory`], wherever the box has them hidden.
pub fn inside(
    program: &Program,
    holder: Identity,
    kdat: Option<&Path>,
    directories: &[&Path],
) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![program.path().into(), "inside".into()];
    words.extend(["--holder".into(), format!("{}:{}", holder.pid, holder.start_time).into()]);
    if let Some(kdat) = kdat {
        words.extend(["--kdat".into(), kdat.into()]);
    }
    for directory in directories {
        words.extend(["--directory".into(), (*directory).into()]);
    }
    words.push("--".into());
    words
}

/// The path by which a program that runs [`inside`] finds the directory with this index.
pub fn inside_directory(index: usize) -> PathBuf {
    let first = usize::try_from(FIRST_DIRECTORY).unwrap_or_default();
    PathBuf::from(format!("/proc/self/fd/{}", first + index))
}

/// Runs one of our own roles inside a box and waits for it; gives its output.
pub(crate) fn role_inside(
    program: &Program,
    holder: Identity,
    role: &[&str],
    stdin: Stdio,
    stdout: Stdio,
) -> Result<Vec<u8>> {
    let failed = |detail: String| SandboxError::Enter { pid: holder.pid, detail };
    let mut words = inside(program, holder, None, &[]).into_iter();
    let mut helper = Command::new(words.next().unwrap_or_default());
    let helper = helper.args(words).arg(program.path()).args(role).stdin(stdin).stdout(stdout);
    let output = helper
        .stderr(Stdio::piped())
        .spawn()
        .and_then(Child::wait_with_output)
        .map_err(SandboxError::io("run", program.path()))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(failed(last_line(&output.stderr).trim_start_matches(FAILURE_MARK).to_owned())),
    }
}

/// Has the next process of the box get a number above `last`: those below are CRIU's, and those of the tree are taken.
pub fn count_from(program: &Program, holder: Identity, last: i32) -> Result<()> {
    role_inside(program, holder, &["count-from", &last.to_string()], Stdio::null(), Stdio::null()).map(drop)
}

/// What the kernel says about the Unix sockets in the box's network, as JSON.
pub(crate) fn sockets_inside(program: &Program, holder: Identity) -> Result<Vec<u8>> {
    role_inside(program, holder, &["sockets"], Stdio::null(), Stdio::piped())
}

/// How the helper's own complaints begin.
pub(crate) const FAILURE_MARK: &str = "infinijup-box: ";

/// Reads both streams until the helper has ended and nothing more is there to be read.
///
/// Reading until the end of the streams would wait for everything that the command has left in the background, too.
fn collect(helper: &mut Child) -> io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let mut streams = [Stream::new(helper.stdout.take()), Stream::new(helper.stderr.take())];
    let ended = pidfd_open(rustix::process::Pid::from_child(helper), PidfdFlags::empty())?;
    loop {
        // In this order: what was written before the end is read after it.
        let status = helper.try_wait()?;
        let open = streams.iter_mut().filter(|stream| stream.fd.is_some());
        let mut ready: Vec<PollFd<'_>> =
            open.filter_map(|stream| Some(PollFd::new(stream.fd.as_ref()?, PollFlags::IN))).collect();
        if status.is_none() {
            ready.push(PollFd::new(&ended, PollFlags::IN));
        }
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let events = match poll(&mut ready, status.is_some().then_some(&at_once)) {
            Ok(events) => events,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        if let Some(status) = status
            && events == 0
        {
            let [stdout, stderr] = streams;
            return Ok((status, stdout.kept, stderr.kept));
        }
        for stream in &mut streams {
            stream.read_what_is_there()?;
        }
    }
}

/// One output stream of a command.
struct Stream {
    fd: Option<OwnedFd>,
    kept: Vec<u8>,
}

impl Stream {
    fn new(pipe: Option<impl Into<OwnedFd>>) -> Self {
        Self { fd: pipe.map(Into::into), kept: Vec::new() }
    }

    fn read_what_is_there(&mut self) -> io::Result<()> {
        let Some(fd) = &self.fd else { return Ok(()) };
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&at_once))? == 0 {
            return Ok(());
        }
        let mut buffer = [0; 64 << 10];
        let length = rustix::io::read(fd, &mut buffer)?;
        let room = OUTPUT_LIMIT.saturating_sub(self.kept.len());
        self.kept.extend(buffer.get(..length.min(room)).unwrap_or_default());
        if length == 0 {
            self.fd = None;
        }
        Ok(())
    }
}

/// The words to put before `criu …` so that root's daemon may dump and restore processes of `user` that live outside of boxes.
///
/// Without `CAP_SYS_RESOURCE` the kernel lets a process read or set another's limits only if their real ids are equal. So
/// the helper takes the user's *real* ids and keeps root's effective and saved ones, with all capabilities. CRIU must share the
/// machine's mount namespace, so `kdat`, its notes about the kernel, is copied to `/run/criu.kdat`: it would otherwise probe the
/// kernel each time, and one of its probes (libnftables) ends a process whose real and effective ids differ.
pub fn real_ids_runner(program: &Program, user: &User, kdat: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![program.path().into(), "real-ids".into()];
    words.extend(["--uid".into(), user.uid.to_string().into(), "--gid".into(), user.gid.to_string().into()]);
    words.extend(["--kdat".into(), kdat.into(), "--".into()]);
    words
}

/// The words to put before `criu …` so that it finds `kdat` as its notes about the kernel, and nobody else does.
///
/// CRIU looks for them at one place, `/run/criu.kdat`, and so does every other CRIU of the machine: a runtime's that believed in notes that are
/// changed so that memory is left to us would leave out pages. So it gets a mount namespace in which they lie over `of_all`, which are true. It is a copy
/// of the machine's: for trees that live in that one it cannot be used, because CRIU would take all of its mounts for a part of them.
pub fn own_notes_runner(program: &Program, kdat: &Path, of_all: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![program.path().into(), "notes".into()];
    words.extend(["--kdat".into(), kdat.into(), "--true-kdat".into(), of_all.into(), "--".into()]);
    words
}

/// Removes notes that [`real_ids_runner`] has left from before the machine was started: on a `/run` that is not in memory
/// they would be taken for those of a kernel that may have been exchanged since.
pub fn forget_notes_of_another_boot() {
    let path = Path::new("/run/criu.kdat");
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let booted = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok());
    let written = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    if let (Some(booted), Some(written)) = (booted, written)
        && written < std::time::UNIX_EPOCH + std::time::Duration::from_secs(booted)
    {
        // if it cannot be removed it is not ours
        let _ = std::fs::remove_file(path);
    }
}
