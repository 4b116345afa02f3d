//! The two messages: what is asked of the helper, and what it answers.
//!
//! | bytes | of a request | |
//! |---|---|---|
//! | 0–7 | `IJGPU`, two zeroes, version 1 | |
//! | 8–11 | verb | 1 thread, 2 state, 3 lock, 4 checkpoint, 5 restore, 6 unlock |
//! | 12–15 | time limit in milliseconds | lock only, from 1 to 600,000 |
//! | 16–19 | number of pairs | restore only, at most 64 |
//! | 20–23 | zero | |
//! | 24–2071 | pairs of GPUs, old and new, 16 bytes each | those beyond the number are zero |
//!
//! Numbers are little-endian. Everything that a verb does not use is zero, so that a request has exactly one form: what can be
//! read is, written again, the same bytes. A request is one packet of a `SOCK_SEQPACKET` socket, and so is an answer.

use crate::uuid::GpuUuid;

/// How long a request is. Nothing shorter or longer is one.
pub const LENGTH: usize = HEAD + MOST_PAIRS * PAIR;
/// How long an answer is.
pub const ANSWER: usize = 16;

/// More GPUs than any machine has.
const MOST_PAIRS: usize = 64;
/// A lock without a limit would hold the helper for as long as the target likes.
const LONGEST_LOCK_MS: u32 = 600_000;

const MAGIC: [u8; 8] = *b"IJGPU\0\0\x01";
const HEAD: usize = 24;
const PAIR: usize = 32;

/// What is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// `cuCheckpointProcessGetRestoreThreadId`
    Thread,
    /// `cuCheckpointProcessGetState`
    State,
    /// `cuCheckpointProcessLock`
    Lock {
        /// How long the driver may wait for the target's work.
        timeout_ms: u32,
    },
    /// `cuCheckpointProcessCheckpoint`
    Checkpoint,
    /// `cuCheckpointProcessRestore`
    Restore {
        /// Which GPU takes the place of which.
        pairs: Vec<(GpuUuid, GpuUuid)>,
    },
    /// `cuCheckpointProcessUnlock`
    Unlock,
}

impl Request {
    /// Reads a request; `None` if these bytes are none.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        let (head, list) = bytes.split_at(HEAD);
        let [timeout_ms, pairs, zero] = [12, 16, 20].map(|at| word(head, at));
        let request = match word(head, 8)? {
            1 => Self::Thread,
            2 => Self::State,
            3 => Self::Lock { timeout_ms: timeout_ms? },
            4 => Self::Checkpoint,
            5 => Self::Restore { pairs: list.chunks_exact(PAIR).take(count(pairs?)?).map(pair).collect() },
            6 => Self::Unlock,
            _ => return None,
        };
        // Whatever is left over is not zero, or the magic is another one, if these are not the request's own bytes.
        (zero? == 0 && request.bytes()? == *bytes).then_some(request)
    }

    /// The bytes of a request; `None` if it has too many pairs, or a limit that is not allowed.
    #[must_use]
    pub fn bytes(&self) -> Option<[u8; LENGTH]> {
        let mut bytes = [0; LENGTH];
        let (head, list) = bytes.split_at_mut(HEAD);
        let (verb, timeout_ms, pairs): (u32, u32, &[_]) = match self {
            Self::Thread => (1, 0, &[]),
            Self::State => (2, 0, &[]),
            Self::Lock { timeout_ms: 1..=LONGEST_LOCK_MS } => (3, self.timeout_ms(), &[]),
            Self::Lock { .. } => return None,
            Self::Checkpoint => (4, 0, &[]),
            Self::Restore { pairs } => (5, 0, pairs),
            Self::Unlock => (6, 0, &[]),
        };
        if pairs.len() > MOST_PAIRS {
            return None;
        }
        let number = u32::try_from(pairs.len()).ok()?;
        let words = [MAGIC, two(verb, timeout_ms), two(number, 0)];
        head.copy_from_slice(words.as_flattened());
        for (place, (old, new)) in list.chunks_exact_mut(PAIR).zip(pairs) {
            place.copy_from_slice([old.bytes(), new.bytes()].as_flattened());
        }
        Some(bytes)
    }

    const fn timeout_ms(&self) -> u32 {
        match self {
            Self::Lock { timeout_ms } => *timeout_ms,
            _ => 0,
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn two(first: u32, second: u32) -> [u8; 8] {
    (u64::from(first) | u64::from(second) << 32).to_le_bytes()
}

fn count(number: u32) -> Option<usize> {
    usize::try_from(number).ok().filter(|number| *number <= MOST_PAIRS)
}

fn pair(bytes: &[u8]) -> (GpuUuid, GpuUuid) {
    let mut halves = [[0; 16]; 2];
    halves.as_flattened_mut().copy_from_slice(bytes);
    (GpuUuid::from_bytes(halves[0]), GpuUuid::from_bytes(halves[1]))
}

/// What is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It was done; the thread or the state where that was asked, else 0.
    Done(i32),
    /// The driver said no, with this number.
    Code(i32),
    /// The call was not made, or not to the target's harm.
    Refused(Refusal),
}

/// Why the helper did not do it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Refusal {
    /// It is no request, or not exactly one descriptor came with it.
    Malformed = 1,
    /// The descriptor is no pidfd of a whole process.
    NotAProcess = 2,
    /// The target has ended.
    Ended = 3,
    /// A user id of the target is not that of the one who asks.
    OtherUser = 4,
    /// The target's user namespace is somebody else's.
    OtherNamespace = 5,
    /// Root asks, who needs no helper.
    Root = 6,
    /// The target could not be looked at.
    Unreadable = 7,
    /// The target ended or became another user's during the call; a lock was undone.
    Changed = 8,
    /// There is no driver with these calls.
    NoDriver = 9,
}

