//! The same for many things, some at a time.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::{RemoteError, Result};

/// Calls `work` for each item from `threads` threads. After an error no more are begun, and the first one is returned.
pub(crate) fn each<T: Sync>(
    threads: usize,
    items: &[T],
    work: &(dyn Fn(&T) -> Result<()> + Sync),
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let first: Mutex<Option<RemoteError>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                    if let Err(error) = work(item) {
                        failed.store(true, Ordering::Relaxed);
                        first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                    }
                }
            });
        }
    });
    first.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
