//! Listening to many kernels at a time: whether each is idle or busy ([`Activity`]), and what a notebook asks of whoever looks after
//! its kernel (`desk`).
//!
//! One [`KernelWatch`] has one [`Bridge`], and so one thread. A kernel has a key of type `K`, which is the caller's name for it. Its ports
//! stay the same when the process behind them is swapped; the connections do not, and are made anew ([`KernelWatch::renew`]).

mod desk;
mod seen;
mod work;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use serde_json::Value;

use crate::client::{Bridge, Kernel, Listener, Status};
use crate::connection::ConnectionFile;
use crate::error::Result;

pub use desk::Asked;
use desk::{Desk, Verdict};
pub use seen::{Activity, Seen};
pub use work::WorkTimes;

/// The type of what a kernel is told.
const REPLY: &str = "infinijup_reply";

/// How many requests of all kernels wait for somebody to do them.
const WAITING: usize = 256;

/// The kernels that are listened to.
pub struct KernelWatch<K> {
    bridge: Bridge,
    watched: Arc<Mutex<BTreeMap<K, Watched<K>>>>,
    asked: SyncSender<Asked<K>>,
    asks: Mutex<Option<Receiver<Asked<K>>>>,
}

struct Watched<K> {
    file: ConnectionFile,
    kernel: Kernel,
    seen: Arc<Mutex<Seen>>,
    desk: Arc<Mutex<Desk<K>>>,
}

impl<K: Ord + Clone + Send + Sync + 'static> KernelWatch<K> {
    /// Starts the thread.
    pub fn start() -> Result<Self> {
        let (asked, asks) = sync_channel(WAITING);
        Ok(Self { bridge: Bridge::start()?, watched: Arc::default(), asked, asks: Mutex::new(Some(asks)) })
    }

    /// Listens to a kernel from here on. Nothing changes if that is so already, at the same place. One that may have been restored is
    /// not heard in its first moment. `changed` is called when it does something else, on the thread that talks to all kernels: it must
    /// not wait.
    pub fn listen(
        &self,
        key: K,
        file: ConnectionFile,
        may_be_restored: bool,
        changed: impl Fn() + Send + Sync + 'static,
    ) {
        let known = self.watched().get(&key).is_some_and(|watched| watched.file == file);
        if known {
            return;
        }
        let seen = Arc::new(Mutex::new(Seen::new()));
        let desk = Arc::new(Mutex::new(Desk::default()));
        if may_be_restored {
            lock(&desk).other_past(Instant::now());
        }
        let ears = Ears {
            watched: Arc::downgrade(&self.watched),
            asked: self.asked.clone(),
            key: key.clone(),
            seen: Arc::clone(&seen),
            desk: Arc::clone(&desk),
            changed,
        };
        if let Ok(kernel) = self.bridge.connect(&file, ears) {
            self.watched().insert(key, Watched { file, kernel, seen, desk });
        }
    }

    /// Listens to it no longer.
    pub fn leave(&self, key: &K) {
        self.watched().remove(key);
    }

    /// The process behind a kernel's ports is another one, and is told something. What the old one asked and has not been done
    /// was never asked.
    pub fn renew(&self, key: &K, first: Option<Value>) {
        if let Some((kernel, desk)) = self.both(key) {
            lock(&desk).other_past(Instant::now());
            // A task that is gone has nobody to tell.
            let _gone = kernel.renew(first.map(|content| (REPLY, content)));
        }
    }

    /// What a kernel is doing.
    pub fn activity(&self, key: &K) -> Option<Activity> {
        self.seen(key, |seen| seen.activity.clone())
    }

    /// What was seen of a kernel.
    pub fn seen<T>(&self, key: &K, look: impl FnOnce(&Seen) -> T) -> Option<T> {
        let seen = Arc::clone(&self.watched().get(key)?.seen);
        let seen = lock(&seen);
        Some(look(&seen))
    }

    /// A kernel, to talk to it.
    pub fn kernel(&self, key: &K) -> Option<Kernel> {
        self.watched().get(key).map(|watched| watched.kernel.clone())
    }

    /// The kernels that did something else too soon after the last time to be told at once, and can be told about now.
    pub fn untold(&self, now: Instant) -> Vec<K> {
        let all: Vec<_> =
            self.watched().iter().map(|(key, watched)| (key.clone(), Arc::clone(&watched.seen))).collect();
        all.into_iter().filter(|(_, seen)| lock(seen).take_untold(now)).map(|(key, _)| key).collect()
    }

    /// What kernels ask, in the order in which it is to be done; once. Each must be answered with [`KernelWatch::answer`].
    pub fn asked(&self) -> Option<Receiver<Asked<K>>> {
        lock(&self.asks).take()
    }

    /// Answers a request of a kernel's, unless the answer is `None`; the next one of that kernel can be done then.
    pub fn answer(&self, key: &K, id: &str, answer: Option<Value>) {
        let Some((kernel, desk)) = self.both(key) else { return };
        let next = lock(&desk).done(id, answer.clone());
        if let Some(answer) = answer {
            let _gone = kernel.send_control(REPLY, answer);
        }
        if let Some(next) = next {
            hand_over(&self.asked, next, &kernel, &desk);
        }
    }

    fn both(&self, key: &K) -> Option<(Kernel, Arc<Mutex<Desk<K>>>)> {
        self.watched().get(key).map(|watched| (watched.kernel.clone(), Arc::clone(&watched.desk)))
    }

    fn watched(&self) -> MutexGuard<'_, BTreeMap<K, Watched<K>>> {
        lock(&self.watched)
    }
}

/// Hands a request to whoever does them.
fn hand_over<K: Clone>(to: &SyncSender<Asked<K>>, asked: Asked<K>, kernel: &Kernel, desk: &Mutex<Desk<K>>) {
    let mut next = Some(asked);
    while let Some(asked) = next {
        let id = asked.id.clone();
        if to.try_send(asked).is_ok() {
            return;
        }
        let answer = desk::refusal(&id, "the daemon has too much to do");
        next = lock(desk).done(&id, Some(answer.clone()));
        let _gone = kernel.send_control(REPLY, answer);
    }
}

/// What the bridge's thread tells us about one kernel.
struct Ears<K, F> {
    watched: Weak<Mutex<BTreeMap<K, Watched<K>>>>,
    asked: SyncSender<Asked<K>>,
    key: K,
    seen: Arc<Mutex<Seen>>,
    desk: Arc<Mutex<Desk<K>>>,
    changed: F,
}

impl<K: Ord + Clone + Send + Sync + 'static, F: Fn() + Send + Sync + 'static> Listener for Ears<K, F> {
    fn status(&self, status: &Status) {
        let tell = lock(&self.seen).note(status, Instant::now());
        if tell {
            (self.changed)();
        }
    }

    fn request(&self, content: Value) {
        let Some(watched) = self.watched.upgrade() else { return };
        let Some(kernel) = lock(&watched).get(&self.key).map(|watched| watched.kernel.clone()) else {
            return;
        };
        let verdict = lock(&self.desk).take(&self.key, content, Instant::now());
        match verdict {
            Verdict::Do(asked) => hand_over(&self.asked, asked, &kernel, &self.desk),
            Verdict::Answer(answer) => {
                let _gone = kernel.send_control(REPLY, answer);
            }
            Verdict::Nothing => (),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
