//! `ps`

use anyhow::Result;
use api::{SessionState, SessionView, Sessions};
use serde::Serialize;

use super::client::session_path;
use super::{Message, Online, show};
use crate::args::PsArgs;
use crate::format;
use crate::output::Printer;

#[derive(Serialize)]
pub(super) struct One<'a> {
    pub(super) session: &'a SessionView,
}

pub(super) fn run(online: &Online<'_>, args: &PsArgs) -> Result<()> {
    if let Some(session) = &args.session {
        let session: SessionView = online.get(session_path(session))?;
        let content = One { session: &session };
        return Ok(online
            .printer()
            .data(&Message { message_type: "session", content }, &show::session(&session))?);
    }
    let mut found: Sessions = online.get("/v1/sessions")?;
    if args.running {
        found.sessions.retain(|session| session.state == SessionState::Running);
    }
    let lines = table(&found.sessions, Printer::width());
    if found.sessions.is_empty() {
        online.printer().note("there are no sessions");
    }
    Ok(online.printer().data(&Message { message_type: "sessions", content: &found }, &lines)?)
}

/// A column: its title, what is in it, whether numbers are in it, and how gladly it is given up: 0 is never.
struct Column {
    title: &'static str,
    cell: fn(&SessionView) -> String,
    right: bool,
    dispensable: u8,
}

const COLUMNS: [Column; 8] = [
    Column { title: "SESSION", cell: |session| format::safe(&session.name), right: false, dispensable: 0 },
    Column { title: "STATE", cell: state, right: false, dispensable: 0 },
    Column {
        title: "PID",
        cell: |session| session.pid.map(|pid| pid.to_string()).unwrap_or_default(),
        right: true,
        dispensable: 3,
    },
    Column {
        title: "MEMORY",
        cell: |session| session.memory_bytes.map(format::size).unwrap_or_default(),
        right: true,
        dispensable: 1,
    },
    Column { title: "VRAM", cell: vram, right: true, dispensable: 1 },
    Column {
        title: "SNAPSHOT",
        cell: |session| session.head.as_deref().map(show::short).unwrap_or_default(),
        right: false,
        dispensable: 2,
    },
    Column { title: "STARTED", cell: |session| show::minute(&session.created), right: false, dispensable: 4 },
    Column { title: "COMMAND", cell: command, right: false, dispensable: 0 },
];

/// The last column may be cut down to this.
const LAST_COLUMN: usize = 12;

fn state(session: &SessionView) -> String {
    match session.exit {
        Some(status) if session.state == SessionState::Ended => format!("ended ({status})"),
        _ => session.state.as_str().to_owned(),
    }
}

/// GPU memory in use; empty for sessions without any, so that the column is left out where nobody has some.
fn vram(session: &SessionView) -> String {
    session.vram_bytes.filter(|bytes| *bytes > 0).map(format::size).unwrap_or_default()
}

/// A kernel is better known by its name than by its long command.
fn command(session: &SessionView) -> String {
    match session.kernel.as_ref().and_then(|kernel| kernel.kernel_name.as_deref()) {
        Some(name) => format!("kernel {}", format::safe(name)),
        None => show::command(&session.command),
    }
}

/// A table that fits the width: columns that do not fit are left out, the least important first, and then the last one is
/// cut.
fn table(sessions: &[SessionView], width: Option<usize>) -> Vec<String> {
    if sessions.is_empty() {
        return Vec::new();
    }
    let is_needed = |column: &&Column| {
        column.title != "VRAM" || sessions.iter().any(|session| !(column.cell)(session).is_empty())
    };
    let mut columns: Vec<&Column> = COLUMNS.iter().filter(is_needed).collect();
    loop {
        let mut rows = vec![columns.iter().map(|column| column.title.to_owned()).collect::<Vec<_>>()];
        rows.extend(
            sessions.iter().map(|session| columns.iter().map(|column| (column.cell)(session)).collect()),
        );
        let right: Vec<bool> = columns.iter().map(|column| column.right).collect();
        let lines = format::table(&rows, &right);
        let Some(width) = width else { return lines };
        let without_last: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.split_last().map(|(_, first)| first.to_vec()).unwrap_or_default())
            .collect();
        let first = format::table(&without_last, &right).iter().map(|line| line.chars().count()).max();
        let least = first.unwrap_or(0) + 2 + LAST_COLUMN;
        let given_up = columns.iter().map(|column| column.dispensable).max().filter(|most| *most > 0);
        match given_up {
            Some(most) if least > width => columns.retain(|column| column.dispensable != most),
            _ => return lines.iter().map(|line| format::shortened(line, width)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use api::{FilePolicy, Network, SessionPolicy};

    fn one(name: &str) -> SessionView {
        SessionView {
            id: "s-1".into(),
            name: name.into(),
            state: SessionState::Running,
            command: vec!["python3".into(), "a long script with blanks.py".into()],
            cwd: "/home/ada".into(),
            workspace: None,
            pid: Some(4711),
            network: Network::Private,
            kernel: None,
            thread: name.into(),
            head: Some("5c1f4d22a80b96d4".into()),
            parent: None,
            created: "2026-11-15T09:12:09Z".into(),
            exit: None,
            files: FilePolicy::Open,
            memory_bytes: Some(3 << 20),
            standby_bytes: None,
            attached: false,
            gpus: Vec::new(),
            vram_bytes: None,
            gpu_trouble: None,
            labels: BTreeMap::new(),
            notebook: None,
            policy: SessionPolicy::default(),
            operation: None,
            activity: None,
            mark: None,
            kept_files: None,
        }
    }

    #[test]
    fn the_table_fits_any_terminal() {
        let sessions = [one("analysis"), one("é")];
        let all = table(&sessions, None);
        assert_eq!(all.len(), 3);
        assert!(all[1].ends_with("'a long script with blanks.py'"), "{all:?}");
        for width in 1..120 {
            for line in table(&sessions, Some(width)) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        assert!(!all[0].contains("VRAM"), "nobody uses a GPU: {all:?}");
        let with_gpu = [SessionView { vram_bytes: Some(2 << 30), ..one("train") }, one("analysis")];
        let shown = table(&with_gpu, None);
        assert!(shown[0].contains("VRAM") && shown[1].contains("2.0 GiB"), "{shown:?}");
        let narrow = table(&sessions, Some(40));
        assert!(narrow[0].contains("STATE") && !narrow[0].contains("STARTED"), "{narrow:?}");
        assert!(narrow[1].starts_with("analysis  running") && narrow[1].ends_with('…'), "{narrow:?}");
        assert!(table(&[], Some(80)).is_empty());
    }
}
