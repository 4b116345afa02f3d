//! What is done to the command of a session: `restart`, `signal`.

use std::ffi::OsString;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::session::Which;

/// Run the command of a session anew; its history goes on.
#[derive(Debug, Args)]
#[command(
    long_about = "Run the command of a session anew, in the same session: name, history, files and the way to reach a kernel stay. \
What runs is ended first. A session that is suspended or has ended starts anew, too.

The command runs with your environment of now. A kernel is started from the same kernelspec unless --spec names another; \
anything else needs its command after `--`.",
    after_help = "Example:
  infinijup restart analysis
  infinijup restart analysis --snapshot
  infinijup restart train -- python3 train.py --epochs 50"
)]
pub(crate) struct RestartArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Keep what runs now as an automatic snapshot first
    #[arg(long)]
    pub(crate) snapshot: bool,
    /// Another kernelspec
    #[arg(long, value_name = "NAME", conflicts_with = "command", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) spec: Option<String>,
    /// How many seconds the old processes have to end by themselves
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub(crate) grace: u64,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// Send a signal to the command of a session.
#[derive(Debug, Args)]
#[command(
    long_about = "Send a signal to the command of a session and to what it started in its process group. While the processes are \
being exchanged, by a rollback for example, it is refused.",
    after_help = "Example:
  infinijup signal analysis
  infinijup signal train USR1
  infinijup signal train 10 --alone"
)]
pub(crate) struct SignalArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// INT, TERM, KILL, HUP, USR1, USR2 or a number
    #[arg(value_name = "SIGNAL", default_value = "INT", value_parser = signal)]
    pub(crate) signal: api::Signal,
    /// To the command's process alone, not to its group
    #[arg(long)]
    pub(crate) alone: bool,
}

fn signal(text: &str) -> Result<api::Signal, String> {
    use api::{Signal, SignalName};
    let name = text.to_ascii_uppercase();
    Ok(match name.strip_prefix("SIG").unwrap_or(&name) {
        "INT" => Signal::Name(SignalName::Int),
        "TERM" => Signal::Name(SignalName::Term),
        "KILL" => Signal::Name(SignalName::Kill),
        "HUP" => Signal::Name(SignalName::Hup),
        "USR1" => Signal::Name(SignalName::Usr1),
        "USR2" => Signal::Name(SignalName::Usr2),
        number => Signal::Number(number.parse().map_err(|_| "it is none of these and no number".to_owned())?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_named_as_kill_names_them() {
        use api::{Signal, SignalName};
        assert_eq!(signal("INT"), Ok(Signal::Name(SignalName::Int)));
        assert_eq!(signal("sigusr1"), Ok(Signal::Name(SignalName::Usr1)));
        assert_eq!(signal("10"), Ok(Signal::Number(10)));
        signal("").unwrap_err();
        signal("STOPP").unwrap_err();
    }
}
