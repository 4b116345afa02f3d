//! What the engine keeps of kernels: who is listened to, and whoever can look inside.

use api::Variable;
use jupyter_bridge::watch;

use crate::record::SessionId;

/// Something that a session's kernel asks.
pub type Asked = watch::Asked<SessionId>;

/// The kernels that are listened to.
pub(crate) type KernelWatch = watch::KernelWatch<SessionId>;

/// Knows what goes on inside kernels.
pub trait Introspect: Send + Sync {
    /// The variables of a session's kernel; `None` if it cannot say now: it is busy, it is no kernel of a language that we
    /// know, or it takes too long. Called before everything that stands still.
    fn variables(&self, session: &SessionId) -> Option<Vec<Variable>>;
}
