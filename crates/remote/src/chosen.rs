//! Which threads and tags are pushed, and what is remembered of them when they have arrived.

use cas_core::Store;
use cas_core::refs::{Expected, RefChange};

use crate::error::Result;
use crate::names::Named;
use crate::push::{PushReport, Pushed};

/// What is pushed, if nothing is named.
const SHARED: [&str; 2] = ["threads/", "tags/"];

impl Named {
    /// These refs as they are now, to be pushed there; all of them if none is named. One that is gone is left out.
    pub fn chosen(&self, store: &Store, names: &[String], force: bool) -> Result<Vec<Pushed>> {
        let refs = store.refs();
        let mut wanted = names.to_vec();
        if names.is_empty() {
            for prefix in SHARED {
                wanted.extend(refs.list(prefix)?.into_iter().map(|(name, _)| name));
            }
        }
        let mut chosen = Vec::with_capacity(wanted.len());
        for name in wanted {
            let Some(target) = refs.get(&name)? else { continue };
            let seen = refs.get(&self.remembered(&name))?;
            chosen.push(Pushed { name, target, seen, force });
        }
        Ok(chosen)
    }

    /// The refs that are not where the remote's were when they were last seen.
    pub fn unsent(&self, store: &Store) -> Result<Vec<String>> {
        let all = self.chosen(store, &[], false)?;
        Ok(all.into_iter().filter(|one| one.seen != Some(one.target)).map(|one| one.name).collect())
    }

    /// Remembers where the remote's refs are after a push. One that is there already, or further than what was pushed, is where it should be.
    pub fn arrived(&self, store: &Store, pushed: &[Pushed], report: &PushReport) -> Result<()> {
        let seen = |one: &Pushed| RefChange {
            name: self.remembered(&one.name),
            expected: Expected::Any,
            new: Some(one.target),
        };
        let arrived =
            |one: &&Pushed| report.moved.contains(&one.name) || report.unchanged.contains(&one.name);
        let changes: Vec<RefChange> = pushed.iter().filter(arrived).map(seen).collect();
        Ok(store.refs().update(&changes)?)
    }

    fn remembered(&self, name: &str) -> String {
        format!("{}/{name}", self.tracking())
    }
}
