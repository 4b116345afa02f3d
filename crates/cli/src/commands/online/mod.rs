//! What the daemon answers: one file per verb, or for verbs that are two halves of one thing.
//!
//! `client` speaks HTTP on the daemon's socket, `sse` reads streams of events, `job` follows what takes its time and `steps`
//! shows how far it is. The verbs themselves are plain functions that wait.

mod ask;
mod attach;
mod branch;
mod check;
pub(super) mod client;
mod control;
pub(super) mod doctor;
mod events;
mod exec;
mod files;
pub(super) mod job;
mod kernels;
mod logs;
mod ps;
mod rm;
mod rollback;
mod servers;
pub(super) mod show;
mod sleep;
mod snapshot;
mod sse;
mod stand_in;
pub(super) mod start;
mod steps;
mod stop;

use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};

use self::client::Client;
use super::daemon::starter;
use crate::args::{KernelCommand, OnlineCommand};
use crate::context::Context;
use crate::output::Printer;

/// A verb's way to the daemon and to the user.
pub(crate) struct Online<'a> {
    context: &'a Context,
    runtime: Runtime,
    client: Client,
}

impl<'a> Online<'a> {
    /// To the user's daemon. It is started if it has to be, unless somebody said which one is meant or that none is to be.
    pub(in crate::commands) fn new(context: &'a Context) -> Result<Self> {
        let places = context.places()?;
        if context.named_socket().is_none() && starter::is_wanted() && starter::ensure(&places)? {
            context.printer.detail("started the daemon");
        }
        Self::at(context, &places.socket)
    }

    /// To whoever answers there.
    pub(in crate::commands) fn at(context: &'a Context, socket: &Path) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().context("cannot wait for events")?;
        Ok(Self { context, runtime, client: Client::new(socket) })
    }

    pub(in crate::commands) fn printer(&self) -> &Printer {
        &self.context.printer
    }
}

/// Data for programs: what happened, and about what.
#[derive(Serialize)]
pub(super) struct Message<T> {
    pub(super) message_type: &'static str,
    #[serde(flatten)]
    pub(super) content: T,
}

/// The same for what is about one session.
#[derive(Serialize)]
struct OfSession<'a, T> {
    session: &'a str,
    #[serde(flatten)]
    content: T,
}

pub(crate) fn run(context: &Context, command: OnlineCommand) -> Result<u8> {
    // Kernelspecs are the user's own files: no daemon is needed to look at them.
    if matches!(command, OnlineCommand::Kernel(KernelCommand::List)) {
        return kernels::list(context).map(|()| 0);
    }
    if matches!(command, OnlineCommand::Doctor) {
        return doctor::run(context).map(|()| 0);
    }
    let online = Online::new(context)?;
    let done = match command {
        OnlineCommand::Run(args) => return start::run(&online, *args),
        OnlineCommand::Exec(args) => return exec::run(&online, args),
        OnlineCommand::Kernel(KernelCommand::Start(args)) => start::kernel(&online, *args),
        OnlineCommand::Kernel(KernelCommand::Run(args)) => return stand_in::run(&online, args),
        OnlineCommand::Kernel(KernelCommand::List) => Ok(()),
        OnlineCommand::Ps(args) => ps::run(&online, &args),
        OnlineCommand::Snapshot(args) => snapshot::run(&online, args),
        OnlineCommand::Rollback(args) => rollback::run(&online, args),
        OnlineCommand::Branch(args) => branch::run(&online, args),
        OnlineCommand::Check { snapshot, map } => check::run(&online, &snapshot, map),
        OnlineCommand::Trust { snapshot } => check::trust(&online, &snapshot),
        OnlineCommand::Suspend(args) => sleep::suspend(&online, args),
        OnlineCommand::Resume(args) => sleep::resume(&online, args),
        OnlineCommand::Stop(args) => stop::run(&online, &args),
        OnlineCommand::Restart(args) => control::restart(&online, args),
        OnlineCommand::Signal(args) => control::signal(&online, &args),
        OnlineCommand::Rm(args) => rm::run(&online, &args),
        OnlineCommand::Files(args) => files::run(&online, &args),
        OnlineCommand::Servers(args) => servers::run(&online, &args),
        OnlineCommand::Logs(args) => logs::run(&online, &args),
        OnlineCommand::Attach(args) => attach::attach(&online, args),
        OnlineCommand::Checkpoint(args) => attach::checkpoint(&online, &args),
        OnlineCommand::Restore(args) => attach::restore(&online, &args),
        OnlineCommand::Events(args) => events::run(&online, &args),
        OnlineCommand::Doctor => Ok(()),
    };
    done.map(|()| 0)
}
