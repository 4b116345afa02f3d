//! What goes with a snapshot beside processes and files, as a request says it: why it is taken, a message, a label, the cell, the document.
//!
//! The document is text that the editor sent, or else the file that the session names as its notebook. That file is read with
//! care ([`bounded`]): the path may by now be a pipe, a device, or lead into `/proc`, where a daemon would read its own secrets.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use api::{SnapshotRequest, Uncaptured};
use cas_core::WriteTransaction;
use cas_core::progress::Silent;
use manifest::snapshot::{NotCaptured, NotebookSection};
use manifest::{ByteText, CellNote, CommitReason, Extra, Section, TypedSection};
use sandbox::bounded;

use crate::error::{HistoryError, Result};
use crate::timeline::NOTEBOOK_LIMIT;

/// The longest label, in characters.
const LABEL_LIMIT: usize = 200;
/// The longest message, in bytes.
const MESSAGE_LIMIT: usize = 64 << 10;
/// What is shown of a cell, in characters.
const SOURCE_LIMIT: usize = 2000;
/// What is kept of a cell's id, in characters.
const CELL_ID_LIMIT: usize = 200;

/// Reasons that a request may give. The others are the engine's own.
const REASONS: [CommitReason; 7] = [
    CommitReason::Manual,
    CommitReason::BeforeCell,
    CommitReason::AfterCell,
    CommitReason::Interval,
    CommitReason::Idle,
    CommitReason::BeforeRestart,
    CommitReason::BeforeShutdown,
];

/// The reason that a request gives.
pub fn reason(given: Option<&str>) -> Result<CommitReason> {
    let reason = given.map_or(CommitReason::Manual, CommitReason::from);
    if REASONS.contains(&reason) {
        return Ok(reason);
    }
    let known: Vec<&str> = REASONS.iter().map(CommitReason::as_str).collect();
    Err(bad(format!("a snapshot's reason is one of {}", known.join(", "))))
}

/// The same of a request to suspend. A session that went to sleep by itself leaves an automatic snapshot: once it has woken,
/// nobody cares for it more than for another that was taken while nothing happened.
pub fn reason_of_suspend(given: Option<&str>) -> Result<CommitReason> {
    match given.map_or(CommitReason::Suspend, CommitReason::from) {
        known @ (CommitReason::Suspend | CommitReason::Idle) => Ok(known),
        _ => Err(bad("a session is suspended for one of these reasons: suspend, idle")),
    }
}

fn bad(detail: impl Into<String>) -> HistoryError {
    HistoryError::BadRequest { detail: detail.into() }
}

/// Refuses what would not fit into a commit: asked before much is done for it.
pub fn check(request: &SnapshotRequest) -> Result<()> {
    if request.message.as_ref().is_some_and(|message| message.len() > MESSAGE_LIMIT) {
        return Err(bad(format!("a message has at most {MESSAGE_LIMIT} bytes")));
    }
    if let Some(label) = &request.label
        && (label.chars().count() > LABEL_LIMIT || label.chars().any(char::is_control))
    {
        return Err(bad(format!("a label is one line of at most {LABEL_LIMIT} characters")));
    }
    if request.within_ms.is_some() && !reason(request.reason.as_deref())?.is_automatic() {
        return Err(bad(
            "a snapshot that somebody asked for is never left out: `within_ms` needs a `reason`",
        ));
    }
    if request.notebook.as_ref().is_some_and(|text| text.len() > NOTEBOOK_LIMIT) {
        return Err(bad(format!("a notebook has at most {NOTEBOOK_LIMIT} bytes")));
    }
    Ok(())
}

/// A cell as a commit has it: no more than history shows.
pub fn cell_note(cell: &api::CellNote) -> CellNote {
    let cut = |text: &str, limit: usize| text.chars().take(limit).collect();
    CellNote {
        id: cell.id.as_deref().map(|id| cut(id, CELL_ID_LIMIT)),
        number: cell.number,
        source: cut(&cell.source, SOURCE_LIMIT),
        extra: Extra::default(),
    }
}

/// Something that a snapshot does not hold, as it is told.
pub fn uncaptured(item: &NotCaptured) -> Uncaptured {
    Uncaptured { path: item.path.to_string_lossy().into_owned().into(), reason: item.reason.clone() }
}

/// The document of a session.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    /// Where its file is, if it has one.
    pub path: Option<&'a Path>,
    /// Where it is as a page shows it, if that is known.
    pub shown: Option<&'a Path>,
    /// Name of the kernelspec; empty for what is no kernel.
    pub kernel_name: &'a str,
}

