//! Who was promised how much of which GPU.
//!
//! Between the look at what is free and the moment when a restore has really taken it, seconds pass. Branches are made several
//! at a time, and each of them would find the same bytes free. So a place is decided on and noted under one lock, with
//! the look at the GPUs inside it, and the note goes away when the restore has ended: what it took is then seen by everyone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;

/// Bytes promised, by UUID.
#[derive(Clone, Default, Debug)]
pub(crate) struct Reservations {
    promised: Arc<Mutex<BTreeMap<String, u64>>>,
}

/// A promise, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    from: Reservations,
    bytes: Vec<(String, u64)>,
}

impl Reservations {
    /// Lets `decide` choose, with what is promised to others in view, and notes what it chose before anyone else chooses.
    pub(crate) fn decide<T>(
        &self,
        decide: impl FnOnce(&BTreeMap<String, u64>) -> Result<(T, Vec<(String, u64)>)>,
    ) -> Result<(T, Reserved)> {
        let mut promised = self.promised.lock().unwrap_or_else(PoisonError::into_inner);
        let (chosen, bytes) = decide(&promised)?;
        for (gpu, bytes) in &bytes {
            let all = promised.entry(gpu.clone()).or_default();
            *all = all.saturating_add(*bytes);
        }
        Ok((chosen, Reserved { from: self.clone(), bytes }))
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut promised = self.from.promised.lock().unwrap_or_else(PoisonError::into_inner);
        for (gpu, bytes) in &self.bytes {
            if let Some(all) = promised.get_mut(gpu) {
                *all = all.saturating_sub(*bytes);
            }
        }
        promised.retain(|_, bytes| *bytes > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_promised_the_same_bytes() {
        let all = Reservations::default();
        let free = 100_u64;
        let take = |bytes: u64| {
            all.decide(|promised| {
                let left = free - promised.get("a").copied().unwrap_or(0);
                let fits = left >= bytes;
                Ok((fits, if fits { vec![("a".to_owned(), bytes)] } else { Vec::new() }))
            })
            .unwrap()
        };
        let (first, one) = take(60);
        let (second, two) = take(60);
        assert!(first && !second);
        drop(two);
        let (third, three) = take(40);
        assert!(third);
        drop(one);
        let (fourth, _four) = take(60);
        assert!(fourth);
        drop(three);
    }

    #[test]
    fn many_at_once_get_what_there_is_and_no_more() {
        let all = Reservations::default();
        let taken: Vec<Reserved> = std::thread::scope(|scope| {
            let work = || {
                all.decide(|promised| {
                    let fits = promised.get("a").copied().unwrap_or(0) + 10 <= 50;
                    Ok((fits, if fits { vec![("a".to_owned(), 10)] } else { Vec::new() }))
                })
                .ok()
                .filter(|(fits, _)| *fits)
                .map(|(_, reserved)| reserved)
            };
            let workers: Vec<_> = (0..16).map(|_| scope.spawn(work)).collect();
            workers.into_iter().filter_map(|worker| worker.join().unwrap()).collect()
        });
        assert_eq!(taken.len(), 5);
        drop(taken);
        assert!(all.promised.lock().unwrap().is_empty());
    }
}
