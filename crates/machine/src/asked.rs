//! What is under way between us and a container's runtime, on disk: that it was asked to make the container, or that we have ended the
//! container's first process and it is to forget it. A daemon that comes after us must know whose the container is that it finds, and that
//! somebody may still be making it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::io_error;
use lifecycle::Result;
use sandbox::process::Identity;
use serde::{Deserialize, Serialize};

/// How long a runtime may still work on a restore that nobody waits for any more.
const LIMIT: Duration = Duration::from_secs(150);

/// What is written down.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Note {
    /// Who is at it, if that is a process of ours.
    runtime: Option<Identity>,
    /// The first process of what was made.
    made: Option<Identity>,
    /// The first process that we end. The runtime was asked for nothing then.
    ending: Option<Identity>,
}

impl Note {
    /// Whether a record that names this first process was written before the container was made, or not at all. Then nobody else knows of the container.
    pub(crate) fn is_open(&self, recorded: Option<Identity>) -> bool {
        self.ending.is_none() && (self.made.is_none() || self.made != recorded)
    }

    /// Whether it was we who ended this first process.
    pub(crate) fn ends(&self, recorded: Option<Identity>) -> bool {
        self.ending.is_some() && self.ending == recorded
    }
}

/// The note, which may be there or not.
pub(crate) struct Asked(PathBuf);

impl Asked {
    /// In the directory where logs of a session's CRIU go.
    pub(crate) fn in_directory(directory: &Path) -> Self {
        Self(directory.join("asked-of-runtime.json"))
    }

    /// Writes it down, before the runtime is started. A power cut needs no note: nothing of the container is left.
    pub(crate) fn note(&self) -> Result<()> {
        self.write(Note::default())
    }

    /// Writes down who is at it.
    pub(crate) fn started(&self, runtime: Option<Identity>) {
        // Without it a new daemon does not wait, and removes what it finds.
        let _less = self.write(Note { runtime, ..Note::default() });
    }

    /// Writes down what was made, before anybody else is told.
    pub(crate) fn made(&self, made: Option<Identity>) -> Result<()> {
        self.write(Note { made, ..Note::default() })
    }

    /// Writes down that we are about to end this first process.
    pub(crate) fn ending(&self, init: Identity) {
        // Without it, a daemon that comes after us leaves the container as one that has ended by itself. That is no reason not to end it:
        // the disk may be full, and be freed by this.
        let _less = self.write(Note { ending: Some(init), ..Note::default() });
    }

    /// Waits for whoever is still at it. Says what was written down; `None` if the runtime was not asked.
    pub(crate) fn wait(&self) -> Result<Option<Note>> {
        let text = match fs::read(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(io_error("read", &self.0))?,
        };
        // What cannot be understood still says that the runtime was asked.
        let note: Note = serde_json::from_slice(&text).unwrap_or_default();
        if let Some(runtime) = note.runtime {
            runtime.wait_gone(LIMIT);
        }
        Ok(Some(note))
    }

    /// What was made is written down elsewhere, or is gone.
    pub(crate) fn forget(&self) -> Result<()> {
        match fs::remove_file(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_error("remove", &self.0)(error).into())
            }
            _ => Ok(()),
        }
    }

    fn write(&self, note: Note) -> Result<()> {
        // Numbers alone cannot fail to be written.
        let text = serde_json::to_vec(&note).unwrap_or_default();
        // The old one or the new one: one that is empty would say that the runtime was asked.
        let new = self.0.with_extension("new");
        fs::write(&new, text).map_err(io_error("write", &new))?;
        Ok(fs::rename(&new, &self.0).map_err(io_error("rename", &new))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_whether_a_runtime_was_asked() {
        let directory = tempfile::tempdir().unwrap();
        let asked = Asked::in_directory(directory.path());
        assert_eq!(asked.wait().unwrap(), None);
        asked.note().unwrap();
        assert_eq!(asked.wait().unwrap(), Some(Note::default()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        asked.started(Identity::of(i32::try_from(child.id()).unwrap()).unwrap());
        child.wait().unwrap();
        assert!(asked.wait().unwrap().unwrap().is_open(None));
        fs::write(&asked.0, "").unwrap();
        assert_eq!(asked.wait().unwrap(), Some(Note::default()));
        asked.forget().unwrap();
        asked.forget().unwrap();
        assert_eq!(asked.wait().unwrap(), None);
    }

    #[test]
    fn what_was_made_is_nobodys_until_the_record_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let asked = Asked::in_directory(directory.path());
        let (before, made) = (Identity { pid: 7, start_time: 1 }, Identity { pid: 7, start_time: 2 });
        asked.note().unwrap();
        assert!(asked.wait().unwrap().unwrap().is_open(Some(before)));
        asked.made(Some(made)).unwrap();
        let note = asked.wait().unwrap().unwrap();
        assert!(note.is_open(None) && note.is_open(Some(before)));
        assert!(!note.is_open(Some(made)));
    }

    #[test]
    fn what_we_end_is_ours_to_be_forgotten_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let asked = Asked::in_directory(directory.path());
        let (ours, other) = (Identity { pid: 7, start_time: 1 }, Identity { pid: 7, start_time: 2 });
        asked.made(Some(other)).unwrap();
        assert!(!asked.wait().unwrap().unwrap().ends(None));
        asked.ending(ours);
        let note = asked.wait().unwrap().unwrap();
        assert!(note.ends(Some(ours)) && !note.ends(Some(other)) && !note.ends(None));
        assert!(!note.is_open(Some(ours)) && !note.is_open(Some(other)) && !note.is_open(None));
        asked.note().unwrap();
        assert!(!asked.wait().unwrap().unwrap().ends(Some(ours)));
    }
}
