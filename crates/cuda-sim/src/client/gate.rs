//! The gate: calls pass it, a checkpoint closes it.
//!
//! Not an `RwLock`, because closing has a time limit, because a pass may move to another thread (host functions), and
//! because the thread that closes it must not depend on others while they are frozen: between `close` and `open` it does not
//! touch the gate's mutex, which a frozen thread might hold.
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::lock;

#[derive(Debug, Default)]
struct State {
    inside: u64,
    closed: bool,
}

/// See the module.
#[derive(Debug, Default, Clone)]
pub struct Gate(Arc<(Mutex<State>, Condvar)>);

/// The right to be inside; goes with the call.
#[derive(Debug)]
pub struct Pass(Gate);

impl Gate {
    /// Waits while the gate is closed, and goes in.
    pub fn pass(&self) -> Pass {
        let (state, moved) = &*self.0;
        let mut state = lock(state);
        while state.closed {
            state = moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.inside += 1;
        Pass(self.clone())
    }

    /// Closes the gate and waits until nobody is inside; if that takes longer, it is open again and the answer is false.
    #[must_use]
    pub fn close(&self, deadline: Option<Instant>) -> bool {
        let (state, moved) = &*self.0;
        let mut state = lock(state);
        state.closed = true;
        while state.inside > 0 {
            let left = deadline.map_or(Duration::from_secs(3600), |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                state.closed = false;
                moved.notify_all();
                return false;
            }
            state = moved.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Opens it.
    pub fn open(&self) {
        let (state, moved) = &*self.0;
        lock(state).closed = false;
        moved.notify_all();
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let (state, moved) = &*self.0.0;
        lock(state).inside -= 1;
        moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closes_only_when_empty() {
        let gate = Gate::default();
        let pass = gate.pass();
        assert!(!gate.close(Some(Instant::now() + Duration::from_millis(20))));
        drop(gate.pass());
        drop(pass);
        assert!(gate.close(Some(Instant::now())));
        let other = gate.clone();
        let waits = std::thread::spawn(move || drop(other.pass()));
        gate.open();
        waits.join().unwrap();
    }
}
