//! Directories that benchmarks make for a while.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::live::{User, must};

/// A directory of our own with a short path, since sockets are in it. Deleted with this value.
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    in_memory: bool,
}

impl Place {
    /// One that everybody may enter, whatever root's umask is.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let dir = PathBuf::from(format!("/var/lib/infinijup-bench-{}-{name}", std::process::id()));
        fs::create_dir(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let place = Self { dir, in_memory: false };
        fs::set_permissions(&place.dir, PermissionsExt::from_mode(0o755))?;
        Ok(place)
    }

    /// One that belongs to the user.
    pub(crate) fn of(user: &User, name: &str) -> Result<Self> {
        let place = Self::new(name)?;
        user.give(&place.dir)?;
        Ok(place)
    }

    /// The same on a tmpfs.
    pub(crate) fn in_memory(user: &User, name: &str) -> Result<Self> {
        let mut place = Self::new(name)?;
        let options = format!("mode=755,{}", user.mount_options());
        must(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&place.dir))?;
        place.in_memory = true;
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The next run has a directory of its own; what is left here can be deleted by hand.
        if self.in_memory {
            let _ = Command::new("umount").args(["--lazy", "--no-canonicalize"]).arg(&self.dir).status();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}
