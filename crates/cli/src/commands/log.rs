//! `log`

use anyhow::Result;
use cas_core::{ObjectId, StoreError};
use manifest::{Commit, ReadError, Thread, history};
use serde::Serialize;

use super::view::{AllNames, CommitView, Names};
use crate::args::LogArgs;
use crate::context::Context;
use crate::format;
use crate::graph::{self, Charset, Drawn};
use crate::objects::History;
use crate::output::Printer;

type Loaded = Result<Commit, ReadError<StoreError>>;

#[derive(Serialize)]
struct CommitLine<'a> {
    message_type: &'static str,
    #[serde(flatten)]
    commit: CommitView,
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    edges: Option<Vec<EdgeLine<'a>>>,
}

#[derive(Serialize)]
struct EdgeLine<'a> {
    parent: String,
    lane: usize,
    row: Option<&'a usize>,
}

/// A commit that something leads to and that cannot be shown.
#[derive(Serialize)]
struct AbsentLine {
    message_type: &'static str,
    id: String,
    damaged: bool,
    problem: String,
}

pub(crate) fn run(context: &Context, args: &LogArgs) -> Result<()> {
    let store = context.open()?;
    let names = AllNames::of(&store)?;
    for (name, _) in &names.damaged {
        context.printer.warning(&format!("`{}` cannot be read", format::safe(name)));
    }
    let heads = match &args.thread {
        Some(thread) => {
            let path = Thread::new(thread.as_str())?.ref_path();
            vec![store.refs().get(&path)?.ok_or(StoreError::RefMissing { name: path })?]
        }
        None if args.all => names.threads.iter().chain(&names.tags).copied().collect(),
        None => names.threads.clone(),
    };
    let is_empty = heads.is_empty();
    let walk = history::walk(History::of(&store)?, heads).take(args.max_count.unwrap_or(usize::MAX));
    let mut log = Log { context, names: &names, failure: None };
    if args.graph {
        log.drawn(walk.collect())?;
    } else {
        // One by one: the first lines of a long history are there at once.
        for (id, commit) in walk {
            log.show(&id, commit, None, None)?;
        }
    }
    if is_empty && names.damaged.is_empty() {
        context.printer.note("there are no snapshots yet");
    }
    let failure = log.failure;
    match names.damaged.into_iter().next() {
        Some((_, error)) => Err(error.into()),
        None => failure.map_or(Ok(()), Err),
    }
}

struct Log<'a> {
    context: &'a Context,
    names: &'a AllNames,
    /// The first commit that should have been readable.
    failure: Option<anyhow::Error>,
}

impl Log<'_> {
    fn drawn(&mut self, commits: Vec<(ObjectId, Loaded)>) -> Result<()> {
        let parents =
            |commit: &Loaded| commit.as_ref().map(|commit| commit.parents.clone()).unwrap_or_default();
        let graph = history::layout(commits.iter().map(|(id, commit)| (*id, parents(commit))));
        let drawn = graph::draw(&graph, Charset::of_locale());
        for (((id, commit), row), drawn) in commits.into_iter().zip(&graph.rows).zip(&drawn) {
            self.show(&id, commit, Some(drawn), Some(row))?;
        }
        Ok(())
    }

    fn show(
        &mut self,
        id: &ObjectId,
        commit: Loaded,
        drawn: Option<&Drawn>,
        row: Option<&history::Row>,
    ) -> Result<()> {
        let names = self.names.names(id);
        let printer = &self.context.printer;
        let text = match commit {
            Ok(commit) if printer.is_json() => {
                let edge = |edge: &history::Edge| (edge.parent.to_string(), edge.lane, edge.row);
                let edges: Option<Vec<_>> = row.map(|row| row.edges.iter().map(edge).collect());
                let edges = edges.as_ref().map(|edges| {
                    edges
                        .iter()
                        .map(|(parent, lane, row)| EdgeLine {
                            parent: parent.clone(),
                            lane: *lane,
                            row: row.as_ref(),
                        })
                        .collect()
                });
                let commit = CommitView::new(id, &commit, names);
                printer.json(&CommitLine {
                    message_type: "commit",
                    commit,
                    lane: row.map(|row| row.lane),
                    edges,
                })?;
                return Ok(());
            }
            Ok(commit) => line(printer, id, &commit, &names, drawn),
            Err(error) => {
                let left_out =
                    matches!(&error, ReadError::Source { source: StoreError::MissingObject { .. }, .. })
                        && !self.names.by_commit.contains_key(id);
                let problem = if left_out { "was not imported" } else { "cannot be read" };
                if printer.is_json() {
                    let damaged = !left_out;
                    let problem = problem.to_owned();
                    printer.json(&AbsentLine {
                        message_type: "absent_commit",
                        id: id.to_string(),
                        damaged,
                        problem,
                    })?;
                }
                let text = format!("{}  ({problem})", printer.style().id(&id.short()));
                if !left_out {
                    self.failure.get_or_insert(error.into());
                }
                if printer.is_json() {
                    return Ok(());
                }
                text
            }
        };
        let Some(drawn) = drawn else { return Ok(printer.line(&text)?) };
        for bends in &drawn.above {
            printer.line(&printer.style().faint(bends))?;
        }
        Ok(printer.line(&format!("{}  {text}", drawn.lane))?)
    }
}

/// Id, time, names and what was said about it; cut to the width of the terminal.
fn line(printer: &Printer, id: &ObjectId, commit: &Commit, names: &Names, drawn: Option<&Drawn>) -> String {
    let style = printer.style();
    let time = format::minute(commit.time);
    let names = match names.text() {
        text if text.is_empty() => text,
        text => format!("({text})"),
    };
    let first = commit.message.lines().next().unwrap_or_default();
    let label = commit.label.as_ref().map(|label| format!("[{}] ", format::safe(label))).unwrap_or_default();
    let mut said = format!("{label}{}", format::safe(first));
    if said.is_empty() {
        said = format!("({})", commit.reason);
    }
    let taken = drawn.map_or(0, |drawn| drawn.lane.chars().count() + 2)
        + id.short().len()
        + time.len()
        + 4
        + if names.is_empty() { 0 } else { names.chars().count() + 2 };
    if let Some(width) = Printer::width() {
        said = format::shortened(&said, width.saturating_sub(taken).max(16));
    }
    let names = if names.is_empty() { names } else { format!("  {}", style.name(&names)) };
    format!("{}  {}{names}  {said}", style.id(&id.short()), style.faint(&time))
}
