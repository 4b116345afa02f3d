//! Where the words of the wire meet those of the engines.
//!
//! Requests and answers are the types of `api`, from the socket to the pipelines. Engines know nothing of the wire: what they take has types of
//! their own. Between the two it is translated here; what is written down in records, in [`session_record::words`].

use std::ffi::OsString;
use std::time::Duration;

use api::{Activity, ActivityState, EnvVar, InterruptMode, Text};
use jupyter_bridge::client::{Doing, Variable};

/// A command.
pub(crate) fn argv(words: &[Text]) -> Vec<OsString> {
    words.iter().map(|word| word.as_os_str().to_owned()).collect()
}

/// Variables.
pub(crate) fn environment(variables: &[EnvVar]) -> Vec<(OsString, OsString)> {
    let owned = |text: &Text| text.as_os_str().to_owned();
    variables.iter().map(|variable| (owned(&variable.name), owned(&variable.value))).collect()
}

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
