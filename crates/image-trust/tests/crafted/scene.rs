//! A process of a user that nobody is, living outside of boxes; dumped and ended. Everything is taken away with the scene.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use checkpoint_criu::{
    Criu, CriuError, DumpOptions, Event, Hooks, Leave, NoHooks, RestoreOptions, Runner, kernel_notes_of_host,
};
use sandbox::process::Identity;
use sandbox::{Program, Signal, User, real_ids_runner};

/// Holds a bit of everything that an image can have.
const WORKLOAD: &str = "
import ctypes, mmap, os, select, socket, sys, tempfile, threading, time
place = sys.argv[1] + '/'
os.setsid()
os.chdir(place)
ghost = tempfile.TemporaryFile(dir=place); ghost.write(b'ghost'); ghost.flush()
out = open(place + 'out', 'w'); out.write('x'); out.flush()
mapped = mmap.mmap(os.open(place + 'out', os.O_RDONLY), 1, prot=mmap.PROT_READ)
shared = mmap.mmap(-1, 8192)
pair = socket.socketpair()
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
bound = socket.socket(socket.AF_UNIX); bound.bind(place + 'socket'); bound.listen()
poll = select.epoll(); poll.register(server)
memory = os.memfd_create('memory'); os.write(memory, b'hi')
terminal = os.openpty()
null, random = open('/dev/null'), open('/dev/urandom', 'rb')
meminfo = open('/proc/meminfo'); meminfo.read(1)
pipe = os.pipe(); os.write(pipe[1], b'in the pipe')
moved = open(place + 'first', 'w'); os.link(place + 'first', place + 'second'); os.unlink(place + 'first')
event = os.eventfd(3)
libc = ctypes.CDLL(None)
watch = libc.inotify_init(); libc.inotify_add_watch(watch, place.encode(), 2)
threading.Thread(target=time.sleep, args=(100000,), daemon=True).start()
if os.fork() == 0:
    time.sleep(100000)
if os.fork() == 0:
    os._exit(3)
ticks = open(place + 'ticks', 'a')
while True:
    ticks.write('.'); ticks.flush(); time.sleep(0.01)
";

static COUNTER: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Scene {
    pub(crate) user: User,
    pub(crate) images: PathBuf,
    /// The number of its first process, which the images name.
    pub(crate) root: i32,
    criu: Criu,
    program: Program,
    kdat: PathBuf,
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
    /// A process that was dumped and ended; `None` where that cannot be done.
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
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let base = directory.path().canonicalize().unwrap();
        for name in ["images", "log", "kdat", "own"] {
            fs::create_dir(base.join(name)).unwrap();
            fs::set_permissions(base.join(name), fs::Permissions::from_mode(0o700)).unwrap();
        }
        chown(base.join("own"), Some(uid), Some(uid)).unwrap();
        let mut scene = Self {
            kdat: criu.learn_kernel(&base.join("kdat"), kernel_notes_of_host).unwrap(),
            images: base.join("images"),
            root: 0,
            user,
            criu,
            program,
            directory,
        };
        scene.start_and_dump();
        scene
    }

    fn start_and_dump(&mut self) {
        let (uid, groups) = (self.user.uid.to_string(), self.user.groups.iter().map(ToString::to_string));
        let log = fs::File::create(self.path("own/log")).unwrap();
        chown(self.path("own/log"), Some(self.user.uid), Some(self.user.gid)).unwrap();
        // Whoever runs the tests may have left descriptors open that lead outside.
        let close = "for fd in /proc/self/fd/*; do fd=${fd##*/}; [ $fd -le 2 ] || eval \"exec $fd>&-\"; done";
        let mut command = Command::new("bash");
        command
            .args(["-c", &format!("{close}; exec setpriv \"$@\""), "bash", "--reuid", &uid, "--regid", &uid])
            .args(["--groups", &groups.collect::<Vec<_>>().join(","), "--inh-caps=-all"])
            .args(["--bounding-set=-all", "--", "/usr/bin/python3", "-c", WORKLOAD])
            .arg(self.path("own"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let mut child = command.spawn().unwrap();
        self.root = i32::try_from(child.id()).unwrap();
        let root = Identity::of(self.root).unwrap().unwrap();
        wait_until("the process has everything", || {
            assert!(root.is_alive(), "{}", fs::read_to_string(self.path("own/log")).unwrap_or_default());
            self.ticks() > 0
        });
        let options = DumpOptions {
            leave: Leave::Ended,
            runner: Runner(real_ids_runner(&self.program, &self.user, &self.kdat)),
            ..DumpOptions::new(self.root, &self.images, self.path("log"))
        };
        let dumped = self.criu.dump(&options, &mut NoHooks);
        let _ = root.signal(Signal::KILL);
        child.wait().unwrap();
        dumped.unwrap();
        wait_until("its children are gone", || self.processes() == 0);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    /// How far the process has come.
    pub(crate) fn ticks(&self) -> u64 {
        fs::metadata(self.path("own/ticks")).map_or(0, |metadata| metadata.len())
    }

    /// How many processes there are of the user.
    pub(crate) fn processes(&self) -> usize {
        self.of_user().len()
    }

    fn of_user(&self) -> Vec<Identity> {
        let all = sandbox::process::all().unwrap();
        all.iter().filter(|one| one.uid == self.user.uid).map(|one| one.identity()).collect()
    }

    /// Restores it, and asks `look` about its first process (and CRIU's worker) when everything is there and nothing runs.
    pub(crate) fn restore(
        &self,
        look: impl FnMut(i32, Option<i32>) -> Result<(), String>,
    ) -> Result<Identity, CriuError> {
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
        let options = RestoreOptions {
            runner: Runner(real_ids_runner(&self.program, &self.user, &self.kdat)),
            ..RestoreOptions::new(&self.images, self.path("log"))
        };
        let mut hooks = Looking { look, init: None, worker: None };
        let pid = self.criu.restore(&options, &mut hooks)?.pid;
        let start_time = Identity::of(pid).ok().flatten().map_or(0, |identity| identity.start_time);
        Ok(Identity { pid, start_time })
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for process in self.of_user() {
            let _ = process.signal(Signal::KILL);
        }
    }
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
