//! `store encrypt`: the daemon's program does it, while no daemon runs; here that is ended, watched and started again.

use std::io::{BufRead, BufReader};
use std::path::{Path, absolute};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use api::{EncryptionLine, Places, Text};
use cas_core::progress::{Progress, Task};
use serde::Serialize;

use super::daemon::{self, starter};
use crate::context::Context;
use crate::error::{CliError, DaemonError};
use crate::format;

#[derive(Serialize)]
struct Encrypted {
    message_type: &'static str,
    /// It was encrypted before.
    already: bool,
    /// Snapshots that have other ids now.
    commits: usize,
    store: Text,
    key_file: Text,
}

pub(crate) fn run(context: &Context) -> Result<()> {
    if context.global.store.is_some() {
        let what = "this is about the store of your daemon; one of your own is encrypted when it is made: `store init --encrypt`";
        return Err(CliError::Usage { what: what.to_owned() }.into());
    }
    let places = context.places()?;
    let program = starter::find()?;
    let ran = daemon::end(context, &places)?;
    let encrypted = encrypt(context, &places, &program);
    if ran.is_some() {
        let started = starter::ensure(&places);
        // What went wrong first is of more interest.
        if encrypted.is_ok() {
            started?;
        }
    }
    let encrypted = encrypted?;
    let shown = |path: &Text| format::safe(&path.as_path().to_string_lossy());
    let store = shown(&encrypted.store);
    let lines = if encrypted.already {
        vec![format!("the store in {store} was encrypted already")]
    } else {
        let count = format::plural(encrypted.commits as u64, "snapshot");
        let key = shown(&encrypted.key_file);
        vec![
            format!("the store in {store} is encrypted now ({count}, with other ids)"),
            format!("its key is {key}: keep a copy elsewhere, for nothing opens the store without it"),
        ]
    };
    Ok(context.printer.data(&encrypted, &lines)?)
}

/// Runs the daemon's program and shows how far it is.
fn encrypt(context: &Context, places: &Places, program: &Path) -> Result<Encrypted> {
    let mut command = Command::new(program);
    command.arg("--encrypt-store").arg("--socket").arg(&places.socket);
    if let Some(key) = &context.global.key_file {
        command.arg("--key-file").arg(absolute(key).context("cannot tell where the key file is")?);
    }
    starter::without_manager(&mut command);
    // What it says on stderr, it says in its last line too.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().with_context(|| format!("cannot start `{}`", program.display()))?;
    let mut done = None;
    for line in BufReader::new(child.stdout.take().context("infinijupd has no output")?).lines() {
        let line = line.context("cannot read what infinijupd says")?;
        match serde_json::from_str(&line).context("what infinijupd says makes no sense")? {
            EncryptionLine::Begin { task, total } => show(&task, |task| context.meter.begin(task, total)),
            EncryptionLine::Advance { task, done } => show(&task, |task| context.meter.advance(task, done)),
            EncryptionLine::End { task } => show(&task, |task| context.meter.end(task)),
            EncryptionLine::Done { already, commits, store, key_file } => {
                let message_type = "store_encrypted";
                done = Some(Ok(Encrypted { message_type, already, commits, store, key_file }));
            }
            EncryptionLine::Failed { error } => done = Some(Err(DaemonError(*error).into())),
        }
    }
    let status = child.wait().context("cannot wait for infinijupd")?;
    done.unwrap_or_else(|| {
        let detail = format!("it ended without a word ({status})");
        Err(CliError::Answer { request: "`--encrypt-store`".to_owned(), detail }.into())
    })
}

fn show(name: &str, show: impl FnOnce(Task)) {
    let tasks = [Task::Transfer, Task::Verify, Task::Mark];
    if let Some(task) = tasks.into_iter().find(|task| task.name() == name) {
        show(task);
    }
}
