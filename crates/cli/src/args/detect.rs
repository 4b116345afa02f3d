//! What processes have on the GPU.

use clap::{ArgGroup, Args, ValueEnum};

/// Say what a process has on the GPU, and whether it can be captured.
#[derive(Debug, Args)]
#[command(
    long_about = "Say what a process, a process tree or every process of this machine has on the GPU, on what evidence, and whether \
the driver can capture it. Looks only: nothing is stopped or changed. Needs no daemon; processes of other users can be seen by root \
only, and those that could not be looked at are named. --verbose shows the evidence.",
    after_help = "Example:
  infinijup detect --pid 4711 --tree --verbose
  sudo infinijup detect --all --json | jq '.processes[] | {pid, vram_bytes, strategy}'",
    group = ArgGroup::new("whom").required(true)
)]
pub(crate) struct DetectArgs {
    /// This process
    #[arg(long, value_name = "PID", group = "whom", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Option<i32>,
    /// Its descendants too
    #[arg(long, requires = "pid")]
    pub(crate) tree: bool,
    /// Every process
    #[arg(long, group = "whom")]
    pub(crate) all: bool,
    /// Copy the memory behind this window instead: bytes for forensics, never a snapshot
    #[cfg(feature = "forensic")]
    #[arg(long, value_name = "FILE", group = "whom", requires = "out")]
    pub(crate) capture: Option<std::path::PathBuf>,
    /// How much shows at a time
    #[cfg(feature = "forensic")]
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20, requires = "capture", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) window: u64,
    /// Where the copy goes; must not be there yet
    #[cfg(feature = "forensic")]
    #[arg(long, value_name = "FILE", requires = "capture")]
    pub(crate) out: Option<std::path::PathBuf>,
    /// How to print it; `json` is the same as --json
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = DetectFormat::Text)]
    pub(crate) format: DetectFormat,
}

/// How to print what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DetectFormat {
    Text,
    Json,
}
