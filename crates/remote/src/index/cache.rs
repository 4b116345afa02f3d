//! Tails of segments on this machine's disk, so that the next push or fetch does not transfer them again.
//!
//! A segment never changes, and what is read here is held against the hash in `root` like what comes from the server. So the directory may be
//! deleted, cut short or written to by anybody who can write to the store, and all that comes of it is another request.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::token::Token;

/// No more is kept, for all remotes together.
const ROOM: u64 = 512 << 20;

/// A directory with one file for each segment: its tail, or all of it if it is small.
#[derive(Clone, Debug)]
pub(crate) struct TailCache {
    dir: PathBuf,
    room: u64,
}

impl TailCache {
    /// The one of a store.
    pub(crate) fn of(store: &Path) -> Self {
        Self { dir: cas_core::layout::Layout::new(store).cache("remote-index"), room: ROOM }
    }

    #[cfg(test)]
    pub(super) fn with_room(dir: PathBuf, room: u64) -> Self {
        Self { dir, room }
    }

    /// What was kept of a segment, if it has this length.
    pub(super) fn read(&self, name: &Token, length: u64) -> Option<Vec<u8>> {
        let path = self.dir.join(name.to_string());
        // The length first: what lies there is not read into memory unless it can be right.
        if fs::metadata(&path).ok()?.len() != length {
            return None;
        }
        fs::read(path).ok()
    }

    /// Keeps it. That it fails is no reason to stop: it is fetched again.
    pub(super) fn keep(&self, name: &Token, bytes: &[u8]) {
        if let Err(error) = self.write(name, bytes) {
            tracing::debug!(%error, "the tail of a segment is not kept");
        }
    }

    fn write(&self, name: &Token, bytes: &[u8]) -> std::io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        // Others may keep the same one at the same time, so each writes to a name of its own.
        let draft = self.dir.join(format!("{name}.{:08x}", getrandom::u32().unwrap_or_default()));
        let written =
            fs::write(&draft, bytes).and_then(|()| fs::rename(&draft, self.dir.join(name.to_string())));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written.and_then(|()| self.trim())
    }

    /// Removes the oldest until the rest has room.
    fn trim(&self) -> std::io::Result<()> {
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            // One that is gone was removed by somebody who has the same wish.
            if let Ok(meta) = entry.metadata() {
                files.push((meta.modified()?, meta.len(), entry.path()));
            }
        }
        let mut total: u64 = files.iter().map(|(_, length, _)| length).sum();
        files.sort_unstable();
        for (_, length, path) in files {
            if total <= self.room {
                break;
            }
            let _ = fs::remove_file(path);
            total -= length;
        }
        Ok(())
    }
}
