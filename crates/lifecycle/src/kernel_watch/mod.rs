//! Listening to the kernels of sessions.
//!
//! Every session that runs a Jupyter kernel is listened to, by the one thread of a [`Bridge`]: from the moment it runs until
//! it has no processes any more. That tells whether the kernel is idle or busy ([`Activity`]), lets a notebook ask something
//! of the daemon ([`desk`]), and tells a kernel that was restored that it lives again. The kernel's ports are forwarded or
//! the machine's own, and stay the same through every swap; the connections do not, and are made anew.
//!
//! The key comes from the connection file in the box, which is the user's to change; where to connect to does not. So the
//! worst that a user can do is not to be heard.

mod desk;
mod introspect;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jupyter_bridge::client::{Bridge, Doing, Kernel, Listener, Status};
use jupyter_bridge::{ConnectionFile, Ports};
use serde_json::{Value, json};

use crate::engine::{Engine, Inner};
use crate::error::Result;
use crate::record::{Record, SessionId, SessionState};
use crate::watch::EventKind;

pub use desk::Asked;
use desk::{Desk, Verdict};
pub(crate) use introspect::Variables;

/// The type of what a kernel is told.
const REPLY: &str = "infinijup_reply";

/// What changes more often than this is told with a delay: cells can be short.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// How many requests of all kernels wait for somebody to do them.
const WAITING: usize = 256;

/// What a session's kernel is doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Activity {
    /// What.
    pub doing: Doing,
    /// Since when.
    pub since: Timestamp,
    /// The number of the cell that runs or ran last.
    pub number: Option<u32>,
    /// Its first line.
    pub cell: Option<String>,
}

/// What was seen of a kernel.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) activity: Activity,
    /// The same moment, for measuring.
    pub(crate) since: Instant,
    /// Changes when the user's code ran.
    pub(crate) runs: u64,
    told: Option<Instant>,
    /// Something is not told yet.
    untold: bool,
}

impl Seen {
    fn new() -> Self {
        let activity = Activity { doing: Doing::Unknown, since: Timestamp::now(), number: None, cell: None };
        Self { activity, since: Instant::now(), runs: 0, told: None, untold: false }
    }

    /// Notes what the kernel does now; whether that is to be told at once.
    fn note(&mut self, status: &Status, now: Instant) -> bool {
        self.runs = status.runs;
        let activity = &mut self.activity;
        if activity.doing != status.doing {
            (activity.since, self.since) = (Timestamp::now(), now);
        }
        let same =
            (activity.doing, activity.number, &activity.cell) == (status.doing, status.number, &status.cell);
        (activity.doing, activity.number) = (status.doing, status.number);
        activity.cell.clone_from(&status.cell);
        self.untold |= !same;
        self.untold && self.may_tell(now)
    }

    fn may_tell(&self, now: Instant) -> bool {
        self.told.is_none_or(|told| now.duration_since(told) >= TELL_EVERY)
    }
}

struct Watched {
    file: ConnectionFile,
    kernel: Kernel,
    seen: Arc<Mutex<Seen>>,
    desk: Arc<Mutex<Desk>>,
}

/// The kernels that are listened to.
pub(crate) struct KernelWatch {
    bridge: Bridge,
    watched: Mutex<BTreeMap<SessionId, Watched>>,
    asked: SyncSender<Asked>,
    asks: Mutex<Option<Receiver<Asked>>>,
}

impl KernelWatch {
    pub(crate) fn start() -> Result<Self> {
        let (asked, asks) = sync_channel(WAITING);
        Ok(Self { bridge: Bridge::start()?, watched: Mutex::default(), asked, asks: Mutex::new(Some(asks)) })
    }

