//! That a runtime was asked to make a container, on disk: a daemon that comes after us must know whose the container is that it finds, and
//! that somebody may still be making it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::io_error;
use lifecycle::Result;
use sandbox::process::Identity;

/// How long a runtime may still work on a restore that nobody waits for any more.
const LIMIT: Duration = Duration::from_secs(150);

/// The note, which may be there or not.
pub(crate) struct Asked(PathBuf);

impl Asked {
    /// In the directory where logs of a session's CRIU go.
    pub(crate) fn in_directory(directory: &Path) -> Self {
        Self(directory.join("asked-runtime.json"))
    }

    /// Writes it down, before the runtime is started. A power cut needs no note: nothing of the container is left.
    pub(crate) fn note(&self) -> Result<()> {
        Ok(fs::write(&self.0, "null").map_err(io_error("write", &self.0))?)
    }

    /// Writes down who is at it.
    pub(crate) fn started(&self, runtime: Option<Identity>) {
        // Without it a new daemon does not wait, and removes what it finds.
        let _less = fs::write(&self.0, serde_json::to_vec(&runtime).unwrap_or_default());
    }

    /// Waits for whoever is still at it. Says whether the runtime was asked.
    pub(crate) fn wait(&self) -> Result<bool> {
        let text = match fs::read(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            read => read.map_err(io_error("read", &self.0))?,
        };
        if let Ok(Some(runtime)) = serde_json::from_slice::<Option<Identity>>(&text) {
            runtime.wait_gone(LIMIT);
        }
        Ok(true)
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_whether_a_runtime_was_asked() {
        let directory = tempfile::tempdir().unwrap();
        let asked = Asked::in_directory(directory.path());
        assert!(!asked.wait().unwrap());
        asked.note().unwrap();
        assert!(asked.wait().unwrap());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        asked.started(Identity::of(i32::try_from(child.id()).unwrap()).unwrap());
        child.wait().unwrap();
        assert!(asked.wait().unwrap());
        asked.forget().unwrap();
        asked.forget().unwrap();
        assert!(!asked.wait().unwrap());
    }
}
