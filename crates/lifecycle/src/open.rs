//! The beginning of an engine: everything that it keeps is opened, and what a daemon before us left is put right.

use std::sync::{Arc, Mutex, OnceLock};

use history::{OwnStore, Sealer, StoreKey};
use sandbox::User;
use staging::{Reserve, Stages, Used};

use crate::config::Config;
use crate::engine::{Engine, Inner, Writers};
use crate::error::Result;
use crate::events::Events;
use crate::introspect::KernelWatch;
use crate::journal::Journal;
use crate::kernels::Variables;
use crate::locks::Locks;
use crate::place::Place;
use crate::ports::Ports;
use crate::records::read_records;
use crate::recover::Recovery;
use crate::schedule::Schedule;
use crate::watch::Watcher;

impl Engine {
    /// Opens the state directory, ends or undoes what a daemon before us had begun, and looks after the sessions that it
    /// left running. `ports` makes whoever does things to the machine, and is told where things are.
    pub fn open(config: Config, ports: impl FnOnce(&Place) -> Result<Ports>) -> Result<(Self, Recovery)> {
        let place = Place::open(&config)?;
        let key = config.key_file.as_deref().map(StoreKey::read).transpose()?;
        let inner = Inner {
            ports: ports(&place)?,
            sealer: Sealer::open(&place.state)?,
            locks: Locks::default(),
            journal: Journal::open(place.journal())?,
            stages: Stages::open(&place.state, &place.run, config.cache_bytes, key.is_some())?,
            store: OwnStore::new(place.store(), key)?,
            used: Used::default(),
            reserve: Reserve::new(&place.state, config.reserve_bytes),
            user: User::current()?,
            events: Events::default(),
            watcher: Watcher::start()?,
            kernels: KernelWatch::start()?,
            schedule: Schedule::default(),
            introspect: OnceLock::new(),
            sessions: Mutex::new(read_records(&place)?),
            writers: Writers::default(),
            naming: Mutex::default(),
            place,
            config,
        };
        let engine = Self { inner: Arc::new(inner) };
        let weak = Arc::downgrade(&engine.inner);
        engine.inner.watcher.report_to(move |ended| {
            let Some(inner) = weak.upgrade() else { return false };
            Self { inner }.ended_by_itself(ended);
            true
        })?;
        engine.set_introspect(Arc::new(Variables(Arc::downgrade(&engine.inner))));
        let recovery = engine.with_reserve(|| engine.recover())?;
        engine.inner.reserve.fill();
        Ok((engine, recovery))
    }
}
