//! `history`: the snapshots that the daemon keeps. `log` is for a store of one's own.

use anyhow::Result;
use api::{CommitView, Commits};
use serde::Serialize;

use super::client::session_path;
use super::{Message, Online, show};
use crate::args::HistoryArgs;
use crate::format;
use crate::output::Printer;

#[derive(Serialize)]
struct Content<'a> {
    session: Option<&'a str>,
    commits: &'a [CommitView],
}

pub(super) fn run(online: &Online<'_>, args: &HistoryArgs) -> Result<()> {
    let session = args.session.as_deref();
    let path =
        session.map_or_else(|| "/v1/history".to_owned(), |name| format!("{}/history", session_path(name)));
    let mut found: Commits = online.get(path)?;
    found.commits.truncate(args.max_count.unwrap_or(usize::MAX));
    if found.commits.is_empty() {
        online.printer().note("there are no snapshots yet");
    }
    let lines: Vec<String> = found.commits.iter().map(line).collect();
    let content = Content { session, commits: &found.commits };
    Ok(online.printer().data(&Message { message_type: "history", content }, &lines)?)
}

/// Id, time, size, where it belongs and what was said about it; cut to the width of the terminal.
fn line(commit: &CommitView) -> String {
    let mut names = format::safe(&commit.thread);
    for tag in &commit.tags {
        names.push_str(&format!(", tag {}", format::safe(tag)));
    }
    let first = commit.message.lines().next().unwrap_or_default();
    let label = commit.label.as_ref().map(|label| format!("[{label}] ")).unwrap_or_default();
    let said = match format!("{label}{first}") {
        said if said.is_empty() => format!("({})", commit.reason),
        said => said,
    };
    let (id, time, size) = (show::short(&commit.id), show::minute(&commit.time), format::size(commit.bytes));
    let line = format!("{id}  {time}  {size:>10}  ({names})  {}", format::safe(&said));
    Printer::width().map_or(line.clone(), |width| format::shortened(&line, width))
}
