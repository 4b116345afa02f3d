//! The same work on many things, with all cores.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Result, StoreError};

/// Hands `items` to so many threads, each of which has a state of its own. The first error ends it.
pub(crate) fn for_each<T: Sync, S>(
    threads: usize,
    items: &[T],
    state: impl Fn() -> Result<S> + Sync,
    work: impl Fn(&mut S, &T) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let run = || -> Result<()> {
        let mut state = state()?;
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            // The others need not go on after a failure.
            work(&mut state, item).inspect_err(|_| next.store(items.len(), Ordering::Relaxed))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        // All are joined before the first error is returned: a scope panics if a thread that panicked was not.
        let joined: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        joined.into_iter().try_for_each(|result| {
            result.unwrap_or_else(|_| Err(StoreError::Bug { detail: "a worker thread panicked".into() }))
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn every_item_once_and_the_first_error_ends_it() {
        let items: Vec<u64> = (0..1000).collect();
        let sum = AtomicU64::new(0);
        let add = |_: &mut (), item: &u64| {
            sum.fetch_add(*item, Ordering::Relaxed);
            Ok(())
        };
        for_each(4, &items, || Ok(()), add).unwrap();
        assert_eq!(sum.into_inner(), 999 * 500);

        let seen = AtomicU64::new(0);
        let fail = |_: &mut (), _: &u64| {
            seen.fetch_add(1, Ordering::Relaxed);
            Err(StoreError::Invalid { what: "no".into() })
        };
        assert!(matches!(for_each(2, &items, || Ok(()), fail), Err(StoreError::Invalid { .. })));
        assert!(seen.into_inner() <= 4);
        let panic = |_: &mut (), _: &u64| panic!("on purpose");
        assert!(matches!(for_each(2, &items, || Ok(()), panic), Err(StoreError::Bug { .. })));
    }
}