    fn watched(&self) -> MutexGuard<'_, BTreeMap<SessionId, Watched>> {
        lock(&self.watched)
    }

    fn kernel(&self, id: &SessionId) -> Option<Kernel> {
        self.watched().get(id).map(|watched| watched.kernel.clone())
    }

    /// What its kernel is doing.
    pub(crate) fn activity(&self, id: &SessionId) -> Option<Activity> {
        self.seen(id, |seen| seen.activity.clone())
    }

    /// What was seen of its kernel.
    pub(crate) fn seen<T>(&self, id: &SessionId, look: impl FnOnce(&Seen) -> T) -> Option<T> {
        let seen = Arc::clone(&self.watched().get(id)?.seen);
        let seen = lock(&seen);
        Some(look(&seen))
    }
}

impl Engine {
    /// A session has processes: its kernel is listened to from here on. Nothing changes if it is already, at the same place.
    pub(crate) fn listen_to_kernel(&self, record: &Record) {
        // Without the connection file nobody talks to the kernel, and everything else works.
        let Ok(Some(file)) = self.kernel_address(record) else { return };
        let watch = &self.inner.kernels;
        let known = watch.watched().get(&record.id).is_some_and(|watched| watched.file == file);
        if known {
            return;
        }
        let seen = Arc::new(Mutex::new(Seen::new()));
        let desk = Arc::new(Mutex::new(Desk::default()));
        let ears = Ears {
            engine: Arc::downgrade(&self.inner),
            session: record.id.clone(),
            seen: Arc::clone(&seen),
            desk: Arc::clone(&desk),
        };
        if let Ok(kernel) = watch.bridge.connect(&file, ears) {
            watch.watched().insert(record.id.clone(), Watched { file, kernel, seen, desk });
        }
    }

    /// A session has no processes any more.
    pub(crate) fn leave_kernel(&self, id: &SessionId) {
        self.inner.kernels.watched().remove(id);
    }

    /// A session's kernel was restored from a commit. Whatever was waiting in it learns that it lives again.
    pub(crate) fn kernel_restored(&self, record: &Record, commit: &str, note: Option<&str>) {
        let result = json!({ "restored": commit, "session": record.name, "note": note });
        self.renew_kernel(record, Some(json!({ "id": "*", "ok": true, "result": result })));
    }

    /// The process behind a session's ports is another one, and is told something.
    pub(crate) fn renew_kernel(&self, record: &Record, first: Option<Value>) {
        self.listen_to_kernel(record);
        let found = {
            let watched = self.inner.kernels.watched();
            watched.get(&record.id).map(|watched| (watched.kernel.clone(), Arc::clone(&watched.desk)))
        };
        if let Some((kernel, desk)) = found {
            lock(&desk).other_past();
            // A task that is gone has nobody to tell.
            let _gone = kernel.renew(first.map(|content| (REPLY, content)));
        }
    }

    /// How the daemon reaches a session's kernel: where we know it to be, with the key that its own file has.
    fn kernel_address(&self, record: &Record) -> Result<Option<ConnectionFile>> {
        let Some(kernel) = record.kernel.as_ref().filter(|_| record.state == SessionState::Running) else {
            return Ok(None);
        };
        let inside = self.connection_inside(record)?;
        let mut ports = inside.ports.to_array();
        for (port, (outside, _)) in ports.iter_mut().zip(&kernel.ports) {
            *port = *outside;
        }
        let (ip, ports) = (Ipv4Addr::LOCALHOST.into(), Ports::from_array(ports));
        Ok(Some(ConnectionFile { ip, ports, ..inside }))
    }

    /// Tells what a kernel does now.
    fn tell_activity(&self, id: &SessionId) {
        let Some(record) = self.records().get(id).cloned() else { return };
        let told = self.inner.kernels.seen(id, |seen| seen.activity.clone());
        if let Some(activity) = told {
            self.inner.events.tell(&record, EventKind::Activity(activity));
        }
    }

