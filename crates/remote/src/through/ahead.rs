//! Fetching ahead: whoever is going to read many objects says which, and blocks come before they are asked for, a few at a time.
//!
//! What is fetched ahead must not push out what waits to be read, so nobody goes further than a window before the last block that was
//! read. A reader that gives up is noticed because nothing is read any more.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use cas_core::ObjectId;

use super::far::Far;
use super::{BlockKey, Shared, blocks};

/// Requests at a time.
const IN_FLIGHT: usize = 6;
/// So many blocks ahead of the reader: less than there are in memory.
const WINDOW: usize = 16;
/// Nobody reads any more.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(crate) struct Ahead {
    plan: Mutex<Plan>,
    moved: Condvar,
}

#[derive(Default)]
struct Plan {
    /// Counts plans: who works on another one stops.
    number: u64,
    blocks: Vec<BlockKey>,
    at: HashMap<BlockKey, usize>,
    /// The next that nobody fetches yet.
    next: usize,
    /// One after the last that was read.
    reached: usize,
}

impl Ahead {
    /// A block was read.
    pub(crate) fn reached(&self, key: &BlockKey) {
        let mut plan = self.plan();
        let Some(at) = plan.at.get(key).copied() else { return };
        if at + 1 > plan.reached {
            plan.reached = at + 1;
            self.moved.notify_all();
        }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next block of a plan to fetch. `None`: there is none, or nobody wants it.
    fn next(&self, number: u64) -> Option<BlockKey> {
        let mut plan = self.plan();
        loop {
            if plan.number != number || plan.next >= plan.blocks.len() {
                return None;
            }
            if plan.next < plan.reached + WINDOW {
                plan.next += 1;
                return plan.blocks.get(plan.next - 1).copied();
            }
            let before = plan.reached;
            let (again, waited) =
                self.moved.wait_timeout(plan, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            plan = again;
            if waited.timed_out() && plan.reached == before {
                return None;
            }
        }
    }
}

/// Begins to fetch what these objects lie in. A plan that is under way is given up.
pub(super) fn begin(shared: &Arc<Shared>, far: &Arc<Far>, ids: &[ObjectId]) {
    let (mut order, mut at) = (Vec::new(), HashMap::new());
    for entry in ids.iter().filter_map(|id| far.found(id)) {
        for key in blocks(&entry) {
            at.entry(key).or_insert_with(|| {
                order.push(key);
                order.len() - 1
            });
        }
    }
    let workers = IN_FLIGHT.min(order.len());
    let number = {
        let mut plan = shared.ahead.plan();
        *plan = Plan { number: plan.number + 1, blocks: order, at, next: 0, reached: 0 };
        shared.ahead.moved.notify_all();
        plan.number
    };
    for _ in 0..workers {
        let (shared, far) = (Arc::downgrade(shared), Arc::clone(far));
        let work = move || fetch(&shared, &far, number);
        // Without a thread more the reader fetches for itself.
        let _begun = std::thread::Builder::new().name("fetch-ahead".to_owned()).spawn(work);
    }
}

fn fetch(shared: &Weak<Shared>, far: &Far, number: u64) {
    while let Some(shared) = shared.upgrade() {
        let Some(key) = shared.ahead.next(number) else { return };
        if let Err(error) = shared.block(far, key) {
            // The reader makes the same request, and says what came of it.
            tracing::debug!(%error, "a block could not be fetched ahead");
            return;
        }
    }
}
