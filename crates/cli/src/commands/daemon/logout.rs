//! Whether a daemon survives the end of its user's last login.
//!
//! That is up to systemd, where there is one. It ends a user's own service manager and what runs under it, unless the user
//! *lingers*; and it ends what else runs in a login's scope if the administrator has set `KillUserProcesses`.

use std::path::Path;
use std::process::{Command, Stdio};

/// Whether it does, and why.
pub(super) fn survives(pid: Option<u32>) -> (bool, String) {
    if !Path::new("/run/systemd/system").exists() {
        return (true, "nothing here ends processes at logout".to_owned());
    }
    let uid = rustix::process::geteuid().as_raw();
    if uid == 0 {
        return (true, "root's processes belong to no login".to_owned());
    }
    if loginctl(&["show-user", &uid.to_string(), "--property=Linger", "--value"]).as_deref() == Some("yes") {
        return (true, "you linger: systemd keeps your processes".to_owned());
    }
    let cgroup = pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok());
    judge(
        cgroup.as_deref().unwrap_or_default(),
        loginctl(&["show-session", "--property=KillUserProcesses", "--value"]).as_deref(),
    )
}

/// For a user who does not linger.
fn judge(cgroup: &str, kill_user_processes: Option<&str>) -> (bool, String) {
    const LINGER: &str = "`loginctl enable-linger` keeps it";
    if cgroup.contains("/user@") {
        return (false, format!("it ends with your service manager at your last logout; {LINGER}"));
    }
    match kill_user_processes {
        Some("no") => (
            true,
            "systemd leaves what a login started alone; the socket comes back at the next login".to_owned(),
        ),
        Some("yes") => {
            (false, format!("systemd ends what a login started (KillUserProcesses=yes); {LINGER}"))
        }
        _ => (false, format!("systemd does not say what it does with your processes; {LINGER}")),
    }
}

fn loginctl(words: &[&str]) -> Option<String> {
    let output =
        Command::new("loginctl").args(words).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_linger_depends_on_where_the_daemon_runs() {
        let service = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/infinijupd.service\n";
        let login = "0::/user.slice/user-1000.slice/session-3.scope\n";
        assert!(!judge(service, Some("no")).0);
        assert!(judge(login, Some("no")).0);
        assert!(!judge(login, Some("yes")).0);
        assert!(!judge(login, None).0);
        assert!(judge(service, Some("no")).1.contains("enable-linger"));
    }
}
