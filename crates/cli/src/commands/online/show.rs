//! How what the daemon says looks to people. All of it is somebody else's text, so none of it is obeyed by the terminal.

use api::{Network, SessionView, Text, TimedStep, Uncaptured};
use jiff::Timestamp;

use super::Online;
use super::steps::duration;
use crate::format;
use crate::progress::Mode;

/// The first twelve digits of an id.
pub(in crate::commands) fn short(id: &str) -> String {
    format::safe(&id.chars().take(12).collect::<String>())
}

/// A time to the minute; as it came if it is none.
pub(in crate::commands) fn minute(time: &str) -> String {
    time.parse::<Timestamp>().map_or_else(|_| format::safe(time), format::minute)
}

/// The same to the second.
pub(super) fn second(time: &str) -> String {
    time.parse::<Timestamp>().map_or_else(|_| format::safe(time), format::time)
}

pub(in crate::commands) fn text(text: &Text) -> String {
    format::safe_bytes(text.as_bytes())
}

/// A command as one would type it, more or less.
pub(super) fn command(argv: &[Text]) -> String {
    let word = |word: &Text| {
        let shown = text(word);
        let plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
        if !shown.is_empty() && shown.chars().all(plain) { shown } else { format!("'{shown}'") }
    };
    argv.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// A command's status as our own; a shell takes no other numbers.
pub(super) fn exit_code(status: i32) -> u8 {
    u8::try_from(status).unwrap_or(u8::MAX)
}

/// A state, and how it came about.
pub(in crate::commands) fn state(session: &SessionView) -> String {
    let state = session.state.as_str();
    session.exit.map_or_else(|| state.to_owned(), |status| format!("{state}, status {status}"))
}

/// All about a session.
pub(super) fn session(session: &SessionView) -> Vec<String> {
    let mut rows = vec![
        ("session", format::safe(&session.name)),
        ("id", format::safe(&session.id)),
        ("state", state(session)),
        ("command", command(&session.command)),
        ("directory", text(&session.cwd)),
    ];
    if let Some(workspace) = session.workspace.as_ref().filter(|workspace| **workspace != session.cwd) {
        rows.push(("workspace", text(workspace)));
    }
    if let Some(pid) = session.pid {
        rows.push(("process", pid.to_string()));
    }
    if let Some(bytes) = session.memory_bytes {
        rows.push(("memory", format::size(bytes)));
    }
    for gpu in &session.gpus {
        rows.push(("GPU", format::safe(gpu)));
    }
    if let Some(bytes) = session.vram_bytes.filter(|_| !session.gpus.is_empty()) {
        rows.push(("GPU memory", format::size(bytes)));
    }
    if let Some(trouble) = &session.gpu_trouble {
        rows.push(("GPU stands still", format::safe(trouble)));
    }
    let network = if session.network == Network::Private { "private" } else { "host" };
    rows.push(("network", network.to_owned()));
    if let Some(kernel) = &session.kernel {
        rows.push(("kernel", kernel.kernel_name.as_deref().map(format::safe).unwrap_or_default()));
        rows.push(("connection", text(&kernel.connection_file)));
    }
    rows.push(("thread", format::safe(&session.thread)));
    if let Some(head) = &session.head {
        rows.push(("snapshot", short(head)));
    }
    if let Some(parent) = &session.parent {
        rows.push((
            "branched off",
            format!("{} at {}", format::safe(&parent.session), short(&parent.commit)),
        ));
    }
    rows.push((if session.attached { "attached" } else { "started" }, second(&session.created)));
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(key, value)| vec![key.to_owned(), value]).collect();
    format::table(&rows, &[])
}

impl Online<'_> {
    /// What a snapshot does not hold and what else should be known. Programs find it in the data.
    pub(super) fn warn(&self, not_captured: &[Uncaptured], warnings: &[String]) {
        if self.printer().is_json() {
            return;
        }
        for one in not_captured {
            let (path, reason) = (text(&one.path), format::safe(&one.reason));
            self.printer().warning(&format!("`{path}` is not in the snapshot: {reason}"));
        }
        for warning in warnings {
            self.printer().warning(&format::safe(warning));
        }
    }

    /// Where the time went, for those who asked for more and have not been told step by step.
    pub(super) fn tell_steps(&self, steps: &[TimedStep]) {
        if self.context.meter.mode() == Mode::Lines {
            return;
        }
        for step in steps {
            self.printer().detail(&format!("{}: {}", format::safe(&step.name), duration(step.micros)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_codes() {
        let argv =
            [Text::from("sh"), Text::from("-c"), Text::from("a b"), Text::from(""), Text::from(&b"\x1b"[..])];
        assert_eq!(command(&argv), "sh -c 'a b' '' '\\u{1b}'");
        assert_eq!([0, 7, 137, 300, -9].map(exit_code), [0, 7, 137, 255, 255]);
        assert_eq!(
            (short("0123456789abcdef"), minute("soon\x07")),
            ("0123456789ab".into(), "soon\\u{7}".into())
        );
    }
}
