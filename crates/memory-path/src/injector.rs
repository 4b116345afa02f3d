//! Who leads a process through the call that makes its userfaultfd.
//!
//! Between the moment in which a thread's registers are set for the call and the one in which they are put back, the thread cannot do without its
//! tracer: if that dies, the kernel lets the thread go where it is, and the whole process ends. Of a process that is to die with us anyway
//! that is right ([`Standing::hold_or_kill`]). But a daemon is killed, by people, by service managers, by the kernel when memory is
//! short, and nobody's work may end with it. So the call is made by a process of its own, which does nothing else and does not end with
//! us ([`Injector::Beside`]). It lives for some milliseconds; what it needs it has before the first thread stops.
//!
//! **What is said**, on a socket that is its standard input: it stops the process, has it make the userfaultfd, and says `made` with its number.
//! We take the descriptor out of the process and say so. Then, or if we are gone, it has the descriptor closed, puts everything back, lets the
//! process go, and says `over`. Without our word it does not say that: the number could have been somebody else's by then. If it cannot be done,
//! it says why.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use crate::error::{MemoryError, NotHere, Result};
use crate::inject::{Call, Injection};
use crate::standing::{Standing, StandsStill};

/// `O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY`: the last makes it a thing that anybody may have.
const FLAGS: u64 = 0x80801;
/// Attempts to find a thread that can make a call. A thread leaves the places where it cannot within microseconds.
const ATTEMPTS: usize = 20;
/// How long the process stands at most while whoever asked takes the descriptor.
const TO_TAKE_IT: Duration = Duration::from_secs(2);
/// How long whoever leads it may take to say something, beside what threads may take to stop.
const TO_ANSWER: Duration = Duration::from_secs(30);

/// Who makes the call.
#[derive(Clone, Default, Debug)]
pub enum Injector {
    /// We. If this program is killed in the middle of it, the process ends, too.
    #[default]
    Here,
    /// A program that calls [`lead`] with the two numbers that are added to its arguments.
    Beside {
        /// The program.
        program: PathBuf,
        /// What it is told first.
        arguments: Vec<OsString>,
    },
}

impl Injector {
    /// Has a userfaultfd made in a process, and takes it out of there, if its threads stop within this time.
    pub(crate) fn make(&self, limit: Duration, pid: i32, process: &OwnedFd) -> Result<OwnedFd> {
        match self {
            Self::Here => {
                attempts(|| Standing::within(limit, pid, |standing| make_and_take(standing, process)))
            }
            Self::Beside { program, arguments } => {
                let mut command = Command::new(program);
                command.args(arguments);
                beside(command, limit, pid, process)
            }
        }
    }
}

/// The same for a process that stands already, and dies with us if we do.
pub(crate) fn make_and_take(standing: &Standing, process: &OwnedFd) -> Result<OwnedFd> {
    made_in(standing, |number| take(number, standing.pid(), process))?
}

fn take(number: i32, pid: i32, process: &OwnedFd) -> Result<OwnedFd> {
    let taken = pidfd_getfd(process, number, PidfdGetfdFlags::empty());
    taken.map_err(MemoryError::number("take the userfaultfd out", pid))
}

fn attempts<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(MemoryError::Busy { .. }) => {}
            result => return result,
        }
    }
    attempt()
}

/// Makes a userfaultfd in a process that stands, has `take` do something about its number, and closes it.
fn made_in<T>(standing: &Standing, take: impl FnOnce(i32) -> T) -> Result<T> {
    let pid = standing.pid();
    let refused = |detail: String| MemoryError::not_here(pid, NotHere::Refused { detail });
    let mut injection = Injection::begin(standing)?;
    let inside =
        injection.call(Call::Userfaultfd { flags: FLAGS })?.map_err(|error| refused(error.to_string()))?;
    let number = i32::try_from(inside).map_err(|_| refused(format!("it gave {inside}")))?;
    let taken = take(number);
    let closed = injection.call(Call::Close { descriptor: inside })?;
    injection.finish()?;
    closed.map_err(MemoryError::system("close what was made in it", pid))?;
    Ok(taken)
}

