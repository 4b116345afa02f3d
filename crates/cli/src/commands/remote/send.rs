//! `push`

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Result;
use cas_core::Store;
use cas_core::refs::{Expected, RefChange};
use manifest::stored::ManifestReferences;
use manifest::{Tag, Thread};
use remote::{Named, Pushed, RemoteError};
use serde::Serialize;

use super::super::target;
use super::{open, refs_of};
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
    let named = Named::find(&store, &args.remote)?;
    let pushed = chosen(&store, &named, args)?;
    if !args.transfer.dry_run && !store.format().encrypted && !named.unencrypted {
        agree(context, &named, args.unencrypted)?;
        Named { unencrypted: true, ..named.clone() }.save(&store)?;
    }
    let remote = open(&store, &named, args.transfer.limit_rate)?;
    // Where something was forgotten, history ends: what is behind it has names of its own, or none.
    let references = ManifestReferences::ending_at_gaps();
    let report = remote.push(&pushed, &references, args.transfer.dry_run, &context.meter)?;
    if !args.transfer.dry_run {
        let arrived = |one: &&Pushed| report.moved.contains(&one.name);
        let seen = |one: &Pushed| RefChange {
            name: format!("{}/{}", named.tracking(), one.name),
            expected: Expected::Any,
            new: Some(one.target),
        };
        let changes: Vec<RefChange> = pushed.iter().filter(arrived).map(seen).collect();
        store.refs().update(&changes)?;
    }
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

/// What shall be pushed: those that were named, or every thread and tag.
fn chosen(store: &Store, named: &Named, args: &PushArgs) -> Result<Vec<Pushed>> {
    let refs = store.refs();
    let names = if args.names.is_empty() {
        let all = [Thread::PREFIX, Tag::PREFIX].map(|prefix| refs.list(prefix));
        let mut names = Vec::new();
        for list in all {
            names.extend(list?.into_iter().map(|(name, _)| name));
        }
        names
    } else {
        refs_of(&args.names, &|name| Ok(refs.get(name)?.is_some()))?
    };
    let one = |name: String| {
        let target = refs.get(&name)?.ok_or_else(|| CliError::RevisionNotFound { revision: name.clone() })?;
        let seen = refs.get(&format!("{}/{name}", named.tracking()))?;
        Ok(Pushed { name, target, seen, force: args.transfer.force })
    };
    names.into_iter().map(one).collect()
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
