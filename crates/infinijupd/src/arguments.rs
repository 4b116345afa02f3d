//! The command line of `infinijupd`.
//!
//! Values stay as they were given: the same setting can come from a variable or from the settings file, and is read, and refused, in one place
//! whoever says it (`settings.rs`). That is why clap is told of the variables in words only.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};

use crate::error::DaemonError;

/// infinijupd: the daemon of infinijup. It supervises the sessions of the user who runs it, and answers them on a Unix socket.
///
/// `infinijup daemon start` starts it in the background; most commands do so by themselves.
#[derive(Parser, Debug)]
#[command(
    name = "infinijupd",
    version,
    about = "The daemon of infinijup. It supervises the sessions of the user who runs it, and answers them on a Unix socket.\n\
             `infinijup daemon start` starts it in the background; most commands do so by themselves.",
    long_about = None,
    after_help = "Settings can also stand in the settings file, under their names without dashes: `idle_end = 3600`, `reserve = \"1 GiB\"`. A flag \
                  wins over a variable, a variable over the file.\n\n\
                  INFINIJUP_LOG=info|debug|... sets how much is logged, INFINIJUP_LOG_FORMAT=text|json how.\n\n\
                  Example, a second daemon to try something, in the foreground and with everything below one directory:\n  \
                  infinijupd --state /tmp/try/state --run /tmp/try/run --idle-end 0\n  \
                  infinijup --socket /tmp/try/run/infinijupd.sock ps\n\n\
                  docs/daemon.md says more.",
    args_override_self = true,
    disable_help_subcommand = true
)]
pub(crate) struct Arguments {
    /// Where sessions and snapshots are kept [env: INFINIJUP_STATE] [default: ~/.local/share/infinijup; root: /var/lib/infinijup]
    #[arg(long, value_name = "DIR")]
    state: Option<OsString>,
    /// What lives until the next boot [env: INFINIJUP_RUN] [default: $XDG_RUNTIME_DIR/infinijup; root: /run/infinijup]
    #[arg(long, value_name = "DIR")]
    run: Option<OsString>,
    /// Where to listen [env: INFINIJUP_SOCKET] [default: RUN/infinijupd.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<OsString>,
    /// What else is set [env: INFINIJUP_SETTINGS] [default: ~/.config/infinijup/settings.toml; root: /etc/infinijup/settings.toml]
    #[arg(long, value_name = "FILE")]
    settings: Option<OsString>,
    /// Leave the session of the terminal
    #[arg(long)]
    pub(crate) detach: bool,
    /// Encrypt the store instead of serving: see `infinijup store encrypt`
    #[arg(long)]
    pub(crate) encrypt_store: bool,

    /// End when nobody has needed it for so long; 0: never [env: INFINIJUP_IDLE_END] [default: 1800]
    #[arg(long, value_name = "SECS", allow_negative_numbers = true, help_heading = "Settings")]
    idle_end: Option<OsString>,
    /// The key of an encrypted store; `infinijup store encrypt` sets this [env: INFINIJUP_KEY_FILE] [default: the store is not encrypted]
    #[arg(long, value_name = "PATH", help_heading = "Settings")]
    key_file: Option<OsString>,
    /// What the store may take [env: INFINIJUP_STORE_BUDGET] [default: half of what it takes and what is free]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = "Settings")]
    store_budget: Option<OsString>,
    /// What is kept back on the disk, for stopping and suspending sessions when it is full; 0: nothing [env: INFINIJUP_RESERVE] [default: 64 MiB]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = "Settings")]
    reserve: Option<OsString>,
    /// What is kept of data that is read from remotes; 0: nothing [env: INFINIJUP_REMOTE_CACHE] [default: 2 GiB]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = "Settings")]
    remote_cache: Option<OsString>,
    /// Push by itself: after-suspend, hourly, tagged, with commas between, or never [env: INFINIJUP_PUSH] [default: never]
    #[arg(long, value_name = "WHEN", help_heading = "Settings")]
    push: Option<OsString>,
    /// The remote that is pushed to by itself [env: INFINIJUP_PUSH_TO] [default: origin]
    #[arg(long, value_name = "NAME", help_heading = "Settings")]
    push_to: Option<OsString>,
    /// What is kept here of snapshots that the remote has, too; older ones are read from there [env: INFINIJUP_KEEP_LOCAL] [default: all]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = "Settings")]
    keep_local: Option<OsString>,
    /// What a session may use whose start does not say so [env: INFINIJUP_MEMORY_LIMIT] [default: no limit]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = "Settings")]
    memory_limit: Option<OsString>,
    /// The same for its processes and threads [env: INFINIJUP_PIDS_LIMIT] [default: no limit]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, help_heading = "Settings")]
    pids_limit: Option<OsString>,
    /// The CRIU to use [env: INFINIJUP_CRIU] [default: looked for]
    #[arg(long, value_name = "PATH", help_heading = "Settings")]
    criu: Option<OsString>,
    /// The helper program infinijup-box [env: INFINIJUP_BOX] [default: looked for]
    #[arg(long = "box", value_name = "PATH", help_heading = "Settings")]
    box_program: Option<OsString>,
    /// Copy memory while a session runs, so that it stands still only for the rest: on, off, or checked, which compares every page [env: INFINIJUP_COPY_AHEAD] [default: on]
    #[arg(long, value_name = "HOW", help_heading = "Settings")]
    copy_ahead: Option<OsString>,
    /// Keep the newest snapshot of the kernel that was used last restored, so that going back to it is a switch: on or off [env: INFINIJUP_STANDBY] [default: on]
    #[arg(long, value_name = "HOW", help_heading = "Settings")]
    standby: Option<OsString>,
    /// Publish events in a Redis Stream: redis://HOST:PORT or unix:///PATH [env: INFINIJUP_REDIS; there a password in it is not seen by everyone]
    #[arg(long, value_name = "URL", help_heading = "Settings")]
    redis: Option<OsString>,

