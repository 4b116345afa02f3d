//! The CRIU program: where it is, what it can do, and the two things that are asked of it.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::call::Call;
use crate::error::{Action, CriuError, Result, TreeState};
use crate::evidence::Evidence;
use crate::hooks::Hooks;
use crate::images::{DumpStats, read_stats};
use crate::options::{DumpOptions, ExternalMount, Leave, MemoryPath, RestoreOptions, Runner};
use crate::process::Stat;
use crate::wire::{self, FeatureFlags, InheritFd, Request, Response};
use crate::worker::{Heard, Launch, Worker, describe};

/// A CRIU program that was found. Cheap to clone; clones share what was learned about it.
#[derive(Clone, Debug)]
pub struct Criu {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    probe: OnceLock<Probe>,
}

/// What was learned about a CRIU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Major, minor and sublevel number.
    pub version: (i32, i32, i32),
    /// What it can do with this kernel.
    pub features: Features,
}

/// What a CRIU can do with this kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// Tell which pages were written to since the last dump.
    pub mem_track: bool,
    /// Restore memory while the process runs already.
    pub lazy_pages: bool,
    /// Tell by pidfd whether a pid was reused between dumps.
    pub pidfd_store: bool,
}

/// A dump that succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dumped {
    /// What it took.
    pub stats: DumpStats,
}

/// A restore that succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restored {
    /// The root of the tree, in CRIU's PID namespace. It is a child of the nearest subreaper above us, or of init.
    pub pid: i32,
}

/// The oldest version whose RPC and image format we rely on.
const OLDEST: (i32, i32, i32) = (4, 0, 0);
const OLDEST_SHOWN: &str = "4.0";

/// A deleted file that is still open goes into the image up to this size.
const GHOST_LIMIT: u32 = 1 << 30;

const PROBE_LIMIT: Duration = Duration::from_secs(30);

impl Criu {
    /// Looks for CRIU: at `explicit` or, if that is not given, at `$INFINIJUP_CRIU`, or else in `/opt/infinijup/criu/bin`,
    /// `/opt/criu/bin` and the directories of `$PATH`.
    pub fn find(explicit: Option<&Path>) -> Result<Self> {
        let named = explicit.map(Path::to_path_buf).or_else(|| {
            std::env::var_os("INFINIJUP_CRIU").filter(|value| !value.is_empty()).map(PathBuf::from)
        });
        let candidates = match named {
            Some(path) => vec![path],
            None => {
                let mut candidates =
                    vec![PathBuf::from("/opt/infinijup/criu/bin/criu"), PathBuf::from("/opt/criu/bin/criu")];
                let path = std::env::var_os("PATH").unwrap_or_default();
                candidates.extend(std::env::split_paths(&path).map(|dir| dir.join("criu")));
                candidates
            }
        };
        let found = candidates.iter().find(|path| is_program(path)).cloned();
        match found {
            Some(path) => Ok(Self { inner: Arc::new(Inner { path, probe: OnceLock::new() }) }),
            None => Err(CriuError::NotFound { looked_at_paths: candidates }),
        }
    }

    /// The program.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Its version and features; asked for once. A version that is too old is an error.
    pub fn probe(&self) -> Result<&Probe> {
        if let Some(probe) = self.inner.probe.get() {
            return Ok(probe);
        }
        let probe = self.ask()?;
        if probe.version < OLDEST {
            let (major, minor, sublevel) = probe.version;
            return Err(CriuError::TooOld {
                path: self.inner.path.clone(),
                found: format!("{major}.{minor}.{sublevel}"),
                needed: OLDEST_SHOWN,
            });
        }
        Ok(self.inner.probe.get_or_init(|| probe))
    }

    fn ask(&self) -> Result<Probe> {
        let mut worker = Worker::start(Launch {
            criu: self.path(),
            runner: &Runner::default(),
            plugins: None,
            output: None,
            complaints: None,
        })?;
        let deadline = Instant::now() + PROBE_LIMIT;
        let mut ask = |request: Request| -> Result<Response> {
            let lost = |worker: &mut Worker, detail: Option<String>| CriuError::Protocol {
                action: Action::Probe,
                detail: detail.unwrap_or_else(|| describe(worker.stop())),
                tree: TreeState::Untouched,
                evidence: Box::new(Evidence::default()),
            };
            if worker.send(&request).is_err() {
                return Err(lost(&mut worker, None));
            }
            match worker.hear(deadline) {
                Ok(Heard::Answer(response)) if response.kind == request.kind && response.success => {
                    Ok(*response)
                }
                Ok(Heard::Answer(_)) => {
                    Err(lost(&mut worker, Some("does not tell what it can do".to_owned())))
                }
                Ok(Heard::Silence) => Err(CriuError::Timeout {
                    action: Action::Probe,
                    limit: PROBE_LIMIT,
                    tree: TreeState::Untouched,
                    evidence: Box::new(Evidence::default()),
                }),
                Ok(Heard::Nonsense(detail)) => Err(lost(&mut worker, Some(detail))),
                Ok(Heard::Ended) | Err(_) => Err(lost(&mut worker, None)),
            }
        };
        let version =
            ask(Request { kind: wire::kind::VERSION, keep_open: Some(true), ..Request::default() })?;
        let wanted = FeatureFlags { mem_track: Some(true), lazy_pages: Some(true), pidfd_store: Some(true) };
        let features =
            ask(Request { kind: wire::kind::FEATURE_CHECK, features: Some(wanted), ..Request::default() })?;
        // It ends by itself now. Killed, it would leave us the child that has answered for it.
        let _ = worker.finish(PROBE_LIMIT);
        let version = version.version.unwrap_or_default();
        let features = features.features.unwrap_or_default();
        Ok(Probe {
            version: (version.major, version.minor, version.sublevel.unwrap_or(0)),
            features: Features {
                mem_track: features.mem_track(),
                lazy_pages: features.lazy_pages(),
                pidfd_store: features.pidfd_store(),
            },
        })
    }

