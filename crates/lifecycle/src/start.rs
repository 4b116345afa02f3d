//! A new session: namespaces, network, processes.

use std::ffi::OsString;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jupyter_bridge::{ConnectionFile, Ports, Search, kernel_command};
use sandbox::process::Identity;
use sandbox::{
    BOX_DIR, BoxSpec, Cgroup, DeviceNode, Forwarder, Limits, NetworkNamespace, Pasta, Root, User, as_user,
};

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::{LifecycleError, Result, io_error};
use crate::gpu::nodes_for;
use crate::journal::Phase;
use crate::place::{CONNECTION, LOG, make, make_for};
use crate::record::{KernelRecord, MountRecord, Network, Record, SessionId, SessionState};
use crate::request::{Start, StartRequest};
use crate::steps::{Steps, Watch};
use crate::view::SessionView;

/// How long a kernel may take until it listens.
const KERNEL_LIMIT: Duration = Duration::from_secs(120);
/// Ports of a kernel in a network of its own. Any will do there; these are easy to recognise.
const PRIVATE_PORTS: [u16; 5] = [9001, 9002, 9003, 9004, 9005];

/// What will run, worked out before anything is made.
struct Prepared {
    command: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    /// The kernelspec's name, the file for the box and the file for clients.
    kernel: Option<(String, ConnectionFile, ConnectionFile)>,
    /// Nodes of the GPUs that it may use.
    devices: Vec<DeviceNode>,
}

impl Engine {
    /// Starts a session. It is there when this returns: a kernel answers.
    pub fn start(&self, caller: &Caller, request: StartRequest, watch: &dyn Watch) -> Result<SessionView> {
        let mut steps = Steps::new(watch);
        let user = caller.user().clone();
        let id = SessionId::random()?;
        let name = self.free_name(user.uid, request.name.as_deref(), &id)?;
        let _held = self.inner.locks.take(&id, &name, "its start")?;

        let prepared = steps.run("prepare", || prepare(&user, &request))?;
        let workspace = request.workspace.clone().unwrap_or_else(|| request.cwd.clone());
        for directory in [&request.cwd, &workspace] {
            check_directory(&user, directory)?;
        }

        let (gpus, host) = self.grant(&request.gpus, &user)?;
        let devices = host.map(|host| nodes_for(&host, &gpus, &user)).transpose()?.unwrap_or_default();
        let mut record = Record {
            id: id.clone(),
            thread: self.inner.stores.open(user.uid)?.free_thread(&name, id.as_str())?,
            name,
            state: SessionState::Starting,
            command: prepared.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            cwd: request.cwd.clone(),
            created: Timestamp::now(),
            network: request.network,
            outside: request.outside,
            workspace: workspace.clone(),
            files: request.files.clone(),
            memory_limit: request.memory_limit,
            pids_limit: request.pids_limit,
            kernel: None,
            head: None,
            origin: None,
            mounts: Vec::new(),
            init: None,
            forwarder: None,
            pasta: None,
            exit: None,
            outside_copies: Vec::new(),
            attached: false,
            gpu_wish: request.gpus.clone(),
            gpus,
            gpu_trouble: None,
            owner: user,
        };
        let entry = self.inner.journal.begin(&id, &Phase::Starting)?;
        let prepared = Prepared { devices, ..prepared };
        let result = self.launch(&mut record, &request, prepared, workspace, &mut steps);
        match result {
            Ok(()) => {
                self.save(&record)?;
                entry.done()?;
                Ok(self.running(&record))
            }
            Err(error) => {
                self.clear_away(&record);
                entry.done()?;
                self.forget(&record);
                Err(error)
            }
        }
    }

