//! A stream: a queue of work, and one thread that does it in order.
//!
//! Every piece of work gets a *ticket*, the how-manieth of its stream it is. To wait for a stream's work so far is to wait
//! for its newest ticket, and so is an event (the ticket at the time of the record) and what the legacy default stream
//! and the blocking streams of its context owe each other. A ticket only ever waits for tickets that were handed out
//! before it: so nothing can wait in a circle.
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::lock;
use crate::code::{Code, Result};

/// Work of a stream. Its error goes to the stream: later calls see it.
pub type Task = Box<dyn FnOnce() -> Result<()> + Send>;

/// Do not synchronise with the legacy default stream (`CU_STREAM_NON_BLOCKING`).
pub const NON_BLOCKING: u32 = 1;

/// A place in a stream's queue.
#[derive(Debug, Clone)]
pub struct Ticket {
    stream: Weak<Stream>,
    number: u64,
}

impl Ticket {
    /// Waits until the work is done; false if it takes longer. What belongs to a stream that is gone is done.
    #[must_use]
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        self.stream.upgrade().is_none_or(|stream| stream.wait_for(self.number, deadline))
    }

    /// Is the work done?
    #[must_use]
    pub fn done(&self) -> bool {
        self.stream.upgrade().is_none_or(|stream| lock(&stream.queue).completed >= self.number)
    }
}

/// A stream of a process: work that is done one after the other.
pub struct Stream {
    /// The client's number.
    pub id: u64,
    /// The context it belongs to.
    pub context: u64,
    /// The flags of `cuStreamCreate`.
    pub flags: u32,
    /// The priority of `cuStreamCreateWithPriority`.
    pub priority: i32,
    queue: Mutex<Queue>,
    moved: Condvar,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<(Vec<Ticket>, Task)>,
    submitted: u64,
    completed: u64,
    error: Option<Code>,
    working: bool,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("id", &self.id).field("context", &self.context).finish_non_exhaustive()
    }
}

impl Stream {
    /// A stream without work, and without a thread until there is some.
    #[must_use]
    pub fn new(id: u64, context: u64, flags: u32, priority: i32) -> Arc<Self> {
        Arc::new(Self { id, context, flags, priority, queue: Mutex::default(), moved: Condvar::new() })
    }

    /// Adds work that starts when all of `after` is done.
    pub fn submit(self: &Arc<Self>, after: Vec<Ticket>, task: Task) -> Ticket {
        let mut queue = lock(&self.queue);
        queue.work.push_back((after, task));
        queue.submitted += 1;
        let number = queue.submitted;
        if !queue.working {
            queue.working = true;
            let stream = self.clone();
            let spawned = std::thread::Builder::new().name("stream".to_owned()).spawn(move || stream.work());
            if spawned.is_err() {
                // No thread to be had: the work counts as done and failed, so that nobody waits for it for ever.
                queue.working = false;
                queue.work.clear();
                queue.completed = number;
                queue.error = Some(Code::OUT_OF_MEMORY);
            }
        }
        self.moved.notify_all();
        Ticket { stream: Arc::downgrade(self), number }
    }

    /// The ticket of all work so far.
    pub fn newest(self: &Arc<Self>) -> Ticket {
        Ticket { stream: Arc::downgrade(self), number: lock(&self.queue).submitted }
    }

    /// Is all work done?
    pub fn idle(&self) -> bool {
        let queue = lock(&self.queue);
        queue.completed == queue.submitted
    }

    /// The first error of its work; it stays.
    pub fn error(&self) -> Option<Code> {
        lock(&self.queue).error
    }

    fn wait_for(&self, number: u64, deadline: Option<Instant>) -> bool {
        let mut queue = lock(&self.queue);
        while queue.completed < number {
            let left = match deadline {
                None => Duration::from_secs(3600),
                Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                    Some(left) if !left.is_zero() => left,
                    _ => return false,
                },
            };
            queue = self.moved.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// The thread: works until there is nothing left, and a little longer so that a busy stream keeps its thread.
    fn work(self: Arc<Self>) {
        const IDLE: Duration = Duration::from_secs(2);
        let mut queue = lock(&self.queue);
        loop {
            if let Some((after, task)) = queue.work.pop_front() {
                drop(queue);
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                    for ticket in after {
                        if !ticket.wait(None) {
                            return Err(Code::UNKNOWN);
                        }
                    }
                    task()
                }));
                queue = lock(&self.queue);
                if let Err(code) = result.unwrap_or(Err(Code::UNKNOWN)) {
                    queue.error.get_or_insert(code);
                }
                queue.completed += 1;
                self.moved.notify_all();
                continue;
            }
            let (next, timeout) =
                self.moved.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
            queue = next;
            if timeout.timed_out() && queue.work.is_empty() {
                queue.working = false;
                return;
            }
        }
    }
}
