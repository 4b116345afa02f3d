//! The CRIU program: where it is, what it can do, and the two things that are asked of it.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::fs::{Access, AtFlags};
use rustix::io::Errno;

use crate::call::Call;
use crate::error::{Action, CriuError, Result, TreeState};
use crate::evidence::Evidence;
use crate::find::{OLDEST, OLDEST_SHOWN, Places};
use crate::hooks::{Event, Hooks};
use crate::images::{DumpStats, put_right, read_stats};
use crate::memory_path::{ComingBack, Leaving, LeftOut, WayBack, WayOut};
use crate::messages::rpc::{CgroupsMode, Kind, NetworkLock, Options, Request};
use crate::options::{DumpOptions, Habitat, Leave, RestoreOptions, Runner};
use crate::process;
use crate::release::release;
use crate::worker::{Heard, Launch, PATIENCE, Worker, describe};

/// A CRIU program that was found. Cheap to clone; clones share what was learned about it.
#[derive(Clone, Debug)]
pub struct Criu {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    version: OnceLock<Version>,
}

/// Major, minor and sublevel number.
pub type Version = (i32, i32, i32);

/// A dump that succeeded.
#[derive(Clone, Debug)]
pub struct Dumped {
    /// What it took.
    pub stats: DumpStats,
    /// The pages that are not in the images.
    pub left_out: Option<Arc<dyn LeftOut>>,
}

/// A restore that succeeded.
#[derive(Debug)]
pub struct Restored {
    /// The root of the tree, as CRIU numbers it. It is a child of the nearest subreaper above CRIU, or of init.
    pub pid: i32,
    /// Memory that is still missing. The tree stands still until it has that.
    pub unfilled: Option<Unfilled>,
}

/// A deleted file that is still open goes into the image up to this size.
const GHOST_LIMIT: u32 = 1 << 30;

const PROBE_LIMIT: Duration = Duration::from_secs(30);

impl Criu {
    /// Looks for CRIU: at `explicit` or, if that is not given, at the usual places (`src/find.rs` has their order).
    pub fn find(explicit: Option<&Path>) -> Result<Self> {
        let mut places = Places::usual();
        places.named = explicit.map(Path::to_path_buf).or(places.named);
        places.choose(|path| Self::at(path.to_owned()).ask_version().ok()).map(Self::at)
    }

    fn at(path: PathBuf) -> Self {
        Self { inner: Arc::new(Inner { path, version: OnceLock::new() }) }
    }

    /// The program.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Its version; asked for once. One that is too old is an error.
    pub fn version(&self) -> Result<Version> {
        if let Some(version) = self.inner.version.get() {
            return Ok(*version);
        }
        let version = self.ask_version()?;
        if version < OLDEST {
            let (major, minor, sublevel) = version;
            return Err(CriuError::TooOld {
                path: self.inner.path.clone(),
                found: format!("{major}.{minor}.{sublevel}"),
                needed: OLDEST_SHOWN,
            });
        }
        Ok(*self.inner.version.get_or_init(|| version))
    }

    /// The one question that CRIU answers whoever asks. What it can do with this kernel it finds out where it is at home:
    /// in a box, by a dump.
    fn ask_version(&self) -> Result<Version> {
        let mut worker = Worker::start(Launch {
            criu: self.path(),
            runner: &Runner::default(),
            plugins: None,
            box_log_dir: None,
            complaints: None,
        })?;
        let lost = |worker: &mut Worker, detail: Option<String>| CriuError::Protocol {
            action: Action::Probe,
            detail: detail.unwrap_or_else(|| describe(worker.stop())),
            tree: TreeState::Untouched,
            evidence: Box::new(Evidence::default()),
        };
        let request = Request { kind: Kind::Version.into(), ..Request::default() };
        if worker.send(&request).is_err() {
            return Err(lost(&mut worker, None));
        }
        match worker.hear(Instant::now() + PROBE_LIMIT) {
            Ok(Heard::Answer(response)) if response.kind == request.kind && response.success => {
                // It ends by itself now. Killed, it would leave us the child that has answered for it.
                let _ = worker.finish(PROBE_LIMIT);
                let version = response.version.unwrap_or_default();
                Ok((version.major, version.minor, version.sublevel.unwrap_or(0)))
            }
            Ok(Heard::Answer(_)) => Err(lost(&mut worker, Some("does not tell its version".to_owned()))),
            Ok(Heard::Silence) => Err(CriuError::Timeout {
                action: Action::Probe,
                limit: PROBE_LIMIT,
                tree: TreeState::Untouched,
                evidence: Box::new(Evidence::default()),
            }),
            Ok(Heard::Nonsense(detail)) => Err(lost(&mut worker, Some(detail))),
            Ok(Heard::Ended) | Err(_) => Err(lost(&mut worker, None)),
        }
    }

