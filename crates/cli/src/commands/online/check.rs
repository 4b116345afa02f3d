//! `check` and `trust`: the daemon's answer, in the words of `doctor`.

use anyhow::Result;
use api::{CheckRequest, CommitView, FindingState, MappedDirectory, Nothing, SnapshotCheck};
use serde::Serialize;

use super::client::commit_path;
use super::{Message, Online, doctor, show};
use crate::error::CliError;

/// What was trusted.
#[derive(Serialize)]
struct Trusted {
    commit: String,
}

pub(super) fn trust(online: &Online<'_>, snapshot: &str) -> Result<()> {
    let found: CommitView = online.post(format!("{}/trust", commit_path(snapshot)), &Nothing {})?;
    let line = format!("snapshot {} counts as your own from here on", show::short(&found.id));
    let content = Trusted { commit: found.id };
    Ok(online.printer().data(&Message { message_type: "trusted", content }, &[line])?)
}

pub(super) fn run(online: &Online<'_>, snapshot: &str, map: Vec<MappedDirectory>) -> Result<()> {
    let path = format!("{}/check", commit_path(snapshot));
    let found: SnapshotCheck =
        if map.is_empty() { online.get(path)? } else { online.post(path, &CheckRequest { map })? };
    let printer = online.printer();
    let commit = show::short(&found.commit);
    let verdict = match (found.fits, found.findings.is_empty()) {
        (true, true) => format!("snapshot {commit} would come up here; nothing differs"),
        (true, false) => format!("snapshot {commit} would come up here"),
        (false, _) => format!("snapshot {commit} would not come up here"),
    };
    let items = found.findings.iter().flat_map(|finding| doctor::lines(printer, finding));
    let lines: Vec<String> = std::iter::once(verdict).chain(items).collect();
    printer.data(&Message { message_type: "check", content: &found }, &lines)?;
    if found.fits {
        return Ok(());
    }
    let failed = found.findings.iter().filter(|finding| finding.state == FindingState::Fail);
    Err(CliError::SnapshotUnfit { commit, items: failed.map(|finding| finding.item.clone()).collect() }
        .into())
}
