//! The gate that every call to the device passes, and that a checkpoint closes.
//!
//! It is a word and a futex, not a mutex, because of who opens it again. CRIU's own plugin lets Checkpoint, Restore and
//! Unlock run while every thread of the target but the helper is stopped by ptrace, wherever it happens to be. A mutex
//! held by such a thread would never be given back; a word that is changed by one instruction is never "held". So
//! [`Gate::open`] works no matter where the others stand. [`Gate::close`] waits for callers inside, as the real Lock
//! does, and therefore needs a running target, as the real Lock does.
//!
//! The word: the highest bit says closed, the others count the callers inside. Once the bit is set nobody else gets in,
//! so that a stream of short calls cannot keep Lock waiting. A pass may move to another thread (host functions).
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use rustix::thread::futex;

const CLOSED: u32 = 1 << 31;

/// A gate that many may pass at once and one may close. Clones are the same gate.
#[derive(Debug, Default, Clone)]
pub struct Gate(Arc<AtomicU32>);

/// The right to be inside; goes with the call.
#[derive(Debug)]
pub struct Pass(Gate);

impl Gate {
    /// Waits while the gate is closed, and goes in.
    pub fn pass(&self) -> Pass {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen & CLOSED != 0 {
                self.wait(seen, None);
                seen = self.0.load(Ordering::Relaxed);
                continue;
            }
            match self.0.compare_exchange_weak(seen, seen + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Pass(self.clone()),
                Err(now) => seen = now,
            }
        }
    }

    /// Closes the gate and waits until nobody is inside; if that takes longer, it is open again and the answer is false.
    #[must_use]
    pub fn close(&self, deadline: Option<Instant>) -> bool {
        let mut seen = self.0.fetch_or(CLOSED, Ordering::Acquire) | CLOSED;
        while seen != CLOSED {
            if deadline.is_some_and(|end| Instant::now() >= end) {
                self.open();
                return false;
            }
            self.wait(seen, deadline);
            seen = self.0.load(Ordering::Acquire);
        }
        true
    }

    /// Opens it, and wakes who waits at it.
    pub fn open(&self) {
        self.0.fetch_and(!CLOSED, Ordering::Release);
        self.wake();
    }

    /// Is it closed, or about to be?
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed) & CLOSED != 0
    }

    fn wait(&self, seen: u32, deadline: Option<Instant>) {
        let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        let limit = left.and_then(|left| futex::Timespec::try_from(left).ok());
        // Every reason to return early (a signal, a changed word, the time) is met by the caller's loop.
        let _ = futex::wait(&self.0, futex::Flags::PRIVATE, seen, limit.as_ref());
    }

    fn wake(&self) {
        let _ = futex::wake(&self.0, futex::Flags::PRIVATE, i32::MAX.unsigned_abs());
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.0.0.fetch_sub(1, Ordering::Release) == CLOSED + 1 {
            self.0.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn closes_only_when_empty() {
        let gate = Gate::default();
        let pass = gate.pass();
        assert!(!gate.close(Some(Instant::now() + Duration::from_millis(20))));
        assert!(!gate.is_closed(), "a lock that timed out leaves the process running");
        drop(gate.pass());
        let other = gate.clone();
        let closes = std::thread::spawn(move || other.close(None));
        while !gate.is_closed() {
            std::thread::yield_now();
        }
        drop(pass);
        assert!(closes.join().unwrap());
    }

    #[test]
    fn callers_wait_until_it_is_opened() {
        let gate = Gate::default();
        assert!(gate.close(Some(Instant::now())));
        let other = gate.clone();
        let (done, told) = mpsc::channel();
        let caller = std::thread::spawn(move || {
            drop(other.pass());
            done.send(()).unwrap();
        });
        assert!(told.recv_timeout(Duration::from_millis(50)).is_err());
        gate.open();
        told.recv_timeout(Duration::from_secs(10)).unwrap();
        caller.join().unwrap();
    }
}
