//! `gc`

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use api::{GcOutcome, JobResult, Nothing};
use cas_core::gc::{Action, GcOptions, GcPlan, GcReport};
use cas_core::{Class, StoreError};
use history::{HistoryError, UserStore};
use serde::Serialize;

use super::online::Online;
use super::online::job::expect_result;
use super::target::Target;
use crate::args::GcArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::format;
use crate::objects::{self, ManifestReferences};

#[derive(Serialize)]
struct Outcome {
    message_type: &'static str,
    dry_run: bool,
    freed_bytes: u64,
    commits: u64,
    objects: u64,
    live_objects: u64,
    live_bytes: u64,
    dead_objects: u64,
    dead_bytes: u64,
    packs_kept: usize,
    packs_to_drop: usize,
    packs_to_repack: usize,
    freeable_bytes: u64,
    packs_removed: u64,
    bytes_copied: u64,
    keys_destroyed: u64,
    unreadable: Vec<String>,
    waiting_for_sessions: u64,
}

pub(crate) fn run(context: &Context, args: &GcArgs) -> Result<()> {
    let target = Target::of(context)?;
    let store = target.open(context)?;
    let options = GcOptions {
        repack_below_percent: args.repack_below,
        erase: args.erase,
        patience: Duration::from_secs(args.wait.into()),
    };
    let plan = || store.plan_gc(&ManifestReferences::default(), &options, &context.meter);
    let outcome = if args.dry_run {
        outcome(&plan()?, None, GcOutcome::default())
    } else {
        match UserStore::over(Arc::clone(&store)).collect(&options, &context.meter) {
            Ok((report, gone)) => outcome(&report.plan, Some(&report), gone),
            Err(HistoryError::Store(error)) if target.is_daemons() && is_machines(&error) => {
                by_daemon(context, &plan()?)?
            }
            Err(error) => return Err(objects::of_history(error)),
        }
    };
    context.printer.data(&outcome, &lines(&outcome))?;
    finish(&outcome)
}

/// Whether the machine is in the way, a full disk most likely.
fn is_machines(error: &StoreError) -> bool {
    error.class() == Class::Environment && !error.is_busy()
}

/// The daemon keeps some room back for the day when the disk is full.
fn by_daemon(context: &Context, plan: &GcPlan) -> Result<Outcome> {
    let result = Online::new(context)?.post_job("/v1/gc".to_owned(), &Nothing {})?;
    let gone = expect_result!(result, JobResult::Gc(gone) => gone);
    let planned = outcome(plan, None, gone);
    let packs_removed = (planned.packs_to_drop + planned.packs_to_repack) as u64;
    Ok(Outcome { dry_run: false, packs_removed, ..planned })
}

fn outcome(plan: &GcPlan, report: Option<&GcReport>, gone: GcOutcome) -> Outcome {
    let mut unreadable: Vec<String> =
        plan.unreadable.iter().map(|one| format!("object {}: {}", one.reference.id, one.error)).collect();
    unreadable.extend(report.iter().flat_map(|report| &report.damaged).map(|(no, error)| {
        let pack = plan.packs.iter().find(|plan| plan.pack.no == *no);
        let name = pack.map_or_else(|| format!("number {}", no.0), |plan| plan.pack.id.to_string());
        format!("pack {name}: {error}")
    }));
    Outcome {
        message_type: "garbage_collected",
        dry_run: report.is_none(),
        freed_bytes: gone.freed_bytes,
        commits: gone.commits,
        objects: gone.objects,
        live_objects: plan.live_objects,
        live_bytes: plan.live_stored,
        dead_objects: plan.dead_objects,
        dead_bytes: plan.dead_stored,
        packs_kept: plan.with(Action::Keep).count(),
        packs_to_drop: plan.with(Action::Drop).count(),
        packs_to_repack: plan.with(Action::Repack).count(),
        freeable_bytes: plan.freed(),
        packs_removed: report.map_or(0, |report| report.packs_removed),
        bytes_copied: report.map_or(0, |report| report.bytes_copied),
        keys_destroyed: report.map_or(0, |report| report.epochs_forgotten),
        unreadable,
        waiting_for_sessions: report.map_or(0, |report| report.waiting_for),
    }
}

fn lines(outcome: &Outcome) -> Vec<String> {
    let row = |name: &str, objects: u64, bytes: u64| {
        vec![name.to_owned(), format::plural(objects, "object"), format::size(bytes)]
    };
    let rows = [
        row("needed", outcome.live_objects, outcome.live_bytes),
        row("not needed", outcome.dead_objects, outcome.dead_bytes),
    ];
    let mut lines = format::table(&rows, &[false, true, true]);
    for one in &outcome.unreadable {
        lines.push(format!("cannot be read: {}", format::safe(one)));
    }
    let packs = |count: usize| format::plural(count as u64, "pack");
    if outcome.dry_run && outcome.packs_to_drop + outcome.packs_to_repack == 0 {
        lines.push("would delete nothing".to_owned());
    } else if outcome.dry_run {
        lines.push(format!(
            "would free {}: delete {}, rewrite {}, keep {}",
            format::size(outcome.freeable_bytes),
            packs(outcome.packs_to_drop),
            packs(outcome.packs_to_repack),
            packs(outcome.packs_kept)
        ));
    } else if outcome.packs_removed == 0 {
        lines.push("nothing was deleted".to_owned());
    } else {
        let kept = match outcome.bytes_copied {
            0 => String::new(),
            bytes => format!(", after copying the {} of them that are needed", format::size(bytes)),
        };
        lines.push(format!(
            "freed {}: {} of {}; deleted {}{kept}",
            format::size(outcome.freed_bytes),
            format::plural(outcome.objects, "object"),
            format::plural(outcome.commits, "snapshot"),
            format::plural(outcome.packs_removed, "pack")
        ));
        if outcome.keys_destroyed > 0 {
            lines.push(format!("destroyed {}", format::plural(outcome.keys_destroyed, "key")));
        }
    }
    lines
}

fn finish(outcome: &Outcome) -> Result<()> {
    match (outcome.unreadable.len(), outcome.waiting_for_sessions) {
        (0, 0) => Ok(()),
        (0, sessions) => Err(CliError::WritersBusy { sessions }.into()),
        (count, _) => Err(CliError::GcIncomplete { count }.into()),
    }
}
