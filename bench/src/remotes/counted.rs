//! A server whose requests are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use remote::{Condition, Listed, Objects, Put, Result, Version};
use serde::{Deserialize, Serialize};

/// What went over the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Traffic {
    pub(super) gets: u64,
    pub(super) puts: u64,
    /// Puts whose condition did not hold.
    pub(super) refused: u64,
    /// Puts of `root` that were done.
    pub(super) roots: u64,
    pub(super) lists: u64,
    pub(super) deletes: u64,
    pub(super) bytes_down: u64,
    pub(super) bytes_up: u64,
}

impl Traffic {
    pub(super) fn requests(&self) -> u64 {
        self.gets + self.puts + self.lists + self.deletes
    }
}

impl std::ops::Sub for Traffic {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            gets: self.gets - before.gets,
            puts: self.puts - before.puts,
            refused: self.refused - before.refused,
            roots: self.roots - before.roots,
            lists: self.lists - before.lists,
            deletes: self.deletes - before.deletes,
            bytes_down: self.bytes_down - before.bytes_down,
            bytes_up: self.bytes_up - before.bytes_up,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Counted {
    inner: Arc<dyn Objects>,
    gets: AtomicU64,
    puts: AtomicU64,
    refused: AtomicU64,
    roots: AtomicU64,
    lists: AtomicU64,
    deletes: AtomicU64,
    bytes_down: AtomicU64,
    bytes_up: AtomicU64,
}

impl Counted {
    pub(super) fn new(inner: Arc<dyn Objects>) -> Arc<Self> {
        let zero = AtomicU64::default;
        Arc::new(Self {
            inner,
            gets: zero(),
            puts: zero(),
            refused: zero(),
            roots: zero(),
            lists: zero(),
            deletes: zero(),
            bytes_down: zero(),
            bytes_up: zero(),
        })
    }

    pub(super) fn traffic(&self) -> Traffic {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic {
            gets: of(&self.gets),
            puts: of(&self.puts),
            refused: of(&self.refused),
            roots: of(&self.roots),
            lists: of(&self.lists),
            deletes: of(&self.deletes),
            bytes_down: of(&self.bytes_down),
            bytes_up: of(&self.bytes_up),
        }
    }
}

fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Objects for Counted {
    fn get(&self, key: &str, limit: u64) -> Result<Option<(Vec<u8>, Version)>> {
        add(&self.gets, 1);
        let found = self.inner.get(key, limit)?;
        add(&self.bytes_down, found.as_ref().map_or(0, |(bytes, _)| bytes.len() as u64));
        Ok(found)
    }

    fn get_range(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
        add(&self.gets, 1);
        add(&self.bytes_down, len);
        self.inner.get_range(key, offset, len)
    }

    fn get_up_to(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
        add(&self.gets, 1);
        let found = self.inner.get_up_to(key, offset, len)?;
        add(&self.bytes_down, found.as_ref().map_or(0, |bytes| bytes.len() as u64));
        Ok(found)
    }

    fn put(&self, key: &str, bytes: Vec<u8>, condition: &Condition) -> Result<Put> {
        add(&self.puts, 1);
        add(&self.bytes_up, bytes.len() as u64);
        let answer = self.inner.put(key, bytes, condition)?;
        add(&self.refused, u64::from(answer == Put::Refused));
        add(&self.roots, u64::from(answer != Put::Refused && key == "root"));
        Ok(answer)
    }

    fn delete(&self, key: &str) -> Result<()> {
        add(&self.deletes, 1);
        self.inner.delete(key)
    }

    fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        let listed = self.inner.list(prefix)?;
        // A server answers with a thousand names at a time.
        add(&self.lists, 1 + listed.len() as u64 / 1000);
        Ok(listed)
    }
}
