//! `holder`: process 1 of a box, and what keeps it.
//!
//! It builds the file system, starts the gate and the tree, gives up its capabilities and from then on only reaps. It is never part
//! of a snapshot: a restore makes a new holder and CRIU puts the tree beside it. The box ends with it: when the tree's root has
//! ended the holder ends, and when somebody kills the holder the kernel kills everything in the box.
//!
//! What CRIU demands of a tree: its descriptors come from inside (stdin, stdout and stderr are opened here, after the file system
//! stands), its root leads a session, its program is a file that can be seen inside, and its numbers are not those that CRIU's own
//! processes get ([`ROOT_PID`]).

use std::io::{self, Read};
use std::os::fd::{OwnedFd, RawFd};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::process::WaitOptions;
use rustix::stdio;

use super::{Outcome, Word, gate, rights, say, understand, while_doing, with_causes};
use crate::filesystem;
use crate::network;
use crate::spec::{BOX_DIR, Network, Plan, ROOT_PID};

/// How often an empty box looks whether it has got a process: nothing tells it.
const LOOK: Duration = Duration::from_millis(20);

pub(super) fn holder(sockets: &[RawFd]) -> Outcome {
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text).map_err(while_doing("read the plan"))?;
    stdio::dup2_stdin(stdio::stdout()).map_err(while_doing("keep the pipe"))?;
    let built = serde_json::from_slice(&text)
        .map_err(while_doing("understand the plan"))
        .and_then(|plan: Plan| build(&plan, sockets));
    if let Err(failure) = built {
        say(&Word::Failed(failure))?;
        return Ok(ExitCode::FAILURE);
    }
    if is_abandoned() {
        return Ok(ExitCode::FAILURE);
    }
    // With its three descriptors the holder lets go of everything outside; `launch` sees the end of the pipe.
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(while_doing("open /dev/null"))?;
    stdio::dup2_stdout(&null).map_err(while_doing("use /dev/null"))?;
    stdio::dup2_stderr(&null).map_err(while_doing("use /dev/null"))?;
    stdio::dup2_stdin(&null).map_err(while_doing("use /dev/null"))?;
    drop(null);
    reap()
}

/// Whether `launch` has ended, with the daemon, before it could tell anybody of this box.
fn is_abandoned() -> bool {
    let mut pipe = [PollFd::from_borrowed_fd(stdio::stdin(), PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut pipe, Some(&at_once)), Ok(1..))
}

fn build(plan: &Plan, sockets: &[RawFd]) -> Outcome<()> {
    let program = std::env::current_exe().map_err(while_doing("find our own program"))?;
    unshare(CloneFlags::CLONE_NEWNS).map_err(while_doing("make a mount namespace"))?;
    filesystem::build(plan)?;
    if plan.network == Network::Private {
        network::bring_loopback_up().map_err(with_causes)?;
    }
    rustix::process::chdir("/").map_err(while_doing("leave the directory"))?;
    if let Some((_, ports)) = &plan.gate {
        gate::start(&program, ports, sockets)?;
    }
    for socket in sockets {
        // The gate has them now. The tree must not.
        let _ = nix::unistd::close(*socket);
    }
    let log = open_log(plan)?;
    if plan.commands.is_some() {
        start_tree(plan, &program, log)?;
    }
    rights::give_up()
}

/// Starts `init` and waits until it has started the commands.
fn start_tree(plan: &Plan, program: &Path, log: OwnedFd) -> Outcome<()> {
    let Some(commands) = &plan.commands else { return Ok(()) };
    let path = "/proc/sys/kernel/ns_last_pid";
    std::fs::write(path, (ROOT_PID - 1).to_string()).map_err(while_doing(format!("write `{path}`")))?;
    let (mut reader, writer) = io::pipe().map_err(while_doing("make a pipe"))?;
    let limits = serde_json::to_string(&plan.limits).map_err(while_doing("hand the limits on"))?;
    let mut init = Command::new(program);
    init.arg("init").arg(&commands.cwd).arg(limits);
    for command in &commands.all {
        init.arg(command.len().to_string()).args(command);
    }
    let again = log.try_clone().map_err(while_doing("write to the log"))?;
    init.env_clear()
        .envs(commands.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::from(OwnedFd::from(writer)))
        .stdout(Stdio::from(log))
        .stderr(Stdio::from(again));
    let started = init.spawn().map_err(while_doing(format!("run `{}` inside", program.display())))?;
    // It holds the other end of the pipe, too.
    drop(init);
    let mut words = String::new();
    reader.read_to_string(&mut words).map_err(while_doing("hear from the tree"))?;
    understand(&words)?;
    match i32::try_from(started.id()) {
        Ok(ROOT_PID) => Ok(()),
        _ => Err(format!("the tree's root got the number {} instead of {ROOT_PID}", started.id())),
    }
}

/// The log is in a directory that the session may write to: a link there must not make us write elsewhere, and a fifo must not
/// make us wait.
fn open_log(plan: &Plan) -> Outcome<OwnedFd> {
    let path = Path::new(BOX_DIR).join(&plan.log);
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::CLOEXEC;
    let failed = || while_doing(format!("open the log `{}`", path.display()));
    let log = rustix::fs::openat2(CWD, &path, flags, Mode::RUSR | Mode::WUSR, ResolveFlags::NO_SYMLINKS)
        .map_err(failed())?;
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&log).map_err(failed())?.st_mode);
    if kind != rustix::fs::FileType::RegularFile {
        return Err(format!("the log `{}` is not a plain file", path.display()));
    }
    rustix::fs::fcntl_setfl(&log, OFlags::APPEND).map_err(failed())?;
    Ok(log)
}

/// Reaps until the tree's root has ended.
fn reap() -> Outcome {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, _))) if pid.as_raw_nonzero().get() == ROOT_PID => return Ok(ExitCode::SUCCESS),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::CHILD) => std::thread::sleep(LOOK),
            Err(error) => return Err(while_doing("wait for processes")(error)),
        }
    }
}
