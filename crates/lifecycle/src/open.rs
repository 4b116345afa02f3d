//! The beginning of an engine: everything that it keeps is opened, and what a daemon before us left is put right.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use history::{OwnStore, Sealer, StoreKey};
use jupyter_bridge::watch::KernelWatch;
use policy::schedule::Schedule;
use sandbox::{Ended, OrphanReaper, User};
use session_record::journal::Journal;
use session_record::place::Place;
use session_record::{Listings, Writers, read_records};
use staging::{Reserve, Stages, Used};

use crate::config::Config;
use crate::effects::happened;
use crate::engine::{Engine, Inner};
use crate::error::{Result, io_error};
use crate::ports::Ports;
use crate::recover::Recovery;
use crate::waiting::Standbys;
use session_record::events::Events;
use session_record::locks::Locks;

/// How long a child that somebody here started keeps its status for them.
const PATIENCE: Duration = Duration::from_secs(600);

impl Engine {
    /// Opens the state directory, ends or undoes what a daemon before us had begun, and looks after the sessions that it
    /// left running. `ports` makes whoever does things to the machine, and is told where things are.
    pub fn open(config: Config, ports: impl FnOnce(&Place) -> Result<Ports>) -> Result<(Self, Recovery)> {
        let place = Place::open(&config.state, &config.run)?;
        let key = config.key_file.as_deref().map(StoreKey::read).transpose()?;
        let (ended, ends) = channel();
        let inner = Inner {
            ports: ports(&place)?,
            sealer: Sealer::open(&place.state)?,
            locks: Locks::default(),
            journal: Journal::open(place.journal(), happened)?,
            stages: Stages::open(&place.state, &place.run, key.is_some())?,
            listings: Listings::default(),
            store: OwnStore::new(place.store(), key)?.looking_beyond(config.beyond.clone()),
            used: Used::default(),
            reserve: Reserve::new(&place.state, config.reserve_bytes),
            user: User::current()?,
            events: Events::default(),
            watcher: OrphanReaper::start(PATIENCE, ended)?,
            kernels: KernelWatch::start()?,
            schedule: Schedule::default(),
            standbys: Standbys::default(),
            begun: Instant::now(),
            sessions: Mutex::new(read_records(&place)?),
            writers: Writers::default(),
            naming: Mutex::default(),
            place,
            config,
        };
        let engine = Self { inner: Arc::new(inner) };
        let weak = Arc::downgrade(&engine.inner);
        thread::Builder::new()
            .name("watcher".to_owned())
            .spawn(move || look_into(&weak, &ends))
            .map_err(io_error("start a thread for", "the watcher"))?;
        let recovery = engine.with_reserve(|| engine.recover())?;
        engine.inner.reserve.fill();
        Ok((engine, recovery))
    }
}

/// The first processes of sessions end, whoever ended them. One that is in the middle of an operation is left to the operation.
fn look_into(engine: &Weak<Inner>, ends: &Receiver<Ended>) {
    for ended in ends {
        let Some(inner) = engine.upgrade() else { return };
        Engine { inner }.ended_by_itself(ended.identity);
    }
}
