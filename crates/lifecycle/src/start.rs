//! A new session: namespaces, network, processes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use api::{Network, SessionView, StartRequest};
use base::proc;
use jupyter_bridge::ConnectionFile;
use sandbox::bounded;
use sandbox::{Commands, SandboxError};
use session_record::files::{check_directory, replace_for, write_for};
use session_record::place::{CONNECTION, make, make_for};
use session_record::policy_at_start;
use session_record::words::{gpu_wish, session_policy};
use session_record::{KernelRecord, Notes, Record, SessionId};

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::making::{IT_RUNS, LAUNCH, LEAD_CLIENTS, New, WAIT_FOR_THE_KERNEL, remove_place, starting};
use crate::pipeline::{Pipeline, Stage, Step, WayOut, Work};
use crate::ports::Granted;
use crate::prepare::{Prepared, new_connection, new_ports, prepare};
use crate::steps::{Steps, Watch};
use crate::words;
use session_record::locks::Doing;

/// How long a kernel may take until it listens.
const KERNEL_LIMIT: Duration = Duration::from_secs(120);

/// A process that has this variable runs in a session. In a branch it still names the original: memory is as it was.
const SESSION_VARIABLE: &str = "INFINIJUP_SESSION";

/// Nobody was told of a session that is not there yet: if it fails, or is cut short, nothing of it is left.
pub(crate) const START: Pipeline<New> = &[Stage::new(
    "starting",
    starting,
    WayOut::Back,
    &[
        Step::quiet("make its place", make_place).undo(remove_place),
        LAUNCH,
        LEAD_CLIENTS,
        WAIT_FOR_THE_KERNEL,
        IT_RUNS,
    ],
)];

/// From here on a crash finds a record, and with it everything that has to be cleared away.
fn make_place(work: &mut Work<'_>, new: &mut New) -> Result<()> {
    let (record, place) = (&*work.record, &work.engine.inner.place);
    let box_dir = place.box_dir(&record.id);
    make(&place.session(&record.id))?;
    make(&place.criu_log(&record.id))?;
    make_for(&box_dir, record.owner.uid, record.owner.gid)?;
    work.engine.save(record)?;
    if let Some(kernel) = &new.prepared()?.kernel {
        // The box is empty and nobody runs in it yet, so this path is what it seems.
        let content = kernel.connection.inside.to_json();
        write_for(&box_dir.join(CONNECTION), &record.owner, content.as_bytes())?;
    }
    Ok(())
}

impl Engine {
    /// Starts a session. It is there when this returns: a kernel answers.
    pub fn start(&self, request: StartRequest, watch: &dyn Watch) -> Result<SessionView> {
        let mut steps = Steps::new(watch);
        let user = self.inner.user.clone();
        let id = SessionId::random()?;
        let name = self.free_name(request.name.as_deref(), &id)?;
        let _held = self.inner.locks.take(&id, &name, Doing::Start)?;

        let files = policy_at_start(request.files)?;
        let policy = session_policy(request.policy.unwrap_or_default());
        let notes = Notes::new(request.labels, request.notebook.map(Into::into), policy)?;
        let gpu_wish = gpu_wish(request.gpus);
        let new = |spec: &str| new_connection(request.network, request.start.connection_file(), spec);
        let prepared = steps.run("prepare", || prepare(&user, &request.start, &request.env, new))?;
        let cwd = PathBuf::from(request.cwd);
        let workspace = request.workspace.map_or_else(|| cwd.clone(), Into::into);
        for directory in [&cwd, &workspace] {
            check_directory(directory)?;
        }

        let Granted { gpus, nodes: devices } = self.gpu().grant(&gpu_wish, &user)?;
        let thread = self.inner.store.open()?.free_thread(&name, id.as_str())?;
        let mut record = Record {
            command: for_people(&prepared.command),
            cwd,
            network: request.network,
            outside: request.outside,
            files_at: workspace.clone(),
            workspace,
            files,
            memory_limit: request.memory_limit.or(self.inner.config.memory_limit),
            pids_limit: request.pids_limit.or(self.inner.config.pids_limit),
            gpu_wish,
            gpus,
            sidecars: request.sidecars.iter().map(|sidecar| words::argv(sidecar)).collect(),
            notes,
            ..Record::new(id, name, thread, user)
        };
        let prepared = Some(Prepared { devices, ..prepared });
        Work::new(self, &mut record, steps).run(START, &mut New { prepared, ..New::default() })?;
        Ok(self.view(&record))
    }

