//! `rm`

use anyhow::Result;
use api::{FileNote, JobResult, SessionFiles};

use super::client::{Call, session_path};
use super::job::expect_result;
use super::ps::One;
use super::{Message, Online, files, show};
use crate::args::RmArgs;
use crate::format;

/// One after the other; the first that cannot be removed ends it, and those before it are gone.
pub(super) fn run(online: &Online<'_>, args: &RmArgs) -> Result<()> {
    for session in &args.sessions {
        let discard = if args.discard_files { "?discard_files=true" } else { "" };
        let discarded = if args.discard_files { loose(online, session)? } else { Vec::new() };
        let result = online.job(&Call::delete(format!("{}{discard}", session_path(session))))?;
        let session = expect_result!(result, JobResult::Session(session) => session);
        let mut lines = vec![format!("removed {}; its snapshots stay", format::safe(&session.name))];
        if let Some(kept) = &session.kept_files {
            let commit = show::short(&kept.commit);
            lines.push(format!(
                "files that no snapshot had are kept; infinijup files --at {commit} --to DIR copies them:"
            ));
            lines.extend(files::table(&kept.files));
        }
        if !discarded.is_empty() {
            lines.push("gone with it, and in no snapshot:".to_owned());
            lines.extend(files::table(&discarded));
        }
        let message = Message { message_type: "removed", content: One { session: &session } };
        online.printer().data(&message, &lines)?;
    }
    Ok(())
}

/// The files that no snapshot has.
fn loose(online: &Online<'_>, session: &str) -> Result<Vec<FileNote>> {
    let files: SessionFiles = online.get(format!("{}/files", session_path(session)))?;
    Ok(files.loose)
}
