//! `logs`, and waiting for a session to end.
//!
//! The log is a file that only grows, so a connection that breaks is taken up again at the byte where it broke. Whether
//! a log has ended because the session did, or because the daemon went away, the session itself says.

use std::time::Duration;

use anyhow::Result;
use api::{SessionState, SessionView};
use http_body_util::BodyExt;
use tokio::signal::unix::{SignalKind, signal};

use super::Online;
use super::client::{Call, session_path};
use crate::args::LogsArgs;
use crate::error::{CliError, DaemonError};
use crate::format;

/// How often, and how long after each other, a log that broke is asked for again: five seconds together.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(250);

pub(super) fn run(online: &Online<'_>, args: &LogsArgs) -> Result<()> {
    let path = session_path(&args.which.session);
    online.runtime.block_on(async {
        if args.follow {
            follow(online, &path, args.from, true).await.map(drop)
        } else {
            let call = Call::get(format!("{path}/log?from={}", args.from));
            let mut body = online.client.send(&call).await?.into_body();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|_| CliError::DaemonLeft { request: "GET log".into() })?;
                if let Some(bytes) = frame.data_ref() {
                    online.printer().bytes(bytes)?;
                }
            }
            Ok(())
        }
    })
}

/// Waits for the end of a session, with its log if wanted. Ctrl-C leaves the session alone.
pub(super) fn until_end(online: &Online<'_>, session: &SessionView, show_log: bool) -> Result<SessionView> {
    let path = session_path(&session.id);
    online.runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            ended = follow(online, &path, 0, show_log) => ended,
            _ = interrupt.recv() => {
                let name = format::safe(&session.name);
                online.printer().note(&format!("session {name} goes on; `infinijup stop {name}` ends it"));
                Err(CliError::Interrupted.into())
            }
        }
    })
}

/// The session as it is when its log has ended.
pub(super) async fn follow(online: &Online<'_>, path: &str, from: u64, show: bool) -> Result<SessionView> {
    let mut at = from;
    let mut tries = 0;
    loop {
        match online.client.send(&Call::get(format!("{path}/log?from={at}&follow=true"))).await {
            Ok(response) => {
                let mut body = response.into_body();
                while let Some(Ok(frame)) = body.frame().await {
                    let Some(bytes) = frame.data_ref() else { continue };
                    tries = 0;
                    at += bytes.len() as u64;
                    if show {
                        // Whoever follows wants to see it now.
                        online.printer().bytes(bytes)?;
                        online.printer().flush()?;
                    }
                }
            }
            Err(error) if tries == 0 || error.is::<DaemonError>() => return Err(error),
            Err(_) => {}
        }
        match online.client.answer::<SessionView>(&Call::get(path)).await {
            Ok(session) if matches!(session.state, SessionState::Ended | SessionState::Failed) => {
                return Ok(session);
            }
            // Suspended or rolled back meanwhile: the log goes on when the session does.
            Ok(_) => tries = tries.min(1),
            Err(error) if tries >= TRIES || error.is::<DaemonError>() => return Err(error),
            Err(_) => {}
        }
        tries += 1;
        tokio::time::sleep(BETWEEN).await;
    }
}
