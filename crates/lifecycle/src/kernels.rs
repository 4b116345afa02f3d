//! The kernels of sessions are listened to, from the moment they run until they have no processes any more.
//!
//! That tells whether a kernel is idle or busy, lets a notebook ask something of the daemon, gives the names of its variables to
//! the snapshots that they go with, and tells a kernel that was restored that it lives again. How it is done is `jupyter-bridge`'s
//! business ([`jupyter_bridge::watch`]).
//!
//! The key comes from the connection file in the box, which is the user's to change; where to connect to does not. So the
//! worst that a user can do is not to be heard.

use std::net::Ipv4Addr;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use api::{SnapshotRequest, Variable};
use jupyter_bridge::{ConnectionFile, Ports};
use serde_json::{Value, json};

use crate::engine::{Engine, Inner};
use crate::error::Result;
use crate::events::EventKind;
use crate::introspect::{Asked, Introspect};
use crate::record::{KernelRecord, Record, SessionId, SessionState};
use crate::words;

impl Engine {
    /// A session has processes: its kernel is listened to from here on. Nothing changes if it is already, at the same place.
    pub(crate) fn listen_to_kernel(&self, record: &Record) {
        // Without the connection file nobody talks to the kernel, and everything else works.
        let Ok(Some(file)) = self.kernel_address(record) else { return };
        let (inner, session) = (Arc::downgrade(&self.inner), record.id.clone());
        self.inner.kernels.listen(record.id.clone(), file, move || {
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
}

impl Engine {
    /// Says who knows what goes on inside kernels. The first one stays.
    pub fn set_introspect(&self, introspect: Arc<dyn Introspect>) {
        let _there_is_one = self.inner.introspect.set(introspect);
    }

    /// The variables of the session's kernel, if they are wanted and it can say.
    pub(crate) fn variables_now(&self, record: &Record, request: &SnapshotRequest) -> Option<Vec<Variable>> {
        if request.variables == Some(false) || record.kernel.is_none() {
            return None;
        }
        self.inner.introspect.get()?.variables(&record.id)
    }
}

/// How long a kernel may take to say its variables. It is asked between cells, before anything stands still: a snapshot without
/// them is as good a snapshot.
const LIMIT: Duration = Duration::from_millis(1500);

/// Asks kernels by the connections that there are to them.
pub(crate) struct Variables(pub(crate) Weak<Inner>);

impl Introspect for Variables {
    fn variables(&self, session: &SessionId) -> Option<Vec<Variable>> {
        let engine = Engine { inner: self.0.upgrade()? };
        let is_python = engine.records().get(session)?.kernel.as_ref().is_some_and(speaks_python);
        let kernel = engine.inner.kernels.kernel(session).filter(|_| is_python)?;
        // Busy, away, too slow: all the same here.
        let variables = kernel.variables(LIMIT).ok()??;
        Some(variables.into_iter().map(words::variable).collect())
    }
}

/// Whether its cells are Python's, as it says or as its name tells.
fn speaks_python(kernel: &KernelRecord) -> bool {
    let said = if kernel.language.is_empty() { &kernel.spec } else { &kernel.language };
    said.to_ascii_lowercase().starts_with("python")
}
