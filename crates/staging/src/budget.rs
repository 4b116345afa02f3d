//! How much of the disk the store may take.
//!
//! Snapshots that happen by themselves fill any disk in the end, and a full disk is somebody else's trouble too. So there is a budget,
//! and a snapshot that begins when it is used up is refused, after what was forgotten has been freed. What a session needs to survive
//! is never refused: suspending, and the snapshot that a rollback takes of what it leaves.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long a count of what the store takes is good for. Counting means a look at each pack.
const COUNTED: Duration = Duration::from_secs(30);

/// What was counted, and when.
#[derive(Default, Debug)]
pub struct Used(Mutex<Option<(Instant, u64)>>);

impl Used {
    /// What lies in the store now, or did a moment ago.
    pub fn bytes(&self, store: &Path) -> u64 {
        let mut known = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((when, bytes)) = *known
            && when.elapsed() < COUNTED
        {
            return bytes;
        }
        let bytes = count(store);
        *known = Some((Instant::now(), bytes));
        bytes
    }

    /// It has changed: the next look counts again.
    pub fn forget(&self) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }
}

/// What lies below a directory. What cannot be looked at counts as nothing.
fn count(directory: &Path) -> u64 {
    let (mut bytes, mut todo) = (0_u64, vec![directory.to_owned()]);
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(about) if about.is_dir() => todo.push(entry.path()),
                Ok(about) => bytes = bytes.saturating_add(about.len()),
                Err(_) => {}
            }
        }
    }
    bytes
}

/// What the store may take: as it was set, or half of what it takes and what is free.
pub fn allowed(set: Option<u64>, used: u64, free: u64) -> u64 {
    set.unwrap_or_else(|| used.saturating_add(free) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_a_directory_is_counted_and_remembered_for_a_while() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("packs")).unwrap();
        std::fs::write(home.path().join("packs/one"), [0; 1000]).unwrap();
        std::fs::write(home.path().join("two"), [0; 24]).unwrap();
        let used = Used::default();
        assert_eq!(used.bytes(home.path()), 1024);
        std::fs::write(home.path().join("three"), [0; 1000]).unwrap();
        assert_eq!(used.bytes(home.path()), 1024);
        used.forget();
        assert_eq!(used.bytes(home.path()), 2024);
        assert_eq!(count(Path::new("/nowhere")), 0);
    }

    #[test]
    fn half_of_the_room_is_allowed_unless_something_is_set() {
        assert_eq!(allowed(None, 10, 90), 50);
        assert_eq!(allowed(None, 60, 0), 30, "a disk that others filled leaves nothing more");
        assert_eq!(allowed(Some(7), 10, 90), 7);
    }
}
