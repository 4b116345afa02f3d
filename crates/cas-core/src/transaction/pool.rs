//! The worker threads of a write transaction.
//!
//! Jobs wait in a bounded channel: whoever submits waits while all workers are busy, which is the backpressure that keeps
//! memory bounded. A job that fails or panics fails its transaction; the worker lives on and drains the rest.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::shared::Shared;
use super::worker::Worker;
use crate::error::{Result, StoreError};

/// Work for one worker.
pub(super) type Job = Box<dyn FnOnce(&mut Worker, &Shared) -> Result<()> + Send>;

#[derive(Debug)]
pub(super) struct Pool {
    jobs: Option<Sender<Job>>,
    waiting: Arc<Waiting>,
    threads: Vec<JoinHandle<()>>,
}

/// Counts jobs that were submitted and have not ended.
#[derive(Debug, Default)]
struct Waiting {
    count: Mutex<usize>,
    none: Condvar,
}

impl Waiting {
    fn add(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn done(&self) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count -= 1;
        if *count == 0 {
            self.none.notify_all();
        }
    }
}

impl Pool {
    pub(super) fn start(shared: &Arc<Shared>, threads: usize) -> Result<Self> {
        let (jobs, queue) = bounded::<Job>(threads * 2);
        let waiting = Arc::new(Waiting::default());
        let mut pool = Self { jobs: Some(jobs), waiting: waiting.clone(), threads: Vec::new() };
        for n in 0..threads {
            let worker = Worker::new()?;
            let root = shared.store.root().to_path_buf();
            let (queue, shared, waiting) = (queue.clone(), shared.clone(), waiting.clone());
            let thread = std::thread::Builder::new()
                .name(format!("store-worker-{n}"))
                .spawn(move || work(worker, &queue, &shared, &waiting))
                .map_err(StoreError::io("start a thread for", root))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    pub(super) fn submit(&self, job: Job) {
        self.waiting.add();
        // Workers leave only when the sender is dropped, which needs `&mut self`; a send can therefore not fail.
        if self.jobs.as_ref().is_none_or(|jobs| jobs.send(job).is_err()) {
            self.waiting.done();
        }
    }

    /// Waits until every job that was submitted has ended.
    pub(super) fn wait(&self) {
        let mut count = self.waiting.count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count > 0 {
            count = self.waiting.none.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A worker catches the panics of its jobs, so there is nothing to learn from its result.
            let _ = thread.join();
        }
    }
}

fn work(mut worker: Worker, queue: &Receiver<Job>, shared: &Shared, waiting: &Waiting) {
    for job in queue {
        match catch_unwind(AssertUnwindSafe(|| job(&mut worker, shared))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => shared.fail(error),
            Err(panic) => shared.fail(StoreError::Bug { detail: panic_text(panic.as_ref()) }),
        }
        waiting.done();
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("a worker panicked: {}", text.unwrap_or_else(|| "no message".to_owned()))
}
