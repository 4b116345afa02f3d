//! A client that runs cells and hears what comes of them.
//!
//! A kernel publishes what a cell prints to whoever listens at that moment, and says nothing twice. A subscription travels on a
//! connection of its own, so somebody who asks right after connecting may lose the beginning, or all of it. Therefore
//! [`Cells::connect`] asks the shell something that costs nothing, again and again, until the kernel is heard to publish about it; what is
//! asked afterwards is heard from its first word.
//!
//! A cell has ended when its reply came and the kernel published that it is idle again: these are two connections, and the last words may be
//! behind the reply. A kernel that is listened to too slowly drops what it publishes, so when one of the two is there, the other is
//! waited for only a moment.

use std::time::Duration;

use jupyter_protocol::media::MediaType;
use jupyter_protocol::{
    ExecuteRequest, ExecutionState, JupyterMessageContent, KernelInfoRequest, Media, ReplyStatus, Stdio,
    UnknownMessage,
};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until};

use super::channel::{Channels, News, Which};
use super::frames::encode;
use super::message::{Message, Signer};
use crate::connection::{ConnectionFile, random_hex};
use crate::error::{JupyterError, Result};

/// What is heard of a cell.
const WANTED: &[&str] = &[
    "status",
    "stream",
    "display_data",
    "update_display_data",
    "execute_result",
    "error",
    "clear_output",
    "execute_reply",
];

/// How long after an answer of the shell that was not heard on iopub the next question comes.
const AGAIN: Duration = Duration::from_millis(50);

/// How long the reply is waited for after the last word, and the last word after the reply.
const LAST: Duration = Duration::from_secs(1);

/// Where a cell printed to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// One form of something that a cell shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The MIME type.
    pub mime: String,
    /// Text; of pictures, base64; of JSON, its text.
    pub content: String,
}

/// What comes of a cell while it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// The kernel began with it.
    Begun,
    /// It printed.
    Text(Stream, String),
    /// It shows something, in one form or several.
    Shown(Vec<Part>),
    /// The value of its last expression, in one form or several.
    Value(Vec<Part>),
    /// It raised something.
    Raised {
        /// The kind.
        name: String,
        /// What it says.
        value: String,
        /// Where it was raised, line by line, perhaps with colours.
        traceback: Vec<String>,
    },
    /// What it showed so far is to go away.
    Cleared,
    /// Something came that is longer than what is kept of a message.
    TooLong,
}

/// How a cell ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Well.
    Well,
    /// It raised something.
    Raised,
    /// The kernel did not run it.
    Aborted,
}

/// The end of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// How.
    pub how: How,
    /// Its number, as in `In [7]`.
    pub number: Option<u32>,
}

/// A connection that runs cells, one after the other. It must be made and used inside a runtime of tokio's.
pub struct Cells {
    signer: Signer,
    session: String,
    channels: Channels,
}

impl Cells {
    /// Connects to a kernel and waits until it is heard, for at most `limit`.
    pub async fn connect(file: &ConnectionFile, limit: Duration) -> Result<Self> {
        let session = random_hex::<16>()?;
        let channels = Channels::open(file);
        let mut cells = Self { signer: Signer::new(&file.key), session, channels };
        cells.until_heard(Instant::now() + limit).await?;
        Ok(cells)
    }

    async fn until_heard(&mut self, deadline: Instant) -> Result<()> {
        let mut up = [false; 3];
        let mut ask_at: Option<Instant> = None;
        let mut asked = false;
        loop {
            tokio::select! {
                Some((which, news)) = self.channels.news.recv() => match news {
                    News::Up(_) => {
                        up[which as usize] = true;
                        // Control is needed later, to interrupt; a kernel without it runs cells as well.
                        if up[Which::Iopub as usize] && up[Which::Shell as usize] && !asked {
                            ask_at = Some(Instant::now());
                        }
                    }
                    News::Down => (up[which as usize], asked) = (false, false),
                    News::Message(frames) if which == Which::Iopub => {
                        let message = self.signer.decode(&frames, &["status"]);
                        if message.is_some_and(|message| message.parent.session == self.session) {
                            return Ok(());
                        }
                    }
                    // The shell answered: whatever it published is on its way, or nobody listened yet.
                    News::Message(_) if which == Which::Shell => ask_at = Some(Instant::now() + AGAIN),
                    News::Message(_) | News::TooLong => (),
                },
                () = sleep_until(ask_at.unwrap_or(deadline)), if ask_at.is_some() => {
                    ask_at = None;
                    asked = true;
                    self.send(Which::Shell, KernelInfoRequest {}.into());
                }
                () = sleep_until(deadline) => {
                    return Err(if asked { JupyterError::Busy } else { JupyterError::Away });
                }
            }
        }
    }

