//! `stage`: process 1 of a new box, while it is still root.
//!
//! It builds the file system of the box on the bind of `/` that the daemon made, moves into it with `pivot_root`, becomes the user,
//! and only then touches what the user controls (working directory, log). What CRIU demands of all this:
//! * No descriptor may come from outside: stdin, stdout and stderr are opened after `pivot_root`.
//! * Process 1 leads its session.
//! * `/dev` is a tmpfs with device nodes made by us. Binds of the machine's nodes have no root mount that CRIU could find.
//! * The program of process 1 must be a file that is visible inside, so `stage` ends by running itself anew.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::process::{Resource as Rustix, Rlimit, pivot_root, setrlimit};
use rustix::stdio;

use super::launch::Word;
use super::{Outcome, become_user, open_program, while_doing};
use crate::filesystem;
use crate::spec::{BOX_DIR, Plan, Resource};

pub(super) fn stage() -> Outcome {
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).map_err(while_doing("read the plan"))?;
    // From here on, stdin is the pipe to `launch`: that is how `init` finds it without being told a number.
    stdio::dup2_stdin(stdio::stdout()).map_err(while_doing("keep the pipe"))?;
    let failure = match serde_json::from_slice(&text) {
        Ok(plan) => match go_inside(&plan) {
            Ok(never) => match never {},
            Err(failure) => failure,
        },
        Err(error) => format!("cannot understand the plan: {error}"),
    };
    say(&Word::Failed(failure))?;
    Ok(ExitCode::FAILURE)
}

/// Writes one line to `launch`.
pub(super) fn say(word: &Word) -> Outcome<()> {
    let mut line = serde_json::to_vec(word).map_err(while_doing("report"))?;
    line.push(b'\n');
    let mut rest = line.as_slice();
    while !rest.is_empty() {
        let written = rustix::io::write(stdio::stdin(), rest).map_err(while_doing("report"))?;
        rest = rest.get(written..).unwrap_or_default();
    }
    Ok(())
}

fn go_inside(plan: &Plan) -> Outcome<std::convert::Infallible> {
    let program = std::env::current_exe().map_err(while_doing("find our own program"))?;
    unshare(CloneFlags::CLONE_NEWNS).map_err(while_doing("make a mount namespace"))?;
    // Nothing that we mount may travel out, and nothing that is mounted outside may come in.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(while_doing("make the mounts private"))?;
    let mounts = filesystem::build(plan)?;
    let root = Path::new(&plan.root);
    rustix::process::chdir(root).map_err(while_doing("enter the new root"))?;
    pivot_root(".", ".").map_err(while_doing("change the root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(while_doing("let go of the old root"))?;
    rustix::process::chdir("/").map_err(while_doing("enter the new root"))?;

    let (_open, runnable) = open_program(&program)?;
    set_limits(plan)?;
    forget_the_daemons_oom_score()?;
    rustix::process::setsid().map_err(while_doing("start a session"))?;
    become_user(&plan.user())?;

    // With the user's rights from here on.
    let cwd = PathBuf::from(&plan.cwd);
    rustix::process::chdir(&cwd).map_err(while_doing(format!("enter the directory `{}`", cwd.display())))?;
    let log = open_log(plan)?;
    stdio::dup2_stdout(&log).map_err(while_doing("write to the log"))?;
    stdio::dup2_stderr(&log).map_err(while_doing("write to the log"))?;
    drop(log);
    say(&Word::Mounts(mounts))?;

    let mut init = Command::new(runnable);
    init.arg0(&program).arg("init").env_clear().envs(plan.env.iter().map(|(name, value)| (name, value)));
    for command in std::iter::once(&plan.command).chain(&plan.sidecars) {
        init.arg(command.len().to_string()).args(command);
    }
    Err(while_doing(format!("run `{}` inside", program.display()))(init.exec()))
}

/// The log is in a directory that the user may write to: a link there must not make us write elsewhere, and a fifo must not
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

/// A daemon is often protected from the kernel's out-of-memory killer. That is not for its sessions.
fn forget_the_daemons_oom_score() -> Outcome<()> {
    let path = "/proc/self/oom_score_adj";
    let failed = || while_doing(format!("set `{path}`"));
    let protected = std::fs::read_to_string(path).map_err(failed())?.trim_start().starts_with('-');
    if protected { std::fs::write(path, "0").map_err(failed()) } else { Ok(()) }
}

fn set_limits(plan: &Plan) -> Outcome<()> {
    for limit in &plan.limits {
        let resource = match limit.resource {
            Resource::OpenFiles => Rustix::Nofile,
            Resource::Processes => Rustix::Nproc,
            Resource::Core => Rustix::Core,
            Resource::LockedMemory => Rustix::Memlock,
            Resource::Stack => Rustix::Stack,
            Resource::AddressSpace => Rustix::As,
        };
        setrlimit(resource, Rlimit { current: limit.soft, maximum: limit.hard })
            .map_err(while_doing(format!("set the limit of {:?}", limit.resource)))?;
    }
    Ok(())
}
