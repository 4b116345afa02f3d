//! Whether there is memory for what comes back.

use std::fs;

use doctor::{Finding, FindingState};

/// Says so if a snapshot of so many bytes would not fit into the memory that is free now. It is no reason to refuse: others may end, and
/// pages of zeros take none.
pub fn memory(bytes: u64) -> Option<Finding> {
    let free = free_memory(&fs::read_to_string("/proc/meminfo").ok()?)?;
    (bytes > free).then(|| Finding {
        item: "memory",
        state: FindingState::Warn,
        evidence: format!("it takes up to {} MiB of memory, and {} MiB are free", bytes >> 20, free >> 20),
        fix: Some("end what uses the most, or restore on a machine with more memory".to_owned()),
    })
}

/// What the kernel could give, swap included.
fn free_memory(meminfo: &str) -> Option<u64> {
    let kib = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some((kib("MemAvailable")? + kib("SwapFree").unwrap_or(0)).saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_much_is_told_with_figures() {
        assert_eq!(free_memory("MemTotal: 9 kB\nMemAvailable:  2048 kB\nSwapFree: 1024 kB\n"), Some(3 << 20));
        assert_eq!(free_memory("MemTotal: 9 kB\n"), None);
        assert_eq!(memory(1), None);
        assert!(memory(u64::MAX).unwrap().evidence.contains("MiB are free"));
    }
}
