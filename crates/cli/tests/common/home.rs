//! A user with directories of their own, and the real daemon, which commands start when they need it.
#![expect(clippy::print_stdout, reason = "tests say what they leave out")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{BINARY, Ran, Sandbox};

/// A user's directories, and the daemon that may live there.
pub(crate) struct Home(Sandbox);

impl Home {
    /// `None` where there is no daemon to start; a failure where there must be.
    pub(crate) fn new() -> Option<Self> {
        // Built with its own crate, beside ours.
        let program = Path::new(BINARY).with_file_name("infinijupd");
        let required = std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_some_and(|value| value == "1");
        assert!(program.exists() || !required, "a test that is required cannot run: infinijupd is not built");
        if !program.exists() {
            println!("skipped: a test of the daemon because it is not built: cargo build -p infinijupd");
            return None;
        }
        Some(Self::without_daemon())
    }

    pub(crate) fn without_daemon() -> Self {
        Self(Sandbox::new())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.0.command(args);
        for name in ["SOCKET", "AUTOSTART", "SESSION", "DAEMON", "SETTINGS", "IDLE_END", "LOG", "LOG_FORMAT"]
        {
            command.env_remove(format!("INFINIJUP_{name}"));
        }
        command.env("INFINIJUP_STATE", self.path("state")).env("INFINIJUP_RUN", self.path("run"));
        command.env("HOME", self.path("home")).env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME");
        // There is no CRIU here, nor is the box ever made; its program only has to be there.
        command.env("INFINIJUP_CRIU", self.path("no-criu")).env("INFINIJUP_BOX", "/bin/true");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().unwrap())
    }

    #[track_caller]
    pub(crate) fn json(&self, args: &[&str], code: i32) -> Value {
        let ran = self.run(&[args, &["--json"]].concat());
        assert_eq!(ran.code, code, "{ran:?}");
        ran.json().remove(0)
    }

    /// What it says if it fails, with this exit code and error.
    #[track_caller]
    pub(crate) fn fails(&self, command: &mut Command, exit: i32, code: &str) -> Ran {
        let ran = Ran::from(command.output().unwrap());
        assert!(ran.code == exit && ran.err.contains(&format!("error[{code}]: ")), "{ran:?}");
        ran
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.command(&["daemon", "stop"]).output();
    }
}
