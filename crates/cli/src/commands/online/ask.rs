//! Asking the user.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};

use super::Online;
use crate::error::{CliError, DaemonError};
use crate::format;

/// What the daemon says if files would be overwritten that somebody else changed.
const FILES_CHANGED: &str = "IJ-L030";

/// Does what may overwrite files that somebody else changed. If it is refused for that and somebody is there who can
/// decide, asks, and does it once more.
pub(super) fn before_overwriting<T>(
    online: &Online<'_>,
    force: bool,
    act: impl Fn(bool) -> Result<T>,
) -> Result<T> {
    match act(force) {
        Err(error) if !force && may_ask(online, &error) => {
            if wants_to(online, &error)? {
                act(true)
            } else {
                Err(error)
            }
        }
        other => other,
    }
}

fn may_ask(online: &Online<'_>, error: &anyhow::Error) -> bool {
    let changed =
        error.downcast_ref::<DaemonError>().is_some_and(|DaemonError(body)| body.code == FILES_CHANGED);
    changed && !online.printer().is_json() && io::stdin().is_terminal()
}

/// Asks. Ctrl-C is an answer too; it is awaited beside the keyboard, because by now it no longer ends the program.
fn wants_to(online: &Online<'_>, error: &anyhow::Error) -> Result<bool> {
    let mut stderr = io::stderr();
    let question = format!("{}. Overwrite? [y/N] ", format::safe(&error.to_string()));
    stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush()).map_err(CliError::Output)?;
    let (sender, answer) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        // Nobody listens any more if the user pressed Ctrl-C.
        let _ = sender.send(read.map(|_| line));
    });
    online.runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            line = answer => {
                let line = line.ok().and_then(Result::ok).unwrap_or_default();
                Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
            }
            _ = interrupt.recv() => Err(CliError::Interrupted.into()),
        }
    })
}
