//! Collection: giving room back beside writers that may stand still at any point, for any time.
//!
//! `docs/format-remote.md` has the steps and why they are safe. In short: what is not needed is *condemned* first, and deleted by a later
//! collection, when no writer is left that could have relied on it. Writers that do not move are revoked, and what they may have
//! on its way is fenced off, by changing everything that their puts depend on. No step waits, and none depends on a clock being right.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use cas_core::ObjectId;
use cas_core::progress::{Progress, Task};
use cas_core::reach::References;

use crate::bucket::{Changed, Edit};
use crate::census::Census;
use crate::error::{RemoteError, Result};
use crate::index::{ShortId, without};
use crate::lease::{self, LEASE_TIME, Lease, LeaseBody};
use crate::refs::{self, RefBody};
use crate::remote::{Remote, View};
use crate::root::Condemned;
use crate::token::Token;
use crate::walk::Walk;

/// So much is condemned at a time, so that `root` stays small.
const AT_A_TIME: usize = 10_000;

/// What a collection may do.
#[derive(Clone, Copy, Debug)]
pub struct GcOptions {
    /// What was condemned stays for so long, for those who read it.
    pub grace: Duration,
    /// A lease that was not renewed for so long is revoked.
    pub lease_time: Duration,
    /// Only find out.
    pub dry_run: bool,
}

impl Default for GcOptions {
    fn default() -> Self {
        Self { grace: Duration::from_secs(24 * 3600), lease_time: LEASE_TIME, dry_run: false }
    }
}

/// What a collection did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Objects that refs lead to.
    pub live_objects: u64,
    /// Packs and segments that nobody needs and that were found now; a later collection deletes them.
    pub condemned: u64,
    /// Packs that are mostly dead: what is needed of them was moved into new ones, and they are among the condemned.
    pub rewritten: u64,
    /// The stored length of what was moved.
    pub moved_bytes: u64,
    /// Those that came to be needed again.
    pub pardoned: u64,
    /// Those that were deleted.
    pub deleted: u64,
    /// Their length.
    pub deleted_bytes: u64,
    /// Condemned ones that have to stay for now: the grace time is not over, or a writer is older than they.
    pub waiting: u64,
    /// Writers that stood still and were given up.
    pub revoked: u64,
    /// Writers that are at work.
    pub writers: u64,
    /// Needed, and not there: then nothing was deleted.
    pub missing: Vec<ObjectId>,
}

impl Remote {
    /// Collects what no ref leads to. What was forgotten in the local store is asked in nothing: others may need it still.
    pub fn gc(
        &self,
        options: &GcOptions,
        above: &dyn References,
        progress: &dyn Progress,
    ) -> Result<GcReport> {
        let generation = self.root()?.generation;
        let own = Lease::take(&self.bucket, self.hasher(), generation, Vec::new())?;
        let done = self.collect(&own, options, above, progress);
        if !done.as_ref().is_err_and(RemoteError::is_open) {
            own.end()?;
        }
        done
    }

    fn collect(
        &self,
        own: &Lease<'_>,
        options: &GcOptions,
        above: &dyn References,
        progress: &dyn Progress,
    ) -> Result<GcReport> {
        let mut report = GcReport::default();
        // In this order: what was listed and has no lease any more is in `root`, or never will be.
        let mut listed: HashMap<String, u64> = HashMap::new();
        for prefix in ["packs/", "index/"] {
            listed.extend(self.bucket.list(prefix)?.into_iter().map(|one| (one.key, one.size)));
        }
        let candidates = self.root()?.condemned;
        let oldest = self.settle_writers(own, options, &mut report)?;

        let view = self.view()?;
        let Some(live) = self.mark(&view, above, &mut report, progress)? else { return Ok(report) };
        let census = Census::take(&view, &live)?;
        let now = lease::now();
        let mut pardoned = HashSet::new();
        let mut dead = HashSet::new();
        for one in &candidates {
            if census.is_needed(&one.key, &view.root) {
                pardoned.insert(one.key.clone());
            } else if one.generation <= oldest && one.at.saturating_add(options.grace.as_secs()) <= now {
                dead.insert(one.key.clone());
            } else {
                report.waiting += 1;
            }
        }
        let old: HashSet<&str> = view.root.condemned.iter().map(|one| one.key.as_str()).collect();
        let useless = |key: &&String| !old.contains(key.as_str()) && !census.is_needed(key, &view.root);
        let indexed = census.packs.keys().map(|pack| format!("packs/{pack}"));
        let all: HashSet<String> = listed.keys().cloned().chain(indexed).collect();
        let mut useless: Vec<String> = all.iter().filter(useless).cloned().collect();
        useless.sort_unstable();
        useless.truncate(AT_A_TIME.saturating_sub(view.root.condemned.len()));
        let worn = census.worn(&view, AT_A_TIME.saturating_sub(view.root.condemned.len() + useless.len()));
        report.rewritten = worn.len() as u64;
        report.condemned = (useless.len() + worn.len()) as u64;
        report.pardoned = pardoned.len() as u64;
        report.deleted = dead.len() as u64;
        report.deleted_bytes = dead.iter().filter_map(|key| listed.get(key)).sum();
        if options.dry_run {
            return Ok(report);
        }
        if !self.sweep(own, &census, &dead, &pardoned)? {
            // Somebody merged the same segments. The next collection does it.
            (report.deleted, report.deleted_bytes, report.pardoned) = (0, 0, 0);
        }
        // First the copies are in the index, then what they were made of is given up.
        report.moved_bytes = self.move_out_of(own, &view, &live, &worn)?;
        useless.extend(worn.iter().map(|pack| format!("packs/{pack}")));
        self.condemn(own, &useless, now)?;
        Ok(report)
    }

