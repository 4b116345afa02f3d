//! Whether the machine has memory to spare for a tree that stands by.
//!
//! It is an offer, and must never be what makes somebody else's program fail. So it is made only if much stays free, and goes when less does.

use std::fs;

use base::proc::MachineMemory;

/// What stays available when one has been made: a quarter of the machine's memory, and no less than this.
const LEAST: u64 = 2 << 30;
/// Of a hundred, the share of the last ten seconds in which something waited for memory, from which on one has to go.
const WAITING: f64 = 5.0;

/// Whether there is room for so many bytes more; without a number, for what is there already.
pub(super) fn is_there(bytes: Option<u64>) -> bool {
    let Ok(MachineMemory { total: Some(total), available: Some(available) }) = MachineMemory::read() else {
        return false;
    };
    let waiting = fs::read_to_string("/proc/pressure/memory").ok().and_then(|text| some_of_ten(&text));
    has_room(total, available, bytes, waiting.unwrap_or(0.0))
}

fn has_room(total: u64, available: u64, bytes: Option<u64>, waiting: f64) -> bool {
    let cushion = (total / 4).max(LEAST);
    let enough = match bytes {
        Some(bytes) => available >= cushion.saturating_add(bytes),
        // Half of it, so that one that was just made need not go at once.
        None => available >= cushion / 2,
    };
    enough && waiting < WAITING
}

/// The share of the last ten seconds in which something waited.
fn some_of_ten(pressure: &str) -> Option<f64> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split(' ').find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn one_is_made_if_a_quarter_stays_and_goes_when_half_of_that_is_left() {
        assert!(has_room(32 * GIB, 12 * GIB, Some(4 * GIB), 0.0));
        assert!(!has_room(32 * GIB, 12 * GIB - 1, Some(4 * GIB), 0.0));
        assert!(has_room(32 * GIB, 4 * GIB, None, 0.0));
        assert!(!has_room(32 * GIB, 4 * GIB - 1, None, 0.0));
    }

    #[test]
    fn a_small_machine_keeps_two_gibibytes() {
        assert!(!has_room(4 * GIB, 3 * GIB - 1, Some(GIB), 0.0));
        assert!(has_room(4 * GIB, 3 * GIB, Some(GIB), 0.0));
    }

    #[test]
    fn nothing_stands_by_while_others_wait_for_memory() {
        let text = "some avg10=7.50 avg60=1.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        let waiting = some_of_ten(text).unwrap();
        assert!(!has_room(32 * GIB, 30 * GIB, Some(GIB), waiting));
        assert!(!has_room(32 * GIB, 30 * GIB, None, waiting));
        assert_eq!(some_of_ten("nonsense"), None);
    }
}
