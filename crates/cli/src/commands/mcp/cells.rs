//! The tool that runs code: a cell goes to the kernel of a session by its connection file, and what comes of it comes back.
//!
//! A cell has a time. When that is over, or the client calls off its request, the kernel is interrupted as it would be by a button, and the cell has
//! a few seconds to end by that; what it printed until then is told in any case. Nothing is interrupted that is not ours: a kernel that is
//! busy with somebody else's cell does not answer, and then the cell is not sent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use api::{InterruptMode, KernelView, Nothing, SessionState, SessionView, Signal, SignalName, SignalRequest};
use jupyter_bridge::client::{Cells, Ended, How, Output};
use jupyter_bridge::{ConnectionFile, JupyterError};
use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::online::client::session_path;
use super::super::online::show;
use super::output::{Collected, Picture, Raised};
use super::refusal::Refusal;
use super::server::Server;
use crate::error::CliError;
use crate::format;

/// How many seconds a cell has, if nothing is said and at most.
const SECONDS: (u64, u64) = (60, 3600);
/// How many characters of text come back, if nothing is said and at most.
const CHARACTERS: (usize, usize) = (20_000, 200_000);
/// The longest cell, in bytes.
const CODE_BYTES: usize = 1 << 20;
/// How long a kernel may take until it answers: it may just be starting.
const ANSWER: Duration = Duration::from_secs(30);
/// How long a cell has to end after it was interrupted.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunAsked {
    /// The session: its name or id.
    session: String,
    /// The code, in the language of the kernel.
    code: String,
    /// How long it may run before it is interrupted, in seconds; 60 if not given.
    #[serde(default)]
    #[schemars(range(min = 1, max = 3600))]
    timeout_seconds: Option<u64>,
    /// How much text comes back, in characters; 20,000 if not given. Of more than that the middle is left out.
    #[serde(default)]
    #[schemars(range(min = 100, max = 200_000))]
    max_characters: Option<usize>,
    /// Whether pictures come back, at most four; else only their sizes.
    #[serde(default)]
    pictures: bool,
}

/// How a cell ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// Well.
    Ok,
    /// It raised something.
    Error,
    /// The kernel did not run it.
    Aborted,
    /// Its time was over, and it was interrupted.
    TimedOut,
    /// The client called it off, and it was interrupted.
    Cancelled,
    /// Its time was over before it began: it waits behind a cell that came first.
    Waiting,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Ran {
    /// The session.
    session: String,
    /// How it ended.
    status: Status,
    /// The number of the cell, as in `In [7]`.
    number: Option<u32>,
    /// How long it took.
    seconds: f64,
    /// What it printed and showed, its value and its traceback, as text.
    output: String,
    /// How many characters were left out of that.
    left_out: usize,
    /// What it raised.
    raised: Option<Raised>,
    /// The pictures that it showed, at most 20.
    pictures: Vec<Picture>,
    /// Whether it still runs, because the interrupt did not end it.
    still_running: bool,
}

#[tool_router(router = cell_tools, vis = "pub(super)")]
impl Server {
    /// Runs code in a session's kernel, as a cell, and returns what it printed and showed, its value or its traceback; pictures by their sizes unless asked for.
    /// A suspended session is resumed first. After `timeout_seconds` the cell is interrupted. If the kernel is busy with another
    /// cell, nothing is run. Cost: whatever the code does. Undo: take a `snapshot` before and `restore` it, which puts back memory and
    /// the session's files; what the code does elsewhere stays done.
    #[tool(
        annotations(
            title = "Run a cell",
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = false,
            open_world_hint = true
        ),
        output_schema = schema_for_output::<Ran>()
    )]
    async fn run_cell(
        &self,
        Parameters(asked): Parameters<RunAsked>,
        request: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Refusal> {
        if asked.code.len() > CODE_BYTES {
            let size = asked.code.len();
            return Err(
                CliError::Usage { what: format!("a cell of {size} bytes: at most {CODE_BYTES}") }.into()
            );
        }
        let limit = Duration::from_secs(asked.timeout_seconds.unwrap_or(SECONDS.0).clamp(1, SECONDS.1));
        let characters = asked.max_characters.unwrap_or(CHARACTERS.0).clamp(100, CHARACTERS.1);
        let mut collected = Collected::new(characters, asked.pictures);
        let (session, kernel) = self.kernel(&asked.session).await?;
        let begun = Instant::now();
        let end =
            self.run(&session, &kernel, asked.code, limit, &mut collected, request.ct.cancelled()).await?;
        Ok(answer(&session, end, begun.elapsed(), collected))
    }
}

/// How a cell ended, or why it was interrupted and whether that ended it.
enum End {
    Itself(Ended),
    Interrupted(Status, Option<Ended>),
    Waits,
}

impl Server {
    /// The session, awake, and its kernel.
    async fn kernel(&self, which: &str) -> Result<(SessionView, KernelView)> {
        let mut session = self.daemon.session(which).await?;
        if session.state == SessionState::Suspended {
            session = self.wake(&session.id, false).await?;
        }
        let name = format::safe(&session.name);
        if session.state != SessionState::Running {
            let what = format!("{name} is {}: resume or restore it first", show::state(&session));
            return Err(CliError::Usage { what }.into());
        }
        match session.kernel.clone() {
            Some(kernel) => Ok((session, kernel)),
            None => Err(CliError::Usage { what: format!("{name} is no kernel and runs no cells") }.into()),
        }
    }

