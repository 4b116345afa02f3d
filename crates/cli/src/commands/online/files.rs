//! `files`

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use api::{CopyOutRequest, FileNote, JobResult, SessionFiles, SnapshotFiles, Text};

use super::client::{Call, commit_path, session_path};
use super::job::expect_result;
use super::{Message, OfSession, Online, show};
use crate::args::FilesArgs;
use crate::format;

/// More than these are not shown to people; programs get all of them.
const SHOWN: usize = 100;

pub(super) fn run(online: &Online<'_>, args: &FilesArgs) -> Result<()> {
    match (&args.at, args.names.as_slice()) {
        (Some(at), names) => of_snapshot(online, at, names, args.to.as_deref()),
        (None, [session]) => of_session(online, session),
        (None, _) => bail!("one session at a time"),
    }
}

fn of_session(online: &Online<'_>, session: &str) -> Result<()> {
    let files: SessionFiles = online.get(format!("{}/files", session_path(session)))?;
    let mut lines = vec![show::text(&files.directory)];
    if files.own && files.loose.is_empty() {
        lines.push("everything that was written there is in a snapshot".to_owned());
    } else if files.own {
        lines.push("in no snapshot yet:".to_owned());
        lines.extend(table(&files.loose));
    }
    let message = Message { message_type: "files", content: OfSession { session, content: &files } };
    Ok(online.printer().data(&message, &lines)?)
}

fn of_snapshot(online: &Online<'_>, at: &str, names: &[String], to: Option<&Path>) -> Result<()> {
    let path = format!("{}/files", commit_path(at));
    let mut found: SnapshotFiles = online.get(&path)?;
    if !names.is_empty() {
        found.files.retain(|file| names.iter().any(|name| is_meant(&file.path, name)));
        if found.files.is_empty() {
            bail!("the snapshot has no such file; infinijup files --at {at} lists what it has");
        }
    }
    let Some(to) = to else {
        let mut lines = table(&found.files);
        if names.is_empty() {
            lines.push(format!("{} files, {}", found.count, format::size(found.bytes)));
        }
        return Ok(online
            .printer()
            .data(&Message { message_type: "snapshot_files", content: &found }, &lines)?);
    };
    let to = std::path::absolute(to).with_context(|| format!("cannot find `{}`", to.display()))?;
    std::fs::create_dir_all(&to).with_context(|| format!("cannot make `{}`", to.display()))?;
    let paths =
        if names.is_empty() { Vec::new() } else { found.files.into_iter().map(|file| file.path).collect() };
    let result = online.job(&Call::post(path, &CopyOutRequest { to: to.into(), paths })?)?;
    let outcome = expect_result!(result, JobResult::CopyOut(outcome) => outcome);
    let mut lines: Vec<String> = outcome.written.iter().map(|file| show::text(&file.to)).collect();
    for file in &outcome.skipped {
        lines.push(format!("not copied: {}: {}", show::text(&file.path), format::safe(&file.reason)));
    }
    Ok(online.printer().data(&Message { message_type: "copied_out", content: &outcome }, &lines)?)
}

/// Whether a name means this path: all of it, or its last parts.
fn is_meant(path: &Text, name: &str) -> bool {
    Path::new(path.as_os_str()).ends_with(name)
}

/// Files with their sizes.
pub(super) fn table(files: &[FileNote]) -> Vec<String> {
    let line = |file: &FileNote| format!("  {:>10}  {}", format::size(file.bytes), show::text(&file.path));
    let mut lines: Vec<String> = files.iter().take(SHOWN).map(line).collect();
    if files.len() > SHOWN {
        lines.push(format!("  and {} more", files.len() - SHOWN));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_a_whole_path_or_its_end() {
        let path = Text::from("/home/ada/work/results/a.csv");
        for name in ["a.csv", "results/a.csv", "/home/ada/work/results/a.csv"] {
            assert!(is_meant(&path, name), "{name}");
        }
        for name in ["csv", "s/a.csv", "b.csv", "/a.csv"] {
            assert!(!is_meant(&path, name), "{name}");
        }
    }

    #[test]
    fn a_long_list_is_cut() {
        let file = FileNote { path: "/a".into(), bytes: 1 };
        assert_eq!(table(&vec![file.clone(); SHOWN]).len(), SHOWN);
        assert_eq!(table(&vec![file; SHOWN + 5]).last().map(String::as_str), Some("  and 5 more"));
    }
}
