//! Looking without touching: what this machine can do, and where things are.

use doctor::Finding;
use session_record::place::Place;
use verdict::Asked;

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};

impl Engine {
    /// What this machine can and cannot do, with what `trial` says as the last item.
    pub fn doctor(&self, trial: &mut dyn FnMut() -> std::result::Result<String, String>) -> Vec<Finding> {
        self.inner.ports.doctor.examine(trial)
    }

    /// What stands in the way of a snapshot here, and what else differs; if its session is gone, a new one is made of it, with these directories.
    pub fn check(&self, which: &str, map: &[api::MappedDirectory]) -> Result<(String, Vec<Finding>)> {
        let store = self.inner.store.open()?;
        let id = store.resolve(which)?;
        let (snapshot, files) = (store.with_memory(&id)?, self.inner.listings.at(&store, id)?);
        let mut record = self.taken_of(&store, &id, None)?.0;
        record.map(map)?;
        let (commit, store) = (&id.short(), store.store());
        let asked = Asked { store, commit, snapshot: &snapshot, files: &files, record: &record };
        let unable = self.unable().map(|error| verdict::unable(&error.to_string(), error.hint()));
        let foreign = self.inner.sealer.check(&id.to_string()).is_err().then(verdict::foreign);
        let found = self.findings(&asked)?.into_iter().chain(asked.beyond()?);
        Ok((id.to_string(), unable.into_iter().chain(found).chain(foreign).collect()))
    }

    /// Takes a snapshot from elsewhere for one of this installation's own, from here on: somebody says that they know who made it.
    pub fn trust(&self, which: &str) -> Result<String> {
        let id = self.inner.store.open()?.resolve(which)?.to_string();
        self.inner.sealer.seal(&id)?;
        Ok(id)
    }

    /// Why nothing can be snapshotted or restored here, if that is so.
    pub fn unable(&self) -> Option<LifecycleError> {
        self.checkpointer().ready().err()
    }

    /// Where everything is.
    pub fn place(&self) -> &Place {
        &self.inner.place
    }

    /// CRIU's version, if there is one.
    pub fn criu_version(&self) -> Option<String> {
        self.checkpointer().version()
    }
}
