//! What nothing leads to any more is freed.

use std::collections::HashSet;

use api::GcOutcome;
use cas_core::gc::{Action, GcOptions, GcPlan, GcReport};
use cas_core::progress::Progress;
use cas_core::{ObjectId, StoreError};
use manifest::COMMIT;
use manifest::history::Grafts;
use manifest::stored::ManifestReferences;

use crate::error::{HistoryError, Result};
use crate::own_store::UserStore;

/// How many forgotten commits wait in the store before gc is worth its while.
const WAITING: usize = 32;

impl UserStore {
    /// Frees what nothing leads to. Writers and readers may be at work meanwhile.
    pub fn gc(&self, progress: &dyn Progress) -> Result<GcOutcome> {
        let (report, gone) = self.collect(&GcOptions::default(), progress)?;
        let unread = report.plan.unreadable.len() + report.damaged.len();
        if unread > 0 {
            return Err(HistoryError::GcIncomplete { count: unread });
        }
        if report.waiting_for > 0 {
            return Err(HistoryError::WritersBusy { count: report.waiting_for });
        }
        Ok(gone)
    }

    /// The same, with everything that there is to tell. What kept it from its work is in the report, and no error.
    pub fn collect(&self, options: &GcOptions, progress: &dyn Progress) -> Result<(GcReport, GcOutcome)> {
        let commits = self.count_commits()?;
        let report = self.store.gc(&ManifestReferences::default(), options, progress)?;
        self.known.clear();
        if report.plan.unreadable.is_empty() && report.damaged.is_empty() && report.waiting_for == 0 {
            self.drop_entries()?;
        }
        let commits = commits.saturating_sub(self.count_commits()?);
        let gone = match report.packs_removed {
            0 => GcOutcome { commits, ..GcOutcome::default() },
            _ => GcOutcome { commits, freed_bytes: report.plan.freed(), objects: objects_gone(&report.plan) },
        };
        Ok((report, gone))
    }

    /// The same, if enough waits for it.
    pub fn gc_if_worth_it(&self, progress: &dyn Progress) -> Result<()> {
        if self.forgotten_and_there()? >= WAITING {
            self.gc(progress)?;
        }
        Ok(())
    }

    /// How many forgotten commits gc has not come to yet.
    pub fn forgotten_and_there(&self) -> Result<usize> {
        let grafts = self.grafts()?;
        let mut count = 0;
        for id in grafts.iter() {
            count += usize::from(self.store.contains(id)?);
        }
        Ok(count)
    }

    fn count_commits(&self) -> Result<u64> {
        let mut count = 0;
        self.store.catalogue().for_each_object(&mut |_, location| {
            count += u64::from(location.kind == COMMIT);
            Ok(())
        })?;
        Ok(count)
    }

    /// Shortens the list of what was forgotten: to what a commit that is left has as a parent, and what is still in the store
    /// and could be named.
    fn drop_entries(&self) -> Result<()> {
        let (mut grafts, before) = Grafts::load_from(&self.store)?;
        if grafts.is_empty() {
            return Ok(());
        }
        let heads: Vec<_> = self.threads()?.into_iter().chain(self.tags()?).map(|(_, head)| head).collect();
        let mut named: HashSet<ObjectId> = HashSet::new();
        for (id, commit) in self.log(heads)? {
            // Behind one that cannot be read there may be more parents: nothing is dropped then.
            let Ok(_) = commit else { return Ok(()) };
            named.extend(self.known.commit(&self.store, &id)?.parents.iter().copied());
        }
        let length = grafts.len();
        grafts.retain(|id| named.contains(id) || self.store.contains(id).unwrap_or(true));
        if grafts.len() == length {
            return Ok(());
        }
        let session = self.write(&[])?;
        let change = grafts.change(&session, before)?;
        match session.commit(&[change]) {
            // Somebody forgot something meanwhile. The next gc comes to it.
            Err(StoreError::RefConflict { .. }) => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }
}

fn objects_gone(plan: &GcPlan) -> u64 {
    let gone = plan.packs.iter().filter(|plan| plan.action != Action::Keep);
    gone.map(|plan| u64::from(plan.pack.objects).saturating_sub(plan.live_objects)).sum()
}