    /// Makes `dir/criu.kdat`, what CRIU has to know about the running kernel, and returns its path. Cheap if it is there for this
    /// boot and this CRIU. `probe` makes it: it runs CRIU's own check where CRIU will run and gives what CRIU has written.
    pub fn learn_kernel(&self, dir: &Path, probe: impl FnOnce(&Path) -> Result<Vec<u8>>) -> Result<PathBuf> {
        crate::kernel::learn(self.path(), dir, probe)
    }

    /// Dumps a tree. On an error the tree runs on, whatever [`DumpOptions::leave`] says, unless [`CriuError::tree`] says otherwise;
    /// the images that were written so far are of no use.
    pub fn dump(&self, options: &DumpOptions, hooks: &mut dyn Hooks) -> Result<Dumped> {
        let Some(tree) = process::look(options.tree) else {
            return Err(CriuError::Invalid { what: format!("there is no process {}", options.tree) });
        };
        let leaving = Leaving { tree: options.tree, images: &options.images };
        let mut way = options
            .memory
            .leave(&leaving)
            .map_err(|reason| refused(Action::Dump, TreeState::Untouched, reason))?;
        let parent = way.parent();
        if parent.is_some() && options.leave == Leave::Ended {
            // The pages that are left out have to be answered for after the dump, and then there would be no way back.
            let what = "a dump that ends its tree needs all pages in its images".to_owned();
            return Err(CriuError::Invalid { what });
        }
        let wanted = Options {
            pid: Some(match &options.habitat {
                Habitat::Host => options.tree,
                Habitat::Box { root, .. } => *root,
            }),
            leave_running: Some(options.leave == Leave::Running),
            leave_stopped: Some(options.leave == Leave::Stopped),
            ext_unix_sk: options.unix_sockets.then_some(true),
            shell_job: options.shell_job.then_some(true),
            // Locks are noted always; whether they are taken again is for the restore to say.
            file_locks: Some(true),
            // Semaphores of multiprocessing live in unlinked files with another link.
            link_remap: Some(true),
            ghost_limit: Some(GHOST_LIMIT),
            // Peers go on without us after a dump, so a connection that came back would be out of step.
            tcp_close: Some(options.container.as_ref().is_none_or(|around| around.tcp_close)),
            // A client that is just connecting must not make a dump fail.
            tcp_skip_in_flight: Some(true),
            network_lock: Some(NetworkLock::Skip.into()),
            manage_cgroups_mode: Some(match &options.container {
                // Its runtime puts it into the cgroup that it is to have. What it made below that is its own.
                Some(around) if around.cgroups_below => CgroupsMode::Soft.into(),
                _ => CgroupsMode::Ignore.into(),
            }),
            root: options.container.as_ref().map(|around| around.root.as_os_str().as_bytes().to_vec()),
            external: options
                .container
                .iter()
                .flat_map(|around| &around.external)
                .map(|name| name.as_bytes().to_vec())
                .collect(),
            irmap_scan_paths: options
                .watched
                .iter()
                .map(|path| path.as_os_str().as_bytes().to_vec())
                .collect(),
            track_mem: parent.is_some().then_some(true),
            parent_img: parent.map(|path| path.into_os_string().into_vec()),
            ..Options::default()
        };
        let stats = options.log_dir.join("stats-dump");
        match std::fs::remove_file(&stats) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(CriuError::io("remove", &stats)(error));
            }
            _ => {}
        }
        let call = Call {
            action: Action::Dump,
            criu: self.path(),
            runner: &options.runner,
            images: &options.images,
            log_dir: &options.log_dir,
            time_limit: options.time_limit,
            tree: Some(tree),
            habitat: &options.habitat,
        };
        let mut with_memory = WithMemory { hooks, way: way.as_mut(), said: None };
        let called = call.run(wanted, &mut with_memory);
        if let (Some(reason), Err(error)) = (with_memory.said, &called) {
            return Err(refused(Action::Dump, error.tree().unwrap_or(TreeState::Unknown), reason));
        }
        called?;
        let stats = read_stats(&stats).ok();
        if let Err(error) = put_right(&options.images, &|path| refuses_writers(options.tree, path)) {
            let_go(options.tree);
            return Err(error);
        }
        let left_out = way
            .thawed(&options.images, stats.as_ref())
            .map_err(|reason| refused(Action::Dump, let_go(options.tree), reason))?;
        // The dump is good, whatever became of its figures.
        Ok(Dumped { stats: stats.unwrap_or_default(), left_out })
    }

    /// Restores a tree. On an error nothing of it is left, unless [`CriuError::tree`] says otherwise.
    pub fn restore(&self, options: &RestoreOptions, hooks: &mut dyn Hooks) -> Result<Restored> {
        let coming =
            ComingBack { images: &options.images, missing: options.missing.as_ref(), follow: options.follow };
        let back = options.memory.come_back(&coming);
        let way = back.map_err(|reason| refused(Action::Restore, TreeState::Untouched, reason))?;
        let wanted = Options {
            leave_stopped: way.has_more().then_some(true),
            ext_unix_sk: options.unix_sockets.then_some(true),
            shell_job: options.shell_job.then_some(true),
            file_locks: Some(options.file_locks),
            link_remap: Some(true),
            tcp_close: Some(true),
            network_lock: Some(NetworkLock::Skip.into()),
            manage_cgroups_mode: Some(CgroupsMode::Ignore.into()),
            // The mode of a file may change between dump and restore; who may open what is the caller's check, and CRIU's
            // comparison of mode bits is none.
            skip_file_rwx_check: Some(true),
            ..Options::default()
        };
        let call = Call {
            action: Action::Restore,
            criu: self.path(),
            runner: &options.runner,
            images: &options.images,
            log_dir: &options.log_dir,
            time_limit: options.time_limit,
            tree: None,
            habitat: &options.habitat,
        };
        let response = call.run(wanted, hooks)?;
        match response.restore {
            Some(answer) if answer.pid > 0 => {
                let unfilled = way.has_more().then(|| Unfilled { way });
                Ok(Restored { pid: answer.pid, unfilled })
            }
            _ => Err(CriuError::Protocol {
                action: Action::Restore,
                detail: "did not tell the pid of what it restored".to_owned(),
                tree: TreeState::Unknown,
                evidence: Box::new(Evidence::default()),
            }),
        }
    }
}

