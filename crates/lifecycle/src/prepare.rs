//! What a session will run, worked out before anything is made or ended.

use std::ffi::OsString;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::chown;
use std::path::Path;

use api::{EnvVar, InterruptMode, Start};
use jupyter_bridge::{ConnectionFile, KernelCommand, Ports, Search, kernel_command, own_command};
use sandbox::{BOX_DIR, DeviceNode, User};

use crate::error::{LifecycleError, Result, io_error};
use crate::place::CONNECTION;
use crate::record::Network;
use crate::words;

/// Ports of a kernel in a network of its own. Any will do there; these are easy to recognise.
const PRIVATE_PORTS: [u16; 5] = [9001, 9002, 9003, 9004, 9005];

/// What will run.
pub(crate) struct Prepared {
    pub(crate) command: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) kernel: Option<PreparedKernel>,
    /// Nodes of the GPUs that it may use.
    pub(crate) devices: Vec<DeviceNode>,
}

/// A kernel that will run.
pub(crate) struct PreparedKernel {
    pub(crate) spec: String,
    pub(crate) language: String,
    pub(crate) interrupt_mode: InterruptMode,
    pub(crate) connection: Connection,
}

/// How a kernel is reached: the file for the box and the file for clients.
pub(crate) struct Connection {
    pub(crate) inside: ConnectionFile,
    pub(crate) outside: ConnectionFile,
}

impl Connection {
    /// One with a new key and new ports.
    pub(crate) fn new(network: Network, kernel_name: &str) -> Result<Self> {
        let outside = ConnectionFile::new(Ipv4Addr::LOCALHOST.into(), new_ports()?, kernel_name)?;
        let ports = match network {
            Network::Private => Ports::from_array(PRIVATE_PORTS),
            Network::Host => outside.ports,
        };
        Ok(Self { inside: ConnectionFile { ports, ..outside.clone() }, outside })
    }

    /// Each port outside, with the one inside.
    pub(crate) fn ports(&self) -> Vec<(u16, u16)> {
        self.outside.ports.to_array().into_iter().zip(self.inside.ports.to_array()).collect()
    }
}

/// Works out how to run `start` for a user with the variables `env`. A kernel is reached by what `connection` makes for its
/// name.
pub(crate) fn prepare(
    user: &User,
    start: &Start,
    env: &[EnvVar],
    connection: impl FnOnce(&str) -> Result<Connection>,
) -> Result<Prepared> {
    let (file, env) = (Path::new(BOX_DIR).join(CONNECTION), words::environment(env));
    let (spec, language, interrupt_mode, KernelCommand { argv, env }) = match start {
        Start::Command { argv } if argv.is_empty() => {
            return Err(LifecycleError::BadRequest { detail: "there is no command to run".to_owned() });
        }
        Start::Command { argv } => {
            let command = words::argv(argv);
            return Ok(Prepared { command, env, kernel: None, devices: Vec::new() });
        }
        // A kernel whose kernelspec was read by somebody else.
        Start::Kernel { spec, argv: Some(argv), interrupt_mode, language } => {
            let spec = spec.clone().unwrap_or_else(|| "kernel".to_owned());
            let command = own_command(&words::argv(argv), &file, &env);
            (spec, language.clone().unwrap_or_default(), interrupt_mode.unwrap_or_default(), command)
        }
        Start::Kernel { spec, argv: None, .. } => {
            // Kernelspecs are the user's files, too: their rights decide what can be read.
            let search = Search::of(&user.home, &env);
            let spec = match spec {
                Some(name) => search.find(name),
                None => search.find_default(),
            }?;
            let command = kernel_command(&spec, &file, &env);
            (spec.name, spec.language, words::interrupt_mode(spec.interrupt_mode), command)
        }
    };
    let connection = connection(&spec)?;
    let kernel = PreparedKernel { spec, language, interrupt_mode, connection };
    Ok(Prepared { command: argv, env, kernel: Some(kernel), devices: Vec::new() })
}

/// Ports on loopback that nobody listens on, for a kernel.
pub(crate) fn new_ports() -> Result<Ports> {
    let found = sandbox::free_ports(PRIVATE_PORTS.len())?;
    let found = found.try_into().map_err(|_| LifecycleError::Bug("a kernel has five ports".to_owned()))?;
    Ok(Ports::from_array(found))
}

pub(crate) fn check_directory(path: &Path) -> Result<()> {
    // To read it is asked too: a directory that is closed to the user is nobody's workspace.
    let look = || fs::read_dir(path).and_then(|_| fs::metadata(path));
    match look() {
        Ok(found) if found.is_dir() && path.is_absolute() => Ok(()),
        Ok(_) => {
            Err(LifecycleError::BadRequest { detail: format!("`{}` is not a directory", path.display()) })
        }
        Err(error) => Err(LifecycleError::BadRequest { detail: format!("`{}`: {error}", path.display()) }),
    }
}

/// A new file of root's making that belongs to the user and that nobody else can read.
pub(crate) fn write_for(path: &Path, user: &User, content: &[u8]) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(io_error("create", path))?;
    file.write_all(content).map_err(io_error("write", path))?;
    Ok(chown(path, Some(user.uid), Some(user.gid)).map_err(io_error("change the owner of", path))?)
}

/// Replaces a file in a directory of root's, for a user, in one piece.
pub(crate) fn replace_for(path: &Path, user: &User, content: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    // Left by somebody who was cut short.
    let _nothing = fs::remove_file(&new);
    write_for(&new, user, content)?;
    Ok(fs::rename(&new, path).map_err(io_error("rename", &new))?)
}

/// Replaces a file in a directory that the user may write to, with the user's rights.
pub(crate) fn replace_as(path: &Path, content: &[u8]) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let new = path.with_extension("new");
    let replace = || {
        let _nothing = fs::remove_file(&new);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(content)?;
        fs::rename(&new, path)
    };
    Ok(replace().map_err(io_error("replace", path))?)
}
