//! What a box is to be, and how that travels to the helper program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cgroup::Cgroup;
use crate::devices::{self, DeviceNode};
use crate::error::{Result, SandboxError};
use crate::process::Identity;

/// Where a box sees its own directory ([`BoxSpec::box_dir`]).
pub const BOX_DIR: &str = "/run/infinijup-box";

/// The file in the box's directory that holds the exit status of the main command once it has ended.
pub const EXIT_FILE: &str = "exit";

/// The number of the first process of every tree, inside its box.
///
/// When the kernel has counted through all numbers it begins again at 300 and never hands out a lower one, so the numbers below
/// are always free for the holder, the gate and CRIU.
pub const ROOT_PID: i32 = 300;

/// Which network a box lives in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Network {
    /// One of its own.
    Private,
    /// The machine's own.
    Host,
}

/// A resource that a process can be limited in (`setrlimit`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Resource {
    /// Open files.
    OpenFiles,
    /// Processes of the user.
    Processes,
    /// Bytes of a core dump.
    Core,
    /// Bytes of locked memory.
    LockedMemory,
    /// Bytes of stack.
    Stack,
    /// Bytes of address space.
    AddressSpace,
}

/// One limit; `None` is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResourceLimit {
    /// Of what.
    pub resource: Resource,
    /// What applies now.
    pub soft: Option<u64>,
    /// How far the process may raise it.
    pub hard: Option<u64>,
}

/// What runs in a box.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Commands {
    /// The main command. The box ends when it ends.
    pub main: Vec<OsString>,
    /// Further commands that run beside it.
    pub sidecars: Vec<Vec<OsString>>,
    /// The whole environment of all of them.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory, as seen inside.
    pub cwd: PathBuf,
}

/// Ports of a box, reachable from outside: the socket `1` in `directory` leads to the first port, `2` to the second …
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Gate {
    /// Where the sockets are made: a directory that is closed to others.
    pub directory: PathBuf,
    /// The ports inside.
    pub ports: Vec<u16>,
}

impl Gate {
    /// The socket that leads to the port with this index.
    pub fn socket(&self, index: usize) -> PathBuf {
        self.directory.join((index + 1).to_string())
    }
}

/// What the two clocks show that never go back, and that programs measure time with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Clocks {
    /// `CLOCK_MONOTONIC`.
    pub monotonic: Duration,
    /// `CLOCK_BOOTTIME`.
    pub boottime: Duration,
}

/// What a box is to be.
#[derive(Clone, Debug)]
pub struct BoxSpec<'a> {
    /// Its name, for messages.
    pub id: String,
    /// What runs in it; `None` for a box that a restore will fill.
    pub commands: Option<Commands>,
    /// A directory of the daemon's making; seen inside at [`BOX_DIR`].
    pub box_dir: PathBuf,
    /// The log's name in `box_dir`.
    pub log: OsString,
    /// A directory (the source) to be seen inside at another path.
    pub workspace: Option<(PathBuf, PathBuf)>,
    /// More of these.
    pub mapped: Vec<(PathBuf, PathBuf)>,
    /// Its network.
    pub network: Network,
    /// Its ports that can be reached from outside.
    pub gate: Option<Gate>,
    /// Its control group, where the daemon may make one.
    pub cgroup: Option<&'a Cgroup>,
    /// Resource limits of every process in it.
    pub limits: Vec<ResourceLimit>,
    /// The nodes of GPUs that it sees in its `/dev`.
    pub devices: Vec<DeviceNode>,
    /// What its clocks are to show; `None`: what the machine's show.
    pub clocks: Option<Clocks>,
    /// The numbers that its user and group have inside; `None`: those that they have outside.
    pub ids: Option<(u32, u32)>,
}

/// A box that is up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Launched {
    /// The holder: process 1 of the box, which no snapshot contains. The box ends with it.
    pub holder: Identity,
    /// The first process of the tree. It may have ended by now, if the command was a short one. `None` in an empty box.
    pub root: Option<Identity>,
}