    /// Runs a cell to its end and tells what comes of it. Waits for as long as that takes; whoever gives up drops this, and the cell goes on.
    ///
    /// If it raises something, cells that others have queued behind it run all the same.
    pub async fn run(&mut self, code: String, mut heard: impl FnMut(Output)) -> Result<Ended> {
        let request = ExecuteRequest {
            code,
            silent: false,
            store_history: true,
            user_expressions: None,
            allow_stdin: false,
            stop_on_error: false,
        };
        let id = self.send(Which::Shell, request.into());
        let mut end = End::default();
        let mut begun = false;
        while end.deadline.is_none_or(|deadline| Instant::now() < deadline) && !end.is_complete() {
            let deadline = end.deadline.unwrap_or_else(Instant::now);
            let (which, news) = tokio::select! {
                news = self.channels.news.recv() => news.ok_or(JupyterError::Away)?,
                () = sleep_until(deadline), if end.deadline.is_some() => break,
            };
            match news {
                News::Down if which != Which::Control => return Err(JupyterError::Away),
                News::TooLong if begun && which == Which::Iopub => heard(Output::TooLong),
                News::Message(frames) => {
                    let message = self.signer.decode(&frames, WANTED);
                    let Some(message) = message.filter(|message| message.parent.msg_id == id) else {
                        continue;
                    };
                    let Some(output) = end.hear(message) else { continue };
                    begun |= output == Output::Begun;
                    heard(output);
                }
                News::Up(_) | News::Down | News::TooLong => (),
            }
        }
        Ok(end.ended())
    }

    /// Something that interrupts what runs, also while [`Cells::run`] waits; for kernels whose kernelspec asks for a message rather than a
    /// signal.
    pub fn interrupter(&self) -> impl Fn() + use<> {
        let content = Value::Object(Map::new());
        let message = UnknownMessage { msg_type: "interrupt_request".to_owned(), content };
        let (_, frames) = self.signer.encode(&self.session, message.into());
        let control = self.channels.outgoing[Which::Control as usize].clone();
        move || {
            // A channel that takes nothing is lost, and with it the kernel.
            let _lost = control.try_send(encode(&frames));
        }
    }

    fn send(&self, which: Which, content: JupyterMessageContent) -> String {
        let (id, frames) = self.signer.encode(&self.session, content);
        // A channel that takes nothing is about to be lost, which is told as news.
        let _lost = self.channels.outgoing[which as usize].try_send(encode(&frames));
        id
    }
}

/// What is known of how a cell ends.
#[derive(Default)]
struct End {
    reply: Option<Ended>,
    is_idle: bool,
    raised: bool,
    /// Until when the rest is waited for.
    deadline: Option<Instant>,
}

impl End {
    /// Understands a message about the cell; what is to be told of it.
    fn hear(&mut self, message: Message) -> Option<Output> {
        match message.content {
            JupyterMessageContent::Status(status) => match status.execution_state {
                ExecutionState::Busy => return Some(Output::Begun),
                ExecutionState::Idle => {
                    self.is_idle = true;
                    self.deadline = Some(Instant::now() + LAST);
                }
                _ => (),
            },
            JupyterMessageContent::ExecuteReply(reply) => {
                let how = match reply.status {
                    ReplyStatus::Ok => How::Well,
                    ReplyStatus::Error => How::Raised,
                    ReplyStatus::Aborted => How::Aborted,
                };
                // Kernels that leave it out are given a zero.
                let number = u32::try_from(reply.execution_count.value()).ok().filter(|number| *number > 0);
                self.reply = Some(Ended { how, number });
                self.deadline = Some(Instant::now() + LAST);
            }
            JupyterMessageContent::StreamContent(said) => {
                let stream = match said.name {
                    Stdio::Stdout => Stream::Out,
                    Stdio::Stderr => Stream::Err,
                };
                return Some(Output::Text(stream, said.text));
            }
            JupyterMessageContent::DisplayData(shown) => return Some(Output::Shown(parts(shown.data))),
            JupyterMessageContent::UpdateDisplayData(shown) => return Some(Output::Shown(parts(shown.data))),
            JupyterMessageContent::ExecuteResult(value) => return Some(Output::Value(parts(value.data))),
            JupyterMessageContent::ErrorOutput(error) => {
                self.raised = true;
                return Some(Output::Raised {
                    name: error.ename,
                    value: error.evalue,
                    traceback: error.traceback,
                });
            }
            JupyterMessageContent::ClearOutput(_) => return Some(Output::Cleared),
            _ => (),
        }
        None
    }

    fn is_complete(&self) -> bool {
        self.is_idle && self.reply.is_some()
    }

