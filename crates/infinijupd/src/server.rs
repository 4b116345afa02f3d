//! The server: from the first connection to the last answer.
//!
//! Only so many connections are open at once; one more is answered with a refusal and closed before anything of it is read. One
//! that says nothing for a while is closed too, so that forgotten ones do not use the seats up.
//!
//! Stopping goes in order: nothing new is taken on, streams without an end are ended, jobs are waited for (see
//! [`Jobs::drained`]), and connections have a moment to take their last answers. Sessions are not touched.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::UnixStream;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;

use crate::backend::{Backend, Failure};
use crate::errands;
use crate::error::DaemonError;
use crate::events::Events;
use crate::home::Home;
use crate::idle::{Need, idle_for};
use crate::jobs::Jobs;
use crate::listener::PeerListener;
use crate::metrics::Metrics;
use crate::{notify, redis, routes};

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Events kept for readers that were away.
    pub events: usize,
    /// Jobs at once.
    pub running_jobs: usize,
    /// Ended jobs that are remembered.
    pub ended_jobs: usize,
    /// Connections at once.
    pub connections: usize,
    /// How long a connection may say nothing between two requests.
    pub silence: Duration,
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
            connections: 256,
            silence: Duration::from_secs(60),
            drain: Duration::from_secs(5),
            farewell: Duration::from_secs(2),
        }
    }
}

/// What every handler has.
#[derive(Clone)]
pub struct App {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) events: Arc<Events>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) home: Arc<Home>,
    pub(crate) need: Arc<Need>,
    /// What bodies of requests may take while they are read.
    pub(crate) bodies: Arc<Semaphore>,
    pub(crate) stopping: watch::Receiver<bool>,
    /// Held by whoever has the machine examined: that takes a trial session, and one at a time is enough.
    pub(crate) examination: Arc<tokio::sync::Mutex<()>>,
    asked_to_stop: Arc<Notify>,
    stop: Arc<watch::Sender<bool>>,
    limits: Limits,
}

impl App {
    /// The daemon in front of it.
    pub fn new(backend: Arc<dyn Backend>, limits: Limits, home: Home) -> Self {
        let events = Arc::new(Events::new(limits.events));
        let metrics = Metrics::new();
        let (stop, stopping) = watch::channel(false);
        let jobs = Jobs::new(
            Arc::clone(&backend),
            stopping.clone(),
            (Arc::clone(&events), Arc::clone(&metrics)),
            (limits.running_jobs, limits.ended_jobs),
        );
        let app = Self {
            backend,
            jobs: Arc::new(jobs),
            events,
            metrics,
            home: Arc::new(home),
            need: Arc::default(),
            bodies: routes::body::budget(),
            stopping,
            examination: Arc::default(),
            asked_to_stop: Arc::default(),
            stop: Arc::new(stop),
            limits,
        };
        app.pass_on_happenings();
        app
    }

    /// Has the daemon end, as a signal would.
    pub(crate) fn ask_to_stop(&self) {
        self.asked_to_stop.notify_one();
    }

    /// Jobs that run.
    pub fn jobs_running(&self) -> usize {
        self.jobs.running()
    }

    /// Counts what is done to follow the writes of sessions.
    pub fn count_following(&self, courses: Arc<machine::Courses>) {
        self.metrics.follow(courses);
    }

    /// Publishes what happens from now on in a Redis too.
    pub fn publish_to(&self, redis: redis::Address) -> io::Result<()> {
        redis::publish(redis, &self.events, &self.metrics, self.stopping.clone())
    }

    /// What the engine tells becomes events. The thread ends with the engine.
    fn pass_on_happenings(&self) {
        let Some(happenings) = self.backend.happenings() else { return };
        let events = Arc::downgrade(&self.events);
        std::thread::spawn(move || {
            for happening in happenings {
                let Some(events) = events.upgrade() else { return };
                events.publish_happening(happening);
            }
        });
    }

    /// Serves until `stop` is over, somebody asks for the end or nobody needs the daemon any more; and then until what was begun
    /// has ended.
    pub async fn serve(self, listener: PeerListener, stop: impl Future<Output = ()>) {
        errands::begin(&self);
        let mut server = tokio::spawn(accept(self.clone(), listener));
        let idle = async {
            match self.home.idle_end {
                Some(limit) => idle_for(&self, limit).await,
                None => std::future::pending().await,
            }
        };
        let why = tokio::select! {
            () = stop => "a signal",
            () = self.asked_to_stop.notified() => "a request",
            () = idle => "nobody has needed it for a while",
            _ = &mut server => {
                tracing::error!("the socket is not served any more; that is a fault of ours");
                self.stop.send_replace(true);
                return self.jobs.drained(self.limits.drain).await;
            }
        };
        notify::stopping();
        tracing::info!(why, jobs = self.jobs_running(), "stopping");
        self.stop.send_replace(true);
        self.jobs.drained(self.limits.drain).await;
        if tokio::time::timeout(self.limits.farewell, &mut server).await.is_err() {
            // A client that does not read, or has sent half a request.
            server.abort();
        }
    }
}

/// Takes connections until the daemon stops, and then waits for those that are open.
async fn accept(app: App, mut listener: PeerListener) {
    let router = routes::router(app.clone());
    let mut stopping = app.stopping.clone();
    let mut open = JoinSet::new();
    loop {
        let stream = tokio::select! {
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => break,
            Some(_) = open.join_next() => continue,
            stream = listener.accept() => stream,
        };
        if open.len() >= app.limits.connections {
            refuse(&stream, app.limits.connections);
        } else {
            open.spawn(converse(app.clone(), router.clone(), stream));
        }
    }
    // So that nobody comes in any more; the file goes with it.
    drop(listener);
    while open.join_next().await.is_some() {}
}

/// Answers the requests of one connection.
async fn converse(app: App, router: Router, stream: UnixStream) {
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(app.limits.silence)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let mut stopping = app.stopping.clone();
    tokio::select! {
        // How it broke is of interest to nobody but the client, who knows.
        _ = connection.as_mut() => return,
        _ = stopping.wait_for(|stopping| *stopping) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Says that there is no room, as far as that goes without waiting.
fn refuse(stream: &UnixStream, limit: usize) {
    let Failure { status, body, .. } =
        DaemonError::Crowded { what: format!("{limit} connections are open") }.into();
    let body = serde_json::to_string(&body).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 {status} Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.try_write(answer.as_bytes());
}
