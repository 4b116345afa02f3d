//! `daemon`: start, stop and status of one's own daemon, and its units for systemd.

mod logout;
pub(super) mod starter;
mod units;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use api::{DaemonView, Nothing, Places};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Serialize;

use super::online::Online;
use crate::args::DaemonCommand;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Code;
use crate::format;

/// How long a daemon that has nothing under way may take to end.
const END: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct Started<'a> {
    message_type: &'static str,
    /// Whether nothing had to be started.
    already_running: bool,
    #[serde(flatten)]
    daemon: &'a DaemonView,
}

#[derive(Serialize)]
struct Stopped {
    message_type: &'static str,
    /// The process that ended; `null` if none ran.
    pid: Option<u32>,
}

#[derive(Serialize)]
struct Status {
    message_type: &'static str,
    running: bool,
    /// What it says about itself; `null` if it does not run.
    daemon: Option<DaemonView>,
    survives_logout: bool,
    logout: String,
    /// Its units, if they are installed.
    units: Vec<api::Text>,
    log: api::Text,
}

pub(super) fn run(context: &Context, command: &DaemonCommand) -> Result<u8> {
    let places = context.places()?;
    match command {
        DaemonCommand::Start => start(context, &places).map(|()| 0),
        DaemonCommand::Stop => stop(context, &places).map(|()| 0),
        DaemonCommand::Status => status(context, &places),
        DaemonCommand::Install => units::install(context, &places).map(|()| 0),
        DaemonCommand::Uninstall => units::uninstall(context).map(|()| 0),
    }
}

fn start(context: &Context, places: &Places) -> Result<()> {
    let started = starter::ensure(places)?;
    let daemon: DaemonView = Online::at(context, &places.socket)?.get("/v1/daemon")?;
    let line = match started {
        true => format!("the daemon runs now, as process {}", daemon.pid),
        false => format!("the daemon runs already, as process {}", daemon.pid),
    };
    Ok(context.printer.data(
        &Started { message_type: "daemon_started", already_running: !started, daemon: &daemon },
        &[line],
    )?)
}

fn stop(context: &Context, places: &Places) -> Result<()> {
    let pid = end(context, places)?;
    let line = match pid {
        Some(pid) => format!("the daemon, process {pid}, has ended; sessions go on"),
        None => "no daemon runs".to_owned(),
    };
    Ok(context.printer.data(&Stopped { message_type: "daemon_stopped", pid }, &[line])?)
}

/// Ends the daemon, and waits until it has; its process, if there was one.
pub(super) fn end(context: &Context, places: &Places) -> Result<Option<u32>> {
    let online = Online::at(context, &places.socket)?;
    let Some(daemon) = found(online.get::<DaemonView>("/v1/daemon"))? else { return Ok(None) };
    let pid = i32::try_from(daemon.pid).ok().and_then(Pid::from_raw).context("the daemon has no number")?;
    // Opened before it is told to end, and it is the same that answered: asked once more, its number can be nobody else's.
    let process = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        Ok(process) => process,
        Err(rustix::io::Errno::SRCH) => return Ok(Some(daemon.pid)),
        Err(error) => return Err(error).context("cannot watch the daemon's process"),
    };
    let same = found(online.get::<DaemonView>("/v1/daemon"))?.is_some_and(|again| again.pid == daemon.pid);
    if same {
        found(online.post::<Nothing>("/v1/daemon/stop", &Nothing {}))?;
    }
    let deadline = Instant::now() + END;
    while !has_ended(&process)? {
        if Instant::now() > deadline {
            return Err(CliError::StillStopping { pid: daemon.pid, jobs: daemon.jobs_running }.into());
        }
    }
    Ok(Some(daemon.pid))
}

/// Waits a moment for the end of a process.
fn has_ended(process: &impl std::os::fd::AsFd) -> Result<bool> {
    let moment = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&moment)) {
        Ok(ended) => Ok(ended > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error).context("cannot watch the daemon's process"),
    }
}

/// The answer, unless nobody is there to give it.
fn found<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => match error.downcast_ref::<CliError>() {
            Some(CliError::NoDaemon { .. } | CliError::DaemonLeft { .. }) => Ok(None),
            _ => Err(error),
        },
    }
}

fn status(context: &Context, places: &Places) -> Result<u8> {
    let daemon: Option<DaemonView> = found(Online::at(context, &places.socket)?.get("/v1/daemon"))?;
    let (survives_logout, logout) = logout::survives(daemon.as_ref().map(|daemon| daemon.pid));
    let status = Status {
        message_type: "daemon_status",
        running: daemon.is_some(),
        survives_logout,
        logout,
        units: units::installed().into_iter().map(Into::into).collect(),
        log: starter::log_of(places).into(),
        daemon,
    };
    let mut rows: Vec<(&str, String)> = Vec::new();
    match &status.daemon {
        Some(daemon) => {
            rows.push(("daemon", format!("runs as process {}, version {}", daemon.pid, daemon.version)));
            rows.push(("since", daemon.started.clone()));
            let count = daemon.sessions_running.map_or_else(|| "?".to_owned(), |count| count.to_string());
            let (jobs, streams) = (daemon.jobs_running, daemon.streams);
            rows.push(("needed by", format!("sessions: {count}, operations: {jobs}, listeners: {streams}")));
            let idle = daemon.idle_end_s.map_or_else(
                || "never ends by itself".to_owned(),
                |seconds| format!("ends {seconds} s after nobody needs it any more"),
            );
            rows.push(("idle", idle));
            let store = if daemon.store_encrypted { "encrypted" } else { "not encrypted" };
            rows.push(("store", store.to_owned()));
        }
        None => rows.push(("daemon", "does not run".to_owned())),
    }
    let survives = if status.survives_logout { "survives" } else { "does not survive" };
    rows.push(("logout", format!("{survives}: {}", status.logout)));
    let shown = |path: &std::path::Path| format::safe(&path.to_string_lossy());
    rows.push(("socket", shown(&places.socket)));
    rows.push(("state", shown(&places.state)));
    rows.push(("settings", shown(&places.settings)));
    rows.push(("log", shown(status.log.as_path())));
    let lines: Vec<String> = rows.iter().map(|(name, value)| format!("{name:<10} {value}")).collect();
    context.printer.data(&status, &lines)?;
    Ok(if status.running { 0 } else { Code::NoDaemon as u8 })
}
