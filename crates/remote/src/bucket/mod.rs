//! The place where a remote's objects lie: the narrow port that an object store fills.
//!
//! [`Objects`] is what is asked of a server: read, put under a condition, delete, list. [`Bucket`] is what the rest of the
//! crate uses: the same with patience, and with an answer to the question whether a put was done whose answer was lost.

mod address;
mod limit;
mod probe;
#[cfg(feature = "s3")]
mod s3;
mod statement;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{RemoteError, Result};

pub use address::Address;
pub use limit::Limited;
pub use probe::probe;
#[cfg(feature = "s3")]
pub use s3::ObjectStoreBucket;
pub(crate) use statement::{Changed, Edit, Found, Statement, first_line};

/// Which version of an object: what the server calls its ETag.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version(pub String);

/// When a put may be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    /// There is no such object.
    Absent,
    /// It is this version.
    Is(Version),
}

/// The answer to a put.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Put {
    /// It was done, and this is the new version.
    Done(Version),
    /// The condition did not hold.
    Refused,
}

/// An object in a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its key.
    pub key: String,
    /// Its length.
    pub size: u64,
}

/// A server that keeps objects. Keys are relative to the remote.
pub trait Objects: Send + Sync + fmt::Debug {
    /// Reads an object of at most `limit` bytes; a longer one is an error, and is not read. `None`: there is none.
    fn get(&self, key: &str, limit: u64) -> Result<Option<(Vec<u8>, Version)>>;
    /// Reads `len` bytes from `offset` on, exactly; an object that ends before is an error. `None`: there is no such object.
    fn get_range(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>>;
    /// The same, but for an object that ends before: then what there is.
    fn get_up_to(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>>;
    /// Writes an object whole, under a condition.
    fn put(&self, key: &str, bytes: Vec<u8>, condition: &Condition) -> Result<Put>;
    /// Removes an object. One that is not there is no error.
    fn delete(&self, key: &str) -> Result<()>;
    /// Every object whose key begins with `prefix`, which ends with a slash.
    fn list(&self, prefix: &str) -> Result<Vec<Listed>>;
}

/// How often, and with which first pause, a request is made again that failed for the moment.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// So many requests in all.
    pub tries: u32,
    /// The first pause; each is twice the one before, up to ten seconds.
    pub pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { tries: 6, pause: Duration::from_millis(200) }
    }
}

impl Patience {
    pub(crate) fn wait(&self, attempt: u32) {
        let factor = 1u32.checked_shl(attempt.min(10)).unwrap_or(1);
        sleep(self.pause.saturating_mul(factor).min(Duration::from_secs(10)));
    }
}

/// Sleeps at most so long. Not all for the same time: half of it is fixed, half is drawn.
pub(crate) fn sleep(pause: Duration) {
    let drawn = getrandom::u32().unwrap_or(0) % 1000;
    std::thread::sleep(pause / 2 + pause / 2 * drawn / 1000);
}

/// A server, with patience.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    objects: Arc<dyn Objects>,
    pub(crate) patience: Patience,
}

impl Bucket {
    /// What this server keeps.
    pub(crate) fn new(objects: Arc<dyn Objects>, patience: Patience) -> Self {
        Self { objects, patience }
    }

    pub(crate) fn get(&self, key: &str, limit: u64) -> Result<Option<(Vec<u8>, Version)>> {
        self.patiently(|| self.objects.get(key, limit))
    }

    pub(crate) fn get_range(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
        self.patiently(|| self.objects.get_range(key, offset, len))
    }

    #[cfg(feature = "s3")]
    pub(crate) fn get_up_to(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
        self.patiently(|| self.objects.get_up_to(key, offset, len))
    }

    pub(crate) fn delete(&self, key: &str) -> Result<()> {
        self.patiently(|| self.objects.delete(key))
    }

    pub(crate) fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        self.patiently(|| self.objects.list(prefix))
    }

    /// Writes an object under a name that nobody else can have. That it is there already was our own doing.
    pub(crate) fn put_new(&self, key: &str, bytes: &[u8]) -> Result<()> {
        self.patiently(|| self.objects.put(key, bytes.to_vec(), &Condition::Absent).map(drop))
    }

    fn patiently<T>(&self, mut request: impl FnMut() -> Result<T>) -> Result<T> {
        let mut attempt = 0;
        loop {
            match request() {
                Err(error) if error.is_transient() && attempt + 1 < self.patience.tries => {
                    tracing::debug!(%error, attempt, "a request to the remote is made again");
                    self.patience.wait(attempt);
                    attempt += 1;
                }
                answer => return answer,
            }
        }
    }
}

/// An object that is there and must be.
pub(crate) fn must_be<T>(found: Option<T>, key: &str) -> Result<T> {
    found.ok_or_else(|| RemoteError::damaged(key, "is not there"))
}
