//! What can be typed. Only types and their help: nothing here looks at a store.

mod container;
mod control;
mod daemon;
mod debug;
mod demo;
mod detect;
mod history;
mod kernelspec;
mod machine;
mod prune;
mod remote;
mod session;
mod start;
mod store;
mod transfer;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

pub(crate) use container::{Named, WhichOrContainer};
pub(crate) use control::{RestartArgs, SignalArgs};
pub(crate) use daemon::DaemonCommand;
pub(crate) use debug::{CommitArgs, DebugCommand};
pub(crate) use demo::DemoArgs;
pub(crate) use detect::{ContainerPlace, DetectArgs, DetectFormat};
pub(crate) use history::{CatArgs, DiffArgs, LogArgs, ShowArgs, TagArgs, number};
pub(crate) use kernelspec::{KernelspecCommand, KernelspecInstallArgs, KernelspecRemoveArgs};
pub(crate) use machine::{AttachArgs, CheckpointArgs, EventsArgs, RestoreArgs, SelftestArgs, SetupGpuArgs};
pub(crate) use prune::{ForgetArgs, GcArgs};
pub(crate) use remote::{
    CloneArgs, FetchArgs, PullArgs, PushArgs, RemoteAddArgs, RemoteCommand, RemoteGcArgs, RemoteNameArgs,
    RemoteVerifyArgs, TransferArgs,
};
pub(crate) use session::{
    BranchArgs, ExecArgs, FilesArgs, LogsArgs, PsArgs, ResumeArgs, RmArgs, RollbackArgs, ServersArgs,
    SnapshotArgs, StopArgs, SuspendArgs,
};
pub(crate) use start::{
    FileOptions, FilesChoice, KernelCommand, KernelRunArgs, KernelStartArgs, NetworkChoice, RunArgs,
    StartOptions,
};
pub(crate) use store::{InitArgs, RotateKeysArgs, StoreCommand, VerifyArgs};
pub(crate) use transfer::{CheckpointForm, ExportArgs, ImportArgs, MountArgs};

use crate::error::CliError;
use crate::exit;
use crate::output::Printer;

/// Snapshots of live Jupyter kernels and other programs: take them, go back to them, branch off them, look after them.
#[derive(Debug, Parser)]
#[command(
    name = "infinijup",
    version,
    disable_help_subcommand = true,
    after_help = "Example:
  infinijup kernel start --name analysis
  infinijup snapshot analysis -m 'before the cleaning'
  infinijup rollback analysis analysis~1

Exit codes and the JSON output are described in docs/scripting.md.",
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// A store in a folder. Without it, the command is about the store of your daemon
    #[arg(long, global = true, value_name = "DIR", env = "INFINIJUP_STORE", hide_env_values = true)]
    pub(crate) store: Option<PathBuf>,
    /// File with the passphrase of an encrypted store; a newline at its end does not count
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "INFINIJUP_PASSPHRASE_FILE",
        hide_env_values = true
    )]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Key file of an encrypted store
    #[arg(long, global = true, value_name = "FILE", env = "INFINIJUP_KEY_FILE", hide_env_values = true)]
    pub(crate) key_file: Option<PathBuf>,
    // The variable is read by `Context`: what clap has from the environment stands in usage lines as if it were required.
    /// The daemon's socket, if it is not the usual one. No daemon is started for it [env: INFINIJUP_SOCKET]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Print JSON: data on stdout, progress and errors on stderr, one object per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Show no progress
    #[arg(long, global = true)]
    pub(crate) no_progress: bool,
    /// Print nothing but data and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Say more; progress too if stderr is not a terminal
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// When to use colour; `auto` is on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = Colour::Auto)]
    pub(crate) color: Colour,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    Auto,
    Never,
    Always,
}