/// [`BoxSpec`] as it is written to the helper's stdin. Paths travel as `OsString`, because serde refuses a path that is not
/// UTF-8.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) commands: Option<PlannedCommands>,
    pub(crate) box_dir: OsString,
    pub(crate) log: OsString,
    pub(crate) workspace: Option<(OsString, OsString)>,
    pub(crate) mapped: Vec<(OsString, OsString)>,
    pub(crate) network: Network,
    pub(crate) gate: Option<(OsString, Vec<u16>)>,
    pub(crate) cgroup: Vec<OsString>,
    pub(crate) limits: Vec<ResourceLimit>,
    pub(crate) devices: Vec<DeviceNode>,
    pub(crate) clocks: Option<Clocks>,
    pub(crate) ids: Option<(u32, u32)>,
}

/// [`Commands`] on their way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PlannedCommands {
    pub(crate) all: Vec<Vec<OsString>>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: OsString,
}

impl Plan {
    pub(crate) fn new(spec: &BoxSpec<'_>) -> Result<Self> {
        check(spec)?;
        let text = |path: &Path| path.as_os_str().to_owned();
        Ok(Self {
            commands: spec.commands.as_ref().map(|commands| PlannedCommands {
                all: std::iter::once(&commands.main).chain(&commands.sidecars).cloned().collect(),
                env: commands.env.clone(),
                cwd: text(&commands.cwd),
            }),
            box_dir: text(&spec.box_dir),
            log: spec.log.clone(),
            workspace: spec.workspace.as_ref().map(|(source, inside)| (text(source), text(inside))),
            mapped: spec.mapped.iter().map(|(source, inside)| (text(source), text(inside))).collect(),
            network: spec.network,
            gate: spec.gate.as_ref().map(|gate| (text(&gate.directory), gate.ports.clone())),
            cgroup: spec
                .cgroup
                .map(Cgroup::paths)
                .unwrap_or_default()
                .iter()
                .map(|path| text(path))
                .collect(),
            limits: spec.limits.clone(),
            devices: spec.devices.clone(),
            clocks: spec.clocks,
            ids: spec.ids,
        })
    }
}

/// What no box can be, found before anything is touched.
fn check(spec: &BoxSpec<'_>) -> Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let bad = |detail: String| Err(SandboxError::BadSpec { detail });
    if let Some(commands) = &spec.commands {
        let mut all = std::iter::once(&commands.main).chain(&commands.sidecars);
        if all.any(Vec::is_empty) {
            return bad("a command has no words".to_owned());
        }
        let mut words = commands.main.iter().chain(commands.sidecars.iter().flatten());
        let mut variables = commands.env.iter();
        if words.any(|word| word.as_bytes().contains(&0))
            || variables.any(|(name, value)| {
                let name = name.as_bytes();
                name.is_empty() || name.contains(&0) || name.contains(&b'=') || value.as_bytes().contains(&0)
            })
        {
            return bad("a command or variable holds a NUL byte, or a variable's name is not one".to_owned());
        }
    }
    let log = spec.log.as_bytes();
    if log.is_empty() || log.contains(&b'/') || log.contains(&0) || log == b"." || log == b".." {
        return bad("the log needs a plain file name".to_owned());
    }
    let workspace = spec.workspace.iter().chain(&spec.mapped).flat_map(|(source, inside)| [source, inside]);
    let cwd = spec.commands.iter().map(|commands| &commands.cwd);
    let gate = spec.gate.iter().map(|gate| &gate.directory);
    for path in std::iter::once(&spec.box_dir).chain(workspace).chain(cwd).chain(gate) {
        if !path.is_absolute() || path.as_os_str().as_bytes().contains(&0) {
            return bad(format!("`{}` is not an absolute path", path.display()));
        }
    }
    if spec.gate.is_some() && spec.network == Network::Host {
        return bad("a box in the machine's network needs no gate".to_owned());
    }
    devices::check(&spec.devices)
}
