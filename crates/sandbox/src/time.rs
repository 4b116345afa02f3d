//! What the clocks of a box show.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::error::{Result, SandboxError};
use crate::process::Identity;
use crate::spec::Clocks;

/// What the clocks of this holder's box show now.
pub fn clocks_of(holder: Identity) -> Result<Clocks> {
    let path = PathBuf::from(format!("/proc/{}/timens_offsets", holder.pid));
    let offsets = match fs::read_to_string(&path) {
        Ok(offsets) => offsets,
        // A kernel without time namespaces: the machine's clocks are the box's.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && holder.is_alive() => String::new(),
        Err(error) => return Err(SandboxError::io("read", &path)(error)),
    };
    let now = |clock, name: &str| {
        let time = clock_gettime(clock);
        let here = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
        let there = u128::try_from(here + offset(&offsets, name)).unwrap_or(0);
        Duration::new(
            u64::try_from(there / 1_000_000_000).unwrap_or(u64::MAX),
            u32::try_from(there % 1_000_000_000).unwrap_or(0),
        )
    };
    Ok(Clocks {
        monotonic: now(ClockId::Monotonic, "monotonic"),
        boottime: now(ClockId::Boottime, "boottime"),
    })
}

/// Nanoseconds by which a clock is ahead, by the text of `timens_offsets`: a name, seconds, nanoseconds.
fn offset(text: &str, name: &str) -> i128 {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)).unwrap_or_default();
    let mut numbers = line.split_ascii_whitespace().map(|word| word.parse::<i128>().unwrap_or(0));
    numbers.next().unwrap_or(0) * 1_000_000_000 + numbers.next().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_with_their_sign() {
        let text = "monotonic           -5 250000000\nboottime             7         0\n";
        assert_eq!(offset(text, "monotonic"), -4_750_000_000);
        assert_eq!(offset(text, "boottime"), 7_000_000_000);
        assert_eq!(offset("", "monotonic"), 0);
    }

    #[test]
    fn without_a_namespace_of_its_own_the_machines_clocks_count() {
        let own = i32::try_from(std::process::id()).expect("pids fit");
        let own = Identity::of(own).expect("/proc is readable").expect("we run");
        let (one, other) = (clocks_of(own).expect("clocks"), clocks_of(own).expect("clocks"));
        assert!(other.monotonic >= one.monotonic && one.boottime >= one.monotonic);
    }
}
