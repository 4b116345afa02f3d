//! The kernels of sessions are listened to, from the moment they run until they have no processes any more.
//!
//! That tells whether a kernel is idle or busy, lets a notebook ask something of the daemon, gives the names of its variables to
//! the snapshots that they go with, and tells a kernel that was restored that it lives again. How it is done is `jupyter-bridge`'s
//! business ([`jupyter_bridge::watch`]).
//!
//! The key comes from the connection file in the box, which is the user's to change; where to connect to does not. So the
//! worst that a user can do is not to be heard.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use api::{SessionState, SnapshotRequest, Variable};
use history::UserStore;
use jupyter_bridge::{ConnectionFile, watch};
use serde_json::{Value, json};
use session_record::{KernelRecord, Record, SessionId};

use workspace::AtWork;

use crate::engine::Engine;
use crate::error::Result;
use crate::words;
use session_record::events::EventKind;

/// Something that a session's kernel asks.
pub type Asked = watch::Asked<SessionId>;

/// How long a kernel may take to say its variables. It is asked between cells, before anything stands still: a snapshot without
/// them is as good a snapshot.
const LIMIT: Duration = Duration::from_millis(1500);

impl Engine {
    /// A session has processes: its kernel is listened to from here on. Nothing changes if it is already, at the same place.
    pub(crate) fn listen_to_kernel(&self, record: &Record) {
        // Without the connection file nobody talks to the kernel, and everything else works.
        let Ok(Some(file)) = self.kernel_address(record) else { return };
        let (inner, session) = (Arc::downgrade(&self.inner), record.id.clone());
        self.inner.kernels.listen(record.id.clone(), file, record.head.is_some(), move || {
            if let Some(inner) = inner.upgrade() {
                Engine { inner }.tell_activity(&session);
            }
        });
    }

    /// A session has no processes any more.
    pub(crate) fn leave_kernel(&self, id: &SessionId) {
        self.inner.kernels.leave(id);
    }

    /// A session's kernel was restored from a commit. Whatever was waiting in it learns that it lives again.
    pub(crate) fn kernel_restored(&self, record: &Record, commit: &str, note: Option<&str>) {
        let result = json!({ "restored": commit, "session": record.name, "note": note });
        self.renew_kernel(record, Some(json!({ "id": "*", "ok": true, "result": result })));
    }

    /// The process behind a session's ports is another one, and is told something.
    pub(crate) fn renew_kernel(&self, record: &Record, first: Option<Value>) {
        self.listen_to_kernel(record);
        self.inner.kernels.renew(&record.id, first);
    }

    /// How the daemon reaches a session's kernel: where we know it to be, with the key that its own file has.
    fn kernel_address(&self, record: &Record) -> Result<Option<ConnectionFile>> {
        let Some(kernel) = record.kernel.as_ref().filter(|_| record.state == SessionState::Running) else {
            return Ok(None);
        };
        let file = self.connection_inside(record)?.with_ports(kernel.outer());
        Ok(Some(ConnectionFile { ip: Ipv4Addr::LOCALHOST.into(), ..file }))
    }

    /// Tells what a kernel does now.
    fn tell_activity(&self, id: &SessionId) {
        let Some(record) = self.records().get(id).cloned() else { return };
        if let Some(activity) = self.inner.kernels.activity(id) {
            self.inner.events.tell(&record, EventKind::Activity(words::activity(activity)));
        }
    }

    /// Tells what changed too soon after the last time to be told at once.
    pub(crate) fn tell_untold(&self, now: Instant) {
        for id in self.inner.kernels.untold(now) {
            self.tell_activity(&id);
        }
    }

    /// What kernels ask, in the order in which it is to be done; once. Each must be answered with [`Engine::answer`].
    pub fn asked(&self) -> Option<Receiver<Asked>> {
        self.inner.kernels.asked()
    }

    /// Answers a request of a kernel's, unless the answer is `None`; the next one of that kernel can be done then.
    pub fn answer(&self, session: &SessionId, id: &str, answer: Option<Value>) {
        self.inner.kernels.answer(session, id, answer);
    }

    /// When a session was at work, as far as that is known, and others in the same directory. A command always is; what sleeps is not.
    pub(crate) fn at_work(&self, record: &Record, store: &UserStore) -> Result<AtWork> {
        let now = SystemTime::now();
        let look = |id: &SessionId| {
            self.inner.kernels.seen(id, |seen| (seen.work.known_from(), seen.work.periods(now)))
        };
        let mut at_work = match (record.init, &record.kernel, record.head_id()?) {
            (None, _, Some(head)) => AtWork::in_periods(store.commit_of(&head)?.time.into(), []),
            (Some(_), None, _) => AtWork::in_periods(UNIX_EPOCH, [(UNIX_EPOCH, now)]),
            _ => look(&record.id)
                .map_or(AtWork::unknown(), |(from, periods)| AtWork::in_periods(from, periods)),
        };
        let meets = |other: &&Record| {
            other.id != record.id
                && (other.files_at.starts_with(&record.files_at)
                    || record.files_at.starts_with(&other.files_at))
        };
        for other in self.records().values().filter(meets) {
            at_work.beside(look(&other.id).map(|(_, periods)| periods).unwrap_or_default());
        }
        Ok(at_work)
    }

    /// The variables of the session's kernel, if they are wanted and it can say: it may be busy or away, speak a language that we do not
    /// know, or take too long.
    pub(crate) fn variables_now(&self, record: &Record, request: &SnapshotRequest) -> Option<Vec<Variable>> {
        if request.variables == Some(false)
            || !record.kernel.as_ref().is_some_and(KernelRecord::speaks_python)
        {
            return None;
        }
        let variables = self.inner.kernels.kernel(&record.id)?.variables(LIMIT).ok()??;
        Some(variables.into_iter().map(words::variable).collect())
    }
}