    /// Gives up writers that stand still. Returns the generation of the oldest of the others.
    fn settle_writers(&self, own: &Lease<'_>, options: &GcOptions, report: &mut GcReport) -> Result<u64> {
        let now = lease::now();
        let (mut oldest, mut gone) = (u64::MAX, Vec::new());
        for (key, found) in lease::list(&self.bucket, self.hasher())? {
            if own.is(&key) {
                continue;
            }
            let body = found.body().clone();
            let stale = body.renewed.saturating_add(options.lease_time.as_secs()) <= now;
            let revoked = body.revoked
                || stale && !options.dry_run && {
                    let revoked = LeaseBody { revoked: true, ..body.clone() };
                    self.bucket.replace(self.hasher(), &key, Some(&found), &revoked)?.is_some()
                };
            if revoked {
                gone.push((key, body));
            } else {
                oldest = oldest.min(body.generation);
                report.writers += 1;
            }
        }
        report.revoked = gone.len() as u64;
        if gone.is_empty() || options.dry_run {
            return Ok(oldest);
        }
        for name in gone.iter().flat_map(|(_, body)| &body.refs) {
            self.fence_ref(own, name)?;
        }
        self.change_root(own, &mut |root| {
            root.generation += 1;
            true
        })?;
        gone.iter().try_for_each(|(key, _)| self.bucket.delete(key))?;
        Ok(oldest)
    }

    /// Puts a ref again as it is, so that no put that was sent before can succeed.
    fn fence_ref(&self, own: &Lease<'_>, name: &str) -> Result<()> {
        // A name that can be none was announced by somebody else's program, and moves nothing.
        let Ok(key) = refs::key_of(name) else { return Ok(()) };
        let fenced = self.bucket.change::<RefBody>(self.hasher(), &key, &|| own.renew(), &mut |found| {
            Ok(Edit::Set(found.cloned().unwrap_or_else(|| RefBody::new(name, None))))
        });
        fenced.map(drop)
    }

    /// What refs lead to. `None`: something of it is not there, and nothing may be deleted on such a ground.
    fn mark(
        &self,
        view: &View,
        above: &dyn References,
        report: &mut GcReport,
        progress: &dyn Progress,
    ) -> Result<Option<HashSet<ShortId>>> {
        let roots: Vec<ObjectId> = self.refs()?.into_iter().map(|(_, id)| id).collect();
        let mut live = HashSet::new();
        let mut walk = Walk::new(self, view, above)?;
        walk.begin(&roots)?;
        progress.begin(Task::Mark, None);
        let walked = walk.run(&mut |reference| {
            live.insert(ShortId::of(&reference.id));
            progress.advance(Task::Mark, 1);
        });
        progress.end(Task::Mark);
        walked?;
        report.live_objects = live.len() as u64;
        report.missing = walk.missing;
        Ok(if report.missing.is_empty() { Some(live) } else { None })
    }

    /// Takes dead packs out of the index, and deletes them. `false`: others were quicker with the same segments.
    fn sweep(
        &self,
        own: &Lease<'_>,
        census: &Census,
        dead: &HashSet<String>,
        pardoned: &HashSet<String>,
    ) -> Result<bool> {
        if dead.is_empty() && pardoned.is_empty() {
            return Ok(true);
        }
        let packs: HashSet<Token> =
            dead.iter().filter_map(|key| key.strip_prefix("packs/")?.parse().ok()).collect();
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for (segment, named) in &census.segments {
            if !named.is_disjoint(&packs) {
                new.extend(without(&self.bucket, segment, &|entry| !packs.contains(&entry.pack))?);
                old.push(segment.clone());
            }
        }
        let changed = self.change_root(own, &mut |root| {
            root.condemned.retain(|one| !dead.contains(&one.key) && !pardoned.contains(&one.key));
            root.exchange(&old, &new)
        })?;
        if matches!(changed, Changed::Kept) {
            return Ok(false);
        }
        let dead: Vec<&String> = dead.iter().collect();
        crate::parallel::each(8, &dead, &|key| self.bucket.delete(key))?;
        Ok(true)
    }

    fn condemn(&self, own: &Lease<'_>, useless: &[String], at: u64) -> Result<()> {
        if useless.is_empty() {
            return Ok(());
        }
        self.change_root(own, &mut |root| {
            root.generation += 1;
            let generation = root.generation;
            let known: HashSet<String> = root.condemned.iter().map(|one| one.key.clone()).collect();
            let new = useless.iter().filter(|key| !known.contains(*key));
            let new: Vec<_> = new.map(|key| Condemned { key: key.clone(), generation, at }).collect();
            root.condemned.extend(new);
            true
        })
        .map(drop)
    }
}
