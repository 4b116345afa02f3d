//! `/proc/PID/stat`: one line of fields, `pid (name) state parent …`, cheaper to ask for than `status`.
//!
//! The name stands in brackets, and may hold blanks and brackets itself, so everything counts from the last bracket. What the
//! fields are is in proc_pid_stat(5), which counts from 1; the state is the third there and number 0 here.

use std::io;
use std::time::Duration;

/// The flag of a process that is on its way out.
const PF_EXITING: u64 = 4;
/// What the kernel counts processor time in, for those who read it here: hundredths of a second.
const TICK_MS: u64 = 10;

/// The fields that are used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stat {
    /// Its number in our namespace.
    pub pid: i32,
    /// The name of its program, cut to 15 bytes by the kernel.
    pub comm: String,
    /// State letter: `R`, `S`, `D`, `T`, `t`, `Z` …
    pub state: char,
    /// Its parent.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Its session.
    pub session: i32,
    /// The processor time that it has used, in user mode and in the kernel.
    pub time_used: Duration,
    /// How many threads it has.
    pub threads: u64,
    /// When it started, in clock ticks since boot. A number is used again; number and start time together are not.
    pub start_time: u64,
    /// Whether it was killed, or is about to end, and has not got there yet.
    pub is_dying: bool,
}

impl Stat {
    /// That of a process, a zombie included; `None` if there is none.
    pub fn of(pid: i32) -> io::Result<Option<Self>> {
        Ok(super::read(pid, "stat")?.and_then(|bytes| Self::parse(&bytes)))
    }

    /// Reads the line.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let line = String::from_utf8_lossy(line);
        let (front, fields) = line.rsplit_once(')')?;
        let (pid, comm) = front.split_once('(')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let number = |index: usize| -> Option<u64> { fields.get(index)?.parse().ok() };
        let flags = number(6)?;
        // The last field is the exit code, once there is one. Those without the right to see it see a 0.
        let exit_code = fields.get(49).copied().unwrap_or("0");
        Some(Self {
            pid: pid.trim().parse().ok()?,
            comm: comm.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            time_used: Duration::from_millis(number(11)?.saturating_add(number(12)?).saturating_mul(TICK_MS)),
            threads: number(17)?,
            start_time: number(19)?,
            is_dying: flags & PF_EXITING != 0 || exit_code != "0",
        })
    }

    /// The parent alone, also from a line that is cut off after it.
    pub fn parent_in(line: &[u8]) -> Option<i32> {
        let after = line.iter().rposition(|byte| *byte == b')')?;
        let mut fields =
            line.get(after + 1..)?.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        str::from_utf8(fields.nth(1)?).ok()?.parse().ok()
    }

    /// Over, whether reaped or not.
    pub const fn is_over(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Stopped by a signal or by a tracer.
    pub const fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Stopped by a tracer.
    pub const fn is_traced(&self) -> bool {
        self.state == 't'
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let fields = "S 7 42 43 0 -1 4194560 1 0 0 0 1 2 3 4 20 0 5 0 987654 0 0";
        let line = format!("42 (a) b (c) {fields}");
        let stat = Stat::parse(line.as_bytes()).expect("this line is complete");
        let expected = Stat {
            pid: 42,
            comm: "a) b (c".to_owned(),
            state: 'S',
            parent: 7,
            group: 42,
            session: 43,
            time_used: Duration::from_millis(30),
            threads: 5,
            start_time: 987_654,
            is_dying: false,
        };
        assert_eq!(stat, expected);
        assert_eq!(Stat::parent_in(line.as_bytes()), Some(7));
        assert_eq!(Stat::parent_in(b"12 (a) R 99 ) S 7 12 12 0\n"), Some(7));
        for cut in ["42 (cut off) S", "42", ""] {
            assert_eq!(Stat::parse(cut.as_bytes()), None);
            assert_eq!(Stat::parent_in(cut.as_bytes()), None);
        }
        assert_eq!(Stat::parse(b"42 (\xff) S 7"), None);
    }

    #[test]
    fn one_that_is_about_to_end_is_told_by_its_flags_or_its_exit_code() {
        let line = |flags: u64, exit: &str| {
            let between = vec!["0"; 42].join(" ");
            format!("42 (x) S 7 42 43 0 -1 {flags} {between} {exit}\n")
        };
        assert!(!Stat::parse(line(0, "0").as_bytes()).unwrap().is_dying);
        assert!(Stat::parse(line(4, "0").as_bytes()).unwrap().is_dying);
        assert!(Stat::parse(line(0, "9").as_bytes()).unwrap().is_dying);
    }

    #[test]
    fn this_process_runs() {
        let own = i32::try_from(std::process::id()).unwrap();
        let stat = Stat::of(own).unwrap().expect("we run");
        assert!(!stat.is_over() && !stat.is_stopped() && !stat.is_dying && stat.start_time > 0, "{stat:?}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = (Stat::parse(&bytes), Stat::parent_in(&bytes));
        }
    }
}
