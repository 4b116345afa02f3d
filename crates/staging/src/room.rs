//! How much the machine takes, and where a dump is written with the shortest pause.
//!
//! A dump is written while its processes stand still, so what counts is how long *writing* takes, not how long the bytes
//! take to reach the disk. The page cache takes them at the speed of memory until too much of it is dirty: above the middle
//! between `dirty_background_*` and `dirty_*` the kernel makes writers wait for the disk (`balance_dirty_pages`). A dump
//! that would go beyond that is better written to a tmpfs, if the machine has the memory to spare. The page cache is the
//! first choice because its pages can be written back and dropped when something else needs the memory.

use std::fs;
use std::path::Path;

use base::io_error;

use crate::error::Result;

/// Memory that is left alone: an eighth, but no less and no more than this.
const MEMORY_CUSHION: (u64, u64) = (256 << 20, 4 << 30);
/// Room on disk that is left alone.
const DISK_CUSHION: u64 = 64 << 20;

/// Where images are written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Medium {
    /// The state directory.
    Disk,
    /// Our own tmpfs.
    Memory,
}

/// What `/proc` says about memory, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Memory {
    pub(super) total: u64,
    available: u64,
    /// Dirty, or on its way to a disk.
    unwritten: u64,
    /// Where the kernel begins to write back.
    background: u64,
    /// Where it stops writers altogether.
    limit: u64,
}

impl Memory {
    pub(super) fn read() -> Result<Self> {
        let read = |path: &str| fs::read_to_string(path).map_err(io_error("read", path));
        let number = |name: &str| -> Result<u64> {
            // A machine without these says nothing about throttling, and then there is none.
            let text = fs::read_to_string(Path::new("/proc/sys/vm").join(name)).unwrap_or_default();
            Ok(text.trim().parse().unwrap_or_default())
        };
        let background = (number("dirty_background_bytes")?, number("dirty_background_ratio")?);
        let limit = (number("dirty_bytes")?, number("dirty_ratio")?);
        Ok(Self::parse(&read("/proc/meminfo")?, background, limit))
    }

    /// From the text of `/proc/meminfo`, and of both limits the bytes and, where these are 0, the percentage.
    fn parse(meminfo: &str, background: (u64, u64), limit: (u64, u64)) -> Self {
        let field = |name: &str| {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            kib.unwrap_or_default().saturating_mul(1024)
        };
        let available = field("MemAvailable");
        // Percentages are of what could be dirty, which is about what is available.
        let share = |(bytes, percent): (u64, u64)| match bytes {
            0 => available / 100 * percent.min(100),
            bytes => bytes,
        };
        let limit = share(limit);
        Self {
            total: field("MemTotal"),
            available,
            unwritten: field("Dirty") + field("Writeback"),
            background: share(background).min(limit / 2),
            limit,
        }
    }

    /// How much more can be written to files before writers have to wait.
    fn unthrottled(&self) -> u64 {
        ((self.background + self.limit) / 2).saturating_sub(self.unwritten)
    }

    /// How much a tmpfs may take.
    fn spare(&self) -> u64 {
        self.available.saturating_sub((self.total / 8).clamp(MEMORY_CUSHION.0, MEMORY_CUSHION.1))
    }
}

/// What there is room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Room {
    /// On disk.
    pub(super) disk: u64,
    /// Of that, without waiting for it.
    pub(super) quick_disk: u64,
    /// In a tmpfs; 0 if there can be none.
    pub(super) memory: u64,
}

impl Room {
    /// `promised` is what others were told they could write, on disk and in memory, and may not have written yet.
    pub(super) fn of(disk_free: u64, memory: &Memory, promised: (u64, u64)) -> Self {
        let disk = disk_free.saturating_sub(DISK_CUSHION).saturating_sub(promised.0);
        let quick_disk = memory.unthrottled().saturating_sub(promised.0).min(disk);
        Self { disk, quick_disk, memory: memory.spare().saturating_sub(promised.1) }
    }

    /// The same where nothing may be written to the disk, and the tmpfs has so much left.
    pub(super) fn without_disk(self, tmpfs_free: u64) -> Self {
        Self { disk: 0, quick_disk: 0, memory: self.memory.min(tmpfs_free) }
    }

    /// The best place for so many bytes; `None` if there is none.
    pub(super) fn best(&self, bytes: u64) -> Option<Medium> {
        if bytes <= self.quick_disk {
            Some(Medium::Disk)
        } else if bytes <= self.memory {
            Some(Medium::Memory)
        } else if bytes <= self.disk {
            // A longer pause is better than no snapshot.
            Some(Medium::Disk)
        } else {
            None
        }
    }
}

/// Free bytes of the file system that `path` is on.
pub fn disk_free(path: &Path) -> Result<u64> {
    let stat = rustix::fs::statvfs(path).map_err(io_error("look at the file system of", path))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:   10000000 kB\n\
                           Dirty:            100000 kB\nWriteback:         50000 kB\n";
    const GB: u64 = 1_000_000 * 1024;

    #[test]
    fn what_proc_says_is_understood() {
        let memory = Memory::parse(MEMINFO, (0, 10), (0, 20));
        assert_eq!((memory.total, memory.available, memory.unwritten), (16 * GB, 10 * GB, 15 * GB / 100));
        assert_eq!((memory.background, memory.limit), (GB, 2 * GB));
        assert_eq!(memory.unthrottled(), 3 * GB / 2 - 15 * GB / 100);
        assert_eq!(memory.spare(), 8 * GB);
        let fixed = Memory::parse(MEMINFO, (50 << 20, 10), (60 << 20, 20));
        assert_eq!((fixed.background, fixed.limit), (30 << 20, 60 << 20), "never above half of the limit");
        assert_eq!(fixed.unthrottled(), 0, "there is more than that on its way already");
        assert_eq!(Memory::parse("", (0, 10), (0, 20)), Memory::default());
        let here = Memory::read().unwrap();
        assert!(here.total > here.available && here.available > 0);
    }

    #[test]
    fn small_dumps_go_to_disk_and_large_ones_to_memory() {
        let memory = Memory::parse(MEMINFO, (0, 10), (0, 20));
        let room = Room::of(100 * GB, &memory, (0, 0));
        assert_eq!(room.best(GB), Some(Medium::Disk));
        assert_eq!(room.best(2 * GB), Some(Medium::Memory));
        assert_eq!(room.best(9 * GB), Some(Medium::Disk), "slow, but it fits");
        assert_eq!(room.best(100 * GB), None);
        let promised = Room::of(100 * GB, &memory, (GB, 7 * GB));
        assert_eq!(promised.best(GB), Some(Medium::Memory));
        assert_eq!(promised.best(2 * GB), Some(Medium::Disk));
        let full = Room::of(DISK_CUSHION, &memory, (0, 0));
        assert_eq!((full.disk, full.best(4096)), (0, Some(Medium::Memory)));
        assert_eq!(Room { memory: 0, ..full }.best(1), None);
        assert!(disk_free(Path::new("/")).unwrap() > 0);
    }
}
