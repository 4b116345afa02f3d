//! Faults on request: the script, who asks it, and the socket by which a test writes it.
//!
//! Whether a call goes wrong is decided in one place, the device server, because everybody who takes part in a checkpoint
//! can ask there: the caller before it does anything (`before`), the target's helper thread when it has taken the
//! request (`during`) and when the work is done but nobody has been told (`after`), and the server itself before work on
//! the device (`memory`). The server also does the waiting: who asks gets no answer until it may go on. So a test can
//! stop a call at an exact place, look or kill, and let it go on, without a guess about time.
//!
//! When the server is killed, everybody who waits in it goes on as if there had been no fault.

pub mod control;
mod script;

pub(crate) use self::script::has_ended;
pub use self::script::{Action, Call, Faults, Held, Phase, Question, Rule, Verdict};

/// What a test has set that is no fault of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Whims {
    /// The state of processes without CUDA is answered, as RUNNING.
    pub(crate) get_state_lies: bool,
    /// The checkpoint calls are for root of the machine alone; everybody else is answered 800.
    pub(crate) root_only: bool,
    /// Bytes of each GPU that nobody can have.
    pub(crate) filled: std::collections::BTreeMap<u32, u64>,
}
