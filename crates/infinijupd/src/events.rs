//! The stream of events.
//!
//! Events are numbered and the last few thousand kept in a ring. A reader has nothing but the number of the last event it
//! saw: it takes what is in the ring after that, and then waits until there is more. So a reader who is slow, who was away
//! and comes back with `Last-Event-ID`, and who has just come are one case; and none can make the daemon's memory grow. A
//! reader whose next event has left the ring is told that something was missed.
//!
//! Numbers begin with the time of the daemon's start in microseconds, so they go on growing over a restart, and a number
//! from before it is recognised as one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use api::{Event, EventKind};
use tokio::sync::watch;

use crate::backend::Happening;
use crate::{lock, now};

/// What happened lately.
pub struct Events {
    ring: Mutex<Ring>,
    /// The number of the newest event.
    newest: watch::Sender<u64>,
}

struct Ring {
    kept: VecDeque<Arc<Event>>,
    limit: usize,
    newest: u64,
}

impl Ring {
    /// The number before the oldest that is kept: a reader who has seen it misses nothing.
    fn floor(&self) -> u64 {
        self.kept.front().map_or(self.newest, |event| event.id - 1)
    }
}

impl Events {
    /// Keeps the last `limit` events.
    pub fn new(limit: usize) -> Self {
        let newest = u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or_default();
        Self {
            ring: Mutex::new(Ring { kept: VecDeque::new(), limit, newest }),
            newest: watch::Sender::new(newest),
        }
    }

    /// Adds an event; its number and time are set here.
    pub(crate) fn publish(&self, mut event: Event) {
        let mut ring = lock(&self.ring);
        ring.newest += 1;
        event.id = ring.newest;
        event.time = now();
        if ring.kept.len() == ring.limit {
            ring.kept.pop_front();
        }
        ring.kept.push_back(Arc::new(event));
        // Still under the lock, so that the numbers that waiters see never go back.
        self.newest.send_replace(ring.newest);
    }

    /// Adds what happened to a session.
    pub(crate) fn publish_happening(&self, happening: Happening) {
        self.publish(Event {
            session: Some(happening.session),
            state: happening.state,
            commit: happening.commit,
            activity: happening.activity,
            ..blank(happening.kind)
        });
    }

    /// Reads all that is kept.
    pub(crate) fn kept(&self, after: Option<u64>) -> Vec<Arc<Event>> {
        let ring = lock(&self.ring);
        let mut reader = self.read_from(None, after.unwrap_or_else(|| ring.floor()));
        reader.take(&ring)
    }

    /// Reads, only about `job` if given, from the event after `after` or from now on.
    pub(crate) fn read(&self, job: Option<String>, after: Option<u64>) -> Reader {
        let seen = after.unwrap_or_else(|| lock(&self.ring).newest);
        self.read_from(job, seen)
    }

    fn read_from(&self, job: Option<String>, seen: u64) -> Reader {
        let mut wake = self.newest.subscribe();
        wake.mark_changed();
        Reader { job, seen, wake }
    }
}

/// One reader of the stream.
pub(crate) struct Reader {
    job: Option<String>,
    seen: u64,
    wake: watch::Receiver<u64>,
}

impl Reader {
    /// The number of the last event that it has seen or passed over.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// What came since the last call; waits until there is something. `None` when there will be nothing more.
    pub(crate) async fn next(&mut self, events: &Events) -> Option<Vec<Arc<Event>>> {
        loop {
            let batch = self.take(&lock(&events.ring));
            if !batch.is_empty() {
                return Some(batch);
            }
            self.wake.changed().await.ok()?;
        }
    }

    fn take(&mut self, ring: &Ring) -> Vec<Arc<Event>> {
        let mut batch = Vec::new();
        if self.seen < ring.floor() || self.seen > ring.newest {
            self.seen = ring.floor();
            let missed = Event { id: self.seen, time: now(), ..blank(EventKind::Missed) };
            batch.push(Arc::new(missed));
        }
        let from = ring.kept.partition_point(|event| event.id <= self.seen);
        batch.extend(ring.kept.range(from..).filter(|event| self.concerns(event)).cloned());
        self.seen = ring.newest;
        batch
    }

    fn concerns(&self, event: &Event) -> bool {
        self.job.as_ref().is_none_or(|job| event.job_id.as_ref() == Some(job))
    }
}

/// An event with nothing in it yet.
pub(crate) fn blank(kind: EventKind) -> Event {
    Event {
        id: 0,
        time: String::new(),
        kind,
        session: None,
        state: None,
        job_id: None,
        job_kind: None,
        job: None,
        step: None,
        commit: None,
        activity: None,
        detail: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(events: &Events, job: &str, detail: &str) {
        events.publish(Event {
            job_id: Some(job.to_owned()),
            detail: Some(detail.to_owned()),
            ..blank(EventKind::SessionState)
        });
    }

    fn details(batch: &[Arc<Event>]) -> Vec<&str> {
        batch.iter().map(|event| event.detail.as_deref().unwrap_or(event.kind.as_str())).collect()
    }

    #[tokio::test]
    async fn a_reader_of_one_job_sees_no_other() {
        let events = Events::new(8);
        let (mut of_one, mut of_all) = (events.read(Some("b".to_owned()), None), events.read(None, None));
        publish(&events, "a", "first");
        publish(&events, "b", "second");
        assert_eq!(details(&of_one.next(&events).await.unwrap()), ["second"]);
        assert_eq!(details(&of_all.next(&events).await.unwrap()), ["first", "second"]);
    }

    #[tokio::test]
    async fn a_reader_resumes_where_it_was_or_is_told_that_it_cannot() {
        let events = Events::new(3);
        let mut first = events.read(None, None);
        publish(&events, "a", "a");
        let seen = first.next(&events).await.unwrap()[0].id;
        for detail in ["b", "c", "d"] {
            publish(&events, "a", detail);
        }
        let resume = |after| events.read(None, Some(after));
        assert_eq!(details(&resume(seen).next(&events).await.unwrap()), ["b", "c", "d"]);
        publish(&events, "a", "e");
        for lost in [seen, 0, u64::MAX] {
            assert_eq!(details(&resume(lost).next(&events).await.unwrap()), ["missed", "c", "d", "e"]);
        }
    }
}
