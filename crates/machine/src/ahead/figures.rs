//! What following costs, and how it goes: counted for whoever looks after the machine.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use memory_path::{PAGE, Round};

/// When a round was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Before a dump.
    Dump,
    /// While the tree rested.
    Rest,
}

/// Why a dump copied all memory while its tree stood still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plainly {
    /// A device may write to its memory, now or later, or the tree lives on the host.
    Device,
    /// Nobody follows anything here: it is switched off, or the kernel or CRIU cannot.
    NotHere,
    /// The session was followed wrongly once.
    Mistrusted,
    /// None of its processes can be followed.
    NoProcess,
    /// What was copied ahead could not be used.
    Doubt,
}

/// What was counted since the daemon began.
#[derive(Debug, Default)]
pub(super) struct Figures {
    rounds: [AtomicU64; 2],
    copied: [AtomicU64; 2],
    standing_us: AtomicU64,
    frozen: AtomicU64,
    begun_at_restore: AtomicU64,
    plain: [AtomicU64; 5],
    stale: AtomicU64,
}

/// All of it at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// Trees that are followed now.
    pub trees: u64,
    /// Memory that the fingerprints of their pages take, in bytes.
    pub print_bytes: u64,
    /// What was copied while they rested and waits for a snapshot, in bytes.
    pub waiting_bytes: u64,
    /// Rounds, before dumps and while trees rested.
    pub rounds: [u64; 2],
    /// Bytes that they have copied.
    pub copied_bytes: [u64; 2],
    /// For how long processes stood still for them.
    pub standing: Duration,
    /// Bytes that were copied while trees were frozen.
    pub frozen_bytes: u64,
    /// Trees that were followed from their first instruction on.
    pub begun_at_restore: u64,
    /// Dumps that copied everything while their tree stood still, by [`Plainly`].
    pub plain: [u64; 5],
    /// Sessions that were found to be followed wrongly.
    pub stale: u64,
}

impl Figures {
    pub(super) fn rounds(&self, when: When, rounds: &[Round]) {
        let add = |counter: &AtomicU64, number| _ = counter.fetch_add(number, Ordering::Relaxed);
        let [at_dump, at_rest] = &self.rounds;
        let [copied_at_dump, copied_at_rest] = &self.copied;
        let (made, copied) = match when {
            When::Dump => (at_dump, copied_at_dump),
            When::Rest => (at_rest, copied_at_rest),
        };
        add(made, rounds.len() as u64);
        add(copied, rounds.iter().map(|round| round.copied * PAGE).sum());
        let stood: Duration = rounds.iter().map(|round| round.stood).sum();
        add(&self.standing_us, u64::try_from(stood.as_micros()).unwrap_or(u64::MAX));
    }

    pub(super) fn frozen(&self, pages: u64) {
        self.frozen.fetch_add(pages * PAGE, Ordering::Relaxed);
    }

    pub(super) fn begun(&self) {
        self.begun_at_restore.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn plain(&self, why: Plainly) {
        if let Some(counter) = self.plain.get(why as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn stale(&self) {
        self.stale.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counted(&self) -> Counted {
        let all = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counted {
            rounds: self.rounds.each_ref().map(all),
            copied_bytes: self.copied.each_ref().map(all),
            standing: Duration::from_micros(all(&self.standing_us)),
            frozen_bytes: all(&self.frozen),
            begun_at_restore: all(&self.begun_at_restore),
            plain: self.plain.each_ref().map(all),
            stale: all(&self.stale),
            ..Counted::default()
        }
    }
}
