//! `fetch`, `pull`, `clone`

use std::sync::Arc;

use anyhow::Result;
use cas_core::refs::{Expected, RefChange};
use cas_core::{Store, StoreError};
use manifest::history;
use manifest::stored::{History, ManifestReferences};
use manifest::{ReadError, Tag};
use remote::{Address, FetchOptions, FetchReport, HistoryOnly, Movement, Named};
use remote_history::{connect, server};
use serde::Serialize;

use super::super::import::recall;
use super::super::target::{self, Target};
use super::{refs_of, sealed};
use crate::args::{CloneArgs, FetchArgs, TransferArgs};
use crate::context::Context;
use crate::error::CliError;
use crate::format;

/// This much of the disk is never filled by what comes from elsewhere.
const KEPT_FREE: u64 = 256 << 20;

#[derive(Serialize)]
struct Outcome {
    message_type: &'static str,
    remote: String,
    dry_run: bool,
    objects: u64,
    bytes: u64,
    refs: Vec<One>,
}

#[derive(Serialize)]
struct One {
    name: String,
    commit: String,
    before: Option<String>,
    /// `new`, `same`, `forward`, `elsewhere`: since it was last seen.
    movement: &'static str,
    /// After `pull`: whether the thread or tag of that name here leads to the same commit now.
    #[serde(skip_serializing_if = "Option::is_none")]
    here: Option<bool>,
}

/// What is to come.
struct Wanted<'a> {
    /// These threads and tags; all if there are none.
    names: &'a [String],
    /// The history alone, without its data.
    history: bool,
    transfer: &'a TransferArgs,
}

impl<'a> Wanted<'a> {
    fn of(args: &'a FetchArgs) -> Self {
        Self { names: &args.names, history: args.history.history, transfer: &args.transfer }
    }
}

pub(crate) fn fetch(context: &Context, args: &FetchArgs) -> Result<()> {
    let store = target::open(context)?;
    let named = Named::find(&store, &args.remote)?;
    let wanted = Wanted::of(args);
    let report = receive(context, &store, &named, &wanted)?;
    tell(context, &named, wanted.transfer, report, None)
}

pub(crate) fn pull(context: &Context, args: &FetchArgs) -> Result<()> {
    let store = target::open(context)?;
    let named = Named::find(&store, &args.remote)?;
    pull_from(context, &store, &named, &Wanted::of(args))
}

pub(crate) fn clone(context: &Context, args: &CloneArgs) -> Result<()> {
    let address = Address::parse(&args.address)?;
    let named = Named { name: args.name.clone(), address, unencrypted: false };
    let store = open_or_make(context, &named)?;
    // One that is not there is not made: that would be the clone of a typing mistake.
    connect(&store, &named, None)?;
    named.clone().save(&store)?;
    let wanted = Wanted { names: &[], history: args.history.history, transfer: &args.transfer };
    pull_from(context, &store, &named, &wanted)
}

/// The store that is meant; an empty one is made if there is none.
fn open_or_make(context: &Context, named: &Named) -> Result<Arc<Store>> {
    let target = Target::of(context)?;
    match target.open(context) {
        Err(error)
            if matches!(error.downcast_ref(), Some(CliError::NothingYet { .. }))
                || matches!(error.downcast_ref(), Some(StoreError::NotAStore { .. })) =>
        {
            sealed::make(context, &target, server(named, None)?)
        }
        opened => opened,
    }
}

fn pull_from(context: &Context, store: &Arc<Store>, named: &Named, wanted: &Wanted<'_>) -> Result<()> {
    let transfer = wanted.transfer;
    let report = receive(context, store, named, wanted)?;
    if transfer.dry_run {
        return tell(context, named, transfer, report, None);
    }
    let mut here = Vec::new();
    for one in &report.refs {
        let follow = one.movement != Movement::Elsewhere || transfer.force;
        let now = store.refs().get(&one.name)?;
        let change = |expected| RefChange { name: one.name.clone(), expected, new: Some(one.target) };
        let change = match now {
            _ if !follow => None,
            None => Some(change(Expected::Absent)),
            Some(now) if now == one.target => None,
            // A tag does not move.
            Some(_) if one.name.starts_with(Tag::PREFIX) => None,
            Some(now) if came_before(store, &now, &one.target)? => Some(change(Expected::At(now))),
            Some(_) => None,
        };
        let moved = change.is_some();
        store.refs().update(&change.into_iter().collect::<Vec<_>>())?;
        here.push(moved || now == Some(one.target));
    }
    tell(context, named, transfer, report, Some(here))
}

