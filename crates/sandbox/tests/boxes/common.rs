//! What the tests of real boxes share.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sandbox::{BoxSpec, Cgroup, Launched, Limits, Network, NetworkNamespace, Program, Root, Signal, User};

/// Whether boxes can be made here; says why not. Where tests are required, not being able to is a failure.
pub(crate) fn can_make_boxes(what: &str) -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    skip(what, "it needs root");
    false
}

/// Says that a test did not run.
#[expect(clippy::print_stdout, reason = "a skipped test must be seen")]
pub(crate) fn skip(what: &str, why: &str) {
    assert!(std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_none_or(|value| value != "1"), "{what}: {why}");
    println!("skipped: {what}, because {why}");
}

pub(crate) fn program() -> Program {
    Program::find(Some(Path::new(env!("CARGO_BIN_EXE_infinijup-box")))).expect("cargo has built it")
}

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// A user for one test: ids that nobody has, in a second group. The user database need not know them.
fn some_user() -> User {
    let uid = 2_000_000 + std::process::id() % 100_000 * 100 + COUNTER.fetch_add(1, Ordering::Relaxed);
    let (name, home) = (format!("ij{uid}"), PathBuf::from("/nonexistent"));
    User { uid, gid: uid, groups: vec![uid, 1_999_999], name, home, shell: "/bin/sh".into() }
}

/// A box's surroundings, as the daemon would make them.
pub(crate) struct Scene {
    pub(crate) user: User,
    pub(crate) program: Program,
    pub(crate) id: String,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) cgroup: Cgroup,
    pub(crate) network: Option<NetworkNamespace>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    pub(crate) fn with_limits(limits: Limits) -> Self {
        let id = format!("test-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        let directory = tempfile::Builder::new().prefix("ijbox-").tempdir().expect("a directory");
        let scene = Self {
            user: some_user(),
            program: program(),
            cgroup: Cgroup::create(&id, limits).expect("a cgroup"),
            network: Some(NetworkNamespace::create(&directory.path().join("net")).expect("a network")),
            id,
            directory,
        };
        scene.make_box_dir("box");
        scene
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().expect("it is there").join(name)
    }

    /// A directory of the daemon's that belongs to the user.
    pub(crate) fn make_box_dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).expect("a directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("its mode");
        chown(&path, Some(self.user.uid), Some(self.user.gid)).expect("it is given away");
        path
    }

    pub(crate) fn spec(&self, command: &[&str]) -> BoxSpec<'_> {
        BoxSpec {
            id: self.id.clone(),
            user: self.user.clone(),
            command: command.iter().map(OsString::from).collect(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("COLOUR".into(), "green".into())],
            cwd: "/tmp".into(),
            root: self.path("root"),
            box_dir: self.path("box"),
            workspace: None,
            log: "log".into(),
            network: Network::Private(self.path("net")),
            cgroup: Some(&self.cgroup),
            sidecars: Vec::new(),
            limits: Vec::new(),
            devices: Vec::new(),
        }
    }

    /// Launches it; the root is gone again afterwards.
    pub(crate) fn launch(&self, spec: &BoxSpec<'_>) -> sandbox::Result<Launched> {
        let root = Root::at(&spec.root)?;
        let launched = sandbox::launch(&self.program, spec);
        root.unmount()?;
        launched
    }

    /// Launches it and waits for its end; gives what is in the log.
    pub(crate) fn run(&self, spec: &BoxSpec<'_>) -> (Option<i32>, String) {
        let launched = self.launch(spec).expect("the box starts");
        assert!(launched.init.wait_gone(Duration::from_secs(60)), "the box does not end");
        (sandbox::recorded_exit(&self.user, &self.path("box")).expect("it can be read"), self.log())
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("box/log")).unwrap_or_default()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.cgroup.kill(Duration::from_secs(10));
        let _ = self.cgroup.clone().remove();
        if let Some(network) = self.network.take() {
            let _ = network.remove();
        }
        // The directory is removed next: nothing may be mounted in it.
        let _ = sandbox::unmount_all(&self.path(""));
    }
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Ends a box at once.
pub(crate) fn end(launched: &Launched) {
    let _ = launched.init.signal(Signal::KILL);
    assert!(launched.init.wait_gone(Duration::from_secs(10)));
}
