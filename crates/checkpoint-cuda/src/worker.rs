//! The daemon's side of a worker process.
//!
//! A worker is never killed. When a call takes too long, the worker is *abandoned*: its input is closed, so that it ends by
//! itself once its calls have ended, and it gets no new ones. Its output is still read: other calls that it was making are
//! answered as if nothing had happened, and the end of the call that was given up, whenever it comes, is reported to whoever
//! has to know that its effect has arrived late.

use std::collections::HashMap;
use std::io::{self, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::error::{CudaError, Result};
use crate::facts::Abandoned;
use crate::process;
use crate::protocol::{self, Answer, Ask, Reply, Request};

/// A process whose call was given up: its effect may come, or has come, late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Late {
    pub(crate) pid: i32,
    pub(crate) start_time: u64,
}

/// Told of calls that end after they were given up.
pub(crate) type OnLate = Arc<dyn Fn(Late) + Send + Sync>;

/// An answer, or why there will be none.
pub(crate) type Outcome = std::result::Result<Answer, String>;

enum Waiting {
    Somebody { tell: Sender<Outcome>, about: Option<Late> },
    Nobody(Late),
}

#[derive(Default)]
struct Shared {
    waiting: HashMap<u64, Waiting>,
    next: u64,
    /// Why it answers no more.
    over: Option<String>,
}

/// A worker process.
pub(crate) struct Worker {
    pub(crate) identity: Abandoned,
    input: Mutex<Option<ChildStdin>>,
    shared: Arc<Mutex<Shared>>,
}

/// A call on its way.
pub(crate) struct Ticket {
    number: u64,
    pub(crate) outcome: Receiver<Outcome>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Worker {
    /// Starts one.
    pub(crate) fn start(
        program: &Path,
        library: Option<&Path>,
        tool: Option<&Path>,
        on_late: OnLate,
    ) -> Result<Self> {
        let cannot = |source| CudaError::Start { program: program.to_path_buf(), source };
        let mut command = Command::new(program);
        for (option, path) in [("--library", library), ("--tool", tool)] {
            if let Some(path) = path {
                command.arg(option).arg(path);
            }
        }
        // A group of its own: what a terminal sends to the daemon's is not meant for it.
        command.process_group(0).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(cannot)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = output.ok_or_else(|| cannot(io::Error::other("it has no output")))?;
        let pid = i32::try_from(child.id()).map_err(|error| cannot(io::Error::other(error)))?;
        // It is not collected before the thread below has read to the end, so this is its own.
        let start_time = process::start_time(pid).unwrap_or(0);
        let shared = Arc::new(Mutex::new(Shared::default()));
        let reader = Arc::clone(&shared);
        thread::Builder::new()
            .name("gpu worker".to_owned())
            .spawn(move || listen(child, output, &reader, &on_late))
            .map_err(cannot)?;
        Ok(Self { identity: Abandoned { pid, start_time }, input: Mutex::new(input), shared })
    }

    /// Will it take calls?
    pub(crate) fn is_usable(&self) -> bool {
        locked(&self.input).is_some() && locked(&self.shared).over.is_none()
    }

    /// Has it ended?
    pub(crate) fn has_ended(&self) -> bool {
        process::start_time(self.identity.pid) != Some(self.identity.start_time)
            || locked(&self.shared).over.is_some()
    }

    /// Asks for a call. An error means that the call was not begun.
    pub(crate) fn ask(&self, ask: Ask, about: Option<Late>) -> io::Result<Ticket> {
        let (tell, outcome) = channel();
        let mut shared = locked(&self.shared);
        if let Some(why) = &shared.over {
            return Err(io::Error::other(why.clone()));
        }
        let number = shared.next;
        shared.next += 1;
        shared.waiting.insert(number, Waiting::Somebody { tell, about });
        drop(shared);
        let sent = protocol::line(&Request { id: number, ask }).and_then(|line| {
            let mut input = locked(&self.input);
            let input = input.as_mut().ok_or_else(|| io::Error::other("it was given up"))?;
            input.write_all(&line).and_then(|()| input.flush())
        });
        if let Err(error) = sent {
            locked(&self.shared).waiting.remove(&number);
            return Err(error);
        }
        Ok(Ticket { number, outcome })
    }

    /// Nobody waits for this call any longer. If its outcome is there after all, it is returned; if not, the worker gets no
    /// more calls.
    pub(crate) fn give_up(&self, ticket: &Ticket) -> Option<Outcome> {
        let mut shared = locked(&self.shared);
        if let Ok(outcome) = ticket.outcome.try_recv() {
            return Some(outcome);
        }
        if let Some(Waiting::Somebody { about: Some(late), .. }) = shared.waiting.remove(&ticket.number) {
            shared.waiting.insert(ticket.number, Waiting::Nobody(late));
        }
        drop(shared);
        self.abandon();
        None
    }

    /// Closes its input: it ends once its calls have ended.
    fn abandon(&self) {
        drop(locked(&self.input).take());
    }
}

/// Hands out answers until there are no more.
fn listen(mut child: Child, output: ChildStdout, shared: &Mutex<Shared>, on_late: &OnLate) {
    let mut output = BufReader::new(output);
    loop {
        match protocol::read::<Reply>(&mut output) {
            Ok(Some(reply)) => {
                let waiting = locked(shared).waiting.remove(&reply.id);
                match waiting {
                    Some(Waiting::Somebody { tell, .. }) => {
                        let _ = tell.send(Ok(reply.answer));
                    }
                    Some(Waiting::Nobody(late)) => on_late(late),
                    // An answer that nobody has asked for.
                    None => {}
                }
            }
            Ok(None) => break,
            Err(error) => {
                // What it does now nobody can tell, but it is let go on: it may be in the middle of a call.
                tell_all(shared, &format!("it answered nonsense: {error}"));
                let _ = io::copy(&mut output, &mut io::sink());
                break;
            }
        }
    }
    let mut how = "it closed its output".to_owned();
    for _ in 0..20 {
        if let Ok(Some(status)) = child.try_wait() {
            how = format!("it ended ({status})");
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    tell_all(shared, &how);
    let _ = child.wait();
    let late: Vec<Late> = locked(shared)
        .waiting
        .drain()
        .filter_map(|(_, waiting)| match waiting {
            Waiting::Somebody { about, .. } => about,
            Waiting::Nobody(late) => Some(late),
        })
        .collect();
    late.into_iter().for_each(|late| on_late(late));
}

/// Those who wait are told that there will be no answer. What they asked for may still happen.
fn tell_all(shared: &Mutex<Shared>, why: &str) {
    let mut shared = locked(shared);
    shared.over.get_or_insert_with(|| why.to_owned());
    for waiting in shared.waiting.values_mut() {
        if let Waiting::Somebody { tell, about } = waiting {
            let _ = tell.send(Err(why.to_owned()));
            if let Some(late) = *about {
                *waiting = Waiting::Nobody(late);
            }
        }
    }
}
