//! `remote add|list|remove|verify|gc|stat`

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use manifest::stored::ManifestReferences;
use remote::{Address, Depth, GcOptions, LastPush, Named, Patience, Remote};
use remote_history::{connect, server};
use serde::Serialize;

use super::super::target;
use crate::args::{RemoteAddArgs, RemoteCommand, RemoteGcArgs, RemoteNameArgs, RemoteVerifyArgs};
use crate::context::Context;
use crate::error::CliError;
use crate::format;

pub(crate) fn run(context: &Context, command: &RemoteCommand) -> Result<()> {
    match command {
        RemoteCommand::Add(args) => add(context, args),
        RemoteCommand::List => list(context),
        RemoteCommand::Remove(args) => remove(context, args),
        RemoteCommand::Verify(args) => verify(context, args),
        RemoteCommand::Gc(args) => gc(context, args),
        RemoteCommand::Stat(args) => stat(context, args),
    }
}

#[derive(Serialize)]
struct One<'a> {
    message_type: &'static str,
    name: &'a str,
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<bool>,
}

/// The same in a list, with how the last push went.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    one: One<'a>,
    last_push: Option<Pushed>,
}

#[derive(Serialize)]
struct Pushed {
    time: Timestamp,
    by_itself: bool,
    bytes: u64,
    failed: Option<Failed>,
}

#[derive(Serialize)]
struct Failed {
    code: String,
    message: String,
}

impl Pushed {
    fn of(last: LastPush) -> Self {
        let time = i64::try_from(last.at).ok().and_then(|at| Timestamp::from_second(at).ok());
        let failed = last.failed.map(|why| Failed { code: why.code, message: why.message });
        Self { time: time.unwrap_or_default(), by_itself: last.by_itself, bytes: last.bytes, failed }
    }

    fn text(&self) -> String {
        let time = format::minute(self.time);
        let by_itself = if self.by_itself { " by itself" } else { "" };
        match &self.failed {
            None => format!("pushed{by_itself} {time}, {}", format::size(self.bytes)),
            Some(why) => {
                format!("push{by_itself} {time} failed: {} [{}]", format::safe(&why.message), why.code)
            }
        }
    }
}

fn add(context: &Context, args: &RemoteAddArgs) -> Result<()> {
    let store = target::open(context)?;
    let named =
        Named { name: args.name.clone(), address: Address::parse(&args.address)?, unencrypted: false };
    let (_, met) = Remote::introduce(server(&named, None)?, store.clone(), Patience::default())?;
    let (name, address) = (named.name.clone(), named.address.to_string());
    named.save(&store)?;
    let one = One { message_type: "remote_added", name: &name, address, created: Some(met.created) };
    let what = match (met.created, met.sealed) {
        (true, true) => "a new remote; what is pushed there is encrypted",
        (true, false) => "a new remote",
        (false, _) => "a remote that was there",
    };
    let line = format!("{} is {} now, {what}", format::safe(&name), one.address);
    Ok(context.printer.data(&one, &[line])?)
}

fn list(context: &Context) -> Result<()> {
    let store = target::open(context)?;
    let mut rows = Vec::new();
    for named in Named::list(&store)? {
        let address = named.address.to_string();
        let last_push = LastPush::to(&store, &named.name)?.map(Pushed::of);
        if context.printer.is_json() {
            let one = One { message_type: "remote", name: &named.name, address, created: None };
            context.printer.json(&Listed { one, last_push })?;
        } else {
            let last = last_push.map_or_else(|| "never pushed".to_owned(), |last| last.text());
            rows.push(vec![format::safe(&named.name), address, last]);
        }
    }
    for line in format::table(&rows, &[]) {
        context.printer.line(&line)?;
    }
    Ok(())
}

fn remove(context: &Context, args: &RemoteNameArgs) -> Result<()> {
    let store = target::open(context)?;
    let gone = Named::remove(&store, &args.name)?;
    let address = gone.address.to_string();
    if store.elsewhere()?.places().contains(gone.name.as_str()) {
        context.printer.warning(&format!(
            "snapshots have their data there alone; they can be restored when {address} is added as {} again",
            format::safe(&gone.name)
        ));
    }
    let line = format!("{} is forgotten; nothing in {address} was touched", format::safe(&gone.name));
    let one = One { message_type: "remote_removed", name: &gone.name, address, created: None };
    Ok(context.printer.data(&one, &[line])?)
}

#[derive(Serialize)]
struct Verified {
    message_type: &'static str,
    clean: bool,
    refs: u64,
    objects: u64,
    packs: u64,
    bytes_read: u64,
    faults: Vec<String>,
}