    fn ended(&self) -> Ended {
        let how = if self.raised { How::Raised } else { How::Well };
        self.reply.unwrap_or(Ended { how, number: None })
    }
}

/// Whether a message says something of a cell. For fuzzing only.
pub(super) fn understands(signer: &Signer, frames: &[Vec<u8>]) -> bool {
    signer.decode(frames, WANTED).and_then(|message| End::default().hear(message)).is_some()
}

fn parts(media: Media) -> Vec<Part> {
    media.content.into_iter().map(part).collect()
}

fn part(media: MediaType) -> Part {
    let mime = media.mime_type().to_owned();
    let content = match media {
        MediaType::Plain(text)
        | MediaType::Html(text)
        | MediaType::Latex(text)
        | MediaType::Javascript(text)
        | MediaType::Markdown(text)
        | MediaType::Svg(text)
        | MediaType::Png(text)
        | MediaType::Jpeg(text)
        | MediaType::Gif(text)
        | MediaType::Other((_, Value::String(text))) => text,
        MediaType::Other((_, value)) => value.to_string(),
        // JSON in one of many forms: serde writes each as its type and its data.
        other => match serde_json::to_value(&other) {
            Ok(Value::Object(value)) => value.get("data").map(Value::to_string).unwrap_or_default(),
            _ => String::new(),
        },
    };
    Part { mime, content }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::client::message::Head;

    fn message(kind: &str, content: Value) -> Message {
        let content = JupyterMessageContent::from_type_and_content(kind, content).unwrap();
        Message { parent: Head::default(), content }
    }

    #[test]
    fn what_a_kernel_says_of_a_cell_is_told_in_our_words() {
        let mut end = End::default();
        let mut hear = |kind: &str, content: Value| end.hear(message(kind, content));
        assert_eq!(hear("status", json!({ "execution_state": "busy" })), Some(Output::Begun));
        assert_eq!(
            hear("stream", json!({ "name": "stderr", "text": "x\n" })),
            Some(Output::Text(Stream::Err, "x\n".into()))
        );
        let data = json!({ "text/plain": "<Figure>", "image/png": "aGk=", "application/json": { "a": 1 } });
        let Some(Output::Value(mut parts)) =
            hear("execute_result", json!({ "execution_count": 3, "data": data, "metadata": {} }))
        else {
            panic!("no value");
        };
        parts.sort_by(|a, b| a.mime.cmp(&b.mime));
        let of = |mime: &str, content: &str| Part { mime: mime.into(), content: content.into() };
        assert_eq!(
            parts,
            [of("application/json", "{\"a\":1}"), of("image/png", "aGk="), of("text/plain", "<Figure>")]
        );
        assert_eq!(hear("clear_output", json!({ "wait": true })), Some(Output::Cleared));
        assert!(!end.is_complete());
    }

    proptest::proptest! {
        #[test]
        fn nothing_that_is_said_of_a_cell_makes_it_panic(
            kind in proptest::sample::select(WANTED),
            key in proptest::sample::select(vec!["data", "text", "execution_state", "traceback", "status", "execution_count"]),
            value in proptest::sample::select(vec!["1", "-1", "null", "[]", "{}", "\"x\"", "{\"image/png\": [1]}", "{\"a/b\": {}}"]),
        ) {
            let header = format!("{{\"msg_type\": \"{kind}\"}}").into_bytes();
            let content = format!("{{\"{key}\": {value}, \"name\": \"stdout\", \"metadata\": {{}}}}").into_bytes();
            let frames = [b"<IDS|MSG>".to_vec(), Vec::new(), header, b"{}".to_vec(), b"{}".to_vec(), content];
            understands(&Signer::new(""), &frames);
        }
    }

    #[test]
    fn a_cell_ends_with_its_reply_and_its_last_word() {
        let mut end = End::default();
        end.hear(message("execute_reply", json!({ "status": "ok", "execution_count": 7 })));
        assert!(!end.is_complete());
        end.hear(message("status", json!({ "execution_state": "idle" })));
        assert!(end.is_complete());
        assert_eq!(end.ended(), Ended { how: How::Well, number: Some(7) });
    }

    #[test]
    fn a_reply_that_was_lost_does_not_hide_what_was_raised() {
        let mut end = End::default();
        let error = json!({ "ename": "ValueError", "evalue": "no", "traceback": ["a"] });
        assert!(
            matches!(end.hear(message("error", error)), Some(Output::Raised { name, .. }) if name == "ValueError")
        );
        end.hear(message("status", json!({ "execution_state": "idle" })));
        assert!(!end.is_complete() && end.deadline.is_some());
        assert_eq!(end.ended(), Ended { how: How::Raised, number: None });
    }
}
