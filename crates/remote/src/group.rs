//! Committing in groups: many writers, one change of `root`.
//!
//! `root` takes a change at a time, about one a second. So of many writers one has the turn to change it. The others put what they have to publish
//! into their leases, as *offers*, and wait until a `root` says that these were taken up. The one who has the turn reads all leases, and takes up
//! every offer that it finds, with one change. If it dies, another one has the next turn.
//!
//! What makes it safe is the order, the same as for a change by oneself: read `root`, *then* the leases, then put `root` if it is as it was
//! read. A collection that revokes a lease puts `root` afterwards. Whichever comes first, the other one sees it. And an offer is taken up
//! once: `root` remembers it for as long as a lease may have it. See `docs/format-remote.md`.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use cas_core::StoreError;

use crate::bucket::{Found, sleep};
use crate::error::{RemoteError, Result};
use crate::index::due;
use crate::lease::{self, Lease};
use crate::offer::Offer;
use crate::publish::bytes_of;
use crate::remote::Remote;
use crate::root::{ROOT, Root, VERSION};
use crate::turn::{Turn, Watch};

/// So many offers are taken up at a time at most. The others are for the next one.
const AT_A_TIME: usize = 4096;
/// Of those who offer segments of their own, no more than leave so many in `root`: it must stay short enough to be read.
const SEGMENTS: usize = 8192;
/// Who has waited for so many changes or turns without being taken up gives up.
const CHANGES: u32 = 60;
/// After so many times the pace, a turn that nothing comes of is another one's.
const STALL: u32 = 5;

/// `root`, and then who else has a lease.
struct Look {
    root: Found<Root>,
    others: Vec<String>,
}

/// What others have in their leases.
#[derive(Default)]
struct Others {
    offers: Vec<Offer>,
    /// One of them merges segments.
    merging: bool,
    /// Some could not be read.
    unknown: bool,
}

impl Remote {
    /// Publishes what is offered, alone or with others, whoever does it. Returns how many bytes of segments we wrote for it.
    pub(crate) fn commit(&self, lease: &Lease<'_>, offer: &Offer) -> Result<u64> {
        let shortest = self.pace(0);
        let (mut pause, mut changes) = (shortest, 0);
        let mut watch: Option<Watch> = None;
        while changes < CHANGES {
            let asked = Instant::now();
            let root = Root::read(&self.bucket, self.hasher())?;
            let took = asked.elapsed();
            if let Some(done) = seen_in(root.body(), lease, offer) {
                return Ok(done);
            }
            let watch = match &mut watch {
                Some(watch) if watch.root == root.write() => watch,
                other => {
                    changes += 1;
                    other.insert(Watch::new(root.write()))
                }
            };
            if watch.should_ask(self.pace(watch.leases) * STALL) {
                changes += 1;
                if let Some(turn) = self.take_turn(watch, lease.writer())?
                    && let Some(done) = self.lead(lease, offer, &turn, watch.since, root)?
                {
                    return Ok(done);
                }
            }
            if !lease.has_offer() {
                lease.offer(offer)?;
            }
            lease.keep()?;
            // A server that is slow has too much to do: then those who wait must not be in the way of the one who leads.
            sleep(pause.max(took.saturating_mul(10)).min(shortest * 60));
            pause = (pause * 2).min(shortest * 8);
        }
        Err(RemoteError::Contended { key: ROOT.to_owned() })
    }

    /// `root` is changed about so often: once a second, and more seldom if there are so many leases that reading them takes as long.
    fn pace(&self, others: usize) -> Duration {
        let pause = self.bucket.patience.pause;
        let reading = (pause / 50).saturating_mul(u32::try_from(others).unwrap_or(u32::MAX));
        reading.clamp(pause * 5, pause * 100)
    }

    fn look(&self, lease: &Lease<'_>, root: Found<Root>) -> Result<Look> {
        let mut others = lease::keys(&self.bucket)?;
        others.retain(|key| !lease.is(key));
        Ok(Look { root, others })
    }

    /// Does what the one who has the turn does. `None`: somebody else has changed `root`.
    fn lead(
        &self,
        lease: &Lease<'_>,
        offer: &Offer,
        turn: &Turn,
        since: Instant,
        root: Found<Root>,
    ) -> Result<Option<u64>> {
        let mut look = self.look(lease, root)?;
        if !look.others.is_empty() {
            let pace = self.pace(look.others.len());
            if pace > self.pace(0) {
                self.prolong(turn, look.others.len())?;
            }
            std::thread::sleep(pace.saturating_sub(since.elapsed()));
            let root = Root::read(&self.bucket, self.hasher())?;
            if let Some(done) = seen_in(root.body(), lease, offer) {
                return Ok(Some(done));
            }
            if root.write() != look.root.write() {
                return Ok(None);
            }
            look = self.look(lease, root)?;
        }
        self.take_up(lease, offer, &look)
    }

    /// Puts `root` with what we and all others offer. `None`: somebody else was quicker.
    fn take_up(&self, lease: &Lease<'_>, own: &Offer, look: &Look) -> Result<Option<u64>> {
        let others = self.read_others(&look.others)?;
        let mut root = look.root.body().clone();
        if !others.unknown {
            let offered: HashSet<_> = others.offers.iter().map(|offer| offer.id).collect();
            root.taken.retain(|id| offered.contains(id));
        }
        let known: HashSet<_> = root.taken.iter().copied().collect();
        let mut entries = own.check().map_err(|detail| StoreError::Bug { detail })?;
        root.segments.extend_from_slice(&own.segments);
        if lease.has_offer() {
            root.taken.push(own.id);
        }
        for offer in others.offers.iter().filter(|offer| !known.contains(&offer.id)).take(AT_A_TIME) {
            if !offer.segments.is_empty() && root.segments.len() + offer.segments.len() > SEGMENTS {
                continue;
            }
            match offer.check() {
                Ok(few) => entries.extend(few),
                Err(detail) => {
                    tracing::debug!(%detail, offer = %offer.id, "an offer is passed over");
                    continue;
                }
            }
            root.segments.extend_from_slice(&offer.segments);
            root.taken.push(offer.id);
        }
        if !root.taken.is_empty() {
            root.version = VERSION;
        }
        let written = self.write_segments(entries)?;
        root.segments.extend_from_slice(&written);
        // Whoever leads next reads our lease, and leaves it to us.
        lease.set_merging(!others.merging && due(&root.segments).is_some());
        lease.renew()?;
        if self.bucket.replace(self.hasher(), ROOT, Some(&look.root), &root)?.is_none() {
            lease.set_merging(false);
            return Ok(None);
        }
        lease.settle();
        Ok(Some(bytes_of(&written) + bytes_of(&own.segments)))
    }

    fn read_others(&self, keys: &[String]) -> Result<Others> {
        let (leases, broken) = lease::read(&self.bucket, self.hasher(), keys)?;
        let mut others = Others { unknown: broken.is_some(), ..Others::default() };
        for lease in leases.iter().map(|(_, found)| found.body()).filter(|lease| !lease.revoked) {
            others.offers.extend(lease.offer.clone());
            others.merging |= lease.merging && lease.is_fresh();
        }
        Ok(others)
    }
}

/// Whether this `root` has taken up the offer: then that is settled.
fn seen_in(root: &Root, lease: &Lease<'_>, offer: &Offer) -> Option<u64> {
    root.taken.contains(&offer.id).then(|| {
        lease.settle();
        bytes_of(&offer.segments)
    })
}
