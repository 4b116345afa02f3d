//! `mcp`: a server of the Model Context Protocol on stdin and stdout.
//!
//! A coding assistant starts it and calls its tools: run a cell, take a snapshot, branch, compare, go back. Each is a request to the
//! user's daemon like those of the other verbs, so there is nothing here that the user could not do in a terminal; what the daemon refuses is
//! passed on with its code and hint. Only a cell does not go through the daemon: it goes to the kernel, by its connection file.
//!
//! `server` says what there is; `sessions`, `branches` and `history` are the tools by subject, `cells` runs code and `output` keeps what comes of it
//! small; `words` has what tools answer, `refusal` how they fail, `daemon` the way to the daemon.

mod branches;
mod cells;
mod daemon;
mod history;
mod output;
mod refusal;
mod server;
mod sessions;
mod words;

use std::io::IsTerminal;

use anyhow::{Context as _, Result};
use rmcp::service::{QuitReason, ServerInitializeError};
use rmcp::{ServiceExt, transport::stdio};
use tokio::runtime::Builder;

use self::daemon::Daemon;
use self::server::Server;
use crate::context::Context;

pub(super) fn run(context: &Context) -> Result<()> {
    let daemon = Daemon::new(context)?;
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot wait for events")?;
    let served = runtime.block_on(async {
        // Whoever has no daemon is told so now, and not by every tool.
        let _version: api::Version = daemon.get("/v1/version").await?;
        if std::io::stdin().is_terminal() {
            context
                .printer
                .note("waiting for a client of the Model Context Protocol on stdin; docs/agents.md");
        }
        serve(Server::new(daemon)).await
    });
    // A read of stdin cannot be called off; the process ends without it.
    runtime.shutdown_background();
    served
}

async fn serve(server: Server) -> Result<()> {
    let running = match server.serve(stdio()).await {
        Ok(running) => running,
        // It said nothing, or went before it had said much: that is its right.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error).context("the client does not speak the Model Context Protocol"),
    };
    match running.waiting().await? {
        QuitReason::JoinError(error) => Err(error.into()),
        _ => Ok(()),
    }
}