/// What the daemon answers.
#[derive(Debug, Subcommand)]
pub(crate) enum OnlineCommand {
    Run(Box<RunArgs>),
    /// Start a Jupyter kernel, or list those that can be started
    #[command(
        subcommand,
        after_help = "Example:
  infinijup kernel start
  infinijup kernel list"
    )]
    Kernel(KernelCommand),
    Ps(PsArgs),
    Snapshot(SnapshotArgs),
    Rollback(RollbackArgs),
    Branch(BranchArgs),
    Suspend(SuspendArgs),
    Resume(ResumeArgs),
    Stop(StopArgs),
    Restart(RestartArgs),
    Signal(SignalArgs),
    Rm(RmArgs),
    Files(FilesArgs),
    Servers(ServersArgs),
    Logs(LogsArgs),
    Exec(ExecArgs),
    Attach(AttachArgs),
    Checkpoint(CheckpointArgs),
    Restore(RestoreArgs),
    Events(EventsArgs),
    /// Say whether a snapshot would come up on this machine, and what is missing if not
    #[command(
        long_about = "Say whether a snapshot would come up on this machine: CPU, kernel, CRIU, GPUs and their driver, the files that its processes have in use \
(libraries by build id), its user, memory. Each finding has what to do about it. Nothing is stopped or made; `rollback`, `resume` and `branch` look at the \
same before they stop anything. Exits with 0 if it would come up, with 3 if it would not.",
        after_help = "Example:
  infinijup check good
  infinijup check from-ada --map /data=/mnt/nfs/data
  infinijup check good --json | jq '.findings[] | select(.state == \"fail\")'"
    )]
    Check {
        /// A snapshot: an id or the beginning of one, a tag, a thread; ~N for the Nth before it
        #[arg(value_name = "SNAPSHOT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
        snapshot: String,
        /// A directory that lies at another place on this machine, as for `branch`. Can be given several times
        #[arg(long, value_name = "OLD=NEW", value_parser = session::mapped)]
        map: Vec<api::MappedDirectory>,
    },
    /// Take a snapshot that was made elsewhere for one of your own
    #[command(
        long_about = "Take a snapshot that was made elsewhere for one of your own. It is a foreign program: restored, it runs with all your rights, and if you are \
root it can do anything to this machine. Say so only if you know who made it and how it came here. It holds for this one snapshot and not for those before \
or after it. `branch --force` says the same for once; root's daemon asks for this.",
        after_help = "Example:
  infinijup trust from-ada
  sudo infinijup trust train@node-1
  sudo infinijup branch --container train-2 --from train@node-1"
    )]
    Trust {
        /// A snapshot: an id or the beginning of one, a tag, a thread; ~N for the Nth before it
        #[arg(value_name = "SNAPSHOT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
        snapshot: String,
    },
    /// Say what this machine can and cannot do, and how to mend it
    #[command(
        long_about = "Say what this machine can and cannot do, item by item, and how to mend it. Exits with 0 if snapshots work \
here, with 3 if they do not.",
        after_help = "Example:
  infinijup doctor
  infinijup doctor --json | jq '.findings[] | select(.state != \"ok\")'"
    )]
    Doctor,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Online(OnlineCommand),
    /// Start, stop and look at your daemon
    #[command(
        subcommand,
        after_help = "Example:
  infinijup daemon status
  infinijup daemon stop"
    )]
    Daemon(DaemonCommand),
    /// Create a store, check it, clean it up
    #[command(
        subcommand,
        after_help = "Example:
  infinijup store init
  infinijup store verify"
    )]
    Store(StoreCommand),
    /// Install kernelspecs with which Jupyter starts kernels as sessions
    #[command(
        subcommand,
        after_help = "Example:
  infinijup kernelspec install
  infinijup kernelspec list"
    )]
    Kernelspec(KernelspecCommand),
    /// Let a program that speaks the Model Context Protocol work with your sessions
    #[command(
        long_about = "Let a program that speaks the Model Context Protocol, such as a coding assistant, work with your sessions: run \
cells, take snapshots, branch, compare, go back.

It is started by that program, which talks to it on stdin and stdout, and ends with it. It can do what you can do, by way of your \
daemon. docs/agents.md lists its tools and what each costs.",
        after_help = "Example:
  infinijup mcp
  infinijup mcp --socket $XDG_RUNTIME_DIR/infinijup/infinijupd.sock"
    )]
    Mcp,
    Demo(DemoArgs),
    Detect(DetectArgs),
    Selftest(SelftestArgs),
    SetupGpu(SetupGpuArgs),
    Log(LogArgs),
    // Another name of `log`, which stays for scripts; its JSON is one object.
    #[command(hide = true)]
    History(LogArgs),
    Show(ShowArgs),
    Cat(CatArgs),
    Diff(DiffArgs),
    Tag(TagArgs),
    Forget(ForgetArgs),
    Gc(GcArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Mount(MountArgs),
    /// Places in object stores that snapshots are pushed to
    #[command(
        subcommand,
        after_help = "Example:
  infinijup remote add origin s3://my-bucket/notebooks
  infinijup remote list"
    )]
    Remote(RemoteCommand),
    Push(PushArgs),
    Fetch(FetchArgs),
    Pull(PullArgs),
    Clone(CloneArgs),
    /// Print a script that completes commands in your shell
    #[command(after_help = "Example:
  infinijup completions bash > ~/.local/share/bash-completion/completions/infinijup")]
    Completions {
        /// Which shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    #[command(after_help = "Example:
  infinijup man --out ~/.local/share/man/man1")]
    Man {
        /// Directory for the pages; made if it is not there
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// For tests and demos
    #[command(
        subcommand,
        hide = true,
        after_help = "Example:
  infinijup debug commit --tree . --message first"
    )]
    Debug(DebugCommand),
}

/// The command line as clap knows it: for completions and manual pages.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// Reads the command line. `Err`: there is nothing to run, because help was asked for or because of a mistake.
pub(crate) fn parse() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| {
        // Nobody is left to tell if the terminal is gone.
        let _ = error.print();
        if !error.use_stderr() {
            return exit::Code::Ok.into();
        }
        if std::env::args_os().any(|argument| argument == OsStr::new("--json")) {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            let what = first.strip_prefix("error: ").unwrap_or(first).to_owned();
            Printer::json_only().exit_error(&CliError::Usage { what }.into());
        }
        exit::Code::Usage.into()
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_holds_together() {
        super::command().debug_assert();
    }
}
