//! `kernel run`: a process that stands in for a kernel, for programs that start kernels themselves.
//!
//! VS Code, papermill, nbclient and others read a kernelspec, write a connection file, run the kernelspec's command with it, and take that
//! process for the kernel: they connect to the ports in the file, send it signals, kill it, and look at its exit code. Kernelspecs
//! that were installed with `--standalone` name this command. It starts a session with the ports and the key of that file, passes
//! signals on, and ends when the kernel does, with its status.
//!
//! When it is told to end, it ends the session's processes; the session stays, with its history. Nobody can be told that was killed, and
//! clients kill, whole process groups and trees. So a *guard* watches from outside both: a second process of its own session, nobody's
//! child, that sees the end of a pipe when the first one is gone, however that came about.
//!
//! A client that restarts a kernel runs the same command with the same file anew. It gets the same session: the label
//! [`FILE`] says whose file it was, and [`LIFE`] whose session it is now, so that the guard of the one before leaves it alone.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use api::{
    JobResult, Nothing, RestartRequest, SessionPatch, SessionState, SessionView, Sessions, Signal,
    SignalName, SignalRequest, Start, StartRequest, StopRequest, Text,
};
use hyper::Method;
use jupyter_bridge::ConnectionFile;
use tokio::signal::unix::{SignalKind, signal};

use super::client::{Call, session_path};
use super::job::expect_result;
use super::{Online, logs, show, start};
use crate::args::KernelRunArgs;
use crate::context::current_directory;
use crate::error::{CliError, DaemonError};

/// The client's connection file.
const FILE: &str = "jupyter.connection_file";
/// Which of the processes that stood in for it does so now.
const LIFE: &str = "jupyter.stand_in";
/// A kernel that has this variable ends when the process of that number does.
const PARENT: &str = "JPY_PARENT_PID";
/// How long another operation may be in the way of a signal or of the end.
const PATIENCE: Duration = Duration::from_secs(10);
const BETWEEN: Duration = Duration::from_millis(100);
/// How often it looks whether whoever started it is still there.
const LOOK: Duration = Duration::from_secs(1);
/// How often a guard looks for the session that it is to end.
const LAST_LOOKS: u32 = 20;
const NO_GUARD: &str = "cannot start what ends the session if this process is killed";
/// What the kernel has between being asked to end and being ended.
const GRACE_MS: u64 = 2000;

pub(super) fn run(online: &Online<'_>, args: KernelRunArgs) -> Result<u8> {
    if let Some(life) = &args.guard {
        return guard(online, life, args.leave).map(|()| 0);
    }
    let life = format!("{}-{}", std::process::id(), jiff::Timestamp::now().as_nanosecond());
    let file = args.connection_file.as_deref().context("there is no connection file")?;
    let file = std::path::absolute(file).context("cannot tell where the connection file is")?;
    let wanted = ConnectionFile::read(&file)?;
    // Before there is anything to guard: who is killed while a session starts leaves one, too.
    let _guarded = start_guard(&life)?;
    let session = begin(online, &file, &wanted, &life, &args)?;
    let path = session_path(&session.id);
    if connection(&session).is_none_or(|own| !is_same(&own, &wanted)) {
        stop(online, &path, 0)?;
        let what = format!("the ports in `{}` are taken by somebody else", file.display());
        return Err(CliError::Usage { what }.into());
    }
    match online.runtime.block_on(until_end(online, &path))? {
        Some(ended) => Ok(show::exit_code(ended.exit.unwrap_or(1))),
        None => {
            stop(online, &path, GRACE_MS)?;
            Ok(0)
        }
    }
}

/// The session of this file, with the command running anew in it, or a new one.
fn begin(
    online: &Online<'_>,
    file: &Path,
    wanted: &ConnectionFile,
    life: &str,
    args: &KernelRunArgs,
) -> Result<SessionView> {
    // The client has put its own file where the kernel is to find the session's.
    let own = args.connection_file.as_deref().and_then(Path::to_str).unwrap_or_default();
    let word = |word: &OsString| match word.to_str() {
        Some(text) if !own.is_empty() => Text::from(text.replace(own, "{connection_file}")),
        _ => Text::from(word.clone()),
    };
    let start = Start::Kernel {
        spec: args.spec.clone(),
        argv: Some(args.command.iter().map(word).collect()),
        interrupt_mode: None,
        language: args.language.clone(),
        connection_file: Some(file.to_owned().into()),
    };
    let label = file.to_string_lossy().into_owned();
    let all: Sessions = online.get("/v1/sessions")?;
    let known = all.sessions.into_iter().find(|session| {
        session.labels.get(FILE) == Some(&label)
            && connection(session).is_some_and(|connection| is_same(&connection, wanted))
    });
    let cwd = Text::from(current_directory()?);
    if let Some(session) = known {
        let path = session_path(&session.id);
        let labels = BTreeMap::from([(LIFE.to_owned(), Some(life.to_owned()))]);
        let patch = SessionPatch { labels: Some(labels), ..SessionPatch::default() };
        let mut call = Call::post(path.clone(), &patch)?;
        call.method = Method::PATCH;
        let _view: SessionView = online.runtime.block_on(online.client.answer(&call))?;
        let request = RestartRequest {
            start,
            env: start::environment(),
            cwd: Some(cwd),
            grace_ms: Some(0),
            snapshot: false,
        };
        // Whoever stood in before may be ending it at this moment.
        let result = patiently(|| online.post_job(format!("{path}/restart"), &request))?;
        return Ok(*expect_result!(result, JobResult::Session(session) => session));
    }
    let labels = BTreeMap::from([(FILE.to_owned(), label), (LIFE.to_owned(), life.to_owned())]);
    let request = StartRequest {
        start,
        env: start::environment(),
        outside: true,
        labels,
        ..StartRequest::command(Vec::<Text>::new(), cwd)
    };
    let result = online.post_job("/v1/sessions".to_owned(), &request)?;
    Ok(*expect_result!(result, JobResult::Session(session) => session))
}

