//! `/proc/meminfo`, `/proc/PID/statm`, and the amounts of memory in other files: `1234 kB`.

use std::io;
use std::path::Path;

use super::status::number_of;

/// An amount that the file gives in KiB, in bytes.
pub fn amount_in_bytes(text: &str, name: &str) -> Option<u64> {
    number_of::<u64>(text, name).map(|kib| kib.saturating_mul(1024))
}

/// How much memory of a process is there, as far as the kernel tells cheaply. `None` if the process is gone.
pub fn resident_bytes(pid: i32) -> Option<u64> {
    let text = super::read_text(pid, "statm").ok()??;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(u64::try_from(rustix::param::page_size()).ok()?)
}

/// What the machine says of its memory, in bytes. What it does not say is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MachineMemory {
    /// All there is.
    pub total: Option<u64>,
    /// What can be handed out without swapping.
    pub available: Option<u64>,
}

impl MachineMemory {
    /// That of this machine.
    pub fn read() -> io::Result<Self> {
        Ok(Self::parse(&super::read_text_at(Path::new("/proc/meminfo"))?))
    }

    /// Reads the file's text.
    pub fn parse(meminfo: &str) -> Self {
        let amount = |name| amount_in_bytes(meminfo, name);
        Self { total: amount("MemTotal"), available: amount("MemAvailable") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_bytes() {
        let text = "MemTotal:       16303428 kB\nMemFree: 1 kB\nDirty:  x kB\n";
        let memory = MachineMemory::parse(text);
        assert_eq!(memory, MachineMemory { total: Some(16_303_428 * 1024), available: None });
        assert_eq!(amount_in_bytes(text, "Dirty"), None);
        assert_eq!(amount_in_bytes("X: 18446744073709551615 kB", "X"), Some(u64::MAX));
    }

    #[test]
    fn a_process_that_lives_has_memory() {
        let pid = i32::try_from(std::process::id()).unwrap();
        assert!(resident_bytes(pid).is_some_and(|bytes| (1 << 16..1 << 40).contains(&bytes)));
        assert_eq!(resident_bytes(i32::MAX), None);
    }

    #[test]
    fn this_machine_has_memory() {
        let memory = MachineMemory::read().unwrap();
        assert!(memory.available.unwrap() > 0 && memory.available <= memory.total, "{memory:?}");
    }
}
