//! `show`

mod files;
mod sections;

use std::sync::Arc;

use anyhow::Result;
use cas_core::{ObjectId, Store};
use manifest::host::{self, HostFingerprint, Verdict, probe};
use manifest::snapshot::HostSection;
use manifest::{Commit, ManifestError, ManifestObject, Snapshot};
use serde::Serialize;

use super::target;
use super::view::{AllNames, CommitView, Views};
use crate::args::ShowArgs;
use crate::context::Context;
use crate::format;
use crate::objects::FromStore;
use crate::output::Style;
use crate::revision;
use sections::SectionView;

#[derive(Serialize)]
struct Shown<'a> {
    message_type: &'static str,
    commit: CommitView,
    bytes: u64,
    sections: Vec<SectionView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    here: Option<Here>,
}

/// Whether the snapshot could be restored on this machine.
#[derive(Serialize)]
struct Here {
    #[serde(flatten)]
    verdict: Verdict,
    not_compared: Vec<&'static str>,
}

pub(crate) fn run(context: &Context, args: &ShowArgs) -> Result<()> {
    let store = target::open(context)?;
    let id = revision::resolve(&store, args.revision.as_deref())?;
    let commit = Commit::load(&FromStore(&store), &id)?;
    let snapshot = Snapshot::load(&FromStore(&store), &commit.snapshot)?;
    let names = AllNames::of(&store)?;
    let here = if args.verdict { compare(&snapshot)? } else { None };
    let shown = Shown {
        message_type: "snapshot",
        commit: Views::new(Arc::clone(&store), &names)?.of(id, commit.clone(), names.names(&id)),
        bytes: snapshot.bytes(),
        sections: snapshot.sections().iter().map(SectionView::new).collect(),
        here,
    };
    let style = context.printer.style();
    let mut lines = head(&shown.commit, &commit, &id, &store, style)?;
    lines.push(String::new());
    lines.extend(sections::lines(&snapshot, style));
    if args.verdict {
        lines.push(String::new());
        lines.extend(verdict_lines(shown.here.as_ref(), style));
    }
    context.printer.data(&shown, &lines)?;
    if args.files {
        files::list(context, &store, &snapshot)?;
    }
    Ok(())
}

fn head(
    view: &CommitView,
    commit: &Commit,
    id: &ObjectId,
    store: &Store,
    style: Style,
) -> Result<Vec<String>> {
    let mut rows = Vec::new();
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            rows.push((name.to_owned(), value));
        }
    };
    row("commit", style.id(&id.to_string()));
    row("names", style.name(&view.names.text()));
    row("thread", format::safe(&view.commit.thread));
    let author = &view.author;
    row("author", format::safe(&format!("{} (uid {}) on {}", author.name, author.uid, author.host)));
    row("time", format::time(commit.time));
    row("reason", format::safe(&view.commit.reason));
    row("label", format::safe(view.commit.label.as_deref().unwrap_or_default()));
    for parent in &commit.parents {
        let note = if store.contains(parent)? { "" } else { " (not in this store)" };
        row("parent", format!("{}{note}", style.id(&parent.short())));
    }
    let elsewhere = view.commit.elsewhere.as_deref();
    row("data", elsewhere.map(|place| format!("in {}, not here", format::safe(place))).unwrap_or_default());
    row("written by", format!("infinijup {}", format::safe(&view.tool)));
    let mut lines: Vec<String> = rows.iter().map(|(name, value)| format!("{name:<12}{value}")).collect();
    if !view.commit.message.is_empty() {
        lines.push(String::new());
        lines.extend(view.commit.message.lines().map(|line| format!("    {}", format::safe(line))));
    }
    Ok(lines)
}

/// Compares what can be told without a GPU driver and without CRIU. Those are the daemon's to ask; here they count as equal
/// and are named.
fn compare(snapshot: &Snapshot) -> Result<Option<Here>, ManifestError> {
    let Some(HostSection { fingerprint: taken }) = snapshot.get::<HostSection>()? else { return Ok(None) };
    let mut not_compared = Vec::new();
    let given = probe::Given {
        criu_version: taken.criu_version.clone(),
        driver_version: taken.driver_version.clone(),
        gpus: taken.gpus.clone(),
    };
    if taken.criu_version.is_some() {
        not_compared.push("criu");
    }
    if taken.driver_version.is_some() || !taken.gpus.is_empty() {
        not_compared.push("gpus");
    }
    let here: HostFingerprint = probe::probe(given)?;
    Ok(Some(Here { verdict: host::compare(&taken, &here), not_compared }))
}

fn verdict_lines(here: Option<&Here>, style: Style) -> Vec<String> {
    let Some(here) = here else {
        return vec![
            "this machine: unknown, because the snapshot does not say where it was taken".to_owned(),
        ];
    };
    let answer = match &here.verdict {
        Verdict::Same => "the same as where it was taken",
        Verdict::Compatible(_) => "differs, but a restore gets by with that",
        Verdict::Incompatible(_) => "a restore would fail",
    };
    let mut lines = vec![format!("this machine: {}", style.bold(answer))];
    for reason in here.verdict.reasons() {
        lines.push(format!("  {} [{}]", format::safe(&reason.sentence), reason.code));
        lines.push(format!("    then: {}", format::safe(&format::shortened(&reason.taken, 68))));
        lines.push(format!("    here: {}", format::safe(&format::shortened(&reason.here, 68))));
        lines.extend(reason.way_out.map(|way_out| format!("    way out: {way_out}")));
    }
    if !here.not_compared.is_empty() {
        lines.push(format!("  not compared: {}", here.not_compared.join(", ")));
    }
    lines
}
