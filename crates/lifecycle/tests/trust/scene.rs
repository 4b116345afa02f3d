//! A session of a user that nobody is, dumped and ended; everything is taken away with the scene.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use checkpoint_criu::{
    Criu, DumpOptions, Event, ExternalMount, ExternalNetwork, Hooks, Leave, NoHooks, RestoreOptions, Runner,
};
use lifecycle::trust::{Expectations, ExpectedMount};
use sandbox::process::{Identity, namespace_inode};
use sandbox::{BoxSpec, Cgroup, Limits, Network, NetworkNamespace, Program, Root, User, real_ids_runner};

/// Holds a bit of everything that an image can have.
const WORKLOAD: &str = "
import ctypes, mmap, os, select, socket, tempfile, threading, time
box = '/run/infinijup-box/'
os.chdir(box)
ghost = tempfile.TemporaryFile(dir=box); ghost.write(b'ghost'); ghost.flush()
out = open(box + 'out', 'w'); out.write('x'); out.flush()
mapped = mmap.mmap(os.open(box + 'out', os.O_RDONLY), 1, prot=mmap.PROT_READ)
shared = mmap.mmap(-1, 8192)
pair = socket.socketpair()
server = socket.create_server(('127.0.0.1', 4711))
client = socket.create_connection(('127.0.0.1', 4711))
udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
bound = socket.socket(socket.AF_UNIX); bound.bind(box + 'socket'); bound.listen()
poll = select.epoll(); poll.register(server)
memory = os.memfd_create('memory'); os.write(memory, b'hi')
terminal = os.openpty()
null, random = open('/dev/null'), open('/dev/urandom', 'rb')
meminfo = open('/proc/meminfo'); meminfo.read(1)
pipe = os.pipe(); os.write(pipe[1], b'in the pipe')
segment = open('/dev/shm/segment', 'wb+'); segment.write(b'1' * 5000); segment.flush()
renamed = open('/dev/shm/first', 'w'); os.link('/dev/shm/first', '/dev/shm/second'); os.unlink('/dev/shm/first')
moved = open(box + 'first', 'w'); os.link(box + 'first', box + 'second'); os.unlink(box + 'first')
event = os.eventfd(3)
libc = ctypes.CDLL(None)
watch = libc.inotify_init(); libc.inotify_add_watch(watch, box.encode(), 2)
threading.Thread(target=time.sleep, args=(100000,), daemon=True).start()
if os.fork() == 0:
    time.sleep(100000)
if os.fork() == 0:
    os._exit(3)
ticks = open(box + 'ticks', 'a')
while True:
    ticks.write('.'); ticks.flush(); time.sleep(0.01)
";

static COUNTER: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Scene {
    pub(crate) user: User,
    pub(crate) expected: Expectations,
    pub(crate) images: PathBuf,
    criu: Criu,
    program: Program,
    kdat: PathBuf,
    cgroup: Cgroup,
    network: Option<NetworkNamespace>,
    directory: tempfile::TempDir,
}

/// What the tests need, or the reason why they cannot run.
fn tools() -> Result<(Criu, Program), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("it needs root".to_owned());
    }
    let criu = Criu::find(None).map_err(|error| error.to_string())?;
    // this test is in target/debug/deps, the helper in target/debug
    let beside =
        std::env::current_exe().ok().and_then(|own| Some(own.parent()?.parent()?.join("infinijup-box")));
    let explicit = beside.filter(|path| std::env::var_os("INFINIJUP_BOX").is_none() && path.is_file());
    let program = Program::find(explicit.as_deref()).map_err(|error| error.to_string())?;
    if !Path::new("/usr/bin/python3").is_file() {
        return Err("there is no /usr/bin/python3".to_owned());
    }
    Ok((criu, program))
}

impl Scene {
    /// A session that was dumped and ended; `None` where that cannot be done.
    #[expect(clippy::print_stdout, reason = "a skipped test must be seen")]
    pub(crate) fn dumped(what: &str) -> Option<Self> {
        match tools() {
            Ok((criu, program)) => Some(Self::make(criu, program)),
            Err(reason) => {
                let required = std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_some_and(|value| value == "1");
                assert!(!required, "{what}: {reason}");
                println!("skipped: {what} because {reason}");
                None
            }
        }
    }

    fn make(criu: Criu, program: Program) -> Self {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let uid = 3_000_000 + std::process::id() % 100_000 * 100 + number;
        let user = User {
            uid,
            gid: uid,
            groups: vec![uid, 1_999_998],
            name: format!("ij{uid}"),
            home: "/nonexistent".into(),
            shell: "/bin/sh".into(),
        };
        let directory = tempfile::Builder::new().prefix("ijtrust-").tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        for name in ["images", "log", "kdat", "box"] {
            fs::create_dir(base.join(name)).unwrap();
            fs::set_permissions(base.join(name), fs::Permissions::from_mode(0o700)).unwrap();
        }
        chown(base.join("box"), Some(uid), Some(uid)).unwrap();
        let id = format!("trust-{}-{number}", std::process::id());
        let mut scene = Self {
            kdat: criu.learn_kernel(&base.join("kdat")).unwrap(),
            cgroup: Cgroup::create(&id, Limits::default()).unwrap(),
            network: Some(NetworkNamespace::create(&base.join("net")).unwrap()),
            images: base.join("images"),
            expected: Expectations {
                mounts: Vec::new(),
                network: Some("net".to_owned()),
                root: "/".into(),
                boxed: true,
                devices: Vec::new(),
            },
            user,
            criu,
            program,
            directory,
        };
        scene.launch_and_dump(&id);
        scene
    }