    /// The helper program infinijup-gpu [env: INFINIJUP_GPU_PROGRAM] [default: looked for]
    #[arg(long, value_name = "PATH", help_heading = "Settings for NVIDIA GPUs")]
    gpu_program: Option<OsString>,
    /// NVIDIA's cuda-checkpoint, for a driver that has no checkpoint calls [env: INFINIJUP_CUDA_CHECKPOINT] [default: looked for]
    #[arg(long, value_name = "PATH", help_heading = "Settings for NVIDIA GPUs")]
    cuda_checkpoint: Option<OsString>,
    /// How long a process may take to come to rest on the GPU [env: INFINIJUP_GPU_LOCK_LIMIT] [default: 10]
    #[arg(
        long,
        value_name = "SECS",
        allow_negative_numbers = true,
        help_heading = "Settings for NVIDIA GPUs"
    )]
    gpu_lock_limit: Option<OsString>,
    /// How long the driver may take to move a process off or onto a GPU, and one second more for each 256 MiB
    /// [env: INFINIJUP_GPU_STEP_LIMIT] [default: 60]
    #[arg(
        long,
        value_name = "SECS",
        allow_negative_numbers = true,
        help_heading = "Settings for NVIDIA GPUs"
    )]
    gpu_step_limit: Option<OsString>,
}

/// What the command line says.
pub(crate) enum Said {
    /// How to run.
    Run(Box<Arguments>),
    /// Only this is to be printed: the help, or the version.
    Print(String),
}

impl Arguments {
    /// Reads arguments, without the program's name.
    pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Said, DaemonError> {
        let line = std::iter::once(OsString::from("infinijupd")).chain(arguments);
        let read = Self::command()
            .try_get_matches_from(line)
            .and_then(|mut matches| Self::from_arg_matches_mut(&mut matches));
        match read {
            Ok(arguments) => Ok(Said::Run(Box::new(arguments))),
            Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
                Ok(Said::Print(error.to_string()))
            }
            // The first line says it; the rest is about the usage, for which there is a hint.
            Err(error) => {
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default();
                Err(DaemonError::Settings { what: first.trim_start_matches("error: ").to_owned() })
            }
        }
    }

    /// The values that were given, under the names that they have in the settings file too.
    pub(crate) fn values(self) -> BTreeMap<&'static str, OsString> {
        [
            ("state", self.state),
            ("run", self.run),
            ("socket", self.socket),
            ("settings", self.settings),
            ("idle_end", self.idle_end),
            ("key_file", self.key_file),
            ("store_budget", self.store_budget),
            ("reserve", self.reserve),
            ("remote_cache", self.remote_cache),
            ("push", self.push),
            ("push_to", self.push_to),
            ("keep_local", self.keep_local),
            ("memory_limit", self.memory_limit),
            ("pids_limit", self.pids_limit),
            ("criu", self.criu),
            ("box", self.box_program),
            ("redis", self.redis),
            ("gpu_program", self.gpu_program),
            ("copy_ahead", self.copy_ahead),
            ("standby", self.standby),
            ("cuda_checkpoint", self.cuda_checkpoint),
            ("gpu_lock_limit", self.gpu_lock_limit),
            ("gpu_step_limit", self.gpu_step_limit),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}
