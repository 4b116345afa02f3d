//! `log`, also known as `history`.

use std::sync::Arc;

use anyhow::Result;
use api::SessionView;
use cas_core::{ObjectId, Store, StoreError};
use manifest::{Commit, ReadError, Thread, history};
use serde::Serialize;

use super::online::client::session_path;
use super::online::{Online, show};
use super::target::Target;
use super::view::{AllNames, CommitView, Views};
use crate::args::LogArgs;
use crate::context::Context;
use crate::error::{CliError, DaemonError};
use crate::format;
use crate::graph::{self, Charset, Drawn};
use crate::objects::History;
use crate::output::Printer;
use crate::revision;

type Loaded = Result<Commit, ReadError<StoreError>>;

/// How programs get commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A line for each, as it is read: `log`.
    Lines,
    /// All of them in one object: `history`.
    OneObject,
}

#[derive(Serialize)]
struct CommitLine {
    message_type: &'static str,
    #[serde(flatten)]
    commit: CommitView,
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    edges: Option<Vec<EdgeLine>>,
}

#[derive(Serialize)]
struct EdgeLine {
    parent: String,
    lane: usize,
    row: Option<usize>,
}

#[derive(Serialize)]
struct AllCommits<'a> {
    message_type: &'static str,
    session: Option<&'a str>,
    commits: Vec<CommitView>,
}

/// A commit that something leads to and that cannot be shown.
#[derive(Serialize)]
struct AbsentLine {
    message_type: &'static str,
    id: String,
    damaged: bool,
    problem: String,
}

pub(crate) fn run(context: &Context, args: &LogArgs, shape: Shape) -> Result<()> {
    let target = Target::of(context)?;
    let store = match target.open(context) {
        // A daemon's store is made with its first snapshot: no store is an empty history.
        Err(error)
            if matches!(error.downcast_ref(), Some(CliError::NothingYet { .. })) && args.of.is_none() =>
        {
            return nothing(context, shape);
        }
        opened => opened?,
    };
    let names = AllNames::of(&store)?;
    for (name, _) in &names.damaged {
        context.printer.warning(&format!("`{}` cannot be read", format::safe(name)));
    }
    let heads = match (&args.of, &args.thread) {
        (Some(of), _) => heads_of(context, &target, &store, of)?,
        (None, Some(thread)) => {
            let path = Thread::new(thread.as_str())?.ref_path();
            vec![store.refs().get(&path)?.ok_or(StoreError::RefMissing { name: path })?]
        }
        (None, None) if args.all => names.threads.iter().chain(&names.tags).copied().collect(),
        (None, None) => names.threads.clone(),
    };
    let is_empty = heads.is_empty();
    let walk = history::walk(History::of(&store)?, heads).take(args.max_count.unwrap_or(usize::MAX));
    let views = Views::new(Arc::clone(&store), &names)?;
    let collected = (shape == Shape::OneObject && context.printer.is_json()).then(Vec::new);
    let mut log = Log { context, views, names: &names, collected, failure: None };
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
    if let Some(commits) = log.collected {
        context.printer.json(&AllCommits {
            message_type: "history",
            session: args.of.as_deref(),
            commits,
        })?;
    }
    let failure = log.failure;
    match names.damaged.into_iter().next() {
        Some((_, error)) => Err(error.into()),
        None => failure.map_or(Ok(()), Err),
    }
}

fn nothing(context: &Context, shape: Shape) -> Result<()> {
    context.printer.note("there are no snapshots yet");
    if shape == Shape::OneObject && context.printer.is_json() {
        context.printer.json(&AllCommits { message_type: "history", session: None, commits: Vec::new() })?;
    }
    Ok(())
}