fn verify(context: &Context, args: &RemoteVerifyArgs) -> Result<()> {
    let store = target::open(context)?;
    let remote = connect(&store, &Named::find(&store, &args.name)?, None)?;
    let depth = if args.bytes { Depth::Bytes } else { Depth::Presence };
    let report = remote.verify(depth, &ManifestReferences::default(), &context.meter)?;
    let count = report.faults.len();
    let mut lines: Vec<String> = report.faults.iter().map(|fault| format::safe(fault)).collect();
    lines.push(format!(
        "looked at {} in {}, all that {} need",
        format::plural(report.objects, "object"),
        format::plural(report.packs, "pack"),
        format::plural(report.refs, "name")
    ));
    lines.push(match (args.bytes, count) {
        (true, 0) => format!("read {}; no problems found", format::size(report.bytes)),
        (false, 0) => "no problems found; the bulk of the data was not read, --bytes does that".to_owned(),
        _ => format!("{} found", format::plural(count as u64, "problem")),
    });
    let verified = Verified {
        message_type: "remote_verified",
        clean: count == 0,
        refs: report.refs,
        objects: report.objects,
        packs: report.packs,
        bytes_read: report.bytes,
        faults: report.faults,
    };
    context.printer.data(&verified, &lines)?;
    if count == 0 { Ok(()) } else { Err(CliError::ProblemsFound { count }.into()) }
}

#[derive(Serialize)]
struct Collected {
    message_type: &'static str,
    dry_run: bool,
    live_objects: u64,
    condemned: u64,
    rewritten: u64,
    moved_bytes: u64,
    pardoned: u64,
    deleted: u64,
    deleted_bytes: u64,
    waiting: u64,
    revoked: u64,
    writers: u64,
    missing: Vec<String>,
}

fn gc(context: &Context, args: &RemoteGcArgs) -> Result<()> {
    let store = target::open(context)?;
    let remote = connect(&store, &Named::find(&store, &args.name)?, None)?;
    let options = GcOptions {
        grace: Duration::from_secs(args.grace),
        lease_time: Duration::from_secs(args.lease),
        dry_run: args.dry_run,
    };
    let report = remote.gc(&options, &ManifestReferences::default(), &context.meter)?;
    let would = if args.dry_run { "would be " } else { "" };
    let packs = |count: u64| format::plural(count, "file");
    let mut lines = vec![
        format!("{} {would}deleted, {}", packs(report.deleted), format::size(report.deleted_bytes)),
        format!("{} {would}condemned, for a later collection", packs(report.condemned)),
    ];
    if report.rewritten > 0 {
        let count = format::plural(report.rewritten, "mostly dead pack");
        let moved = if args.dry_run { "would be moved" } else { "was moved" };
        lines.push(format!("what is needed of {count} {moved} to new ones"));
    }
    if report.waiting > 0 {
        lines.push(format!("{} must wait", packs(report.waiting)));
    }
    if report.revoked > 0 {
        lines.push(format!("{} stood still and {would}given up", format::plural(report.revoked, "push")));
    }
    let count = report.missing.len();
    if count > 0 {
        lines = vec![format!(
            "{} needed and not there: nothing was deleted",
            format::plural(count as u64, "object")
        )];
    }
    let collected = Collected {
        message_type: "remote_collected",
        dry_run: args.dry_run,
        live_objects: report.live_objects,
        condemned: report.condemned,
        rewritten: report.rewritten,
        moved_bytes: report.moved_bytes,
        pardoned: report.pardoned,
        deleted: report.deleted,
        deleted_bytes: report.deleted_bytes,
        waiting: report.waiting,
        revoked: report.revoked,
        writers: report.writers,
        missing: report.missing.iter().map(ToString::to_string).collect(),
    };
    context.printer.data(&collected, &lines)?;
    if count == 0 { Ok(()) } else { Err(CliError::ProblemsFound { count }.into()) }
}

#[derive(Serialize)]
struct Numbers {
    message_type: &'static str,
    encrypted: bool,
    refs: u64,
    packs: u64,
    bytes: u64,
    entries: u64,
    segments: usize,
    index_bytes: u64,
    condemned: u64,
    writers: u64,
    generation: u64,
}

fn stat(context: &Context, args: &RemoteNameArgs) -> Result<()> {
    let store = target::open(context)?;
    let stat = connect(&store, &Named::find(&store, &args.name)?, None)?.stat()?;
    let numbers = Numbers {
        message_type: "remote_stat",
        encrypted: stat.sealed,
        refs: stat.refs,
        packs: stat.packs,
        bytes: stat.bytes,
        entries: stat.entries,
        segments: stat.segments.values().sum(),
        index_bytes: stat.index_bytes,
        condemned: stat.condemned,
        writers: stat.writers,
        generation: stat.generation,
    };
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let rows = [
        row("threads and tags", format::count(stat.refs)),
        row("packs", format!("{} ({})", format::count(stat.packs), format::size(stat.bytes))),
        row("objects", format::count(stat.entries)),
        row(
            "index",
            format!(
                "{} in {}",
                format::size(stat.index_bytes),
                format::plural(numbers.segments as u64, "segment")
            ),
        ),
        row("to be deleted", format::count(stat.condemned)),
        row("pushes under way", format::count(stat.writers)),
        row("encrypted", if stat.sealed { "yes" } else { "no" }.to_owned()),
    ];
    Ok(context.printer.data(&numbers, &format::table(&rows, &[]))?)
}
