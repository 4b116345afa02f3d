//! `init`: process 300 of a box, the root of the tree that snapshots contain.
//!
//! It starts the main command and the sidecars, reaps whatever falls to it, passes signals on to the main command, and ends when that
//! ends – with which the holder ends everything else in the box. It lives through every snapshot and restore, so it holds
//! nothing: no descriptors but the three standard ones, no threads, no timers, no capabilities.
//!
//! There are no signal handlers. Signals are blocked and taken one by one with `sigwait`. A child inherits the blocked set, so the
//! commands are started before; what arrives in between is not lost: an end of a child is noticed by the first
//! round of reaping, and nobody knows of the box yet who could signal it.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use rustix::process::{Resource as Rustix, Rlimit, WaitOptions, set_child_subreaper, setrlimit};

use super::{Outcome, Word, number, rights, say, while_doing};
use crate::keepname;
use crate::reaper::as_shell;
use crate::spec::{BOX_DIR, EXIT_FILE, Resource, ResourceLimit};

/// Passed on to the main command.
const PASSED_ON: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

/// Words: the directory, the limits, and each command behind the number of its words.
pub(super) fn init(words: Vec<OsString>) -> Outcome {
    let main = match prepare(&words).and_then(|()| start(words)) {
        Ok(main) => main,
        Err(failure) => {
            say(&Word::Failed(failure))?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let mut signals = SigSet::empty();
    for signal in PASSED_ON.into_iter().chain([Signal::SIGCHLD]) {
        signals.add(signal);
    }
    signals.thread_block().map_err(while_doing("block signals"))?;
    // Closes the pipe to `holder`: the box is up.
    let null = std::fs::File::open("/dev/null").map_err(while_doing("open /dev/null"))?;
    rustix::stdio::dup2_stdin(&null).map_err(while_doing("use /dev/null"))?;
    drop(null);

    loop {
        if let Some(status) = reap(main) {
            record(status);
            return Ok(ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX)));
        }
        match signals.wait() {
            Ok(signal) if PASSED_ON.contains(&signal) => {
                // It may have ended just now, which the next round sees.
                let _ = kill(main, signal);
            }
            _ => {}
        }
    }
}

/// Becomes what every process of the tree is to be.
fn prepare(words: &[OsString]) -> Outcome<()> {
    let [cwd, limits, ..] = words else { return Err("the directory or the limits are missing".to_owned()) };
    rights::give_up()?;
    rustix::process::setsid().map_err(while_doing("start a session"))?;
    // The pid only has to be some pid: the call takes it as a yes.
    set_child_subreaper(Some(rustix::process::getpid())).map_err(while_doing("become a subreaper"))?;
    rustix::process::umask(rustix::fs::Mode::WGRP | rustix::fs::Mode::WOTH);
    let limits: Vec<ResourceLimit> =
        serde_json::from_str(&limits.to_string_lossy()).map_err(while_doing("understand the limits"))?;
    set_limits(&limits)?;
    forget_the_daemons_oom_score()?;
    let cwd = Path::new(cwd);
    rustix::process::chdir(cwd).map_err(while_doing(format!("enter the directory `{}`", cwd.display())))
}

/// Starts all commands; the first is the main one.
fn start(words: Vec<OsString>) -> Outcome<Pid> {
    let program = std::env::current_exe().map_err(while_doing("find our own program"))?;
    let mut words = words.into_iter().skip(2);
    let mut main = None;
    while let Some(length) = words.next() {
        let length = number(&length, "the length of a command")?;
        let mut command = words.by_ref().take(length);
        let name = command.next().ok_or("a command has no words")?;
        let pid = start_one(&name, command, &program)?;
        main = main.or(Some(pid));
    }
    main.ok_or_else(|| "there is no command".to_owned())
}

fn start_one(name: &OsStr, words: impl Iterator<Item = OsString>, program: &Path) -> Outcome<Pid> {
    let mut command = Command::new(name);
    command.args(words).stdin(Stdio::null()).process_group(0);
    keepname::preload(&mut command, program);
    let child = command.spawn().map_err(while_doing(format!("run `{}`", name.display())))?;
    let pid = i32::try_from(child.id()).map_err(while_doing("use a pid"))?;
    Ok(Pid::from_raw(pid))
}

fn set_limits(limits: &[ResourceLimit]) -> Outcome<()> {
    for limit in limits {
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

/// A daemon is often protected from the kernel's out-of-memory killer. That is not for its sessions.
fn forget_the_daemons_oom_score() -> Outcome<()> {
    let path = "/proc/self/oom_score_adj";
    let failed = || while_doing(format!("set `{path}`"));
    let protected = std::fs::read_to_string(path).map_err(failed())?.trim_start().starts_with('-');
    if protected { std::fs::write(path, "0").map_err(failed()) } else { Ok(()) }
}

/// Reaps all that have ended; gives the status of the main command if it was among them.
fn reap(main: Pid) -> Option<i32> {
    let mut status_of_main = None;
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid.as_raw_nonzero().get() == main.as_raw() {
            status_of_main = Some(as_shell(status));
        }
    }
    status_of_main
}

/// Leaves the exit status for the daemon, in one piece or not at all.
fn record(status: i32) {
    let directory = Path::new(BOX_DIR);
    let (draft, place) = (directory.join(format!("{EXIT_FILE}.new")), directory.join(EXIT_FILE));
    let written = std::fs::File::create(&draft).and_then(|mut file| writeln!(file, "{status}"));
    if written.is_ok() {
        // The daemon can do without: it also sees that the process has ended.
        let _ = std::fs::rename(draft, place);
    }
}