/// Where the history of a session or a snapshot begins. Which sessions there are, only the daemon knows; without one, a session's
/// name is that of its thread.
fn heads_of(context: &Context, target: &Target, store: &Store, of: &str) -> Result<Vec<ObjectId>> {
    if target.is_daemons() {
        let online = Online::at(context, &context.places()?.socket)?;
        match online.get::<SessionView>(session_path(of)) {
            Ok(session) => {
                return Ok(session.head.iter().map(|head| head.parse()).collect::<Result<_, _>>()?);
            }
            Err(error) if error.is::<DaemonError>() => {}
            Err(error) if matches!(error.downcast_ref(), Some(CliError::NoDaemon { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(vec![revision::resolve(store, Some(of))?])
}

struct Log<'a> {
    context: &'a Context,
    views: Views,
    names: &'a AllNames,
    /// For one object.
    collected: Option<Vec<CommitView>>,
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
        let printer = &self.context.printer;
        let text = match commit {
            Ok(commit) => {
                let view = self.views.of(*id, commit, self.names.names(id));
                if printer.is_json() {
                    return self.tell(view, row);
                }
                line(printer, &view, drawn)
            }
            Err(error) => {
                let left_out =
                    matches!(&error, ReadError::Source { source: StoreError::MissingObject { .. }, .. })
                        && !self.names.by_commit.contains_key(id);
                if !left_out {
                    self.failure.get_or_insert(error.into());
                }
                let problem = if left_out { "was not imported" } else { "cannot be read" };
                if printer.is_json() {
                    return self.tell_absent(id, !left_out, problem);
                }
                format!("{}  ({problem})", printer.style().id(&id.short()))
            }
        };
        let Some(drawn) = drawn else { return Ok(printer.line(&text)?) };
        for bends in &drawn.above {
            printer.line(&printer.style().faint(bends))?;
        }
        Ok(printer.line(&format!("{}  {text}", drawn.lane))?)
    }

    /// A commit, for programs.
    fn tell(&mut self, commit: CommitView, row: Option<&history::Row>) -> Result<()> {
        if let Some(collected) = &mut self.collected {
            collected.push(commit);
            return Ok(());
        }
        let edge = |edge: &history::Edge| EdgeLine {
            parent: edge.parent.to_string(),
            lane: edge.lane,
            row: edge.row,
        };
        let edges = row.map(|row| row.edges.iter().map(edge).collect());
        let lane = row.map(|row| row.lane);
        Ok(self.context.printer.json(&CommitLine { message_type: "commit", commit, lane, edges })?)
    }

    /// One that cannot be shown, for programs. One object has no place for it; if it is damaged, the exit code tells.
    fn tell_absent(&self, id: &ObjectId, damaged: bool, problem: &str) -> Result<()> {
        if self.collected.is_some() {
            return Ok(());
        }
        let (id, problem) = (id.to_string(), problem.to_owned());
        Ok(self.context.printer.json(&AbsentLine { message_type: "absent_commit", id, damaged, problem })?)
    }
}

/// Id, time, size, names and what was said about it; cut to the width of the terminal.
fn line(printer: &Printer, view: &CommitView, drawn: Option<&Drawn>) -> String {
    let (style, commit) = (printer.style(), &view.commit);
    let (id, time) = (show::short(&commit.id), show::minute(&commit.time));
    let size = format!("{:>10}", format::size(commit.bytes));
    let names = format!("({})", view.names.text_after(Some(commit.thread.as_str())));
    let first = commit.message.lines().next().unwrap_or_default();
    let label = commit.label.as_ref().map(|label| format!("[{}] ", format::safe(label))).unwrap_or_default();
    let mut said = format!("{label}{}", format::safe(first));
    if said.is_empty() {
        said = format!("({})", commit.reason);
    }
    if let Some(place) = &commit.elsewhere {
        said = format!("(only in {}) {said}", format::safe(place));
    }
    let columns = [id.len(), time.len(), size.len(), names.chars().count()];
    let taken = columns.iter().map(|width| width + 2).sum::<usize>()
        + drawn.map_or(0, |drawn| drawn.lane.chars().count() + 2);
    if let Some(width) = Printer::width() {
        said = format::shortened(&said, width.saturating_sub(taken).max(16));
    }
    format!("{}  {}  {size}  {}  {said}", style.id(&id), style.faint(&time), style.name(&names))
}
