//! What a box is to be, and how that travels to the helper program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cgroup::Cgroup;
use crate::devices::{self, DeviceNode};
use crate::error::{Result, SandboxError};
use crate::process::Identity;
use crate::user::User;

/// Where a box sees its own directory ([`BoxSpec::box_dir`]).
pub const BOX_DIR: &str = "/run/infinijup-box";

/// The file in the box's directory that holds the exit status of the main command once it has ended.
pub const EXIT_FILE: &str = "exit";

/// Which network a box lives in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Network {
    /// The network namespace that is pinned at this path.
    Private(PathBuf),
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

/// What a box is to be.
#[derive(Clone, Debug)]
pub struct BoxSpec<'a> {
    /// Its name, for messages.
    pub id: String,
    /// Who it runs as.
    pub user: User,
    /// The main command. The box ends when it ends.
    pub command: Vec<OsString>,
    /// The whole environment of the main command and the sidecars.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory, as seen inside.
    pub cwd: PathBuf,
    /// Where a [`Root`](crate::Root) is mounted.
    pub root: PathBuf,
    /// A directory of the daemon's making that belongs to the user; seen inside at [`BOX_DIR`].
    pub box_dir: PathBuf,
    /// A directory (the source) to be seen inside at another path.
    ///
    /// When the two are equal it is the user's own directory, and is opened with the user's rights. When they differ the
    /// source is a directory of the daemon's (the files of a branch), opened with ours, and no part of it may be a symbolic
    /// link.
    pub workspace: Option<(PathBuf, PathBuf)>,
    /// The log's name in `box_dir`.
    pub log: OsString,
    /// Its network.
    pub network: Network,
    /// Its control group.
    pub cgroup: Option<&'a Cgroup>,
    /// Further commands that run beside the main one.
    pub sidecars: Vec<Vec<OsString>>,
    /// Resource limits of every process in it.
    pub limits: Vec<ResourceLimit>,
    /// The nodes of GPUs that it sees in its `/dev`.
    pub devices: Vec<DeviceNode>,
}

/// A mount of a box whose content is not part of a snapshot: CRIU is told where it comes from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BoxMount {
    /// How CRIU's images name it: `box`, `workspace`, `m0` …
    pub key: String,
    /// Where it is inside.
    pub inside: PathBuf,
    /// What is mounted there.
    pub outside: PathBuf,
}

/// A box that is up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Launched {
    /// Its first process. It may have ended by now, if the command was a short one.
    pub init: Identity,
    /// What CRIU must be told about.
    pub mounts: Vec<BoxMount>,
}

/// [`BoxSpec`] as it is written to the helper's stdin. Paths travel as `OsString`, because serde refuses a path that is not
/// UTF-8.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
    pub(crate) command: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: OsString,
    pub(crate) root: OsString,
    pub(crate) box_dir: OsString,
    pub(crate) workspace: Option<(OsString, OsString)>,
    pub(crate) log: OsString,
    pub(crate) network: Option<OsString>,
    pub(crate) cgroup: Vec<OsString>,
    pub(crate) sidecars: Vec<Vec<OsString>>,
    pub(crate) limits: Vec<ResourceLimit>,
    pub(crate) devices: Vec<DeviceNode>,
}

impl Plan {
    pub(crate) fn new(spec: &BoxSpec<'_>) -> Result<Self> {
        check(spec)?;
        let text = |path: &Path| path.as_os_str().to_owned();
        Ok(Self {
            uid: spec.user.uid,
            gid: spec.user.gid,
            groups: spec.user.groups.clone(),
            command: spec.command.clone(),
            env: spec.env.clone(),
            cwd: text(&spec.cwd),
            root: ours(&spec.root)?,
            box_dir: ours(&spec.box_dir)?,
            workspace: match &spec.workspace {
                Some((source, inside)) if source == inside => Some((text(source), text(inside))),
                Some((source, inside)) => Some((ours(source)?, text(inside))),
                None => None,
            },
            log: spec.log.clone(),
            network: match &spec.network {
                Network::Private(path) => Some(text(path)),
                Network::Host => None,
            },
            cgroup: spec
                .cgroup
                .map(Cgroup::paths)
                .unwrap_or_default()
                .iter()
                .map(|path| text(path))
                .collect(),
            sidecars: spec.sidecars.clone(),
            limits: spec.limits.clone(),
            devices: spec.devices.clone(),
        })
    }

    /// The user as far as credentials go.
    pub(crate) fn user(&self) -> User {
        User {
            uid: self.uid,
            gid: self.gid,
            groups: self.groups.clone(),
            name: String::new(),
            home: PathBuf::new(),
            shell: PathBuf::new(),
        }
    }
}

/// A directory of our own, without links on the way to it: the helper refuses them.
fn ours(path: &Path) -> Result<OsString> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(SandboxError::BadSpec {
            detail: format!("`{}` cannot be a directory of ours", path.display()),
        });
    };
    let parent = parent.canonicalize().map_err(SandboxError::io("open", parent))?;
    Ok(parent.join(name).into())
}

/// What no box can be, found before anything is touched.
fn check(spec: &BoxSpec<'_>) -> Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let bad = |detail: String| Err(SandboxError::BadSpec { detail });
    if spec.command.is_empty() || spec.sidecars.iter().any(Vec::is_empty) {
        return bad("a command has no words".to_owned());
    }
    let mut words = spec.command.iter().chain(spec.sidecars.iter().flatten());
    let mut variables = spec.env.iter();
    if words.any(|word| word.as_bytes().contains(&0))
        || variables.any(|(name, value)| {
            let name = name.as_bytes();
            name.is_empty() || name.contains(&0) || name.contains(&b'=') || value.as_bytes().contains(&0)
        })
    {
        return bad("a command or variable holds a NUL byte, or a variable's name is not one".to_owned());
    }
    let log = spec.log.as_bytes();
    if log.is_empty() || log.contains(&b'/') || log.contains(&0) || log == b"." || log == b".." {
        return bad("the log needs a plain file name".to_owned());
    }
    let workspace = spec.workspace.iter().flat_map(|(source, inside)| [source, inside]);
    for path in [&spec.cwd, &spec.root, &spec.box_dir].into_iter().chain(workspace) {
        if !path.is_absolute() || path.as_os_str().as_bytes().contains(&0) {
            return bad(format!("`{}` is not an absolute path", path.display()));
        }
    }
    devices::check(&spec.devices)
}
