//! Events into a Redis Stream, for those who read them there: `infinijup:events:<uid>`, for several users may share a Redis.
//!
//! A thread reads the events as any client does, from the ring of the last few thousand. So nothing waits for Redis: while it
//! is slow or away the ring turns, the oldest events are lost to it, and that is counted and told in the stream by an event of
//! the kind `missed`. An event whose answer was lost with a connection is sent again, with the same number.

mod address;
mod resp;

use std::sync::Arc;
use std::time::Duration;

use api::{Event, EventKind};
use tokio::sync::watch;

use crate::events::Events;
use crate::metrics::Metrics;
pub use address::Address;
use resp::Connection;

/// About so many events are kept in the stream.
const LENGTH: &str = "10000";

/// How soon Redis is tried again, at first and at most.
const SOON: Duration = Duration::from_millis(200);
const LATER: Duration = Duration::from_secs(10);

/// Publishes from now on, until the daemon stops.
pub(crate) fn publish(
    address: Address,
    events: &Arc<Events>,
    metrics: &Arc<Metrics>,
    stopping: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    // Made here, so that nothing that happens from now on is missed.
    let reader = events.read(None, None);
    let publisher = Publisher {
        address,
        connection: None,
        metrics: Arc::clone(metrics),
        stream: format!("infinijup:events:{}", rustix::process::geteuid().as_raw()),
        stopping,
        away: false,
    };
    let events = Arc::clone(events);
    std::thread::Builder::new()
        .name("redis".to_owned())
        .spawn(move || runtime.block_on(publisher.run(reader, &events)))
        .map(drop)
}

struct Publisher {
    address: Address,
    connection: Option<Connection>,
    metrics: Arc<Metrics>,
    stream: String,
    stopping: watch::Receiver<bool>,
    /// It was said that Redis is away.
    away: bool,
}

impl Publisher {
    async fn run(mut self, mut reader: crate::events::Reader, events: &Events) {
        let mut stopping = self.stopping.clone();
        loop {
            let before = reader.seen();
            let batch = tokio::select! {
                batch = reader.next(events) => batch,
                _ = stopping.wait_for(|stopping| *stopping) => return,
            };
            let Some(batch) = batch else { return };
            for event in batch {
                if event.kind == EventKind::Missed {
                    self.metrics.redis_lost(event.id.saturating_sub(before));
                }
                if !self.send(&event).await {
                    return;
                }
            }
        }
    }

    /// Sends an event, however long that takes; `false` if the daemon stops first.
    async fn send(&mut self, event: &Event) -> bool {
        let Ok(json) = serde_json::to_string(event) else { return true };
        let mut wait = SOON;
        while let Err(error) = self.add(&json) {
            self.connection = None;
            if !self.away {
                self.away = true;
                tracing::warn!(redis = %self.address.place, %error, "Redis does not take events; it is tried again");
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(LATER),
                _ = self.stopping.wait_for(|stopping| *stopping) => return false,
            }
        }
        if std::mem::take(&mut self.away) {
            tracing::info!(redis = %self.address.place, "Redis takes events again");
        }
        self.metrics.redis_published();
        true
    }

    fn add(&mut self, json: &str) -> std::io::Result<()> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(Connection::open(&self.address)?),
        };
        connection.call(&["XADD", &self.stream, "MAXLEN", "~", LENGTH, "*", "event", json])
    }
}