    /// Runs the command of a session that has no processes, in its directory.
    pub(crate) fn run_box(&self, record: &mut Record, prepared: Prepared) -> Result<()> {
        let id = record.id.clone();
        let mut env = prepared.env;
        env.retain(|(name, _)| name != SESSION_VARIABLE);
        env.push((SESSION_VARIABLE.into(), id.as_str().into()));
        if let Some(kernel) = prepared.kernel {
            let connection_file = self.inner.place.connection_file(&id);
            let content = kernel.connection.outside.to_json();
            replace_for(&connection_file, &record.owner, content.as_bytes())?;
            record.kernel = Some(KernelRecord {
                spec: kernel.spec,
                connection_file,
                ports: kernel.connection.ports(),
                language: kernel.language,
                interrupt_mode: kernel.interrupt_mode,
            });
        }
        let commands = Commands {
            main: prepared.command,
            sidecars: record.sidecars.clone(),
            env,
            cwd: record.cwd.clone(),
        };
        self.habitat(record).launch(record, commands, prepared.devices)
    }

    /// From here on the session is looked after, and its view can be given out.
    pub(crate) fn running(&self, record: &Record) -> SessionView {
        if let Some(init) = record.init
            && self.inner.watcher.watch(init).is_err()
        {
            // It has ended between the last look and this one.
            self.ended_by_itself(init);
        }
        self.listen_to_kernel(record);
        self.view(record)
    }

    /// Leads the kernel's ports outside to those inside, unless that is being done.
    pub(crate) fn forward(&self, record: &mut Record) -> Result<()> {
        let Some(kernel) = &record.kernel else { return Ok(()) };
        if !kernel.connection_file.exists() {
            // It does not outlive a reboot.
            self.publish_connection(record)?;
        }
        let alive = record.forwarder.is_some_and(|forwarder| forwarder.is_alive());
        if record.network == Network::Host || alive {
            return Ok(());
        }
        let habitat = self.habitat(record);
        let started = match habitat.forward(&record.id, &kernel.outer().collect::<Vec<_>>()) {
            Err(LifecycleError::Sandbox(SandboxError::Forward { .. })) => {
                // While it had no processes, somebody else may have taken a port of its. Clients read the file again.
                let outer = new_ports()?.to_array();
                let ports = outer.into_iter().zip(kernel.inner()).collect();
                record.kernel = Some(KernelRecord { ports, ..kernel.clone() });
                self.publish_connection(record)?;
                habitat.forward(&record.id, &outer)
            }
            other => other,
        };
        record.forwarder = Some(started?);
        Ok(())
    }

    /// Writes the connection file for clients, out of the one in the box.
    fn publish_connection(&self, record: &Record) -> Result<()> {
        let Some(kernel) = &record.kernel else { return Ok(()) };
        let outside = self.connection_inside(record)?.with_ports(kernel.outer());
        // The directory may be gone, too.
        let path = self.inner.place.connection_file(&record.id);
        Ok(replace_for(&path, &record.owner, outside.to_json().as_bytes())?)
    }

    /// The connection file in the box, which is the user's.
    pub(crate) fn connection_inside(&self, record: &Record) -> Result<ConnectionFile> {
        let path = self.inner.place.box_dir(&record.id).join(CONNECTION);
        Ok(ConnectionFile::read(&path)?)
    }

    pub(crate) fn wait_for_kernel(&self, record: &Record) -> Result<()> {
        let (Some(kernel), Some(init)) = (&record.kernel, record.init) else { return Ok(()) };
        let begun = Instant::now();
        loop {
            if !init.is_alive() {
                return Err(self.ended_at_once(record));
            }
            let listening = proc::listening(init.pid);
            if kernel.inner().all(|port| listening.contains(&port)) {
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
        bounded::last_lines(&self.inner.place.log(&record.id), LINES)
    }
}

/// A command as text.
pub(crate) fn for_people(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}
