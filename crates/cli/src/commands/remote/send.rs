//! `push`

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Result;
use manifest::stored::ManifestReferences;
use remote::{Named, RemoteError};
use remote_history::{Sending, connect};
use serde::Serialize;

use super::super::target;
use super::refs_of;
use crate::args::PushArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::format;

#[derive(Serialize)]
struct Outcome {
    message_type: &'static str,
    remote: String,
    dry_run: bool,
    objects: u64,
    bytes: u64,
    packs: u64,
    moved: Vec<String>,
    unchanged: Vec<String>,
}

pub(crate) fn push(context: &Context, args: &PushArgs) -> Result<()> {
    let store = target::open(context)?;
    let mut named = Named::find(&store, &args.remote)?;
    // Without names: all.
    let names = refs_of(&args.names, &|name| Ok(store.refs().get(name)?.is_some()))?;
    if !args.transfer.dry_run && !store.format().encrypted && !named.unencrypted {
        agree(context, &named, args.unencrypted)?;
        named.unencrypted = true;
        named.clone().save(&store)?;
    }
    let report = if args.transfer.dry_run {
        let remote = connect(&store, &named, args.transfer.limit_rate)?;
        let pushed = named.chosen(&store, &names, args.transfer.force)?;
        remote.push(&pushed, &ManifestReferences::ending_at_gaps(), true, &context.meter)?
    } else {
        let (force, limit_rate) = (args.transfer.force, args.transfer.limit_rate);
        let sending = Sending { names: &names, force, limit_rate, by_itself: false };
        remote_history::send(&store, &named, sending, &context.meter)?
    };
    let size = format::size(report.bytes);
    let objects = format::plural(report.objects, "object");
    let line = if args.transfer.dry_run {
        format!("would send {objects}, {size}")
    } else if report.moved.is_empty() {
        "everything is there already".to_owned()
    } else {
        format!("sent {objects}, {size}; moved {}", format::safe(&report.moved.join(", ")))
    };
    let outcome = Outcome {
        message_type: "pushed",
        remote: named.name,
        dry_run: args.transfer.dry_run,
        objects: report.objects,
        bytes: report.bytes,
        packs: report.packs,
        moved: report.moved,
        unchanged: report.unchanged,
    };
    Ok(context.printer.data(&outcome, &[line])?)
}

/// Asks whether snapshots may lie there as they are. Where nobody can be asked, the answer is no.
fn agree(context: &Context, named: &Named, agreed: bool) -> Result<()> {
    if agreed {
        return Ok(());
    }
    if context.printer.is_json() || !io::stdin().is_terminal() {
        return Err(RemoteError::Unencrypted.into());
    }
    let mut stderr = io::stderr();
    let question = format!(
        "This store is not encrypted: whoever can read {} can read what your programs had in memory, passwords included. \
         Push all the same? [y/N] ",
        named.address
    );
    stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush()).map_err(CliError::Output)?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    match (read, line.trim().to_ascii_lowercase().as_str()) {
        (Ok(_), "y" | "yes") => Ok(()),
        _ => Err(RemoteError::Unencrypted.into()),
    }
}
