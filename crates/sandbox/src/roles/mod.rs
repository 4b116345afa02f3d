//! What the helper program does, one module a role.
//!
//! ```text
//! launch      makes the namespaces, starts `holder` as the first process in them, reports and ends
//! holder      process 1 of a box: builds its file system, starts the others, gives everything up, reaps
//! gate        carries connections from sockets outside to ports inside
//! init        process 300, the root of the tree that snapshots contain: starts the commands, reaps, passes signals on
//! inside      goes into a box and runs a program there with the capabilities of its user namespace: CRIU, `pack`, `unpack`
//! enter       goes into a box and runs a command there without any, through `session`
//! session     starts a session of its own and becomes a command
//! pack        writes the box's file systems in memory to its output
//! unpack      the reverse
//! count-from  has the next process of the box get a number above this one
//! sockets     tells which Unix sockets of the box are connected to which
//! forward     starts `serve` so that it is nobody's child, and ends
//! serve       carries connections of its own user from the machine's loopback to a box's gate
//! loopback    starts `join` so that it is nobody's child, and ends
//! join        carries connections between a box's loopback and the machine's
//! door        makes sockets in a box's network for `join`
//! way-out     becomes pasta, which must not make its pipes larger
//! real-ids    takes a user's real ids and becomes CRIU, for processes outside of boxes
//! notes       becomes CRIU, with notes about the kernel that nobody else sees, for containers
//! ```
//!
//! Each starts as a fresh process with one thread, so unsharing, entering and giving up credentials are plain calls, in an
//! order that can be read from top to bottom.

mod carry;
mod clients;
mod forward;
mod gate;
mod holder;
mod init;
mod inside;
mod join;
mod launch;
mod notes;
mod real_ids;
mod relay;
mod rights;
mod tmpfs;
mod way_out;
mod whose;

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::os::fd::RawFd;
use std::process::ExitCode;

use rustix::stdio;
use serde::{Deserialize, Serialize};

use crate::exec::{ENTER_FAILED, FAILURE_MARK};

/// A role's failure, in words; it crosses to the caller as text.
type Outcome<T = ExitCode> = Result<T, String>;

/// What `init` tells `holder`, and `holder` tells `launch`, if it has to tell anything: one line. Silence and the end of the pipe
/// mean that everything runs.
#[derive(Debug, Serialize, Deserialize)]
enum Word {
    /// It did not work out.
    Failed(String),
}

/// The program's `main`.
pub fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let role = words.next().unwrap_or_default();
    let words: Vec<OsString> = words.collect();
    // A role that is handed descriptors names them behind its first word, as numbers.
    let handed: Vec<RawFd> = match role.to_str() {
        Some("holder" | "gate") => {
            words.iter().skip(1).filter_map(|word| word.to_str()?.strip_prefix("fd=")?.parse().ok()).collect()
        }
        _ => Vec::new(),
    };
    close_what_was_left_open(&handed);
    // What the daemon's thread has blocked would stay blocked in everything that follows. It cannot fail for ourselves.
    let _ = nix::sys::signal::SigSet::empty().thread_set_mask();
    let outcome = match role.to_str() {
        Some("launch") => launch::launch(),
        Some("holder") => holder::holder(&handed),
        Some("gate") => gate::gate(&words, &handed),
        Some("init") => init::init(words),
        Some("inside") => inside::inside(words),
        Some("enter") => inside::enter(),
        Some("session") => inside::session(words),
        Some("pack") => tmpfs::pack(),
        Some("unpack") => tmpfs::unpack(),
        Some("count-from") => inside::count_from(&words),
        Some("sockets") => inside::sockets(),
        Some("forward") => forward::forward(words),
        Some("serve") => forward::serve(&words),
        Some("loopback") => join::loopback(words),
        Some("join") => join::join(&words),
        Some("door") => join::door(&words),
        Some("way-out") => way_out::way_out(words),
        Some("real-ids") => real_ids::real_ids(words),
        Some("notes") => notes::notes(words),
        _ => Err("this program is run by infinijupd, not by hand".to_owned()),
    };
    outcome.unwrap_or_else(|failure| {
        #[expect(
            clippy::print_stderr,
            reason = "stderr is a pipe to the daemon, which puts this into its error"
        )]
        {
            eprintln!("{FAILURE_MARK}{failure}");
        }
        ExitCode::from(ENTER_FAILED)
    })
}

/// Closes all but the three standard descriptors and those that were handed to us. One that some shell or service manager above us
/// forgot to close would end up in the box, where CRIU refuses it: it comes from a mount that the box does not have.
fn close_what_was_left_open(handed: &[RawFd]) {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<RawFd> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|fd| *fd > 2 && !handed.contains(fd)) {
        // The one that the list was read through is closed by now.
        let _ = nix::unistd::close(fd);
    }
}

/// Writes one line to whoever started us. The pipe is our stdin: that is how a role that was run anew finds it without being
/// told a number.
fn say(word: &Word) -> Outcome<()> {
    let mut line = serde_json::to_vec(word).map_err(while_doing("report"))?;
    line.push(b'\n');
    let mut rest = line.as_slice();
    while !rest.is_empty() {
        let written = rustix::io::write(stdio::stdin(), rest).map_err(while_doing("report"))?;
        rest = rest.get(written..).unwrap_or_default();
    }
    Ok(())
}

/// What came through the pipe until its end.
fn understand(words: &str) -> Outcome<()> {
    match words.lines().next() {
        None => Ok(()),
        Some(line) => match serde_json::from_str(line).map_err(while_doing("understand the box"))? {
            Word::Failed(failure) => Err(failure),
        },
    }
}

/// For `map_err`: says what was being done.
fn while_doing<E: Display>(what: impl Display) -> impl FnOnce(E) -> String {
    move |error| format!("cannot {what}: {error}")
}

/// Like [`while_doing`], for the errors of this crate, with their causes.
fn with_causes(error: crate::SandboxError) -> String {
    base::explain(&error)
}

/// The next word as text.
fn word(words: &mut impl Iterator<Item = OsString>, what: &str) -> Outcome<String> {
    let word = words.next().ok_or_else(|| format!("{what} is missing"))?;
    word.into_string().map_err(|word| format!("{what} is not text: {}", word.display()))
}

/// Reads options, each with its value, up to `--`, and the program behind it; its words are left. `take` refuses what it does not know.
fn options(
    words: &mut impl Iterator<Item = OsString>,
    mut take: impl FnMut(&str, OsString) -> Outcome<()>,
) -> Outcome<OsString> {
    loop {
        let option = word(words, "an option or `--`")?;
        if option == "--" {
            return words.next().ok_or_else(|| "there is no program to run".to_owned());
        }
        let value = words.next().ok_or_else(|| format!("the value of {option} is missing"))?;
        take(&option, value)?;
    }
}

/// A number among the words.
fn number<N: std::str::FromStr>(word: &OsStr, what: &str) -> Outcome<N> {
    word.to_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| format!("{what} is not a number: {}", word.display()))
}
