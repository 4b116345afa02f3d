//! One daemon for a state directory.
//!
//! Two daemons over the same sessions would freeze and thaw each other's. The lock is the kernel's, on a file in the state
//! directory: it is gone when its holder is, however that ended. The file says who holds it, for people.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::error::DaemonError;

/// The right to be the daemon of a state directory; given back when dropped.
#[derive(Debug)]
pub struct Instance {
    _lock: File,
}

impl Instance {
    /// Takes it, or says who has it.
    pub fn take(state: &Path) -> Result<Self, DaemonError> {
        let path = state.join("daemon.lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(DaemonError::io("open", &path))?;
        if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(DaemonError::io("lock", &path)(error.into()));
            }
            let mut holder = String::new();
            // It may be writing just now; then we do not know.
            let _ = file.take(256).read_to_string(&mut holder);
            let holder = match holder.trim() {
                "" => "unknown".to_owned(),
                holder => holder.to_owned(),
            };
            return Err(DaemonError::AlreadyRunning { path, holder });
        }
        sign(&mut file).map_err(DaemonError::io("write", &path))?;
        Ok(Self { _lock: file })
    }
}

fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    // Homes are shared between machines.
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_string_lossy();
    writeln!(file, "pid {} on {machine}, since {}", std::process::id(), crate::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_is_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = Instance::take(dir.path()).unwrap();
        let error = Instance::take(dir.path()).unwrap_err();
        assert_eq!(error.code(), "IJ-D002");
        let me = format!("pid {}", std::process::id());
        assert!(error.to_string().contains(&me), "{error}");
        drop(first);
        Instance::take(dir.path()).unwrap();
    }
}