    fn launch_and_dump(&mut self, id: &str) {
        let spec = BoxSpec {
            id: id.to_owned(),
            user: self.user.clone(),
            command: ["/usr/bin/python3", "-c", WORKLOAD].map(Into::into).to_vec(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            cwd: "/".into(),
            root: self.path("root"),
            box_dir: self.path("box"),
            workspace: None,
            log: "log".into(),
            network: Network::Private(self.path("net")),
            cgroup: Some(&self.cgroup),
            sidecars: Vec::new(),
            limits: Vec::new(),
            devices: Vec::new(),
        };
        let root = Root::at(&spec.root).unwrap();
        let launched = sandbox::launch(&self.program, &spec).unwrap();
        root.unmount().unwrap();
        wait_until("the session has everything", || {
            assert!(
                launched.init.is_alive(),
                "{}",
                fs::read_to_string(self.path("box/log")).unwrap_or_default()
            );
            self.ticks() > 0
        });
        let options = DumpOptions {
            leave: Leave::Ended,
            mounts: launched
                .mounts
                .iter()
                .map(|mount| ExternalMount { key: mount.key.clone(), path: mount.inside.clone() })
                .collect(),
            network: Some(ExternalNetwork {
                key: "net".to_owned(),
                inode: namespace_inode(launched.init.pid, "net").unwrap(),
            }),
            runner: Runner(real_ids_runner(&self.program, &self.user, &self.kdat, None)),
            ..DumpOptions::new(launched.init.pid, &self.images, self.path("log"))
        };
        self.criu.dump(&options, &mut NoHooks).unwrap();
        assert!(launched.init.wait_gone(Duration::from_secs(10)));
        self.expected.mounts = launched
            .mounts
            .iter()
            .map(|mount| ExpectedMount {
                key: mount.key.clone(),
                inside: mount.inside.clone(),
                source: mount.outside.clone(),
            })
            .collect();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    /// How far the session has come.
    pub(crate) fn ticks(&self) -> u64 {
        fs::metadata(self.path("box/ticks")).map_or(0, |metadata| metadata.len())
    }

    /// How many processes there are of it.
    pub(crate) fn processes(&self) -> usize {
        self.cgroup.processes().len()
    }

    /// Restores it, and asks `look` about its first process (and CRIU's worker) when everything is there and nothing runs.
    pub(crate) fn restore(
        &self,
        look: impl FnMut(i32, Option<i32>) -> Result<(), String>,
    ) -> Result<Identity, checkpoint_criu::CriuError> {
        struct Looking<F> {
            look: F,
            init: Option<i32>,
            worker: Option<i32>,
        }
        impl<F: FnMut(i32, Option<i32>) -> Result<(), String>> Hooks for Looking<F> {
            fn worker(&mut self, pid: i32, _start_time: u64) {
                self.worker = Some(pid);
            }

            fn event(&mut self, event: &Event) -> Result<(), String> {
                match (event, self.init) {
                    (Event::PostRestore { pid }, _) => {
                        self.init = Some(*pid);
                        Ok(())
                    }
                    (Event::PreResume, Some(pid)) => (self.look)(pid, self.worker),
                    _ => Ok(()),
                }
            }
        }
        let root = Root::at(&self.path("root")).unwrap();
        let options = RestoreOptions {
            root: Some(root.path().to_owned()),
            mounts: self
                .expected
                .mounts
                .iter()
                .map(|mount| ExternalMount { key: mount.key.clone(), path: mount.source.clone() })
                .collect(),
            network: Some(("net".to_owned(), self.network.as_ref().unwrap().fd().unwrap())),
            runner: Runner(real_ids_runner(&self.program, &self.user, &self.kdat, Some(&self.cgroup))),
            ..RestoreOptions::new(&self.images, self.path("log"))
        };
        let mut hooks = Looking { look, init: None, worker: None };
        let restored = self.criu.restore(&options, &mut hooks);
        root.unmount().unwrap();
        let pid = restored?.pid;
        let start_time = Identity::of(pid).ok().flatten().map_or(0, |identity| identity.start_time);
        Ok(Identity { pid, start_time })
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.cgroup.kill(Duration::from_secs(10));
        let _ = self.cgroup.clone().remove();
        if let Some(network) = self.network.take() {
            let _ = network.remove();
        }
        let _ = sandbox::unmount_all(&self.path(""));
    }
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
