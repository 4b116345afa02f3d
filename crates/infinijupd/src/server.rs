//! The server: from taking the socket to the last answer.
//!
//! Stopping goes in order: nothing new is taken on, streams without an end are ended, jobs are waited for (see
//! [`Jobs::drained`]), and connections have a moment to take their last answers. Sessions are not touched.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::errands;
use crate::events::Events;
use crate::jobs::Jobs;
use crate::listener::{Peer, PeerListener};
use crate::metrics::Metrics;
use crate::operations::Operations;
use crate::{redis, routes};

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Events kept for readers that were away.
    pub events: usize,
    /// Jobs of one user at once.
    pub running_jobs: usize,
    /// Ended jobs of one user that are remembered.
    pub ended_jobs: usize,
    /// Connections of one user at once.
    pub connections: usize,
    /// How long a stop waits for commands that run in sessions.
    pub drain: Duration,
    /// How long it waits after that for clients to take their last answers.
    pub farewell: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            events: 4096,
            running_jobs: 64,
            ended_jobs: 256,
            connections: 128,
            drain: Duration::from_secs(30),
            farewell: Duration::from_secs(2),
        }
    }
}

/// What every handler has.
#[derive(Clone)]
pub struct App {
    pub(crate) operations: Arc<dyn Operations>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) events: Arc<Events>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stopping: watch::Receiver<bool>,
    /// Held by whoever has the machine examined: that takes a trial session, and one at a time is enough.
    pub(crate) examination: Arc<tokio::sync::Mutex<()>>,
    stop: Arc<watch::Sender<bool>>,
    limits: Limits,
}

impl App {
    /// The daemon over these operations.
    pub fn new(operations: Arc<dyn Operations>, limits: Limits) -> Self {
        let events = Arc::new(Events::new(limits.events));
        let metrics = Metrics::new();
        let jobs =
            Jobs::new(Arc::clone(&events), Arc::clone(&metrics), limits.running_jobs, limits.ended_jobs);
        let (stop, stopping) = watch::channel(false);
        let app = Self {
            operations,
            jobs: Arc::new(jobs),
            events,
            metrics,
            stopping,
            examination: Arc::default(),
            stop: Arc::new(stop),
            limits,
        };
        app.pass_on_happenings();
        app
    }

    /// Whether the daemon is about to end.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Jobs that run.
    pub fn jobs_running(&self) -> usize {
        self.jobs.running()
    }

    /// Publishes what happens from now on in a Redis too.
    pub fn publish_to(&self, redis: redis::Address) -> io::Result<()> {
        redis::publish(redis, &self.events, &self.metrics, self.stopping.clone())
    }

    /// What the engine tells becomes events. The thread ends with the engine.
    fn pass_on_happenings(&self) {
        let Some(happenings) = self.operations.happenings() else { return };
        let events = Arc::downgrade(&self.events);
        std::thread::spawn(move || {
            for happening in happenings {
                let Some(events) = events.upgrade() else { return };
                events.publish_happening(happening);
            }
        });
    }

    /// Serves until `stop` is over, and then until what was begun has ended.
    pub async fn serve(self, listener: PeerListener, stop: impl Future<Output = ()>) -> io::Result<()> {
        errands::begin(&self);
        let mut stopping = self.stopping.clone();
        let service = routes::router(self.clone()).into_make_service_with_connect_info::<Peer>();
        let server = axum::serve(listener, service).with_graceful_shutdown(async move {
            let _ = stopping.wait_for(|stopping| *stopping).await;
        });
        let mut server = tokio::spawn(async move { server.await });
        tokio::select! {
            ended = &mut server => return ended.map_err(io::Error::other)?,
            () = stop => (),
        }
        tracing::info!(jobs = self.jobs_running(), "stopping");
        self.stop.send_replace(true);
        self.jobs.drained(self.limits.drain).await;
        match tokio::time::timeout(self.limits.farewell, &mut server).await {
            Ok(ended) => ended.map_err(io::Error::other)?,
            // A client that does not read, or has sent half a request.
            Err(_) => {
                server.abort();
                Ok(())
            }
        }
    }
}