impl Refusal {
    const ALL: [Self; 9] = [
        Self::Malformed,
        Self::NotAProcess,
        Self::Ended,
        Self::OtherUser,
        Self::OtherNamespace,
        Self::Root,
        Self::Unreadable,
        Self::Changed,
        Self::NoDriver,
    ];

    /// A sentence about it.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Malformed => "it does not understand the request; is it of another version?",
            Self::NotAProcess => "what it was given is not a process",
            Self::Ended => "the process has ended",
            Self::OtherUser => "the process, or a thread of it, has a user id that is not yours",
            Self::OtherNamespace => "the process is in a user namespace that is not yours",
            Self::Root => "it does not serve root, who needs no helper",
            Self::Unreadable => "it could not look at the process",
            Self::Changed => "the process ended or changed its user during the call",
            Self::NoDriver => "it finds no driver with the checkpoint calls",
        }
    }
}

impl Answer {
    /// The bytes of an answer.
    #[must_use]
    pub fn bytes(self) -> [u8; ANSWER] {
        let (kind, value): (u32, i32) = match self {
            Self::Done(number) => (0, number),
            Self::Code(code) => (1, code),
            Self::Refused(why) => (2, why as i32),
        };
        let mut bytes = [0; ANSWER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..].copy_from_slice(&two(kind, u32::from_le_bytes(value.to_le_bytes())));
        bytes
    }

    /// Reads an answer; `None` if these bytes are none.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ANSWER] = bytes.try_into().ok()?;
        if bytes[..8] != MAGIC {
            return None;
        }
        let value = i32::from_le_bytes(word(bytes, 12)?.to_le_bytes());
        match word(bytes, 8)? {
            0 => Some(Self::Done(value)),
            1 => Some(Self::Code(value)),
            2 => Refusal::ALL.into_iter().find(|why| *why as i32 == value).map(Self::Refused),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request() -> impl Strategy<Value = Request> {
        let uuid = || any::<[u8; 16]>().prop_map(GpuUuid::from_bytes);
        prop_oneof![
            Just(Request::Thread),
            Just(Request::State),
            (1..=LONGEST_LOCK_MS).prop_map(|timeout_ms| Request::Lock { timeout_ms }),
            Just(Request::Checkpoint),
            proptest::collection::vec((uuid(), uuid()), 0..=MOST_PAIRS)
                .prop_map(|pairs| Request::Restore { pairs }),
            Just(Request::Unlock),
        ]
    }

    proptest! {
        #[test]
        fn requests_come_back(request in request()) {
            prop_assert_eq!(Request::parse(&request.bytes().unwrap()), Some(request));
        }

        /// A request with some bytes changed is none, or another whole request; never one that was read in part.
        #[test]
        fn a_request_has_one_form(
            request in request(),
            changes in proptest::collection::vec((0..LENGTH, any::<u8>()), 0..4),
            length in prop_oneof![Just(LENGTH), 0..LENGTH + 40],
        ) {
            let mut bytes = request.bytes().unwrap().to_vec();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            bytes.resize(length, 0);
            if let Some(read) = Request::parse(&bytes) {
                prop_assert_eq!(&read.bytes().unwrap()[..], &bytes[..]);
            }
        }

        #[test]
        fn no_bytes_make_the_readers_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..LENGTH + 9), magic: bool) {
            if magic && bytes.len() >= 8 {
                bytes[..8].copy_from_slice(&MAGIC);
            }
            let _ = (Request::parse(&bytes), Answer::parse(&bytes));
        }

        #[test]
        fn answers_come_back(number: i32, which in 0..Refusal::ALL.len()) {
            for answer in [Answer::Done(number), Answer::Code(number), Answer::Refused(Refusal::ALL[which])] {
                prop_assert_eq!(Answer::parse(&answer.bytes()), Some(answer));
            }
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_no_request() {
        let uuid = GpuUuid::from_bytes([7; 16]);
        assert_eq!(Request::Restore { pairs: vec![(uuid, uuid); MOST_PAIRS + 1] }.bytes(), None);
        assert_eq!(Request::Lock { timeout_ms: 0 }.bytes(), None);
        assert_eq!(Request::Lock { timeout_ms: LONGEST_LOCK_MS + 1 }.bytes(), None);
        let mut bytes = Request::Lock { timeout_ms: 1 }.bytes().unwrap();
        bytes[12] = 0;
        assert_eq!(Request::parse(&bytes), None);
        let mut bytes = Request::Unlock.bytes().unwrap();
        bytes[LENGTH - 1] = 1;
        assert_eq!(Request::parse(&bytes), None);
    }
}
