//! A kernel that is listened to: its three channels, what is asked of it, and what it says.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use jupyter_protocol::media::MediaType;
use jupyter_protocol::{
    ExecuteReply, ExecuteRequest, ExpressionResult, JupyterMessageContent, KernelInfoRequest, UnknownMessage,
};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::activity::{Activity, Doing, Status};
use super::channel::{Channels, News, Which};
use super::frames::encode;
use super::message::{Message, Signer};
use crate::connection::ConnectionFile;
use crate::error::{JupyterError, Result};

/// The type of a message by which a kernel asks something of us.
const REQUEST: &str = "infinijup_request";

/// What we want to hear.
pub(super) const WANTED: &[&str] =
    &["status", "execute_input", "execute_reply", "kernel_info_reply", REQUEST];

/// A request of a kernel's that is longer is not read, in bytes.
const REQUEST_BYTES: usize = 256 << 10;

/// How long a shell may be silent before the kernel is taken to be busy.
const SILENCE: Duration = Duration::from_secs(1);

/// How long a kernel may be busy before the shell is asked whether it really is.
const DOUBT: Duration = Duration::from_secs(30);

/// How many messages wait for the control channel to come up.
const WAITING: usize = 16;

/// What a kernel says that its owner is told. Called on the one thread that talks to all kernels, so it must not wait.
pub trait Listener: Send + 'static {
    /// It does something else now.
    fn status(&self, status: &Status);
    /// It asks something, in a message of the type `infinijup_request`.
    fn request(&self, content: Value);
}

/// What came of each expression: an object of MIME types, or what it raised.
pub type Answers = BTreeMap<String, std::result::Result<Value, String>>;

/// What is asked of a kernel's task.
pub(crate) enum Command {
    /// Evaluate, without a trace in the kernel.
    Evaluate { expressions: BTreeMap<String, String>, limit: Duration, answer: SyncSender<Result<Answers>> },
    /// Send on the control channel, as soon as it is there.
    Control { kind: String, content: Value },
    /// The kernel is another one now. Connect anew, and then send this on the control channel.
    Renew { first: Option<(String, Value)> },
}

/// A request of ours to the shell that has no answer yet.
struct Pending {
    id: String,
    is_probe: bool,
    /// Whoever waits for it, and until when.
    waiting: Option<(Instant, Duration, SyncSender<Result<Answers>>)>,
}

/// The task that one kernel has.
pub(crate) struct Task<L> {
    signer: Signer,
    session: String,
    listener: L,
    activity: Activity,
    told: Option<Status>,
    up: [bool; 3],
    outgoing: [mpsc::Sender<Vec<u8>>; 3],
    news: mpsc::Receiver<(Which, News)>,
    renew: watch::Sender<u64>,
    /// At most one, so that a busy kernel never has a queue of ours.
    pending: Option<Pending>,
    /// When to think again about a shell that is silent, or a kernel that is busy.
    think: Option<Instant>,
    waiting: VecDeque<Vec<u8>>,
    /// To be sent on the control channel before anything else.
    first: Option<Vec<u8>>,
}

impl<L: Listener> Task<L> {
    /// Begins to connect.
    pub(crate) fn new(file: &ConnectionFile, session: String, listener: L) -> Self {
        let Channels { outgoing, news, renew } = Channels::open(file);
        Self {
            signer: Signer::new(&file.key),
            session,
            listener,
            activity: Activity::new(),
            told: None,
            up: [false; 3],
            outgoing,
            news,
            renew,
            pending: None,
            think: None,
            waiting: VecDeque::new(),
            first: None,
        }
    }

