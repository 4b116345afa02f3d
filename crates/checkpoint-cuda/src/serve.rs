//! The worker's side: `infinijup-gpu`.
//!
//! It reads requests from its standard input, makes each call in a thread of its own, and writes the answers to its standard
//! output. It has one rule above all: **a call that has begun is brought to its end.** A caller of the driver that dies in
//! mid-call leaves the target out of step with the driver, for good. So:
//! * The end of the input means that nobody will ask any more, because the daemon has given us up or has died. Calls that run
//!   are waited for, however long it takes; answers that nobody reads are dropped; then we end.
//! * SIGTERM, SIGINT and SIGHUP wait for running calls in the same way.
//! * We ask for no signal at the death of our parent.

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use nix::sys::signal::{SigSet, Signal};

use crate::backend::Backend;
use crate::protocol::{self, Answer, Reply, Request};

/// How the worker was called.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Arguments {
    /// `--library PATH`
    pub library: Option<PathBuf>,
    /// `--tool PATH`
    pub tool: Option<PathBuf>,
    /// `--helper PATH`: the helper's socket, if it is not at [`crate::helper::SOCKET`].
    pub helper: Option<PathBuf>,
}

impl Arguments {
    /// Reads a command line, without the program's name.
    pub fn parse(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Self, String> {
        let mut arguments = arguments.into_iter();
        let mut parsed = Self::default();
        while let Some(option) = arguments.next() {
            let place = match option.to_str() {
                Some("--library") => &mut parsed.library,
                Some("--tool") => &mut parsed.tool,
                Some("--helper") => &mut parsed.helper,
                _ => return Err(format!("unknown option `{}`", option.to_string_lossy())),
            };
            let value =
                arguments.next().ok_or_else(|| format!("{} needs a path", option.to_string_lossy()))?;
            *place = Some(PathBuf::from(value));
        }
        Ok(parsed)
    }
}

/// Serves requests from `input` until it ends and all calls have ended.
///
/// To be called by a program's only thread: the signals are held back for it and for all threads that come after it.
pub fn serve(arguments: &Arguments, mut input: impl BufRead) -> io::Result<()> {
    let calls = Calls::default();
    hold_signals_back(&calls)?;
    let helper = arguments.helper.as_deref().unwrap_or(Path::new(crate::helper::SOCKET));
    let backend = Arc::new(Backend::open(arguments.library.as_deref(), arguments.tool.as_deref(), helper));
    // A line that makes no sense ends the service like the end of the input does: there is nobody to complain to.
    let outcome = loop {
        match protocol::read::<Request>(&mut input) {
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
            Ok(Some(request)) => {
                let call = calls.begin();
                let backend = Arc::clone(&backend);
                let refused = request.id;
                let started = thread::Builder::new().name(format!("call {}", request.id)).spawn(move || {
                    let answer = backend.answer(&request.ask);
                    reply(request.id, answer);
                    drop(call);
                });
                if let Err(error) = started {
                    reply(refused, Answer::Failed { detail: format!("no thread for the call: {error}") });
                }
            }
        }
    };
    calls.wait();
    outcome
}

fn reply(id: u64, answer: Answer) {
    let Ok(line) = protocol::line(&Reply { id, answer }) else { return };
    let mut output = io::stdout().lock();
    // If nobody listens any more, nobody needs the answer.
    let _ = output.write_all(&line).and_then(|()| output.flush());
}

/// How many calls run.
#[derive(Clone, Default)]
struct Calls(Arc<(Mutex<usize>, Condvar)>);

impl Calls {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> Call {
        *self.count() += 1;
        Call(self.clone())
    }

    fn wait(&self) {
        let mut count = self.count();
        while *count > 0 {
            count = self.0.1.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A call that runs; dropped at its end, also by a panic.
struct Call(Calls);

impl Drop for Call {
    fn drop(&mut self) {
        *self.0.count() -= 1;
        self.0.0.1.notify_all();
    }
}

/// From here on a request to end is obeyed when no call runs.
fn hold_signals_back(calls: &Calls) -> io::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGHUP);
    signals.thread_block()?;
    let calls = calls.clone();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if signals.wait().is_ok() {
            let mut count = calls.count();
            while *count > 0 {
                count = calls.0.1.wait(count).unwrap_or_else(PoisonError::into_inner);
            }
            // The count is held, so no call can begin any more.
            #[expect(clippy::exit, reason = "the main thread sits in a read that nothing ends")]
            process::exit(0);
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_read() {
        let parse = |words: &[&str]| Arguments::parse(words.iter().map(Into::into));
        assert_eq!(parse(&[]).unwrap(), Arguments::default());
        let all = parse(&["--tool", "/t", "--library", "/l", "--helper", "/h"]).unwrap();
        let expected =
            Arguments { library: Some("/l".into()), tool: Some("/t".into()), helper: Some("/h".into()) };
        assert_eq!(all, expected);
        parse(&["--library"]).unwrap_err();
        parse(&["-x"]).unwrap_err();
    }

    #[test]
    fn calls_are_waited_for() {
        let calls = Calls::default();
        let call = calls.begin();
        let other = calls.begin();
        let waiter = thread::spawn({
            let calls = calls.clone();
            move || calls.wait()
        });
        drop(other);
        assert!(!waiter.is_finished());
        drop(call);
        waiter.join().unwrap();
        assert_eq!(*calls.count(), 0);
    }
}
