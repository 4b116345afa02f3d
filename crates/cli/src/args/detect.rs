//! What processes have on the GPU, and what containers are like.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

/// What only says where a container is. Others take these options, too, and know nothing of processes.
const OF_CONTAINERS: [&str; 4] = ["runtime", "address", "namespace", "runtime_root"];

/// Say what a process or a container has on the GPU, and whether it can be captured.
#[derive(Debug, Args)]
#[command(
    long_about = "Say what a process, a process tree or every process of this machine has on the GPU, on what evidence, and whether \
the driver can capture it; or what stands in the way of a snapshot of a container: who has paused or frozen it, its GPUs, mounts, \
volumes and layers. Looks only: nothing is stopped or changed. Needs no daemon; processes of other users can be seen by root \
only, and those that could not be looked at are named. --verbose shows the evidence.",
    after_help = "Example:
  infinijup detect --pid 4711 --tree --verbose
  sudo infinijup detect --container web-0
  sudo infinijup detect --all --json | jq '.processes[] | {pid, vram_bytes, strategy}'",
    group = ArgGroup::new("whom").required(true)
)]
pub(crate) struct DetectArgs {
    /// This process
    #[arg(long, value_name = "PID", group = "whom", value_parser = clap::value_parser!(i32).range(1..), conflicts_with_all = OF_CONTAINERS)]
    pub(crate) pid: Option<i32>,
    /// Its descendants too
    #[arg(long, requires = "pid")]
    pub(crate) tree: bool,
    /// Every process
    #[arg(long, group = "whom", conflicts_with_all = OF_CONTAINERS)]
    pub(crate) all: bool,
    /// This container: its id or the beginning of it, its name, its pod, or a process in it
    #[arg(long, value_name = "ID", group = "whom")]
    pub(crate) container: Option<String>,
    #[command(flatten)]
    pub(crate) place: ContainerPlace,
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

/// Where a container is, if it is not where its runtime is usually found.
#[derive(Debug, Args, Default)]
pub(crate) struct ContainerPlace {
    /// Ask this runtime only
    #[arg(long, value_enum, value_name = "RUNTIME", requires = "container")]
    pub(crate) runtime: Option<RuntimeKind>,
    /// containerd's socket
    #[arg(long, value_name = "SOCKET", requires = "container")]
    pub(crate) address: Option<PathBuf>,
    /// containerd's namespace; default, k8s.io and moby are looked through
    #[arg(long, value_name = "NAME", requires = "container")]
    pub(crate) namespace: Option<String>,
    /// State directory of runc or crun
    #[arg(long, value_name = "DIR", requires = "container")]
    pub(crate) runtime_root: Option<PathBuf>,
}

impl ContainerPlace {
    /// In the words of those who look.
    pub(crate) fn narrowed(&self) -> containers::Narrowed {
        let kind = self.runtime.map(|kind| match kind {
            RuntimeKind::Containerd => containers::Kind::Containerd,
            RuntimeKind::Runc => containers::Kind::Runc,
            RuntimeKind::Crun => containers::Kind::Crun,
            RuntimeKind::Podman => containers::Kind::Podman,
        });
        containers::Narrowed {
            kind,
            address: self.address.clone(),
            namespace: self.namespace.clone(),
            runtime_root: self.runtime_root.clone(),
        }
    }
}

/// Who looks after containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuntimeKind {
    Containerd,
    Runc,
    Crun,
    Podman,
}

/// How to print what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DetectFormat {
    Text,
    Json,
}