    async fn run(
        &self,
        session: &SessionView,
        kernel: &KernelView,
        code: String,
        limit: Duration,
        collected: &mut Collected,
        cancelled: impl Future<Output = ()>,
    ) -> Result<End> {
        let file = ConnectionFile::read(kernel.connection_file.as_path())?;
        let mut cells = Cells::connect(&file, ANSWER.min(limit)).await?;
        let by_message = cells.interrupter();
        let has_begun = AtomicBool::new(false);
        let running = cells.run(code, |output| {
            has_begun.fetch_or(output == Output::Begun, Ordering::Relaxed);
            collected.hear(output);
        });
        tokio::pin!(running, cancelled);
        let why = tokio::select! {
            ended = &mut running => return match ended {
                Ok(ended) => Ok(End::Itself(ended)),
                Err(error) => Err(self.explain(session, error).await),
            },
            () = tokio::time::sleep(limit) => Status::TimedOut,
            () = &mut cancelled => Status::Cancelled,
        };
        // Somebody was faster. What runs is theirs and goes on.
        if !has_begun.load(Ordering::Relaxed) {
            return Ok(End::Waits);
        }
        match kernel.interrupt_mode {
            InterruptMode::Message => by_message(),
            InterruptMode::Signal => {
                let request = SignalRequest { signal: Signal::Name(SignalName::Int), group: true };
                let path = format!("{}/signal", session_path(&session.id));
                let sent = self.daemon.post::<Nothing>(path, &request).await;
                sent.context("the cell's time is over, but it still runs: it could not be interrupted")?;
            }
        }
        match tokio::time::timeout(GRACE, running).await {
            Ok(ended) => Ok(End::Interrupted(why, Some(ended?))),
            Err(_) => Ok(End::Interrupted(why, None)),
        }
    }

    /// A kernel that went away in the midst of a cell may have ended; then that is what to tell.
    async fn explain(&self, session: &SessionView, error: JupyterError) -> anyhow::Error {
        let error = anyhow::Error::from(error);
        match self.daemon.session(&session.id).await {
            Ok(now) if now.state != SessionState::Running || now.pid != session.pid => {
                let what =
                    format!("the cell was cut off: {} is {}", format::safe(&now.name), show::state(&now));
                error.context(what)
            }
            _ => error.context("the cell was cut off"),
        }
    }
}

fn answer(session: &SessionView, end: End, took: Duration, collected: Collected) -> CallToolResult {
    let (status, ended) = match end {
        End::Interrupted(why, ended) => (why, ended),
        End::Waits => (Status::Waiting, None),
        End::Itself(ended) => {
            let status = match ended.how {
                How::Well => Status::Ok,
                How::Raised => Status::Error,
                How::Aborted => Status::Aborted,
            };
            (status, Some(ended))
        }
    };
    let raised = collected.raised.clone();
    let (output, left_out, pictures, handed) = collected.finish();
    let ran = Ran {
        session: format::safe(&session.name),
        status,
        number: ended.and_then(|ended| ended.number),
        seconds: (took.as_secs_f64() * 1e3).round() / 1e3,
        output,
        left_out,
        raised,
        pictures,
        still_running: ended.is_none() && status != Status::Waiting,
    };
    let mut content = vec![ContentBlock::text(ran.text())];
    content.extend(handed);
    let mut result = CallToolResult::success(content);
    result.structured_content = serde_json::to_value(&ran).ok();
    result
}

impl Ran {
    /// What a model reads.
    fn text(&self) -> String {
        let number = self.number.map(|number| format!("[{number}] ")).unwrap_or_default();
        let how = match (self.status, self.still_running) {
            (Status::Ok, _) => "ok",
            (Status::Error, _) => "raised an error",
            (Status::Aborted, _) => "was not run",
            (Status::TimedOut, false) => "was interrupted after its time",
            (Status::Cancelled, false) => "was called off and interrupted",
            (Status::Waiting, _) => "waits behind another cell and will run after it",
            (_, true) => "was interrupted and still runs",
        };
        format!("{number}{how} ({:.3} s)\n{}", self.seconds, self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_how_it_ended() {
        let mut ran = Ran {
            session: "s".into(),
            status: Status::Ok,
            number: Some(3),
            seconds: 0.25,
            output: "42\n".into(),
            left_out: 0,
            raised: None,
            pictures: Vec::new(),
            still_running: false,
        };
        assert_eq!(ran.text(), "[3] ok (0.250 s)\n42\n");
        ran.status = Status::TimedOut;
        assert!(ran.text().starts_with("[3] was interrupted after its time"));
        (ran.still_running, ran.number) = (true, None);
        assert!(ran.text().starts_with("was interrupted and still runs"));
        assert_eq!(serde_json::to_value(ran.status).unwrap(), "timed_out");
        (ran.status, ran.still_running) = (Status::Waiting, false);
        assert!(ran.text().starts_with("waits behind another cell"));
    }
}