/// How clients reach a session's kernel.
fn connection(session: &SessionView) -> Option<ConnectionFile> {
    ConnectionFile::read(session.kernel.as_ref()?.connection_file.as_path()).ok()
}

fn is_same(one: &ConnectionFile, other: &ConnectionFile) -> bool {
    one.ports == other.ports && one.key == other.key
}

/// Passes signals on until the session has ended, or, with `None`, until it is to be ended.
async fn until_end(online: &Online<'_>, path: &str) -> Result<Option<SessionView>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut end = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut looks = tokio::time::interval(LOOK);
    let parent = std::env::var_os(PARENT).map(|_| rustix::process::getppid());
    let ended = logs::follow(online, path, 0, false);
    tokio::pin!(ended);
    loop {
        tokio::select! {
            ended = &mut ended => return ended.map(Some),
            _ = interrupt.recv() => pass_on(online, path).await?,
            _ = end.recv() => return Ok(None),
            _ = hang_up.recv() => return Ok(None),
            _ = looks.tick() => if parent.is_some_and(|parent| rustix::process::getppid() != parent) {
                return Ok(None);
            },
        }
    }
}

/// An interrupt, for the cell and what it has started. One that meets a swap is for what comes out of it.
async fn pass_on(online: &Online<'_>, path: &str) -> Result<()> {
    let request = SignalRequest { signal: Signal::Name(SignalName::Int), group: true };
    let call = Call::post(format!("{path}/signal"), &request)?;
    let begun = Instant::now();
    while let Err(error) = online.client.answer::<Nothing>(&call).await {
        if !is_busy(&error) || begun.elapsed() > PATIENCE {
            // There is nobody to interrupt. Whether that is the end is seen elsewhere.
            break;
        }
        tokio::time::sleep(BETWEEN).await;
    }
    Ok(())
}

/// Ends the processes. What sleeps has none, and goes on sleeping.
fn stop(online: &Online<'_>, path: &str, grace_ms: u64) -> Result<()> {
    let view: SessionView = online.get(path)?;
    if view.state == SessionState::Suspended {
        return Ok(());
    }
    let request = StopRequest { grace_ms: Some(grace_ms) };
    patiently(|| online.post_job(format!("{path}/stop"), &request)).map(drop)
}

/// Tries again while another operation is in the way.
fn patiently(act: impl Fn() -> Result<JobResult>) -> Result<JobResult> {
    let begun = Instant::now();
    loop {
        match act() {
            Err(error) if is_busy(&error) && begun.elapsed() < PATIENCE => std::thread::sleep(BETWEEN),
            other => return other,
        }
    }
}

fn is_busy(error: &anyhow::Error) -> bool {
    error.downcast_ref::<DaemonError>().is_some_and(|DaemonError(body)| body.exit == api::exit::BUSY)
}

/// Starts the guard; it watches as long as the pipe is held.
fn start_guard(life: &str) -> Result<ChildStdin> {
    let mut first = guard_command(life)?.arg("--leave").stdin(Stdio::piped()).spawn().context(NO_GUARD)?;
    let pipe = first.stdin.take().context(NO_GUARD)?;
    // It leaves another behind, which is nobody's child then.
    first.wait().context(NO_GUARD)?;
    Ok(pipe)
}

fn guard_command(life: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find our own program")?);
    command.args(["kernel", "run", "--guard", life]).current_dir("/");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// Ends the session when the other end of stdin is gone, if it is still in the same hands.
fn guard(online: &Online<'_>, life: &str, leave: bool) -> Result<()> {
    if leave {
        rustix::process::setsid().context(NO_GUARD)?;
        guard_command(life)?.spawn().context(NO_GUARD)?;
        return Ok(());
    }
    std::io::stdin().read_to_end(&mut Vec::new()).context("cannot wait")?;
    // A start that was asked for in the last moment may not be there yet.
    for _ in 0..LAST_LOOKS {
        let all: Sessions = online.get("/v1/sessions")?;
        let own =
            all.sessions.into_iter().find(|session| session.labels.get(LIFE).is_some_and(|now| now == life));
        match own {
            Some(own) if matches!(own.state, SessionState::Running | SessionState::Starting) => {
                return stop(online, &session_path(&own.id), 0);
            }
            Some(_) => return Ok(()),
            None => std::thread::sleep(BETWEEN),
        }
    }
    Ok(())
}