    /// Tells what changed too soon after the last time to be told at once.
    pub(crate) fn tell_untold(&self, now: Instant) {
        let all: Vec<_> = {
            let watched = self.inner.kernels.watched();
            watched.iter().map(|(id, watched)| (id.clone(), Arc::clone(&watched.seen))).collect()
        };
        for (id, seen) in all {
            let due = {
                let mut seen = lock(&seen);
                let due = seen.untold && seen.may_tell(now);
                if due {
                    (seen.untold, seen.told) = (false, Some(now));
                }
                due
            };
            if due {
                self.tell_activity(&id);
            }
        }
    }

    /// What kernels ask, in the order in which it is to be done; once. Each must be answered with [`Engine::answer`].
    pub fn asked(&self) -> Option<Receiver<Asked>> {
        lock(&self.inner.kernels.asks).take()
    }

    /// Answers a request of a kernel's, unless the answer is `None`; the next one of that kernel can be done then.
    pub fn answer(&self, session: &SessionId, id: &str, answer: Option<Value>) {
        let found = {
            let watched = self.inner.kernels.watched();
            watched.get(session).map(|watched| (watched.kernel.clone(), Arc::clone(&watched.desk)))
        };
        let Some((kernel, desk)) = found else { return };
        let next = lock(&desk).done(id, answer.clone());
        if let Some(answer) = answer {
            let _gone = kernel.send_control(REPLY, answer);
        }
        if let Some(next) = next {
            self.inner.kernels.hand_over(next, &kernel, &desk);
        }
    }
}

impl KernelWatch {
    /// Hands a request to whoever does them.
    fn hand_over(&self, asked: Asked, kernel: &Kernel, desk: &Mutex<Desk>) {
        let mut next = Some(asked);
        while let Some(asked) = next {
            let id = asked.id.clone();
            if self.asked.try_send(asked).is_ok() {
                return;
            }
            let answer = desk::refusal(&id, "the daemon has too much to do");
            next = lock(desk).done(&id, Some(answer.clone()));
            let _gone = kernel.send_control(REPLY, answer);
        }
    }
}

/// What the bridge's thread tells us about one kernel.
struct Ears {
    engine: Weak<Inner>,
    session: SessionId,
    seen: Arc<Mutex<Seen>>,
    desk: Arc<Mutex<Desk>>,
}

impl Listener for Ears {
    fn status(&self, status: &Status) {
        let now = Instant::now();
        let tell = {
            let mut seen = lock(&self.seen);
            let tell = seen.note(status, now);
            if tell {
                (seen.untold, seen.told) = (false, Some(now));
            }
            tell
        };
        if tell && let Some(inner) = self.engine.upgrade() {
            Engine { inner }.tell_activity(&self.session);
        }
    }

    fn request(&self, content: Value) {
        let Some(inner) = self.engine.upgrade() else { return };
        let engine = Engine { inner };
        let Some(kernel) = engine.inner.kernels.kernel(&self.session) else { return };
        let verdict = lock(&self.desk).take(&self.session, content, Instant::now());
        match verdict {
            Verdict::Do(asked) => engine.inner.kernels.hand_over(asked, &kernel, &self.desk),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn status(doing: Doing, runs: u64) -> Status {
        Status { doing, number: None, cell: None, runs }
    }

    #[test]
    fn what_changes_too_often_is_told_later_and_not_lost() {
        let mut seen = Seen::new();
        let begun = Instant::now();
        assert!(seen.note(&status(Doing::Busy, 1), begun));
        (seen.untold, seen.told) = (false, Some(begun));
        assert!(!seen.note(&status(Doing::Idle, 1), begun + Duration::from_millis(5)));
        assert!(seen.untold && !seen.may_tell(begun + Duration::from_millis(9)));
        assert!(seen.may_tell(begun + TELL_EVERY));
        assert_eq!((seen.activity.doing, seen.runs), (Doing::Idle, 1));
        assert_eq!(seen.since, begun + Duration::from_millis(5));
    }

    #[test]
    fn that_something_ran_is_no_news() {
        let mut seen = Seen::new();
        let begun = Instant::now();
        assert!(!seen.note(&status(Doing::Unknown, 3), begun));
        assert_eq!(seen.runs, 3);
    }
}
