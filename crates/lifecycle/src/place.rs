//! Where things are.
//!
//! ```text
//! state/  (0711)  outlives a reboot             run/  (0711)  does not
//!   users/<uid>/    store, seals     (0700)       infinijupd.sock
//!   sessions/<id>/  record, box/     (0711)       users/<uid>/<id>.json   connection files for clients
//!   branches/<uid>/<name>/  a branch's files      netns/<id>   the session's network
//!   programs/       the box's program, each version
//!   journal/        intents          (0700)       root/<id>    a bind of `/`, only while a box is made or restored
//!   staging/, cache/  plain images   (0700)       tmpfs/       images in memory
//! ```
//!
//! `state` itself may be entered but not listed by everyone, because a branch's files are the user's own and are opened by
//! them under `branches/`.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::error::{Result, io_error};
use crate::record::SessionId;

/// The two directories, and what is where below them.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) state: PathBuf,
    pub(crate) run: PathBuf,
}

impl Place {
    /// Makes what is not there yet.
    pub(crate) fn open(config: &Config) -> Result<Self> {
        let place = Self { state: config.state.clone(), run: config.run.clone() };
        for directory in [&place.state, &place.run] {
            make(directory, 0o711)?;
        }
        for name in ["users", "journal", "staging", "cache"] {
            make(&place.state.join(name), 0o700)?;
        }
        for name in ["sessions", "branches"] {
            make(&place.state.join(name), 0o711)?;
        }
        for (name, mode) in [("users", 0o711), ("netns", 0o700), ("root", 0o700), ("kdat", 0o711)] {
            make(&place.run.join(name), mode)?;
        }
        Ok(place)
    }

    pub(crate) fn sessions(&self) -> PathBuf {
        self.state.join("sessions")
    }

    pub(crate) fn session(&self, id: &SessionId) -> PathBuf {
        self.sessions().join(id.as_str())
    }

    pub(crate) fn record(&self, id: &SessionId) -> PathBuf {
        self.session(id).join("record.json")
    }

    /// Source of the mount that holds the log, the kernel's connection file and the exit status.
    pub(crate) fn box_dir(&self, id: &SessionId) -> PathBuf {
        self.session(id).join("box")
    }

    pub(crate) fn log(&self, id: &SessionId) -> PathBuf {
        self.box_dir(id).join(LOG)
    }

    /// Where CRIU's logs of this session go.
    pub(crate) fn criu_log(&self, id: &SessionId) -> PathBuf {
        self.session(id).join("criu")
    }

    pub(crate) fn netns(&self, id: &SessionId) -> PathBuf {
        self.run.join("netns").join(id.as_str())
    }

    pub(crate) fn root(&self, id: &SessionId) -> PathBuf {
        self.run.join("root").join(id.as_str())
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.state.join("journal")
    }

    pub(crate) fn user(&self, uid: u32) -> PathBuf {
        self.state.join("users").join(uid.to_string())
    }

    /// A branch's own copy of the workspace. The last directory is the user's; those above can be entered by all.
    pub(crate) fn branch_files(&self, uid: u32, id: &SessionId, name: &str) -> Result<PathBuf> {
        let of_user = self.state.join("branches").join(uid.to_string());
        make(&of_user, 0o711)?;
        // The name is for people; the id makes it unique when a name is used again.
        Ok(of_user.join(format!("{name}-{id}")))
    }

    /// The file by which a client of this user finds the kernel.
    pub(crate) fn connection_file(&self, uid: u32, id: &SessionId) -> Result<PathBuf> {
        let directory = self.run.join("users").join(uid.to_string());
        make(&directory, 0o711)?;
        Ok(directory.join(format!("{id}.json")))
    }
}

/// The log's name in the box.
pub(crate) const LOG: &str = "log";
/// The kernel's connection file in the box.
pub(crate) const CONNECTION: &str = "connection.json";

/// A directory of root's with this mode, made if it is not there.
pub(crate) fn make(path: &Path, mode: u32) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(mode).create(path).map_err(io_error("create", path))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(io_error("set the mode of", path))
}

/// A new directory that belongs to a user, closed to others. It must not be there yet.
pub(crate) fn make_for(path: &Path, uid: u32, gid: u32) -> Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path).map_err(io_error("create", path))?;
    chown(path, Some(uid), Some(gid)).map_err(io_error("change the owner of", path))
}
