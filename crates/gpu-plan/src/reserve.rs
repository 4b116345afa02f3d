//! Who was promised how much of which GPU.
//!
//! Between the look at what is free and the moment when a restore has really taken it, seconds pass. Branches are made several
//! at a time, and each of them would find the same bytes free. So a place is decided on and noted under one lock, with
//! the look at the GPUs inside it, and the note goes away when the restore has ended.
//!
//! A promise is *outstanding* as far as the processes that it was made for do not hold the bytes yet. What they hold is seen
//! by everyone; to count it twice would refuse what there is room for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Everything that is promised.
#[derive(Clone, Default, Debug)]
pub struct Reservations {
    promises: Arc<Mutex<Promises>>,
}

/// What others were promised.
#[derive(Default, Debug)]
pub struct Promises {
    next: u64,
    all: BTreeMap<u64, Promise>,
}

#[derive(Debug)]
struct Promise {
    /// By UUID.
    bytes: Vec<(String, u64)>,
    /// Who holds, or has held until now, what was promised.
    holders: Vec<i32>,
}

/// A promise, until it is dropped.
#[derive(Debug)]
pub struct Reserved {
    from: Reservations,
    number: u64,
}

impl Promises {
    /// What nobody holds yet, by UUID. `used` tells what processes use of each GPU.
    pub fn outstanding(&self, used: impl Fn(&[i32]) -> Vec<(String, u64)>) -> BTreeMap<String, u64> {
        let mut outstanding: BTreeMap<String, u64> = BTreeMap::new();
        for promise in self.all.values() {
            let held: BTreeMap<String, u64> = used(&promise.holders).into_iter().collect();
            for (gpu, bytes) in &promise.bytes {
                let all = outstanding.entry(gpu.clone()).or_default();
                *all = all.saturating_add(bytes.saturating_sub(held.get(gpu).copied().unwrap_or(0)));
            }
        }
        outstanding
    }
}

impl Reservations {
    fn promises(&self) -> MutexGuard<'_, Promises> {
        self.promises.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `decide` choose, with what is promised to others in view, and notes what it chose before anyone else chooses.
    /// `holders` hold now what will be free for it.
    pub fn decide<T, E>(
        &self,
        holders: Vec<i32>,
        decide: impl FnOnce(&Promises) -> Result<(T, Vec<(String, u64)>), E>,
    ) -> Result<(T, Reserved), E> {
        let mut promises = self.promises();
        let (chosen, bytes) = decide(&promises)?;
        let number = promises.next;
        promises.next += 1;
        promises.all.insert(number, Promise { bytes, holders });
        Ok((chosen, Reserved { from: self.clone(), number }))
    }
}

impl Reserved {
    /// These take now what was promised.
    pub fn taken_by(&self, pids: &[i32]) {
        if let Some(promise) = self.from.promises().all.get_mut(&self.number) {
            promise.holders.extend(pids);
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.from.promises().all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn nothing(_: &[i32]) -> Vec<(String, u64)> {
        Vec::new()
    }

    fn take(all: &Reservations, bytes: u64, limit: u64) -> (bool, Reserved) {
        all.decide(Vec::new(), |promises| {
            let promised = promises.outstanding(nothing).get("a").copied().unwrap_or(0);
            let fits = promised + bytes <= limit;
            Ok::<_, Infallible>((fits, if fits { vec![("a".to_owned(), bytes)] } else { Vec::new() }))
        })
        .unwrap()
    }

    #[test]
    fn nobody_is_promised_the_same_bytes() {
        let all = Reservations::default();
        let (first, one) = take(&all, 60, 100);
        let (second, two) = take(&all, 60, 100);
        assert!(first && !second);
        drop(two);
        let (third, _three) = take(&all, 40, 100);
        assert!(third);
        drop(one);
        let (fourth, _four) = take(&all, 60, 100);
        assert!(fourth);
    }

    #[test]
    fn what_is_taken_is_not_counted_twice() {
        let all = Reservations::default();
        let (_, one) = take(&all, 60, 100);
        one.taken_by(&[7]);
        let outstanding = |held: u64| {
            let used = |pids: &[i32]| {
                if pids == [7] { vec![("a".to_owned(), held), ("b".to_owned(), 5)] } else { Vec::new() }
            };
            all.promises().outstanding(used).get("a").copied().unwrap_or(0)
        };
        assert_eq!((outstanding(0), outstanding(50), outstanding(70)), (60, 10, 0));
        drop(one);
        assert_eq!(outstanding(0), 0);
    }

    #[test]
    fn many_at_once_get_what_there_is_and_no_more() {
        let all = Reservations::default();
        let taken: Vec<Reserved> = std::thread::scope(|scope| {
            let work = || {
                let (fits, reserved) = take(&all, 10, 50);
                fits.then_some(reserved)
            };
            let workers: Vec<_> = (0..16).map(|_| scope.spawn(work)).collect();
            workers.into_iter().filter_map(|worker| worker.join().unwrap()).collect()
        });
        assert_eq!(taken.len(), 5);
        drop(taken);
        assert!(all.promises().all.is_empty());
    }
}
