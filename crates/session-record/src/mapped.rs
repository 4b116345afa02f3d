//! Directories that lie at another place on this machine than where the processes of a snapshot look for them.

use std::path::{Component, Path};

use api::MappedDirectory;

use crate::error::{RecordError, Result};
use crate::record::Record;

/// Where a box has file systems of its own: nothing there comes from this machine.
pub const MADE_ANEW: [&str; 4] = ["/dev", "/proc", "/run", "/sys"];
/// More are a mistake.
const MOST: usize = 64;

impl Record {
    /// Has its processes see these directories at other places.
    pub fn map(&mut self, wanted: &[MappedDirectory]) -> Result<()> {
        let bad = |detail: String| Err(RecordError::BadRequest { detail });
        if wanted.len() > MOST {
            return bad(format!("at most {MOST} directories can be mapped"));
        }
        if self.container.is_some() && !wanted.is_empty() {
            let why = "what a container sees of this machine is in its specification";
            return bad(format!("nothing can be mapped for session {}: {why}", self.name));
        }
        for one in wanted {
            let (from, to) = (one.from.as_path(), one.to.as_path());
            let shown = from.display();
            if !is_plain(from) || !is_plain(to) || from.parent().is_none() {
                return bad(format!("`{shown}={}` is not two absolute paths of directories", to.display()));
            }
            if MADE_ANEW.iter().any(|place| from.starts_with(place)) {
                return bad(format!("`{shown}` is made anew for every session and cannot be mapped"));
            }
            if from.starts_with(&self.workspace) {
                return bad(format!("`{shown}` is in the workspace, which comes with the snapshot"));
            }
            if !to.is_dir() {
                return bad(format!("`{}` is no directory here", to.display()));
            }
            if self.mapped.iter().any(|(known, _)| known == from) {
                return bad(format!("`{shown}` is mapped twice"));
            }
            self.mapped.push((from.to_owned(), to.to_owned()));
        }
        // One within another is mounted after it.
        self.mapped.sort();
        Ok(())
    }
}

fn is_plain(path: &Path) -> bool {
    path.is_absolute() && path.components().all(|part| !matches!(part, Component::ParentDir))
}
