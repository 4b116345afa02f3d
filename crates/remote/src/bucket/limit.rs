//! A server that is used no faster than so many bytes a second, in both directions together.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Condition, Listed, Objects, Put, Version};
use crate::error::Result;

/// What is not longer is paid for and does not wait behind what is: leases, refs and `root` must not be late because packs are on their way.
const SMALL: u64 = 64 << 10;

/// See the module.
#[derive(Debug)]
pub struct Limited {
    inner: Arc<dyn Objects>,
    bytes_per_second: u64,
    /// When what was let through so far is paid for.
    paid_until: Mutex<Instant>,
}

impl Limited {
    /// Lets so many bytes through each second.
    pub fn new(inner: Arc<dyn Objects>, bytes_per_second: u64) -> Self {
        Self { inner, bytes_per_second: bytes_per_second.max(1), paid_until: Mutex::new(Instant::now()) }
    }

    /// Waits until `bytes` more may pass. Whoever comes later waits longer, so that all together keep to the limit.
    fn pay(&self, bytes: u64) {
        let price = Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / self.bytes_per_second);
        let until = {
            let mut paid = self.paid_until.lock().unwrap_or_else(PoisonError::into_inner);
            *paid = (*paid).max(Instant::now()) + price;
            *paid
        };
        let wait = until.saturating_duration_since(Instant::now());
        std::thread::sleep(if bytes > SMALL { wait } else { wait.min(price) });
    }
}

impl Objects for Limited {
    fn get(&self, key: &str, limit: u64) -> Result<Option<(Vec<u8>, Version)>> {
        let found = self.inner.get(key, limit)?;
        self.pay(found.as_ref().map_or(0, |(bytes, _)| bytes.len() as u64));
        Ok(found)
    }

    fn get_range(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
        self.pay(len);
        self.inner.get_range(key, offset, len)
    }

    fn get_up_to(&self, key: &str, offset: u64, len: u64) -> Result<Option<Vec<u8>>> {
        let found = self.inner.get_up_to(key, offset, len)?;
        self.pay(found.as_ref().map_or(0, |bytes| bytes.len() as u64));
        Ok(found)
    }

    fn put(&self, key: &str, bytes: Vec<u8>, condition: &Condition) -> Result<Put> {
        self.pay(bytes.len() as u64);
        self.inner.put(key, bytes, condition)
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.inner.delete(key)
    }

    fn list(&self, prefix: &str) -> Result<Vec<Listed>> {
        self.inner.list(prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_small_does_not_wait_behind_packs() {
        let limited = Limited::new(crate::tests::server(), 1 << 20);
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let pack = scope.spawn(|| limited.pay(5 << 20));
            while *limited.paid_until.lock().unwrap() < begun + Duration::from_secs(5) {
                std::thread::yield_now();
            }
            limited.pay(100);
            assert!(!pack.is_finished(), "it waited for the pack");
        });
        assert!(begun.elapsed() >= Duration::from_secs(5));
    }
}