    /// Goes on until nobody has a handle any more.
    pub(crate) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            let wake = self.next_thought();
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return,
                },
                Some((which, news)) = self.news.recv() => self.hear(which, news),
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => self.ponder(),
            }
            self.tell();
        }
    }

    fn next_thought(&self) -> Option<Instant> {
        let waiting = self.pending.as_ref().and_then(|pending| pending.waiting.as_ref());
        let limit = waiting.map(|(until, ..)| *until);
        [self.think, limit].into_iter().flatten().min()
    }

    fn tell(&mut self) {
        let status = self.activity.status();
        if self.told.as_ref() != Some(&status) {
            self.listener.status(&status);
            self.told = Some(status);
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Evaluate { expressions, limit, answer } => {
                if let Err(error) = self.evaluate(expressions, limit, &answer) {
                    let _nobody_waits = answer.try_send(Err(error));
                }
            }
            Command::Control { kind, content } => {
                let bytes = self.encoded(UnknownMessage { msg_type: kind, content }.into()).1;
                if self.up(Which::Control) {
                    self.send(Which::Control, bytes);
                } else if self.waiting.len() < WAITING {
                    self.waiting.push_back(bytes);
                }
            }
            Command::Renew { first } => {
                let age = self.renew.borrow().wrapping_add(1);
                self.first = first
                    .map(|(kind, content)| self.encoded(UnknownMessage { msg_type: kind, content }.into()).1);
                // Whatever is still said about the old connections, nothing is sent there any more.
                self.up = [false; 3];
                self.waiting.clear();
                self.lost_track();
                self.renew.send_replace(age);
            }
        }
    }

    fn evaluate(
        &mut self,
        expressions: BTreeMap<String, String>,
        limit: Duration,
        answer: &SyncSender<Result<Answers>>,
    ) -> Result<()> {
        if !self.up(Which::Shell) {
            return Err(JupyterError::Away);
        }
        // What only looked whether the shell answers is behind nothing, when the kernel is idle.
        let free = self.pending.as_ref().is_none_or(|pending| pending.is_probe);
        if !free || self.activity.status().doing != Doing::Idle {
            return Err(JupyterError::Busy);
        }
        let request = ExecuteRequest {
            code: String::new(),
            silent: true,
            store_history: false,
            user_expressions: Some(expressions.into_iter().collect()),
            allow_stdin: false,
            stop_on_error: false,
        };
        self.ask_shell(request.into(), Some((Instant::now() + limit, limit, answer.clone())));
        Ok(())
    }

    fn ask_shell(
        &mut self,
        content: JupyterMessageContent,
        waiting: Option<(Instant, Duration, SyncSender<Result<Answers>>)>,
    ) {
        let (id, bytes) = self.encoded(content);
        self.activity.shell_asked();
        self.pending = Some(Pending { id, is_probe: waiting.is_none(), waiting });
        self.send(Which::Shell, bytes);
    }

    fn encoded(&self, content: JupyterMessageContent) -> (String, Vec<u8>) {
        let (id, frames) = self.signer.encode(&self.session, content);
        (id, encode(&frames))
    }

    fn up(&self, which: Which) -> bool {
        self.up[which as usize]
    }

    fn send(&self, which: Which, bytes: Vec<u8>) {
        // A channel that takes nothing is about to be lost, and made again.
        let _lost = self.outgoing[which as usize].try_send(bytes);
    }

    fn hear(&mut self, which: Which, news: News) {
        match news {
            // One that was made before a renewal is lost already.
            News::Up(age) if age < *self.renew.borrow() => (),
            News::Up(_) => {
                self.up[which as usize] = true;
                match which {
                    Which::Control => self.control_is_up(),
                    Which::Iopub | Which::Shell if self.up(Which::Iopub) && self.up(Which::Shell) => {
                        self.probe();
                    }
                    Which::Iopub | Which::Shell => (),
                }
            }
            News::Down => {
                self.up[which as usize] = false;
                if which != Which::Control {
                    self.lost_track();
                }
            }
            News::Message(frames) => {
                if let Some(message) = self.signer.decode(&frames, WANTED) {
                    self.understand(which, message, frames.last().map_or(0, Vec::len));
                }
            }
            // Whatever it was, it was nothing that we want to hear.
            News::TooLong => (),
        }
    }

    fn control_is_up(&mut self) {
        let first = self.first.take();
        for bytes in first.into_iter().chain(std::mem::take(&mut self.waiting)) {
            self.send(Which::Control, bytes);
        }
    }

    /// What the kernel does is not known any more, and what it was asked has no answer.
    fn lost_track(&mut self) {
        if let Some((_, _, answer)) = self.pending.take().and_then(|pending| pending.waiting) {
            let _nobody_waits = answer.try_send(Err(JupyterError::Away));
        }
        self.activity.anew();
        self.think = None;
    }

    /// Asks the shell something that costs nothing, to see whether it answers.
    fn probe(&mut self) {
        self.ask_shell(KernelInfoRequest {}.into(), None);
        self.think = Some(Instant::now() + SILENCE);
    }

    /// Time has passed.
    fn ponder(&mut self) {
        let now = Instant::now();
        if let Some(pending) = &mut self.pending
            && pending.waiting.as_ref().is_some_and(|(until, ..)| *until <= now)
            && let Some((_, limit, answer)) = pending.waiting.take()
        {
            // It is still pending: nothing more is asked until the kernel has done it.
            let _nobody_waits = answer.try_send(Err(JupyterError::NoAnswer { limit }));
        }
        if self.think.is_some_and(|at| at <= now) {
            self.think = None;
            if self.pending.is_some() {
                self.activity.shell_is_silent();
            } else if self.activity.status().doing == Doing::Busy && self.up(Which::Shell) {
                self.probe();
            }
        }
    }

    fn understand(&mut self, which: Which, message: Message, bytes: usize) {
        let Message { parent, content } = message;
        match (which, content) {
            (Which::Iopub, JupyterMessageContent::Status(status)) => {
                self.activity.status_came(&status.execution_state, &parent, &self.session);
                if self.activity.status().doing == Doing::Busy && self.think.is_none() {
                    self.think = Some(Instant::now() + DOUBT);
                }
            }
            (Which::Iopub, JupyterMessageContent::ExecuteInput(input)) => {
                self.activity.input_came(&input, &parent, &self.session);
            }
            // One that has to be told first that it was restored asks what it asked in another life.
            (Which::Iopub, JupyterMessageContent::UnknownMessage(asked))
                if asked.msg_type == REQUEST && bytes <= REQUEST_BYTES && self.first.is_none() =>
            {
                self.listener.request(asked.content);
            }
            (Which::Shell, content) => {
                let Some(pending) = self.pending.take_if(|pending| pending.id == parent.msg_id) else {
                    return;
                };
                self.activity.shell_answered();
                if let (Some((_, _, answer)), JupyterMessageContent::ExecuteReply(reply)) =
                    (pending.waiting, content)
                {
                    let _nobody_waits = answer.try_send(Ok(answers(reply)));
                }
            }
            _ => (),
        }
    }
}

/// What the reply to a silent request says.
fn answers(reply: ExecuteReply) -> Answers {
    let results = reply.user_expressions.unwrap_or_default();
    results
        .into_iter()
        .map(|(name, result)| match result {
            ExpressionResult::Ok { data, .. } => {
                let json = data.content.into_iter().find_map(|media| match media {
                    MediaType::Json(value) => Some(value),
                    _ => None,
                });
                (name, json.ok_or_else(|| "it has no JSON".to_owned()))
            }
            ExpressionResult::Error { ename, evalue, .. } => (name, Err(format!("{ename}: {evalue}"))),
        })
        .collect()
}
