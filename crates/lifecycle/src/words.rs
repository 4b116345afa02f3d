//! Where the words of the wire meet those of the engines.
//!
//! Requests and answers are the types of `api`, from the socket to the pipelines. Engines know nothing of the wire: what they take has types of
//! their own. Between the two it is translated here; what is written down in records, in [`session_record::words`].

use std::time::Duration;

use api::{Activity, ActivityState, InterruptMode};
use jupyter_bridge::client::{Doing, Variable};
pub(crate) use session_record::words::{argv, environment};

/// A duration, in the unit of the wire.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// What a kernelspec says of interrupts.
pub(crate) fn interrupt_mode(mode: jupyter_bridge::InterruptMode) -> InterruptMode {
    match mode {
        jupyter_bridge::InterruptMode::Signal => InterruptMode::Signal,
        jupyter_bridge::InterruptMode::Message => InterruptMode::Message,
    }
}

/// What a kernel is doing.
pub(crate) fn activity(seen: jupyter_bridge::watch::Activity) -> Activity {
    Activity {
        state: match seen.doing {
            Doing::Busy => ActivityState::Busy,
            Doing::Idle => ActivityState::Idle,
            Doing::Unknown => ActivityState::Unknown,
        },
        since: seen.since.to_string(),
        number: seen.number,
        cell: seen.cell,
    }
}

/// What a kernel says of a variable.
pub(crate) fn variable(Variable { name, kind, size, summary }: Variable) -> api::Variable {
    api::Variable { name, kind, size, summary }
}