    fn launch(
        &self,
        record: &mut Record,
        request: &StartRequest,
        prepared: Prepared,
        workspace: PathBuf,
        steps: &mut Steps<'_>,
    ) -> Result<()> {
        let place = &self.inner.place;
        let id = record.id.clone();
        let box_dir = place.box_dir(&id);
        make(&place.session(&id), 0o711)?;
        make(&place.criu_log(&id), 0o700)?;
        make_for(&box_dir, record.owner.uid, record.owner.gid)?;
        self.save(record)?;
        if let Some((_, inside, _)) = &prepared.kernel {
            // The box is empty and nobody runs in it yet, so this path is what it seems.
            write_for(&box_dir.join(CONNECTION), &record.owner, inside.to_json().as_bytes())?;
        }
        let cgroup = self.cgroup(record)?;
        let init = steps.run("launch", || {
            self.make_network(record)?;
            let root = Root::at(&place.root(&id))?;
            let spec = BoxSpec {
                id: id.to_string(),
                user: record.owner.clone(),
                command: prepared.command,
                env: prepared.env,
                cwd: request.cwd.clone(),
                root: root.path().to_owned(),
                box_dir,
                workspace: Some((workspace.clone(), workspace)),
                log: LOG.into(),
                network: match record.network {
                    Network::Private => sandbox::Network::Private(place.netns(&id)),
                    Network::Host => sandbox::Network::Host,
                },
                cgroup: Some(&cgroup),
                sidecars: request.sidecars.clone(),
                limits: Vec::new(),
                devices: prepared.devices,
            };
            let launched = sandbox::launch(&self.inner.program, &spec)?;
            record.mounts = launched
                .mounts
                .into_iter()
                .map(|mount| MountRecord { key: mount.key, inside: mount.inside, source: mount.outside })
                .collect();
            Ok(launched.init)
        })?;
        record.init = Some(init);
        if let Some((spec, inside, outside)) = prepared.kernel {
            let ports: Vec<_> = outside.ports.to_array().into_iter().zip(inside.ports.to_array()).collect();
            let connection_file = place.connection_file(record.owner.uid, &id)?;
            write_for(&connection_file, &record.owner, outside.to_json().as_bytes())?;
            record.kernel = Some(KernelRecord { spec, connection_file, ports });
            self.forward(record)?;
            steps.run("wait for the kernel", || self.wait_for_kernel(record, init))?;
        }
        // A command may be done by now: it ran, whatever its status.
        record.state = SessionState::Running;
        Ok(())
    }

    /// From here on the session is looked after, and its view can be given out.
    pub(crate) fn running(&self, record: &Record) -> SessionView {
        if let Some(init) = record.init
            && self.inner.watcher.look_after(init).is_err()
        {
            // It has ended between the last look and this one.
            self.ended_by_itself(init);
        }
        SessionView::of(record)
    }

    /// The session's cgroup, made if it is not there.
    pub(crate) fn cgroup(&self, record: &Record) -> Result<Cgroup> {
        let limits = Limits { memory: record.memory_limit, pids: record.pids_limit };
        Ok(Cgroup::create(record.id.as_str(), limits)?)
    }

    /// The session's network namespace and its way out, made if they are not there.
    pub(crate) fn make_network(&self, record: &mut Record) -> Result<()> {
        if record.network == Network::Host {
            return Ok(());
        }
        let path = self.inner.place.netns(&record.id);
        if NetworkNamespace::open(&path).is_err() {
            NetworkNamespace::create(&path)?;
            record.pasta = None;
        }
        let alive = record.pasta.is_some_and(|pasta| pasta.is_alive());
        if record.outside && !alive {
            record.pasta = Pasta::start(&path)?.map(|pasta| pasta.identity);
        }
        Ok(())
    }

    /// A new network in place of the one that an ended tree had: connections that it left behind still hold its ports there.
    pub(crate) fn renew_network(&self, record: &mut Record) -> Result<()> {
        if let Some(identity) = record.pasta.take() {
            Pasta { identity }.stop();
        }
        if record.network == Network::Private
            && let Ok(netns) = NetworkNamespace::open(&self.inner.place.netns(&record.id))
        {
            netns.remove()?;
        }
        self.make_network(record)
    }

    /// Leads the kernel's ports outside to those inside, unless that is being done.
    pub(crate) fn forward(&self, record: &mut Record) -> Result<()> {
        let Some(kernel) = &record.kernel else { return Ok(()) };
        let alive = record.forwarder.is_some_and(|forwarder| forwarder.is_alive());
        if record.network == Network::Host || alive {
            return Ok(());
        }
        let netns = self.inner.place.netns(&record.id);
        let forwarder = Forwarder::start(&self.inner.program, &netns, &kernel.ports)?;
        record.forwarder = Some(forwarder.identity);
        Ok(())
    }

