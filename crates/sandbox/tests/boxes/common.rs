//! What the tests of real boxes share.
//!
//! The tests are run by root and the boxes belong to somebody else: a user for each test, whom nobody knows. Root is needed to
//! become that user, and for nothing after it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sandbox::process::{Identity, tree};
use sandbox::{BoxSpec, Commands, KEEPNAME, KEEPNAME_FILE, Launched, Network, Program, Signal, User};

/// A second group of every test's user.
pub(crate) const SECOND_GROUP: u32 = 1_999_999;

/// Whether boxes can be made here; says why not. Where tests are required, not being able to is a failure.
pub(crate) fn can_make_boxes(what: &str) -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    skip(what, "it needs root, to become an ordinary user");
    false
}

/// Says that a test did not run.
#[expect(clippy::print_stdout, reason = "a skipped test must be seen")]
pub(crate) fn skip(what: &str, why: &str) {
    assert!(std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_none_or(|value| value != "1"), "{what}: {why}");
    println!("skipped: {what}, because {why}");
}

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// A user for one test: ids that nobody has, in a second group. The user database need not know them.
fn some_user() -> User {
    let uid = 2_000_000 + std::process::id() % 100_000 * 100 + COUNTER.fetch_add(1, Ordering::Relaxed);
    let (name, home) = (format!("ij{uid}"), PathBuf::from("/nonexistent"));
    User { uid, gid: uid, groups: vec![uid, SECOND_GROUP], name, home, shell: "/bin/sh".into() }
}

/// A box's surroundings, as a user's daemon would make them.
pub(crate) struct Scene {
    pub(crate) user: User,
    /// What becomes the user and then `infinijup-box`.
    pub(crate) program: Program,
    pub(crate) id: String,
    directory: tempfile::TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::of(some_user(), "")
    }

    /// On a machine that a script of root's has changed, in a mount namespace that only the boxes of this scene see.
    pub(crate) fn on_machine(changes: &str) -> Self {
        Self::of(some_user(), changes)
    }

    /// Of root itself, whose daemon is a daemon like any other.
    pub(crate) fn of_root() -> Self {
        Self::of(User::by_uid(0).expect("every machine has root"), "")
    }

    fn of(user: User, changes: &str) -> Self {
        let id = format!("test-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
        let directory = tempfile::Builder::new().prefix("ijbox-").tempdir().expect("a directory");
        open_to_all(directory.path());
        let program = install(directory.path(), &user, changes);
        let scene = Self { user, program, id, directory };
        scene.make_dir("box");
        scene
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().expect("it is there").join(name)
    }

    /// A directory of the user's that is closed to others.
    pub(crate) fn make_dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).expect("a directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("its mode");
        self.give(&path);
        path
    }

    /// Makes something the user's.
    pub(crate) fn give(&self, path: &Path) {
        chown(path, Some(self.user.uid), Some(self.user.gid)).expect("it is given away");
    }

    /// A box without commands.
    pub(crate) fn empty(&self) -> BoxSpec<'_> {
        BoxSpec {
            id: self.id.clone(),
            commands: None,
            box_dir: self.path("box"),
            log: "log".into(),
            workspace: None,
            mapped: Vec::new(),
            network: Network::Private,
            gate: None,
            cgroup: None,
            limits: Vec::new(),
            devices: Vec::new(),
            clocks: None,
            ids: None,
        }
    }

    pub(crate) fn spec(&self, command: &[&str]) -> BoxSpec<'_> {
        BoxSpec { commands: Some(commands(command)), ..self.empty() }
    }

    pub(crate) fn launch(&self, spec: &BoxSpec<'_>) -> sandbox::Result<Launched> {
        sandbox::launch(&self.program, spec)
    }

    /// Launches it and waits for its end; gives what is in the log.
    pub(crate) fn run(&self, spec: &BoxSpec<'_>) -> (Option<i32>, String) {
        let launched = self.launch(spec).expect("the box starts");
        assert!(launched.holder.wait_gone(Duration::from_secs(60)), "the box does not end");
        (sandbox::recorded_exit(&self.path("box")), self.log())
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("box/log")).unwrap_or_default()
    }

    /// Runs a command of the user's inside.
    pub(crate) fn exec(&self, holder: Identity, words: &[&str]) -> sandbox::Result<Output> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        sandbox::exec_in(&self.program, holder, &words, Path::new("/tmp"), &environment())
    }

    /// The holders of boxes on the directory `box`, as the user's daemon finds them.
    pub(crate) fn holders(&self) -> Vec<Identity> {
        let look = || sandbox::holders_of(&self.path("box"));
        sandbox::as_user(&self.user, look).expect("we may").expect("/proc can be read")
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // What a failed test has left. The box ends with its holder.
        for holder in self.holders() {
            let _ = holder.signal(Signal::KILL);
        }
    }
}

pub(crate) fn commands(main: &[&str]) -> Commands {
    let mut env = environment();
    env.push(("COLOUR".into(), "green".into()));
    Commands {
        main: main.iter().map(OsString::from).collect(),
        sidecars: Vec::new(),
        env,
        cwd: "/tmp".into(),
    }
}

fn environment() -> Vec<(OsString, OsString)> {
    vec![("PATH".into(), "/usr/bin:/bin".into())]
}

pub(crate) fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode");
}

fn become_words(user: &User) -> Vec<String> {
    let groups: Vec<String> = user.groups.iter().map(ToString::to_string).collect();
    let (uid, gid) = (user.uid, user.gid);
    ["--reuid", &uid.to_string(), "--regid", &gid.to_string(), "--groups", &groups.join(",")]
        .into_iter()
        .chain(["--inh-caps=-all", "--no-new-privs", "--"])
        .map(str::to_owned)
        .collect()
}

/// A command of this user's, outside of all boxes.
pub(crate) fn outside_of_boxes(user: &User, program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(become_words(user)).arg(program);
    command
}

/// Lays `infinijup-box` down where everybody can run it, with its library, and beside it a script that becomes the user first.
/// Whoever is the user already, as in a box, is left as they are.
fn install(directory: &Path, user: &User, changes: &str) -> Program {
    let real = directory.join("infinijup-box");
    fs::copy(env!("CARGO_BIN_EXE_infinijup-box"), &real).expect("cargo has built it");
    fs::write(directory.join(KEEPNAME_FILE), KEEPNAME).expect("the library");
    if user.uid == 0 {
        return Program::find(Some(&real)).expect("it is there");
    }
    let (root, script) = (directory.join("as-root"), directory.join("as-user"));
    let (real, words) = (real.display(), become_words(user).join(" "));
    let texts = [
        (&root, format!("#!/bin/sh -e\n{changes}exec setpriv {words} {real} \"$@\"\n")),
        (
            &script,
            format!(
                "#!/bin/sh\n[ \"$(id -u)\" = 0 ] && exec {} {} \"$@\"\nexec {real} \"$@\"\n",
                if changes.is_empty() { "" } else { "unshare --mount --propagation private" },
                root.display()
            ),
        ),
    ];
    for (path, text) in texts {
        fs::write(path, text).expect("a script");
        open_to_all(path);
    }
    Program::find(Some(&script)).expect("it is there")
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Ends a box at once. Everything in it ends with its holder.
pub(crate) fn end(launched: &Launched) {
    let processes = tree(launched.holder.pid).expect("a tree");
    let _ = launched.holder.signal(Signal::KILL);
    assert!(launched.holder.wait_gone(Duration::from_secs(10)));
    for process in processes {
        wait_until("everything in the box ends", || !process.identity().is_alive());
    }
}
