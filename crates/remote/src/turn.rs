//! Whose turn it is to change `root`, so that of many writers that could do it for all, one does.
//!
//! Nothing rests on it: a change of `root` has its own condition. The turn is for one `root`, by its write id, so it ends when `root` changes,
//! and nobody has to give it back. Of one who has it and does nothing, others take it after a while.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::bucket::{Found, Statement};
use crate::error::{RemoteError, Result};
use crate::remote::Remote;
use crate::token::Token;

/// Where it lies.
const TURN: &str = "turn";

/// What it says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct TurnBody {
    /// The write id of the `root` that will be replaced.
    root: Token,
    /// How often somebody else had this turn, and nothing came of it.
    round: u32,
    writer: Token,
    /// How many leases the writer found, if that are so many that it takes longer than usual.
    #[serde(default)]
    leases: usize,
}

/// A turn that we have.
#[derive(Debug)]
pub(crate) struct Turn(Found<TurnBody>);

impl Statement for TurnBody {
    const LIMIT: u64 = 16 << 10;
}

/// What one who waits has seen.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The write id of `root`.
    pub(crate) root: Token,
    /// Since when it is this one.
    pub(crate) since: Instant,
    /// Who has the turn for it: since when that is known, and the round.
    had: Option<(Instant, u32)>,
    /// How many leases that one has found.
    pub(crate) leases: usize,
}

impl Watch {
    pub(crate) fn new(root: Token) -> Self {
        Self { root, since: Instant::now(), had: None, leases: 0 }
    }

    /// Whether it is time to ask for the turn: nobody has it as far as we know, or somebody has had it for too long.
    pub(crate) fn should_ask(&self, stall: Duration) -> bool {
        let too_long = |round: u32| stall.saturating_mul(1 << round.min(6));
        self.had.is_none_or(|(since, round)| since.elapsed() >= too_long(round))
    }
}

impl Remote {
    /// Asks for the turn. `None`: somebody else has it.
    pub(crate) fn take_turn(&self, watch: &mut Watch, writer: Token) -> Result<Option<Turn>> {
        let found = match self.bucket.read::<TurnBody>(self.hasher(), TURN) {
            Ok(found) => found,
            // What makes no sense is nobody's.
            Err(RemoteError::Damaged { .. }) => {
                self.bucket.delete(TURN)?;
                None
            }
            Err(error) => return Err(error),
        };
        let there = found.as_ref().map(Found::body).filter(|body| body.root == watch.root);
        let round = match there {
            None => 0,
            // Nothing came of this one.
            Some(body)
                if body.leases == watch.leases && watch.had.is_some_and(|(_, had)| had >= body.round) =>
            {
                body.round.saturating_add(1)
            }
            Some(body) => {
                (watch.had, watch.leases) = (Some((Instant::now(), body.round)), body.leases);
                return Ok(None);
            }
        };
        (watch.had, watch.leases) = (Some((Instant::now(), round)), 0);
        let body = TurnBody { root: watch.root, round, writer, leases: 0 };
        Ok(self.bucket.replace(self.hasher(), TURN, found.as_ref(), &body)?.map(Turn))
    }

    /// Says that a turn of ours will take longer. That it is not ours any more is no harm.
    pub(crate) fn prolong(&self, turn: &Turn, leases: usize) -> Result<()> {
        let body = TurnBody { leases, ..turn.0.body().clone() };
        self.bucket.replace(self.hasher(), TURN, Some(&turn.0), &body).map(drop)
    }
}
