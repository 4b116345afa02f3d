//! `forget`, `gc`, and tags of the daemon's snapshots.

use anyhow::Result;
use api::{CommitView, Commits, ForgetRequest, JobResult, Nothing, TagRequest};
use serde::Serialize;

use super::client::{Call, encoded};
use super::job::expect_result;
use super::{Message, Online, show};
use crate::args::{ForgetArgs, TagArgs};
use crate::error::CliError;
use crate::format;

/// What had to stay is said, and is no failure: the rest is forgotten.
pub(super) fn forget(online: &Online<'_>, args: ForgetArgs) -> Result<()> {
    let request = ForgetRequest { commits: args.snapshots, force: args.force };
    let result = online.post_job("/v1/forget".to_owned(), &request)?;
    let outcome = expect_result!(result, JobResult::Forget(outcome) => outcome);
    for kept in &outcome.kept {
        let text = format!("{} stays: {}", show::short(&kept.commit), format::safe(&kept.reason));
        online.printer().warning(&text);
    }
    let lines: Vec<_> = outcome.forgotten.iter().map(|id| format!("forgot {}", show::short(id))).collect();
    Ok(online.printer().data(&Message { message_type: "forgotten", content: &outcome }, &lines)?)
}

pub(super) fn gc(online: &Online<'_>) -> Result<()> {
    let result = online.post_job("/v1/gc".to_owned(), &Nothing {})?;
    let outcome = expect_result!(result, JobResult::Gc(outcome) => outcome);
    let line = format!(
        "freed {}: {} of {}",
        format::size(outcome.freed_bytes),
        format::plural(outcome.objects, "object"),
        format::plural(outcome.commits, "snapshot")
    );
    Ok(online.printer().data(&Message { message_type: "garbage_collected", content: outcome }, &[line])?)
}

#[derive(Serialize)]
struct Tagged<'a> {
    tag: &'a str,
    commit: &'a str,
}

/// `tag`, where there is no store of one's own.
pub(in crate::commands) fn tag(online: &Online<'_>, args: &TagArgs) -> Result<()> {
    let Some(name) = &args.name else { return list(online) };
    if args.delete {
        let _: Nothing = online.ask(&Call::delete(format!("/v1/tags/{}", encoded(name))))?;
        let content = Tagged { tag: name, commit: "" };
        let line = format!("deleted tag {}", format::safe(name));
        return Ok(online.printer().data(&Message { message_type: "tag_deleted", content }, &[line])?);
    }
    let Some(revision) = &args.revision else {
        return Err(CliError::Usage { what: "say which snapshot is to have the tag".into() }.into());
    };
    let request = TagRequest { name: name.clone(), commit: revision.clone(), move_it: false };
    let commit: CommitView = online.post("/v1/tags", &request)?;
    let content = Tagged { tag: name, commit: &commit.id };
    let line = format!("tag {} is snapshot {}", format::safe(name), show::short(&commit.id));
    Ok(online.printer().data(&Message { message_type: "tag_created", content }, &[line])?)
}

fn list(online: &Online<'_>) -> Result<()> {
    let found: Commits = online.get("/v1/history")?;
    let mut tags: Vec<(&str, &str)> = Vec::new();
    for commit in &found.commits {
        tags.extend(commit.tags.iter().map(|tag| (tag.as_str(), commit.id.as_str())));
    }
    tags.sort_unstable();
    if online.printer().is_json() {
        for (tag, commit) in tags {
            let content = Tagged { tag, commit };
            online.printer().json(&Message { message_type: "tag", content })?;
        }
        return Ok(());
    }
    let rows: Vec<_> = tags.iter().map(|(tag, id)| vec![format::safe(tag), show::short(id)]).collect();
    for line in format::table(&rows, &[]) {
        online.printer().line(&line)?;
    }
    Ok(())
}
