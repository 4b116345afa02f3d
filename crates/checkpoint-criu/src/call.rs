//! One dump or restore, from the first word to a defined end.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Action, CriuError, Result, TreeState};
use crate::evidence::Evidence;
use crate::hooks::{Event, Hooks};
use crate::images::Images;
use crate::messages::rpc::{Kind, Options, Request, Response};
use crate::options::{Habitat, Runner};
use crate::process::{self, Stat};
use crate::worker::{Heard, Launch, PATIENCE, Worker, describe};

/// What dump and restore have in common.
pub(crate) struct Call<'a> {
    pub(crate) action: Action,
    pub(crate) criu: &'a Path,
    pub(crate) runner: &'a Runner,
    pub(crate) images: &'a Path,
    pub(crate) log_dir: &'a Path,
    pub(crate) time_limit: Duration,
    /// The tree of a dump.
    pub(crate) tree: Option<Stat>,
    /// Where the tree lives, or will.
    pub(crate) habitat: &'a Habitat,
}

impl Call<'_> {
    fn log_name(&self) -> String {
        format!("{}.log", self.action)
    }

    fn complaints(&self) -> PathBuf {
        self.log_dir.join(format!("{}.stderr", self.action))
    }

    fn evidence(&self, first_error: Option<&str>) -> Box<Evidence> {
        let log = self.log_dir.join(self.log_name());
        Box::new(Evidence::gather(&log, &self.complaints(), first_error))
    }

    /// Asks CRIU for `options`, with the hooks' say, and returns its answer if it is "yes".
    pub(crate) fn run(self, mut options: Options, hooks: &mut dyn Hooks) -> Result<Response> {
        let deadline = Instant::now() + self.time_limit;
        let plugins = self.empty_plugins()?;
        let images = open_dir(self.images)?;
        let work_dir = open_dir(self.log_dir)?;
        // Only what this call says may be found in it.
        match fs::remove_file(self.log_dir.join(self.log_name())) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(CriuError::io("remove", self.log_dir.join(self.log_name()))(error));
            }
            _ => {}
        }
        let complaints = self.complaints();
        let complaints = File::create(&complaints).map_err(CriuError::io("create", &complaints))?;
        match self.habitat {
            Habitat::Host => {
                options.images_dir_fd = images.as_raw_fd();
                options.work_dir_fd = Some(work_dir.as_raw_fd());
            }
            Habitat::Box { images, .. } => {
                options.images_dir_fd = -1;
                options.images_dir = Some(images.as_os_str().as_bytes().to_vec());
                options.unprivileged = Some(true);
            }
        }
        options.log_level = Some(4);
        options.log_file = Some(self.log_name());
        options.notify_scripts = Some(true);

        let mut worker = Worker::start(Launch {
            criu: self.criu,
            runner: self.runner,
            plugins: Some(&plugins),
            box_log_dir: match self.habitat {
                Habitat::Host => None,
                Habitat::Box { log_dir, .. } => Some(log_dir),
            },
            complaints: Some(complaints),
        })?;
        worker.holds_a_tree = self.action == Action::Dump;
        hooks.worker(worker.pid(), worker.start_time());

        let kind = match self.action {
            Action::Restore => Kind::Restore,
            _ => Kind::Dump,
        };
        let request = Request { kind: kind.into(), options: Some(options), ..Request::default() };
        if worker.send(&request).is_err() {
            // It has gone already; what it said is in its complaints.
            return Err(self.ended(worker, &[], None));
        }
        self.converse(worker, kind, deadline, hooks)
    }

    fn converse(
        &self,
        worker: Worker,
        kind: Kind,
        deadline: Instant,
        hooks: &mut dyn Hooks,
    ) -> Result<Response> {
        let mut refused: Option<(String, String)> = None;
        // Processes of a restore: CRIU kills them when it fails, but does not wait for their end.
        let mut made: Vec<Stat> = Vec::new();
        loop {
            let response = match worker.hear(deadline) {
                Ok(Heard::Answer(response)) => response,
                Ok(Heard::Ended) => return Err(self.ended(worker, &made, None)),
                Ok(Heard::Nonsense(detail)) => return Err(self.ended(worker, &made, Some(detail))),
                Ok(Heard::Silence) => return Err(self.timed_out(worker, &made)),
                Err(error) => {
                    return Err(self.ended(worker, &made, Some(format!("cannot be heard ({error})"))));
                }
            };
            if response.kind() == Kind::Notify {
                let notify = response.notify.unwrap_or_default();
                let script = notify.script.unwrap_or_default();
                let event = Event::from_script(&script, notify.pid.unwrap_or(0));
                if let Event::SetupNamespaces { pid } | Event::PostRestore { pid } = &event
                    && *self.habitat == Habitat::Host
                {
                    made.extend(process::look(*pid));
                }
                let mut said = hooks.event(&event);
                let late = Instant::now() >= deadline;
                if late {
                    // A hook that took all the time must not be the word that lets a dump end its tree.
                    said = Err("it took longer than the time limit".to_owned());
                }
                let answer = Request {
                    kind: Kind::Notify.into(),
                    notify_success: Some(said.is_ok()),
                    ..Request::default()
                };
                if let Err(reason) = said {
                    refused.get_or_insert((script, reason));
                }
                if worker.send(&answer).is_err() && !late {
                    return Err(self.ended(worker, &made, None));
                }
                if late {
                    return Err(self.timed_out(worker, &made));
                }
                continue;
            }
            if response.kind() == kind && response.success && refused.is_none() {
                // It has nothing left to do but to end, which is what makes a restored tree independent of it.
                let _ = worker.finish(PATIENCE);
                return Ok(*response);
            }
            return Err(self.failed(worker, &made, &response, refused));
        }
    }

    /// CRIU has said no, and has cleaned up before it said so.
    fn failed(
        &self,
        mut worker: Worker,
        made: &[Stat],
        response: &Response,
        refused: Option<(String, String)>,
    ) -> CriuError {
        let tree = if self.action == Action::Restore {
            self.cleared(&mut worker, made)
        } else {
            let _ = worker.finish(PATIENCE);
            self.tree_now()
        };
        if let Some((event, reason)) = refused {
            return CriuError::Hook { action: self.action, event, reason, tree };
        }
        let cr_errmsg =
            response.cr_errmsg.as_deref().map(|text| String::from_utf8_lossy(text).trim().to_owned());
        let evidence = self.evidence(cr_errmsg.as_deref());
        CriuError::Failed {
            action: self.action,
            errno: response.cr_errno.unwrap_or(0),
            cr_errmsg,
            tree,
            evidence,
        }
    }

    /// The worker went away, or is not what it should be.
    fn ended(&self, worker: Worker, made: &[Stat], detail: Option<String>) -> CriuError {
        let (tree, status) = self.put_right(worker, made);
        let detail = detail.unwrap_or_else(|| describe(status));
        CriuError::Protocol { action: self.action, detail, tree, evidence: self.evidence(None) }
    }

    fn timed_out(&self, worker: Worker, made: &[Stat]) -> CriuError {
        let (tree, _) = self.put_right(worker, made);
        CriuError::Timeout {
            action: self.action,
            limit: self.time_limit,
            tree,
            evidence: self.evidence(None),
        }
    }

    /// Ends the worker, and sets free what it held (a dump) or ends what it had made (a restore).
    fn put_right(
        &self,
        mut worker: Worker,
        made: &[Stat],
    ) -> (TreeState, std::io::Result<std::process::ExitStatus>) {
        if self.action == Action::Restore {
            return (self.cleared(&mut worker, made), worker.stop());
        }
        let status = worker.stop();
        if let Some(stat) = &self.tree {
            process::continue_tree(stat.pid, PATIENCE);
        }
        (self.tree_now(), status)
    }

    /// Ends what is left of a restore. CRIU kills the processes of a restore that fails, but waits only for the first process of a
    /// PID namespace: others may still be on their way out.
    fn cleared(&self, worker: &mut Worker, made: &[Stat]) -> TreeState {
        let mut cleared = worker.clear(made);
        if *self.habitat != Habitat::Host {
            // The numbers in the images are the box's. What is left in there ends with the box, which is its maker's to end.
            return if cleared { TreeState::Cleared } else { TreeState::Unknown };
        }
        if let Ok(tree) = Images::open(self.images).and_then(|images| images.pstree()) {
            let pids = tree.iter().filter_map(|entry| i32::try_from(entry.pid).ok());
            cleared &= process::wait_for_the_dying(pids, PATIENCE);
        }
        if cleared { TreeState::Cleared } else { TreeState::Unknown }
    }

    /// What the tree of a dump is doing.
    fn tree_now(&self) -> TreeState {
        let Some(before) = &self.tree else { return TreeState::Unknown };
        match process::look(before.pid) {
            Some(now) if now.start_time == before.start_time && !now.is_over() => {
                if process::tree(now.pid).iter().any(Stat::is_traced) {
                    TreeState::Unknown
                } else {
                    TreeState::Running
                }
            }
            _ => TreeState::Ended,
        }
    }

    /// A directory without plugins: whatever the machine has installed for CRIU stays out of this.
    fn empty_plugins(&self) -> Result<PathBuf> {
        const NAME: &str = "no-plugins";
        let dir = self.log_dir.join(NAME);
        match fs::create_dir(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(CriuError::io("create", &dir)(error));
            }
            _ => {}
        }
        let mut entries = fs::read_dir(&dir).map_err(CriuError::io("list", &dir))?;
        if entries.next().is_some() {
            return Err(CriuError::Invalid { what: format!("`{}` is not empty", dir.display()) });
        }
        match self.habitat {
            Habitat::Host => Ok(dir),
            Habitat::Box { log_dir, .. } => Ok(log_dir.join(NAME)),
        }
    }
}

fn open_dir(path: &Path) -> Result<OwnedFd> {
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC | rustix::fs::OFlags::RDONLY;
    rustix::fs::open(path, flags, rustix::fs::Mode::empty())
        .map_err(|error| CriuError::io("open", path)(error.into()))
}
