//! What a session will run, worked out before anything is made or ended.

use std::ffi::OsString;
use std::path::Path;

use api::{EnvVar, InterruptMode, Network, Start, Text};
use jupyter_bridge::{Connection, KernelCommand, Ports, Search, kernel_command, own_command};
use sandbox::{BOX_DIR, DeviceNode, User};
use session_record::place::CONNECTION;

use crate::error::{LifecycleError, Result};
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

/// A new way to reach a kernel: with a new key and new ports, or with those of a `given` file.
pub(crate) fn new_connection(network: Network, given: Option<&Text>, name: &str) -> Result<Connection> {
    let inside = (network == Network::Private).then_some(Ports::from_array(PRIVATE_PORTS));
    Ok(match given {
        Some(file) => Connection::given(inside, file.as_path(), name)?,
        None => Connection::new(inside, new_ports()?, name)?,
    })
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
        Start::Kernel { spec, argv: Some(argv), interrupt_mode, language, .. } => {
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
