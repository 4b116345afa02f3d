//! A client of kernels: whether they are idle or busy, what they ask, and questions to them that leave no trace.
//!
//! One thread talks to all kernels ([`Bridge`]); each has three connections, to the channels iopub, shell and control. They
//! are made again whenever they are lost, for as long as the [`Kernel`] handle lives: a kernel under a session is swapped,
//! sleeps and comes back at the same ports. Whoever holds a handle may be on any thread, and only [`Kernel::evaluate`] waits.
//!
//! Somebody who wants to run a cell and see what comes of it has a connection of their own, [`Cells`].
//!
//! The types of messages are those of `jupyter-protocol`. The transport is our own, in `frames`: the kernel at the other end
//! is somebody else's program and we may be root, and the ZeroMQ library for Rust makes room for whatever length a peer
//! announces.

mod activity;
mod cells;
mod channel;
mod frames;
mod kernel;
mod message;
mod variables;

use std::collections::BTreeMap;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};

pub use activity::{Doing, Status};
pub use cells::{Cells, Ended, How, Output, Part, Stream};
pub use kernel::{Answers, Listener};
pub use variables::Variable;

use crate::connection::{ConnectionFile, random_hex};
use crate::error::{JupyterError, Result};
use kernel::{Command, Task};

/// The thread that talks to kernels. It ends when this is dropped.
#[derive(Debug)]
pub struct Bridge {
    handle: Handle,
    _until: oneshot::Sender<()>,
}

impl Bridge {
    /// Starts the thread.
    pub fn start() -> Result<Self> {
        let failed = |source| JupyterError::Thread { source };
        let runtime = Builder::new_current_thread().enable_io().enable_time().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (until, dropped) = oneshot::channel();
        let run = move || {
            // Ends with the sender.
            let _dropped = runtime.block_on(dropped);
        };
        thread::Builder::new().name("kernels".to_owned()).spawn(run).map_err(failed)?;
        Ok(Self { handle, _until: until })
    }

    /// Begins to listen to a kernel, which need not be there yet.
    pub fn connect(&self, file: &ConnectionFile, listener: impl Listener) -> Result<Kernel> {
        let session = random_hex::<16>()?;
        let (send, commands) = mpsc::channel(64);
        let file = file.clone();
        self.handle.spawn(async move { Task::new(&file, session, listener).run(commands).await });
        Ok(Kernel { commands: send })
    }
}

/// Takes what a peer sends, byte by byte as it may come, and understands every message in it. Public for fuzzing only.
#[doc(hidden)]
pub fn understand(bytes: &[u8]) -> usize {
    let (mut decoder, signer) = (frames::Decoder::new(), message::Signer::new(""));
    let mut understood = 0;
    for piece in bytes.chunks(7) {
        let Ok(heard) = decoder.push(piece) else { return understood };
        for one in heard {
            if let frames::Heard::Message(message) = one {
                let of_a_cell = cells::understands(&signer, &message);
                understood += usize::from(of_a_cell || signer.decode(&message, kernel::WANTED).is_some());
            }
        }
    }
    understood
}

/// A kernel that is listened to, until this is dropped.
#[derive(Clone, Debug)]
pub struct Kernel {
    commands: mpsc::Sender<Command>,
}

impl Kernel {
    /// Evaluates expressions in an idle kernel, without a trace in its history, its prompts or its output. Waits for at most
    /// `limit`; must not be called on the thread of the [`Bridge`].
    pub fn evaluate(&self, expressions: BTreeMap<String, String>, limit: Duration) -> Result<Answers> {
        let (answer, answered) = sync_channel(1);
        self.tell(Command::Evaluate { expressions, limit, answer })?;
        // The task keeps the limit; this one is for a task that is gone.
        match answered.recv_timeout(limit.saturating_add(Duration::from_millis(200))) {
            Ok(outcome) => outcome,
            Err(_) => Err(JupyterError::NoAnswer { limit }),
        }
    }

    /// Sends a message on the control channel; it waits if the channel is not there, unless others wait already.
    pub fn send_control(&self, kind: &str, content: Value) -> Result<()> {
        self.tell(Command::Control { kind: kind.to_owned(), content })
    }

    /// Interrupts what runs, for kernels whose kernelspec asks for a message rather than a signal.
    pub fn interrupt(&self) -> Result<()> {
        self.send_control("interrupt_request", Value::Object(serde_json::Map::new()))
    }

    /// The process behind the ports is another one now. Connects anew, and sends `first`, a type and a content, on the control
    /// channel before anything else. What waited for the old process is forgotten.
    pub fn renew(&self, first: Option<(&str, Value)>) -> Result<()> {
        self.tell(Command::Renew { first: first.map(|(kind, content)| (kind.to_owned(), content)) })
    }

    fn tell(&self, command: Command) -> Result<()> {
        self.commands.try_send(command).map_err(|_| JupyterError::Away)
    }
}