/// A restored tree that stands still because memory is missing.
#[must_use = "the tree stands still until it is filled"]
pub struct Unfilled {
    way: Box<dyn WayBack>,
}

impl Unfilled {
    /// Fills the memory of the tree below `root`, as we see it, and lets the tree go. On an error it stands, has never run, and is to
    /// be ended; but if the error is [`CriuError::Stopped`], it is whole, and some of it runs.
    pub fn fill(self, root: i32) -> Result<()> {
        if !process::wait_until_still(root, PATIENCE) {
            let reason = "the processes do not stand still".to_owned();
            return Err(refused(Action::Restore, TreeState::Unknown, reason));
        }
        self.way.fill(root).map_err(|reason| refused(Action::Restore, TreeState::Unknown, reason))?;
        release(root)
    }
}

impl std::fmt::Debug for Unfilled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unfilled").finish_non_exhaustive()
    }
}

/// The caller's hooks and the memory's.
struct WithMemory<'a> {
    hooks: &'a mut dyn Hooks,
    way: &'a mut dyn WayOut,
    /// Why the memory's way said no.
    said: Option<String>,
}

impl Hooks for WithMemory<'_> {
    fn worker(&mut self, pid: i32, start_time: u64) {
        self.hooks.worker(pid, start_time);
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        if *event != Event::PostDump {
            return self.hooks.event(event);
        }
        // Everything waits for both.
        let (way, hooks) = (&mut *self.way, &mut *self.hooks);
        let (memory, theirs) = std::thread::scope(|scope| {
            let memory = scope.spawn(|| way.frozen());
            let theirs = hooks.event(event);
            (memory.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), theirs)
        });
        theirs?;
        memory.inspect_err(|reason| self.said = Some(reason.clone()))
    }
}

/// A tree that a dump may have left stopped goes on.
fn let_go(tree: i32) -> TreeState {
    match release(tree) {
        Ok(()) => TreeState::Running,
        Err(_) => TreeState::Unknown,
    }
}

/// Whether a file, named as the tree sees it, cannot be opened for writing by whoever is at work here: its user, or root.
fn refuses_writers(tree: i32, path: &Path) -> bool {
    let Ok(below) = path.strip_prefix("/") else { return false };
    let path = base::proc::path(tree, "root").join(below);
    let answer = rustix::fs::accessat(rustix::fs::CWD, &path, Access::WRITE_OK, AtFlags::EACCESS);
    matches!(answer, Err(Errno::ACCESS | Errno::PERM | Errno::ROFS))
}

/// A memory path said no.
fn refused(action: Action, tree: TreeState, reason: String) -> CriuError {
    CriuError::Memory { action, reason, tree }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_criu_is_named() {
        let error = Criu::find(Some(Path::new("/nowhere/criu"))).unwrap_err();
        assert_eq!(error.to_string(), "no criu program at `/nowhere/criu`");
        assert!(error.hint().unwrap().contains("INFINIJUP_CRIU"));
    }

    #[test]
    fn a_process_that_is_not_there_cannot_be_dumped() {
        let criu = Criu::find(Some(Path::new("/bin/true"))).unwrap();
        let error = criu.dump(&DumpOptions::new(-1, "/x", "/x"), &mut crate::NoHooks).unwrap_err();
        assert_eq!(error.code(), "IJ-K021");
    }
}