    /// Makes `dir/criu.kdat`, what CRIU has to know about the running kernel, and returns its path. Cheap if it is there for this
    /// boot and this CRIU. Needs root.
    pub fn learn_kernel(&self, dir: &Path) -> Result<PathBuf> {
        crate::kernel::learn(self.path(), dir)
    }

    /// Dumps a tree. On an error the tree runs on, whatever [`DumpOptions::leave`] says, unless [`CriuError::tree`] says otherwise;
    /// the images that were written so far are of no use.
    pub fn dump(&self, options: &DumpOptions, hooks: &mut dyn Hooks) -> Result<Dumped> {
        match options.memory {
            MemoryPath::Images => {}
        }
        let Some(tree) = Stat::of(options.tree) else {
            return Err(CriuError::Invalid { what: format!("there is no process {}", options.tree) });
        };
        let mut external = Vec::new();
        for mount in &options.mounts {
            check_key(&mount.key)?;
            let path = mount.path.as_os_str().as_bytes();
            if path.contains(&b']') {
                return Err(CriuError::Invalid {
                    what: format!(
                        "criu cannot name the mount point `{}`: it has a `]`",
                        mount.path.display()
                    ),
                });
            }
            external.push([b"mnt[", path, b"]:", mount.key.as_bytes()].concat());
        }
        if let Some(network) = &options.network {
            check_key(&network.key)?;
            external.push(format!("net[{}]:{}", network.inode, network.key).into_bytes());
        }
        let wanted = wire::Options {
            pid: Some(options.tree),
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
            tcp_close: Some(true),
            // A client that is just connecting must not make a dump fail.
            tcp_skip_in_flight: Some(true),
            network_lock: Some(wire::NETWORK_LOCK_SKIP),
            manage_cgroups_mode: Some(wire::CGROUPS_IGNORE),
            external,
            ..wire::Options::default()
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
            output: None,
        };
        call.run(wanted, hooks)?;
        // The dump is good, whatever became of its figures.
        Ok(Dumped { stats: read_stats(&stats).unwrap_or_default() })
    }

    /// Restores a tree. On an error nothing of it is left, unless [`CriuError::tree`] says otherwise.
    pub fn restore(&self, options: &RestoreOptions, hooks: &mut dyn Hooks) -> Result<Restored> {
        let mut external = Vec::new();
        for ExternalMount { key, path } in &options.mounts {
            check_key(key)?;
            external.push([b"mnt[", key.as_bytes(), b"]:", path.as_os_str().as_bytes()].concat());
        }
        let mut inherit_fd = Vec::new();
        let mut output = None;
        if let Some((key, namespace)) = &options.network {
            check_key(key)?;
            let fd = namespace.try_clone().map_err(CriuError::io("duplicate", "network namespace"))?;
            output = Some(fd);
            inherit_fd.push(InheritFd { key: key.clone(), fd: 1 });
        }
        let wanted = wire::Options {
            root: options.root.as_ref().map(|root| root.as_os_str().as_bytes().to_vec()),
            ext_unix_sk: options.unix_sockets.then_some(true),
            shell_job: options.shell_job.then_some(true),
            file_locks: Some(options.file_locks),
            link_remap: Some(true),
            tcp_close: Some(true),
            network_lock: Some(wire::NETWORK_LOCK_SKIP),
            manage_cgroups_mode: Some(wire::CGROUPS_IGNORE),
            // The mode of a file may change between dump and restore; who may open what is the caller's check, and CRIU's
            // comparison of mode bits is none.
            skip_file_rwx_check: Some(true),
            external,
            inherit_fd,
            ..wire::Options::default()
        };
        let call = Call {
            action: Action::Restore,
            criu: self.path(),
            runner: &options.runner,
            images: &options.images,
            log_dir: &options.log_dir,
            time_limit: options.time_limit,
            tree: None,
            output,
        };
        let response = call.run(wanted, hooks)?;
        match response.restore {
            Some(answer) if answer.pid > 0 => Ok(Restored { pid: answer.pid }),
            _ => Err(CriuError::Protocol {
                action: Action::Restore,
                detail: "did not tell the pid of what it restored".to_owned(),
                tree: TreeState::Unknown,
                evidence: Box::new(Evidence::default()),
            }),
        }
    }
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Keys stand between brackets and colons in CRIU's options.
fn check_key(key: &str) -> Result<()> {
    let good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if !key.is_empty() && key.chars().all(good) {
        return Ok(());
    }
    Err(CriuError::Invalid { what: format!("`{key}` cannot be a key of something external") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_cannot_break_out_of_their_brackets() {
        check_key("m0-box_1.x").unwrap();
        for bad in ["", "a]:/", "a:b", "a b", "ü", "/"] {
            assert_eq!(check_key(bad).unwrap_err().code(), "IJ-K021");
        }
    }

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
