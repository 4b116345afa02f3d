//! Leases: how a writer says that it is there, and how one that stands still is given up.
//!
//! A lease protects nothing by time. A collection may revoke it at any moment, and does so when it was not renewed for long. What makes that
//! safe is the order in which a writer works: it reads what it is going to change, *then* renews, then changes it under the condition that it
//! is as it was read. The collection revokes, *then* touches everything that the writer has announced. Whichever of the two comes
//! first, the other one sees it. See `docs/format-remote.md`.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cas_core::IdHasher;
use serde::{Deserialize, Serialize};

use crate::bucket::{Bucket, Found, Statement};
use crate::error::{RemoteError, Result};
use crate::token::Token;

/// A lease that was not renewed for so long may be revoked.
pub const LEASE_TIME: Duration = Duration::from_secs(600);
/// A writer that is busy with other things renews this often.
const RENEW: Duration = Duration::from_secs(60);

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
    held: Mutex<(Found<LeaseBody>, Instant)>,
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
        let body = LeaseBody { writer, generation, refs, renewed: now(), revoked: false };
        let found = bucket.replace(hasher, &key, None, &body)?.ok_or(RemoteError::LeaseLost)?;
        Ok(Self { bucket, hasher, key, held: Mutex::new((found, Instant::now())) })
    }

    /// Renews it. [`RemoteError::LeaseLost`]: it was revoked, and nothing may be written under it any more.
    pub(crate) fn renew(&self) -> Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let body = LeaseBody { renewed: now(), ..held.0.body().clone() };
        let renewed = self.bucket.replace(self.hasher, &self.key, Some(&held.0), &body)?;
        match renewed {
            // Settled by reading back: it may have been revoked right after.
            Some(found) if !found.body().revoked => {
                *held = (found, Instant::now());
                Ok(())
            }
            _ => Err(RemoteError::LeaseLost),
        }
    }

    /// Renews it if that was not done for a while.
    pub(crate) fn keep(&self) -> Result<()> {
        let age = self.held.lock().unwrap_or_else(PoisonError::into_inner).1.elapsed();
        if age < RENEW { Ok(()) } else { self.renew() }
    }

    /// Whether it lies there.
    pub(crate) fn is(&self, key: &str) -> bool {
        self.key == key
    }

    /// Gives it back. Only if no request is under way any more.
    pub(crate) fn end(self) -> Result<()> {
        self.bucket.delete(&self.key)
    }
}

/// All leases that are there. One that cannot be read stops whoever asks: its writer may be alive.
pub(crate) fn list(bucket: &Bucket, hasher: &IdHasher) -> Result<Vec<(String, Found<LeaseBody>)>> {
    let mut leases = Vec::new();
    for listed in bucket.list("leases/")? {
        if let Some(found) = bucket.read::<LeaseBody>(hasher, &listed.key)? {
            leases.push((listed.key, found));
        }
    }
    Ok(leases)
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
