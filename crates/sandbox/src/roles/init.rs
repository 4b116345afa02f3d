//! `init`: process 1 of a box, as the user.
//!
//! It starts the main command and the sidecars, reaps whatever falls to it, passes signals on to the main command, and ends when that
//! ends – with which the kernel ends everything else in the box. It lives through every snapshot and restore, so it holds
//! nothing: no descriptors but the three standard ones, no threads, no timers.
//!
//! There are no signal handlers. Signals are blocked and taken one by one with `sigwait`. A child inherits the blocked set, so the
//! commands are started before; what arrives in between is not lost: an end of a child is noticed by the first
//! round of reaping, and nobody knows of the box yet who could signal it.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use rustix::process::WaitOptions;

use super::launch::Word;
use super::stage::say;
use super::{Outcome, number, while_doing};
use crate::reaper::as_shell;
use crate::spec::{BOX_DIR, EXIT_FILE};

/// Passed on to the main command.
const PASSED_ON: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

pub(super) fn init(words: Vec<OsString>) -> Outcome {
    // We were run through a descriptor, whose number would be our name.
    rustix::thread::set_name(c"infinijup-box").map_err(while_doing("take a name"))?;
    let main = match start(words) {
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
    // Closes the pipe to `launch`: the box is up.
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

/// Starts all commands; the first is the main one.
fn start(words: Vec<OsString>) -> Outcome<Pid> {
    let mut words = words.into_iter();
    let mut main = None;
    while let Some(length) = words.next() {
        let length = number(&length, "the length of a command")?;
        let mut command = words.by_ref().take(length);
        let name = command.next().ok_or("a command has no words")?;
        let child = Command::new(&name)
            .args(command)
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(while_doing(format!("run `{}`", name.display())))?;
        let pid = i32::try_from(child.id()).map_err(while_doing("use a pid"))?;
        main = main.or(Some(Pid::from_raw(pid)));
    }
    main.ok_or_else(|| "there is no command".to_owned())
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
