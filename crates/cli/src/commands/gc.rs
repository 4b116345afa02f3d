//! `store gc`

use std::time::Duration;

use anyhow::Result;
use cas_core::gc::{Action, GcOptions, GcPlan, GcReport};
use serde::Serialize;

use crate::args::GcArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::format;
use crate::objects::ManifestReferences;

#[derive(Serialize)]
struct Outcome {
    message_type: &'static str,
    dry_run: bool,
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
    let store = context.open()?;
    let options = GcOptions {
        repack_below_percent: args.repack_below,
        erase: args.erase,
        patience: Duration::from_secs(args.wait.into()),
    };
    if args.dry_run {
        let plan = store.plan_gc(&ManifestReferences::default(), &options, &context.meter)?;
        let outcome = outcome(&plan, None);
        context.printer.data(&outcome, &lines(&outcome))?;
        return finish(&outcome);
    }
    let report = store.gc(&ManifestReferences::default(), &options, &context.meter)?;
    let outcome = outcome(&report.plan, Some(&report));
    context.printer.data(&outcome, &lines(&outcome))?;
    finish(&outcome)
}

fn outcome(plan: &GcPlan, report: Option<&GcReport>) -> Outcome {
    let mut unreadable: Vec<String> =
        plan.unreadable.iter().map(|one| format!("object {}: {}", one.reference.id, one.error)).collect();
    unreadable.extend(report.iter().flat_map(|report| &report.damaged).map(|(no, error)| {
        let pack = plan.packs.iter().find(|plan| plan.pack.no == *no);
        let name = pack.map_or_else(|| format!("number {}", no.0), |plan| plan.pack.id.to_string());
        format!("pack {name}: {error}")
    }));
    Outcome {
        message_type: "gc",
        dry_run: report.is_none(),
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
        let freed = format::size(outcome.freeable_bytes);
        lines.push(format!("freed {freed}: deleted {}{kept}", format::plural(outcome.packs_removed, "pack")));
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
