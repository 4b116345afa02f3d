//! Who works on which process.
//!
//! A call that was given up may have its effect at any later time, and is then undone; but not while somebody else has the
//! process in hand. So whoever works on a process claims it, and effects that arrive meanwhile are left to the end of the claim.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{CudaError, Result};
use crate::worker::Late;

/// All claims of a driver.
#[derive(Clone, Default)]
pub(crate) struct Claims(Arc<Inner>);

#[derive(Default)]
struct Inner {
    taken: Mutex<HashMap<i32, Option<Late>>>,
    freed: Condvar,
}

/// What is to be done with effects that came late while the claim was held.
pub(crate) type Afterwards = Box<dyn Fn(Late) + Send + Sync>;

/// The right to work on some processes, until it is dropped.
pub(crate) struct Claim {
    claims: Claims,
    pids: Vec<i32>,
    afterwards: Afterwards,
}

impl Claims {
    fn taken(&self) -> MutexGuard<'_, HashMap<i32, Option<Late>>> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims all of `pids`, waiting for at most `patience` until they are free.
    pub(crate) fn take(&self, pids: &[i32], patience: Duration, afterwards: Afterwards) -> Result<Claim> {
        let deadline = Instant::now() + patience;
        let mut taken = self.taken();
        while let Some(busy) = pids.iter().find(|pid| taken.contains_key(pid)) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(CudaError::Busy { pid: *busy });
            }
            taken = self.0.freed.wait_timeout(taken, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        taken.extend(pids.iter().map(|pid| (*pid, None)));
        drop(taken);
        Ok(Claim { claims: self.clone(), pids: pids.to_vec(), afterwards })
    }

    /// An effect has come late. `true` if whoever holds the claim on the process sees to it.
    pub(crate) fn leave_to_holder(&self, late: Late) -> bool {
        match self.taken().get_mut(&late.pid) {
            Some(noted) => {
                *noted = Some(late);
                true
            }
            None => false,
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let late: Vec<Late> = {
            let mut taken = self.claims.taken();
            self.pids.drain(..).filter_map(|pid| taken.remove(&pid).flatten()).collect()
        };
        self.claims.0.freed.notify_all();
        late.into_iter().for_each(|late| (self.afterwards)(late));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    #[test]
    fn a_process_is_claimed_once_and_freed() {
        let claims = Claims::default();
        let first = claims.take(&[1, 2], SOON, Box::new(drop)).unwrap();
        assert_eq!(claims.take(&[2, 3], SOON, Box::new(drop)).err().unwrap().pid(), Some(2));
        let third = claims.take(&[3], SOON, Box::new(drop)).unwrap();
        let waiter =
            thread::spawn(move || claims.take(&[2], Duration::from_secs(60), Box::new(drop)).map(drop));
        drop(first);
        waiter.join().unwrap().unwrap();
        drop(third);
    }

    #[test]
    fn what_comes_late_is_seen_to_at_the_end() {
        let claims = Claims::default();
        let late = Late { pid: 1, start_time: 5 };
        assert!(!claims.leave_to_holder(late));
        let (send, receive) = channel();
        let claim = claims.take(&[1], SOON, Box::new(move |late| send.send(late).unwrap())).unwrap();
        assert!(claims.leave_to_holder(late));
        receive.try_recv().unwrap_err();
        drop(claim);
        assert_eq!(receive.recv().unwrap(), late);
    }
}
