//! The store is encrypted, and the records of sessions follow.
//!
//! `history` does it, and explains in which order; here is what it cannot know: who beside the store names commits, and that
//! nothing may be under way. It is done while no daemon runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cas_core::progress::Progress;
pub use history::encryption::Encrypted;
use history::encryption::{self, NamesCommits};
use staging::disk_free;

use crate::error::{RecordError, Result};
use crate::journal::Journal;
use crate::place::{Place, make};
use crate::records::read_records;

/// Encrypts the store below `state` with the key in `key_file`, which is made if it is not there. Only the holder of the state
/// directory's lock may call this, after [`finish`]; and [`finish`] is to be called again.
pub fn encrypt(state: &Path, key_file: &Path, progress: &dyn Progress) -> Result<Encrypted> {
    if key_file.to_str().is_none() || key_file.is_relative() {
        let detail = format!("the key's path `{}` must be absolute and UTF-8", key_file.display());
        return Err(RecordError::BadRequest { detail });
    }
    let records = Records::below(state)?;
    encryption::encrypt(state, key_file, &records, disk_free(state)?, progress)
}

/// Finishes what [`encrypt`] had decided, or undoes what it had not. The key that the settings must name now, if it was
/// finished: once they do, [`settled`] forgets about it.
pub fn finish(state: &Path) -> Result<Option<PathBuf>> {
    encryption::finish(state, &Records::below(state)?)
}

/// The settings name the key.
pub fn settled(state: &Path) -> Result<()> {
    Ok(encryption::settled(state)?)
}

/// Sessions name the snapshot that they are at, and the one that they were branched off.
struct Records(Place);

impl Records {
    fn below(state: &Path) -> Result<Self> {
        let place = Place { state: state.to_owned(), run: PathBuf::new() };
        make(&place.sessions())?;
        Ok(Self(place))
    }
}

impl NamesCommits for Records {
    type Error = RecordError;

    fn named(&self) -> Result<Vec<String>> {
        // The journal names commits too, but not for long.
        let cut_short = Journal::open(self.0.journal(), |_| ())?.pending()?;
        if !cut_short.is_empty() {
            let sessions = cut_short.iter().map(|(id, ..)| id.to_string()).collect();
            return Err(RecordError::Unfinished { sessions });
        }
        let mut named = Vec::new();
        for record in read_records(&self.0)?.values_mut() {
            named.extend(record.commits_mut().into_iter().map(|commit| commit.clone()));
        }
        Ok(named)
    }

    fn rename(&self, new_names: &BTreeMap<String, String>) -> Result<()> {
        for (id, mut record) in read_records(&self.0)? {
            let mut changed = false;
            for commit in record.commits_mut() {
                if let Some(new) = new_names.get(commit) {
                    commit.clone_from(new);
                    changed = true;
                }
            }
            if changed {
                record.write(&self.0.record(&id))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cas_core::progress::Silent;

    use super::*;
    use crate::journal::Phase;
    use crate::record::Record;
    use crate::session::SessionId;

    /// A record that names two commits.
    const RECORD: &str = r#"{"id": "0123456789ab", "name": "a", "owner": {"uid": 0, "gid": 0, "groups": [], "name": "root",
        "home": "/root", "shell": "/bin/sh"}, "state": "suspended", "command": ["a"], "cwd": "/",
        "created": "2026-11-15T09:12:09Z", "network": "private", "outside": false, "workspace": "/",
        "files": {"policy": "open"}, "memory_limit": null, "pids_limit": null, "kernel": null, "thread": "main",
        "head": "HEAD", "origin": {"session": "0123456789ab", "commit": "ORIGIN"}, "files_at": "/", "init": null,
        "forwarder": null, "pasta": null, "exit": null}"#;

    #[test]
    fn records_name_the_new_commits_and_nothing_else_changes() {
        let state = tempfile::tempdir().unwrap();
        let records = Records::below(state.path()).unwrap();
        let id = SessionId::try_from("0123456789ab".to_owned()).unwrap();
        make(&records.0.session(&id)).unwrap();
        fs::write(records.0.record(&id), RECORD).unwrap();
        assert_eq!(records.named().unwrap(), ["HEAD", "ORIGIN"]);
        let before = Record::read(&records.0.record(&id)).unwrap();
        let new_names = BTreeMap::from([("HEAD".to_owned(), "new".to_owned())]);
        for _again in 0..2 {
            records.rename(&new_names).unwrap();
            let after = Record::read(&records.0.record(&id)).unwrap();
            assert_eq!(after, Record { head: Some("new".to_owned()), ..before.clone() });
        }
    }

    #[test]
    fn no_operation_may_wait_and_the_key_has_a_full_path() {
        let home = tempfile::tempdir().unwrap();
        let (state, key) = (home.path().join("state"), home.path().join("key"));
        fs::create_dir(&state).unwrap();
        let journal = Journal::open(state.join("journal"), |_| ()).unwrap();
        let id = SessionId::try_from("0123456789ab".to_owned()).unwrap();
        let entry = journal.begin(&id, &Phase::Stopping).unwrap();
        let refused = encrypt(&state, &key, &Silent).unwrap_err();
        assert!(
            matches!(&refused, RecordError::Unfinished { sessions } if *sessions == ["0123456789ab"]),
            "{refused}"
        );
        entry.done().unwrap();
        let relative = encrypt(&state, Path::new("key"), &Silent).unwrap_err();
        assert!(matches!(relative, RecordError::BadRequest { .. }), "{relative}");
        assert_eq!(encrypt(&state, &key, &Silent).unwrap().commits, 0);
        assert_eq!(finish(&state).unwrap(), Some(key.clone()));
        settled(&state).unwrap();
        assert_eq!(finish(&state).unwrap(), None);
        assert!(encrypt(&state, &key, &Silent).unwrap().already);
    }
}