/// Lets a process of its own do it.
fn beside(mut command: Command, limit: Duration, pid: i32, process: &OwnedFd) -> Result<OwnedFd> {
    let failed = |error| MemoryError::System { what: "begin to follow the writes", pid, source: error };
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    command
        .args([pid.to_string(), limit.as_millis().to_string()])
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Whoever ends us by a key does not end it in the middle.
        .process_group(0);
    let child = command.spawn().map_err(failed)?;
    // Its end of the socket is in there, too.
    drop(command);
    let taken = talk(ours, limit, pid, process);
    // One that has not said its last word may wait for a process that gets no processor. It is not waited for, only collected, unless
    // somebody else does that first.
    if taken.is_ok() {
        collect(child);
    } else {
        drop(std::thread::Builder::new().name("collecting".to_owned()).spawn(|| collect(child)));
    }
    taken
}

fn collect(mut child: Child) {
    let _ = child.wait();
}

/// Hears that it is made, takes it, and says so.
fn talk(ours: UnixStream, limit: Duration, pid: i32, process: &OwnedFd) -> Result<OwnedFd> {
    let failed = |source| MemoryError::System { what: "begin to follow the writes", pid, source };
    ours.set_read_timeout(Some(limit + TO_ANSWER)).map_err(failed)?;
    let mut said = BufReader::new(&ours);
    let mut hear = || -> Result<String> {
        let mut line = String::new();
        said.read_line(&mut line).map_err(failed)?;
        Ok(line.trim_end().to_owned())
    };
    let line = hear()?;
    let Some(number) = line.strip_prefix("made ").and_then(|number| number.parse().ok()) else {
        return Err(reason(&line, pid, limit));
    };
    let taken = take(number, pid, process);
    (&ours).write_all(b"taken\n").map_err(failed)?;
    match hear()?.as_str() {
        "over" => taken,
        line => Err(reason(line, pid, limit)),
    }
}

/// What it could not do, in a line.
fn words(error: &MemoryError) -> String {
    match error {
        MemoryError::TooSlow { .. } => "slow".to_owned(),
        MemoryError::Busy { .. } => "busy".to_owned(),
        MemoryError::Gone { .. } => "gone".to_owned(),
        MemoryError::NotHere { reason, .. } => format!("never {reason}"),
        other => format!("failed {other}"),
    }
}

/// The same line, understood.
fn reason(line: &str, pid: i32, limit: Duration) -> MemoryError {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("slow", _) => MemoryError::TooSlow { pid, thread: pid, limit },
        ("busy", _) => MemoryError::Busy { pid, detail: "each is about to get a signal, or in a sequence" },
        ("gone", _) => MemoryError::Gone { pid },
        ("never", why) => MemoryError::not_here(pid, NotHere::Told { detail: why.to_owned() }),
        (_, why) => {
            let source = std::io::Error::other(format!("whoever was to make the call said: {why}"));
            MemoryError::System { what: "make a userfaultfd in the memory", pid, source }
        }
    }
}

/// What the program of [`Injector::Beside`] does with its last two arguments, a process and milliseconds. Whoever asks is on standard input.
pub fn lead(pid: i32, limit_ms: u64) -> std::io::Result<()> {
    let line = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    line.set_read_timeout(Some(TO_TAKE_IT))?;
    let mut said = BufReader::new(&line);
    let mut was_taken = false;
    let made = attempts(|| {
        Standing::within(Duration::from_millis(limit_ms), pid, |standing| {
            made_in(standing, |number| {
                // Whether anybody hears it shows by the answer.
                let _ = (&line).write_all(format!("made {number}\n").as_bytes());
                was_taken = matches!(said.read_line(&mut String::new()), Ok(1..));
            })
        })
    });
    let answer = match made {
        Ok(()) if was_taken => "over".to_owned(),
        Ok(()) => "slow".to_owned(),
        Err(error) => words(&error),
    };
    (&line).write_all(format!("{answer}\n").as_bytes())
}
