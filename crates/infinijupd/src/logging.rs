//! Where the daemon's own log goes: to stderr, for people on a terminal and in the journal, or as JSON.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::error::DaemonError;

/// Sets logging up, once. `INFINIJUP_LOG` filters as in `info` or `infinijupd=debug`.
pub fn set_up() -> Result<(), DaemonError> {
    let filter = match std::env::var("INFINIJUP_LOG") {
        Ok(text) => EnvFilter::try_new(&text).map_err(|error| DaemonError::Settings {
            what: format!("INFINIJUP_LOG=`{text}` is not a filter: {error}"),
        })?,
        Err(_) => EnvFilter::new("info"),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let set = match std::env::var("INFINIJUP_LOG_FORMAT").as_deref() {
        Ok("json") => builder.json().flatten_event(true).finish().try_init(),
        Ok("text") | Err(_) => {
            builder.with_ansi(std::io::stderr().is_terminal()).with_target(false).finish().try_init()
        }
        Ok(other) => {
            return Err(DaemonError::Settings {
                what: format!("INFINIJUP_LOG_FORMAT=`{other}` is neither `text` nor `json`"),
            });
        }
    };
    set.map_err(|error| DaemonError::Bug { detail: format!("logging is set up already: {error}") })
}