impl Document<'_> {
    /// The section with it, if there is one: what the request brings, or else the file. What is wrong with the file is said in `warnings`:
    /// a snapshot without its document is better than none.
    pub fn section(
        &self,
        request: &SnapshotRequest,
        session: &WriteTransaction,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Section>> {
        let content = match (&request.notebook, self.path) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some(path)) => match read_document(self.newest(path)) {
                Ok(Some(content)) => content,
                Ok(None) => return Ok(None),
                Err(error) => {
                    warnings
                        .push(format!("the notebook `{}` is not in the snapshot: {error}", path.display()));
                    return Ok(None);
                }
            },
            (None, None) => return Ok(None),
        };
        let content = session.put_blob(&mut content.as_slice(), &Silent)?;
        let section = NotebookSection {
            path: ByteText::new(self.path.map(|path| path.as_os_str().as_bytes()).unwrap_or_default()),
            content: content.into(),
            kernel_name: self.kernel_name.to_owned(),
            cell: request.cell.as_ref().and_then(|cell| cell_note(cell).id),
        };
        Ok(Some(section.to_section()?))
    }

    /// The file to read: what a page shows, unless the document was saved since.
    fn newest<'b>(&'b self, saved: &'b Path) -> &'b Path {
        let changed = |path: &Path| path.metadata().and_then(|status| status.modified()).ok();
        self.shown.filter(|shown| changed(shown) > changed(saved)).unwrap_or(saved)
    }
}

/// A file's content; `None` if it is not there, or empty. With the rights of whoever calls.
fn read_document(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match bounded::open_through_links(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        opened => opened?,
    };
    let content = bounded::read_all(file, NOTEBOOK_LIMIT as u64)?;
    Ok(Some(content).filter(|content| !content.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_a_regular_file_and_nothing_else_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n.ipynb");
        assert_eq!(read_document(&path).unwrap(), None);
        std::fs::write(&path, b"").unwrap();
        assert_eq!(read_document(&path).unwrap(), None, "an empty file says nothing");
        std::fs::write(&path, b"{\"cells\": []}\n").unwrap();
        assert_eq!(read_document(&path).unwrap().unwrap(), b"{\"cells\": []}\n");
        assert_eq!(read_document(&path.join("below")).unwrap(), None);

        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        read_document(&pipe).unwrap_err();
        read_document(dir.path()).unwrap_err();
        read_document(Path::new("/dev/zero")).unwrap_err();
        // A process may read its own environment with anybody's rights: so may the daemon, for anybody.
        assert_eq!(read_document(Path::new("/proc/self/environ")).unwrap(), None);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/proc/self/maps", &link).unwrap();
        assert_eq!(read_document(&link).unwrap(), None);

        let large = dir.path().join("large");
        std::fs::File::create(&large).unwrap().set_len(NOTEBOOK_LIMIT as u64 + 1).unwrap();
        read_document(&large).unwrap_err();
    }

    #[test]
    fn what_a_page_shows_counts_until_it_is_saved() {
        let dir = tempfile::tempdir().unwrap();
        let (saved, shown) = (dir.path().join("n.ipynb"), dir.path().join("shown.ipynb"));
        let document = Document { path: Some(&saved), shown: Some(&shown), kernel_name: "" };
        let write = |path: &Path, seconds: u64| {
            let file = std::fs::File::create(path).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
        };
        write(&saved, 10);
        assert_eq!(document.newest(&saved), saved, "nothing is shown yet");
        write(&shown, 11);
        assert_eq!(document.newest(&saved), shown);
        write(&saved, 11);
        assert_eq!(document.newest(&saved), saved, "it was saved since");
    }

    #[test]
    fn what_would_not_fit_into_a_commit_is_refused_or_cut() {
        let label = |text: &str| {
            check(&SnapshotRequest { label: Some(text.to_owned()), ..SnapshotRequest::default() })
        };
        label("before the big run <b>").unwrap();
        label(&"x".repeat(LABEL_LIMIT + 1)).unwrap_err();
        label("two\nlines").unwrap_err();
        let message = "m".repeat(MESSAGE_LIMIT + 1);
        check(&SnapshotRequest { message: Some(message), ..SnapshotRequest::default() }).unwrap_err();
        let cell = api::CellNote {
            id: Some("a".repeat(500)),
            number: Some(3),
            source: "ä".repeat(SOURCE_LIMIT + 1),
        };
        let note = cell_note(&cell);
        assert_eq!(note.source.chars().count(), SOURCE_LIMIT);
        assert_eq!(note.id.unwrap().len(), CELL_ID_LIMIT);
    }

    #[test]
    fn requests_cannot_claim_the_engines_own_reasons() {
        assert_eq!(reason(None).unwrap(), CommitReason::Manual);
        assert_eq!(reason(Some("before-cell")).unwrap(), CommitReason::BeforeCell);
        for own in ["rollback", "suspend", "branch", "before-rollback", "lunch", ""] {
            assert!(matches!(reason(Some(own)), Err(HistoryError::BadRequest { .. })), "{own}");
        }
    }

    #[test]
    fn a_sleep_that_nobody_asked_for_is_automatic() {
        assert!(!reason_of_suspend(None).unwrap().is_automatic());
        assert_eq!(reason_of_suspend(Some("suspend")).unwrap(), CommitReason::Suspend);
        assert!(reason_of_suspend(Some("idle")).unwrap().is_automatic());
        for other in ["manual", "rollback", "lunch", ""] {
            assert!(
                matches!(reason_of_suspend(Some(other)), Err(HistoryError::BadRequest { .. })),
                "{other}"
            );
        }
    }
}
