//! The beginning of an engine: everything that it keeps is opened, and what a daemon before us left is put right.

use std::sync::{Arc, Mutex, OnceLock};

use history::{OwnStore, Sealer, StoreKey};
use sandbox::Program;
use staging::Stages;

use crate::budget::Used;
use crate::config::Config;
use crate::criu_here::CriuHere;
use crate::engine::{Engine, Inner, Writers};
use crate::error::Result;
use crate::events::Events;
use crate::gpu::{Gone, Gpus};
use crate::habitat::{HostTree, OwnBox};
use crate::introspect::KernelWatch;
use crate::journal::Journal;
use crate::kernels::Variables;
use crate::locks::Locks;
use crate::own_user::own_user;
use crate::place::Place;
use crate::ports::Ports;
use crate::program::settle;
use crate::records::read_records;
use crate::recover::Recovery;
use crate::reserve::Reserve;
use crate::schedule::Schedule;
use crate::watch::Watcher;

impl Engine {
    /// Opens the state directory, ends or undoes what a daemon before us had begun, and looks after the sessions that it
    /// left running.
    pub fn open(config: Config) -> Result<(Self, Recovery)> {
        Self::open_on(config, this_machine)
    }

    /// The same, on a machine that is given.
    pub(crate) fn open_on(
        config: Config,
        ports: impl FnOnce(&Config, &Place, &Program) -> Ports,
    ) -> Result<(Self, Recovery)> {
        let place = Place::open(&config)?;
        sandbox::forget_notes_of_another_boot();
        let program = settle(&Program::find(config.program.as_deref())?, &place.state.join("programs"))?;
        let key = config.key_file.as_deref().map(StoreKey::read).transpose()?;
        let inner = Inner {
            ports: ports(&config, &place, &program),
            sealer: Sealer::open(&place.state)?,
            locks: Locks::default(),
            journal: Journal::open(place.journal())?,
            stages: Stages::open(&place.state, &place.run, config.cache_bytes, key.is_some())?,
            store: OwnStore::new(place.store(), key)?,
            used: Used::default(),
            reserve: Reserve::new(&place.state, config.reserve_bytes),
            user: own_user(),
            events: Events::default(),
            watcher: Watcher::start()?,
            kernels: KernelWatch::start()?,
            schedule: Schedule::default(),
            gpus: Gpus::new(config.gpu.clone()),
            gone: Gone::default(),
            introspect: OnceLock::new(),
            sessions: Mutex::new(read_records(&place)?),
            writers: Writers::default(),
            naming: Mutex::default(),
            program,
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

/// This machine: CRIU, boxes of ours, and the processes of the host.
fn this_machine(config: &Config, place: &Place, program: &Program) -> Ports {
    let criu = Arc::new(CriuHere::new(config, place, program));
    Ports {
        own_box: Arc::new(OwnBox::new(place, program)),
        host_tree: Arc::new(HostTree::new(Arc::clone(&criu))),
        checkpointer: criu,
    }
}
