//! Where things are.
//!
//! ```text
//! state/            outlives a reboot           run/               does not
//!   store/, seals/    snapshots                   infinijupd.sock
//!   sessions/<id>/    record, box/                kernels/<id>.json  connection files for clients
//!   branches/<name>-<id>/  a branch's files       gate/<id>/         sockets that lead to its kernel
//!   programs/         the box's program, each version
//!   journal/          intents                     kdat/              what CRIU knows about the kernel
//!   staging/          plain images, unless the store is encrypted
//! ```
//!
//! All of it belongs to the one user that the daemon works for, and nobody else can enter either directory (0700).

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use base::io_error;

use crate::error::Result;
use crate::session::SessionId;

/// The two directories, and what is where below them.
#[derive(Clone, Debug)]
pub struct Place {
    /// What outlives a reboot.
    pub state: PathBuf,
    /// What does not.
    pub run: PathBuf,
}

impl Place {
    /// Makes what is not there yet.
    pub fn open(state: &Path, run: &Path) -> Result<Self> {
        let place = Self { state: state.to_owned(), run: run.to_owned() };
        for directory in [&place.state, &place.run] {
            make(directory)?;
        }
        for name in ["journal", "staging", "sessions", "branches"] {
            make(&place.state.join(name))?;
        }
        for name in ["kernels", "gate", "kdat"] {
            make(&place.run.join(name))?;
        }
        Ok(place)
    }

    /// What is kept of all sessions.
    pub fn sessions(&self) -> PathBuf {
        self.state.join("sessions")
    }

    /// What is kept of a session.
    pub fn session(&self, id: &SessionId) -> PathBuf {
        self.sessions().join(id.as_str())
    }

    /// A session's record.
    pub fn record(&self, id: &SessionId) -> PathBuf {
        self.session(id).join("record.json")
    }

    /// Source of the mount that holds the log, the kernel's connection file and the exit status.
    pub fn box_dir(&self, id: &SessionId) -> PathBuf {
        self.session(id).join("box")
    }

    /// What a session writes to its standard output and error.
    pub fn log(&self, id: &SessionId) -> PathBuf {
        self.box_dir(id).join(LOG)
    }

    /// Where its device memory is while it is off the GPU and not in its own memory: the only copy then, so it stays where the next
    /// daemon finds it.
    pub fn device_memory(&self, id: &SessionId) -> PathBuf {
        self.session(id).join("device")
    }

    /// Where CRIU's logs of this session go.
    pub fn criu_log(&self, id: &SessionId) -> PathBuf {
        self.session(id).join("criu")
    }

    /// Where CRIU's logs of what stands by for this session go.
    pub fn standby_log(&self, id: &SessionId) -> PathBuf {
        self.session(id).join("criu-standby")
    }

    /// Where the sockets are of what stands by for this session.
    pub fn standby_gate(&self, id: &SessionId) -> PathBuf {
        self.run.join("gate").join(format!("{id}+"))
    }

    /// Where the sockets are by which a kernel is reached. A socket's path has at most 107 bytes, so it is a short one.
    pub fn gate(&self, id: &SessionId) -> PathBuf {
        self.run.join("gate").join(id.as_str())
    }

    /// The program that boxes run, each version of it.
    pub fn programs(&self) -> PathBuf {
        self.state.join("programs")
    }

    /// What is under way.
    pub fn journal(&self) -> PathBuf {
        self.state.join("journal")
    }

    /// The store with all snapshots.
    pub fn store(&self) -> PathBuf {
        self.state.join("store")
    }

    /// A branch's own copy of the workspace.
    pub fn branch_files(&self, id: &SessionId, name: &str) -> PathBuf {
        // The name is for people; the id makes it unique when a name is used again.
        self.state.join("branches").join(format!("{name}-{id}"))
    }

    /// The file by which a client finds the kernel.
    pub fn connection_file(&self, id: &SessionId) -> PathBuf {
        self.run.join("kernels").join(format!("{id}.json"))
    }
}

/// The log's name in the box.
pub const LOG: &str = "log";
/// The kernel's connection file in the box.
pub const CONNECTION: &str = "connection.json";

/// Where private copies of files outside the workspace go.
pub fn outside_directory(workspace: &Path) -> PathBuf {
    workspace.with_extension("outside")
}

/// A directory that nobody else can enter, made if it is not there.
pub fn make(path: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io_error("create", path))?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o700))
        .map_err(io_error("set the mode of", path))?)
}

/// A new directory that belongs to a user, closed to others. It must not be there yet.
pub fn make_for(path: &Path, uid: u32, gid: u32) -> Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path).map_err(io_error("create", path))?;
    Ok(chown(path, Some(uid), Some(gid)).map_err(io_error("change the owner of", path))?)
}