fn came_before(store: &Store, old: &cas_core::ObjectId, new: &cas_core::ObjectId) -> Result<bool> {
    match history::is_ancestor(History::of(store)?, old, new) {
        Ok(answer) => Ok(answer),
        Err(ReadError::Source { source: StoreError::MissingObject { .. }, .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn receive(context: &Context, store: &Arc<Store>, named: &Named, wanted: &Wanted<'_>) -> Result<FetchReport> {
    let Wanted { names, history, transfer } = *wanted;
    let remote = connect(store, named, transfer.limit_rate)?;
    let refs = if names.is_empty() {
        None
    } else {
        Some(refs_of(names, &|name| Ok(remote.get_ref(name)?.is_some()))?)
    };
    let options = FetchOptions {
        refs,
        tracking: named.tracking(),
        force: transfer.force,
        room: Some(room(store)?),
        dry_run: transfer.dry_run,
        history: history.then(|| HistoryOnly { kind: manifest::SNAPSHOT, place: named.name.clone() }),
    };
    let references = ManifestReferences::default();
    let report = remote.fetch(&options, &references, &context.meter)?;
    if !transfer.dry_run {
        let transaction = store.write(&[])?;
        let back: Vec<RefChange> = recall(store, &transaction, &references)?.into_iter().collect();
        transaction.commit(&back)?;
    }
    Ok(report)
}

/// How much may come.
fn room(store: &Store) -> Result<u64> {
    let disk = rustix::fs::statvfs(store.root())
        .map_err(|error| StoreError::io("look at the room of", store.root())(error.into()))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize).saturating_sub(KEPT_FREE))
}

fn tell(
    context: &Context,
    named: &Named,
    transfer: &TransferArgs,
    report: FetchReport,
    here: Option<Vec<bool>>,
) -> Result<()> {
    let movement = |movement| match movement {
        Movement::New => "new",
        Movement::Same => "same",
        Movement::Forward => "forward",
        Movement::Elsewhere => "elsewhere",
    };
    let (objects, size) = (format::plural(report.objects, "object"), format::size(report.bytes));
    let would = if transfer.dry_run { "would bring" } else { "brought" };
    let mut lines = vec![format!("{would} {objects}, {size}")];
    let mut refs = Vec::new();
    for (n, one) in report.refs.into_iter().enumerate() {
        let is_here = here.as_ref().and_then(|here| here.get(n).copied());
        let name = format::safe(&one.name);
        if one.movement == Movement::Elsewhere && !transfer.force {
            context.printer.warning(&format!(
                "{name} in {} does not lead to where it was when it was last seen, and was not followed (--force does)",
                named.name
            ));
        } else if is_here == Some(false) {
            context.printer.warning(&format!("{name} went another way here and stays where it is"));
        } else if one.movement != Movement::Same || is_here == Some(true) {
            lines.push(format!("{name} is at {}", one.target.short()));
        }
        refs.push(One {
            name: one.name,
            commit: one.target.to_string(),
            before: one.before.map(|id| id.to_string()),
            movement: movement(one.movement),
            here: is_here,
        });
    }
    let message_type = if here.is_some() { "pulled" } else { "fetched" };
    let outcome = Outcome {
        message_type,
        remote: named.name.clone(),
        dry_run: transfer.dry_run,
        objects: report.objects,
        bytes: report.bytes,
        refs,
    };
    Ok(context.printer.data(&outcome, &lines)?)
}