    fn wait_for_kernel(&self, record: &Record, init: Identity) -> Result<()> {
        let Some(kernel) = &record.kernel else { return Ok(()) };
        let begun = Instant::now();
        loop {
            if !init.is_alive() {
                return Err(self.ended_at_once(record));
            }
            if listens_on_all(init.pid, &kernel.ports) {
                return Ok(());
            }
            if begun.elapsed() > KERNEL_LIMIT {
                return Err(LifecycleError::BadRequest {
                    detail: format!(
                        "the kernel did not listen on its ports within {} s",
                        KERNEL_LIMIT.as_secs()
                    ),
                });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ended_at_once(&self, record: &Record) -> LifecycleError {
        LifecycleError::EndedAtOnce {
            session: record.name.clone(),
            status: self.exit_status(record).unwrap_or(-1),
            log: self.log_tail(record),
        }
    }

    /// The last lines that the session wrote.
    fn log_tail(&self, record: &Record) -> Vec<String> {
        const LINES: usize = 5;
        let path = self.inner.place.log(&record.id);
        let text = as_user(&record.owner, || fs::read(&path).unwrap_or_default()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines.iter().skip(lines.len().saturating_sub(LINES)).map(|line| (*line).to_owned()).collect()
    }
}

fn prepare(user: &User, request: &StartRequest) -> Result<Prepared> {
    match &request.start {
        Start::Command(command) => {
            if command.is_empty() {
                return Err(LifecycleError::BadRequest { detail: "there is no command to run".to_owned() });
            }
            Ok(Prepared {
                command: command.clone(),
                env: request.env.clone(),
                kernel: None,
                devices: Vec::new(),
            })
        }
        Start::Kernel { spec } => {
            // Kernelspecs are the user's files, too: their rights decide what can be read.
            let search = Search::of(&user.home, &request.env);
            let spec = as_user(user, || match spec {
                Some(name) => search.find(name),
                None => search.find_default(),
            })??;
            let outside = ConnectionFile::new(Ipv4Addr::LOCALHOST.into(), new_ports()?, &spec.name)?;
            let ports = match request.network {
                Network::Private => Ports::from_array(PRIVATE_PORTS),
                Network::Host => outside.ports,
            };
            let inside = ConnectionFile { ports, ..outside.clone() };
            let kernel = kernel_command(&spec, &Path::new(BOX_DIR).join(CONNECTION), &request.env);
            Ok(Prepared {
                command: kernel.argv,
                env: kernel.env,
                kernel: Some((spec.name, inside, outside)),
                devices: Vec::new(),
            })
        }
    }
}

/// Ports on loopback that nobody listens on, for a kernel.
pub(crate) fn new_ports() -> Result<Ports> {
    let found = sandbox::free_ports(PRIVATE_PORTS.len())?;
    let found = found.try_into().map_err(|_| LifecycleError::Bug("a kernel has five ports".to_owned()))?;
    Ok(Ports::from_array(found))
}

fn check_directory(user: &User, path: &Path) -> Result<()> {
    // To read it is asked too: a directory that is closed to the user is nobody's workspace.
    let look = || fs::read_dir(path).and_then(|_| fs::metadata(path));
    let found = as_user(user, look).map_err(LifecycleError::from)?;
    match found {
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
    chown(path, Some(user.uid), Some(user.gid)).map_err(io_error("change the owner of", path))
}

/// Whether something in the network of `pid` listens on each of the inner ports.
fn listens_on_all(pid: i32, ports: &[(u16, u16)]) -> bool {
    const LISTEN: &str = "0A";
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    let listening: Vec<u16> = table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let (local, _, state) = (fields.next()?, fields.next()?, fields.next()?);
            let port = local.rsplit(':').next().filter(|_| state == LISTEN)?;
            u16::from_str_radix(port, 16).ok()
        })
        .collect();
    ports.iter().all(|(_, inside)| listening.contains(inside))
}
