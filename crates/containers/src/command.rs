//! A runtime's program, run to its end: for so long, and for so many bytes of answer.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{ContainerError, Result};

/// The most bytes of an answer. A description of one container has some ten thousand; a list of a thousand of runc's a million.
const MOST_BYTES: u64 = 32 << 20;
/// Of what it has to complain about.
const MOST_COMPLAINT: u64 = 16 << 10;
/// How often one that has closed its output is looked for.
const PAUSE: Duration = Duration::from_millis(1);

/// What a program said, if it ended well.
pub(crate) enum Said {
    Answer(Vec<u8>),
    /// It ended with an error: its last words.
    Refused(String),
}

/// Runs a program with these words. Nothing of it outlives the time limit.
pub(crate) fn ask(runtime: &str, program: &Path, words: &[&str], limit: Duration) -> Result<Said> {
    ask_with(runtime, program, words, &[], limit)
}

/// The same, with more in its environment.
pub(crate) fn ask_with(
    runtime: &str,
    program: &Path,
    words: &[&str],
    environment: &[(&str, &Path)],
    limit: Duration,
) -> Result<Said> {
    let silent = |error: io::Error| ContainerError::Silent {
        runtime: runtime.to_owned(),
        why: format!("cannot start `{}`: {error}", program.display()),
    };
    let mut child = Command::new(program)
        .args(words)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(silent)?;
    let deadline = Instant::now() + limit;
    let answer = read_beside(child.stdout.take(), MOST_BYTES);
    let complaint = read_beside(child.stderr.take(), MOST_COMPLAINT);
    let ended = until(&mut child, deadline);
    // One that is killed closes its pipes; what it has started may keep them, and is not waited for.
    let (Some(status), Ok(answer)) = (ended, answer.recv_timeout(left(deadline))) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(ContainerError::Slow { runtime: runtime.to_owned(), limit });
    };
    if answer.len() as u64 > MOST_BYTES {
        let why = format!("it is longer than {} MiB", MOST_BYTES >> 20);
        return Err(ContainerError::Answer { runtime: runtime.to_owned(), why });
    }
    if status.success() {
        return Ok(Said::Answer(answer));
    }
    let complaint = complaint.recv_timeout(left(deadline)).unwrap_or_default();
    Ok(Said::Refused(String::from_utf8_lossy(&complaint).trim().to_owned()))
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(PAUSE)
}

fn until(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => thread::sleep(PAUSE),
            _ => return None,
        }
    }
}

/// Reads in a thread of its own, one byte more than `most` at the most: whoever says too much is told by that. The thread ends with the pipe.
fn read_beside(pipe: Option<impl Read + Send + 'static>, most: u64) -> mpsc::Receiver<Vec<u8>> {
    let (to, from) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(most + 1).read_to_end(&mut bytes);
        }
        let _ = to.send(bytes);
    });
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> Result<Said> {
        ask("sh", Path::new("/bin/sh"), &["-c", script], limit)
    }

    #[test]
    fn an_answer_and_a_complaint_are_told_apart() {
        let Said::Answer(bytes) = sh("echo '{}'; echo warned >&2", Duration::from_secs(20)).unwrap() else {
            panic!("it ended well");
        };
        assert_eq!(bytes, b"{}\n");
        let Said::Refused(why) = sh("echo no such container >&2; exit 1", Duration::from_secs(20)).unwrap()
        else {
            panic!("it failed");
        };
        assert_eq!(why, "no such container");
    }

    #[test]
    fn one_that_hangs_is_ended() {
        let begun = Instant::now();
        let Err(slow) = sh("exec sleep 100", Duration::from_millis(200)) else { panic!("it hangs") };
        assert_eq!(slow.code(), "IJ-O011");
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn one_that_never_stops_talking_is_cut_off() {
        // It is ended by a write to a pipe that nobody reads any more.
        let Err(said) = sh("exec cat /dev/zero", Duration::from_secs(20)) else { panic!("it is too long") };
        assert!(matches!(said.code(), "IJ-O011" | "IJ-O012"), "{said}");
    }

    #[test]
    fn a_program_that_is_not_there_is_said() {
        let Err(silent) = ask("x", Path::new("/nowhere/x"), &[], Duration::from_secs(1)) else { panic!() };
        assert_eq!(silent.code(), "IJ-O010");
    }
}
