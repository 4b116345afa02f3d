//! The daemon itself.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    /// Start your daemon, unless it runs already
    #[command(
        long_about = "Start your daemon in the background, unless it runs already, and wait until it answers. Commands that need it do \
this by themselves, unless --socket or INFINIJUP_SOCKET names a socket or INFINIJUP_AUTOSTART=0 is set.",
        after_help = "Example:
  infinijup daemon start"
    )]
    Start,
    /// End your daemon; sessions go on
    #[command(
        long_about = "End your daemon. What it has begun is done first. Sessions go on without it, and the next daemon finds them again.",
        after_help = "Example:
  infinijup daemon stop && infinijup daemon start"
    )]
    Stop,
    /// Say whether your daemon runs, who needs it and whether it survives a logout
    #[command(
        long_about = "Say whether your daemon runs, where its things are, who needs it, and whether it survives a logout. Exits with 0 \
if it runs, with 16 if it does not. Starts nothing.",
        after_help = "Example:
  infinijup daemon status
  infinijup daemon status --json | jq .daemon.pid"
    )]
    Status,
    /// Have systemd start your daemon when something connects
    #[command(
        long_about = "Write units for your own systemd (systemctl --user) and enable them: it then holds the socket and starts the \
daemon when something connects. Needs no rights. Without systemd there is nothing to install: commands start the daemon by themselves.",
        after_help = "Example:
  infinijup daemon install
  loginctl enable-linger"
    )]
    Install,
    /// Take back what `install` did
    #[command(after_help = "Example:
  infinijup daemon uninstall")]
    Uninstall,
}
