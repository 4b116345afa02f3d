//! A server that fails, loses answers and dies, at any request.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::bucket::{Condition, Listed, Objects, Put, Version};
use crate::error::{RemoteError, Result};

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It is answered.
    Well,
    /// It is not done, and may be made again.
    Fails,
    /// It is done, and the answer is lost.
    LosesAnswer,
    /// It is not done, and whoever asks is dead.
    Dies,
    /// It is done, and whoever asks is dead.
    DiesAfter,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    /// "get", "put", "delete", "list".
    pub(super) verb: &'static str,
    pub(super) key: &'a str,
    /// Counted from 0.
    pub(super) number: u64,
}

type Decide = Box<dyn FnMut(Request<'_>) -> Fate + Send>;

/// Decides about each request before it is made. The decision may do whatever others do at the time.
pub(super) struct Faulty {
    inner: Arc<dyn Objects>,
    decide: Mutex<Option<Decide>>,
    pub(super) requests: AtomicU64,
    pub(super) sent: AtomicU64,
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

impl Faulty {
    pub(super) fn new(
        inner: Arc<dyn Objects>,
        decide: impl FnMut(Request<'_>) -> Fate + Send + 'static,
    ) -> Arc<Self> {
        let decide: Decide = Box::new(decide);
        Arc::new(Self {
            inner,
            decide: Mutex::new(Some(decide)),
            requests: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        })
    }

    fn make<T>(&self, verb: &'static str, key: &str, request: impl FnOnce() -> Result<T>) -> Result<T> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        // Taken out while it runs, so that what it does may come back here.
        let decide = self.decide.lock().unwrap().take();
        let fate = match decide {
            None => Fate::Well,
            Some(mut decide) => {
                let fate = decide(Request { verb, key, number });
                *self.decide.lock().unwrap() = Some(decide);
                fate
            }
        };
        let trouble = |transient| RemoteError::Request {
            action: "reach",
            key: key.to_owned(),
            transient,
            source: format!("{verb} {number} {fate:?}").into(),
        };
        match fate {
            Fate::Well => request(),
            Fate::Fails => Err(trouble(true)),
            Fate::Dies => Err(trouble(false)),
            Fate::LosesAnswer => request().and_then(|_| Err(trouble(true))),
            Fate::DiesAfter => request().and_then(|_| Err(trouble(false))),
        }
    }
}

impl Objects for Faulty {
    fn get(&self, key: &str, limit: u64) -> Result<Option<(Vec<u8>, Version)>> {
        self.make("get", key, || self.inner.get(key, limit))
    }

    fn get_range(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
        self.make("get", key, || self.inner.get_range(key, offset, len))
    }

    fn get_up_to(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
        self.make("get", key, || self.inner.get_up_to(key, offset, len))
    }

    fn put(&self, key: &str, bytes: Vec<u8>, condition: &Condition) -> Result<Put> {
        self.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.make("put", key, || self.inner.put(key, bytes, condition))
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.make("delete", key, || self.inner.delete(key))
    }

    fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        self.make("list", prefix, || self.inner.list(prefix))
    }
}
