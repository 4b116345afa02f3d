//! Leases: how a writer says that it is there, and how one that stands still is given up.
//!
//! A lease protects nothing by time. A collection may revoke it at any moment, and does so when it was not renewed for long. What makes that
//! safe is the order in which a writer works: it reads what it is going to change, *then* renews, then changes it under the condition that it
//! is as it was read. The collection revokes, *then* touches everything that the writer has announced. Whichever of the two comes
//! first, the other one sees it. See `docs/format-remote.md`.
//!
//! A lease is also where a writer offers what it has to publish, so that others do it (see `group`): there it is fenced like everything else that
//! the writer does.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cas_core::IdHasher;
use serde::{Deserialize, Serialize};

use crate::bucket::{Bucket, Found, Statement};
use crate::error::{RemoteError, Result};
use crate::offer::Offer;
use crate::parallel;
use crate::token::Token;

/// A lease that was not renewed for so long may be revoked.
pub const LEASE_TIME: Duration = Duration::from_secs(600);
/// A writer that is busy with other things renews this often.
const RENEW: Duration = Duration::from_secs(60);
/// So many leases are read at a time.
const READERS: usize = 64;

/// What a lease says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct LeaseBody {
    pub(crate) writer: Token,
    /// The generation that the writer saw before it began.
    pub(crate) generation: u64,
    /// The refs that it is going to move.
    pub(crate) refs: Vec<String>,
    /// When it was renewed, by the writer's clock, in seconds since 1970.
    pub(crate) renewed: u64,
    pub(crate) revoked: bool,
    /// What others shall publish for the writer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) offer: Option<Offer>,
    /// The writer merges segments, so others need not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) merging: bool,
}

impl LeaseBody {
    /// Whether it was renewed not long ago, if clocks are right.
    pub(crate) fn is_fresh(&self) -> bool {
        now().abs_diff(self.renewed) < LEASE_TIME.as_secs()
    }
}

impl Statement for LeaseBody {
    // A push of many threads names them all.
    const LIMIT: u64 = 1 << 20;
}

/// A lease of our own.
#[derive(Debug)]
pub(crate) struct Lease<'a> {
    bucket: &'a Bucket,
    hasher: &'a IdHasher,
    key: String,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    /// As it was put last.
    found: Found<LeaseBody>,
    renewed: Instant,
    /// What was offered and not seen to be taken up.
    offer: Option<Offer>,
    merging: bool,
}

impl<'a> Lease<'a> {
    /// Takes a lease. Whoever does so reads `root` afterwards, and relies on nothing that was read before.
    pub(crate) fn take(
        bucket: &'a Bucket,
        hasher: &'a IdHasher,
        generation: u64,
        refs: Vec<String>,
    ) -> Result<Self> {
        let writer = Token::random()?;
        let key = format!("leases/{writer}");
        let body = LeaseBody {
            writer,
            generation,
            refs,
            renewed: now(),
            revoked: false,
            offer: None,
            merging: false,
        };
        let found = bucket.replace(hasher, &key, None, &body)?.ok_or(RemoteError::LeaseLost)?;
        let held = Held { found, renewed: Instant::now(), offer: None, merging: false };
        Ok(Self { bucket, hasher, key, held: Mutex::new(held) })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose it is.
    pub(crate) fn writer(&self) -> Token {
        self.held().found.body().writer
    }

    /// Renews it. [`RemoteError::LeaseLost`]: it was revoked, and nothing may be written under it any more.
    pub(crate) fn renew(&self) -> Result<()> {
        let mut held = self.held();
        let body = LeaseBody {
            renewed: now(),
            offer: held.offer.clone(),
            merging: held.merging,
            ..held.found.body().clone()
        };
        let renewed = self.bucket.replace(self.hasher, &self.key, Some(&held.found), &body)?;
        match renewed {
            // Settled by reading back: it may have been revoked right after.
            Some(found) if !found.body().revoked => {
                (held.found, held.renewed) = (found, Instant::now());
                Ok(())
            }
            _ => Err(RemoteError::LeaseLost),
        }
    }

    /// Renews it if that was not done for a while.
    pub(crate) fn keep(&self) -> Result<()> {
        let age = self.held().renewed.elapsed();
        if age < RENEW { Ok(()) } else { self.renew() }
    }

    /// Renews it with an offer. From then on anybody may take that up.
    pub(crate) fn offer(&self, offer: &Offer) -> Result<()> {
        self.held().offer = Some(offer.clone());
        self.renew()
    }

    /// The offer was taken up. The next renewal takes it out of the lease.
    pub(crate) fn settle(&self) {
        self.held().offer = None;
    }

    /// Whether there is an offer that may be taken up at any time.
    pub(crate) fn has_offer(&self) -> bool {
        self.held().offer.is_some()
    }

    /// What the next renewal says about merging.
    pub(crate) fn set_merging(&self, merging: bool) {
        self.held().merging = merging;
    }

    pub(crate) fn is_merging(&self) -> bool {
        self.held().merging
    }

    /// Whether it lies there.
    pub(crate) fn is(&self, key: &str) -> bool {
        self.key == key
    }

    /// Gives it back. Only if no request is under way any more. With an offer that was not settled it stays: somebody may have read it, and
    /// their change of `root` may be on its way. A collection settles that.
    pub(crate) fn end(self) -> Result<()> {
        if self.has_offer() { Ok(()) } else { self.bucket.delete(&self.key) }
    }
}

/// Where all leases lie that are there.
pub(crate) fn keys(bucket: &Bucket) -> Result<Vec<String>> {
    Ok(bucket.list("leases/")?.into_iter().map(|listed| listed.key).collect())
}

/// A lease, and where it lies.
type Placed = (String, Found<LeaseBody>);

/// Reads leases, and says what is wrong with those that cannot be read.
pub(crate) fn read(
    bucket: &Bucket,
    hasher: &IdHasher,
    keys: &[String],
) -> Result<(Vec<Placed>, Option<RemoteError>)> {
    let found = Mutex::new((Vec::new(), None));
    parallel::each(READERS, keys, &|key| {
        let read = bucket.read::<LeaseBody>(hasher, key);
        let (leases, broken) = &mut *found.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(lease) => leases.extend(lease.map(|lease| (key.clone(), lease))),
            Err(error @ RemoteError::Damaged { .. }) => *broken = Some(error),
            Err(error) => return Err(error),
        }
        Ok(())
    })?;
    let (mut leases, broken) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    leases.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Ok((leases, broken))
}

/// All leases that are there. One that cannot be read stops whoever asks: its writer may be alive.
pub(crate) fn list(bucket: &Bucket, hasher: &IdHasher) -> Result<Vec<Placed>> {
    let (leases, broken) = read(bucket, hasher, &keys(bucket)?)?;
    broken.map_or(Ok(leases), Err)
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
