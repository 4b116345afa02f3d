//! The whole way with a real CRIU, in a box of an ordinary user: a tree of several processes is copied ahead, dumped without its pages, put
//! together, and restored by a CRIU that knows of none of this.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use memory_path::parent::{Doubt, Plan, believes_in_dirty_pages, write_parent};
use memory_path::{
    Ahead, Frozen, MemoryError, PAGE_BYTES, Process, Rest, Sample, StandsStill, Task, Until, Verdict,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sandbox::process::{Identity, tree};
use sandbox::{
    BoxSpec, Commands, KEEPNAME, KEEPNAME_FILE, Launched, Network, Program, ROOT_PID, Signal, User, inside,
    inside_directory, root_of,
};

use crate::assembled::assemble;
use crate::common::{Kept, as_somebody, compiled, somebody};

/// Three processes, one of them with a second thread. Each has its numbers twice, and looks whether both are the same.
const PROGRAM: &str = "
import os, sys, threading, time
def work(name, size):
    one, other, n = bytearray(os.urandom(size)), None, 0
    other = bytearray(one)
    while True:
        n += 1
        at = n * 7919 * 4097 % size
        one[at] = other[at] = n % 256
        if n % 5000 == 0:
            sys.stdout.write('%s %d %s\\n' % (name, n, 'same' if one == other else 'DIFFERENT'))
            sys.stdout.flush()
            time.sleep(0.01)
size = int(sys.argv[1])
for name in 'child', 'sister':
    if os.fork() == 0:
        work(name, size)
threading.Thread(target=work, args=('thread', size)).start()
work('parent', size)
";
const NAMES: [&str; 4] = ["parent", "thread", "child", "sister"];

/// Says that everything is frozen, and waits for an answer.
const HOOK: &str = r#"#!/bin/sh
[ "$CRTOOLS_SCRIPT_ACTION" = post-dump ] || exit 0
here=${0%/*}
echo frozen >"$here/frozen"
read -r answer <"$here/answer"
[ "$answer" = go ]
"#;

/// A user's directory with everything that a box and a dump need.
struct Scene {
    user: User,
    criu: PathBuf,
    program: Program,
    directory: tempfile::TempDir,
}

/// A scene, or why there is none, said aloud.
fn scene() -> Option<Scene> {
    let why = if !rustix::process::geteuid().is_root() {
        "root is needed to become an ordinary user".to_owned()
    } else {
        match (checkpoint_criu::Criu::find(None), Program::find(None)) {
            (Ok(criu), Ok(program)) => return Some(Scene::new(criu.path(), &program)),
            (Err(error), _) => error.to_string(),
            (_, Err(error)) => error.to_string(),
        }
    };
    assert!(std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_none_or(|value| value != "1"), "{why}");
    println!("skipped: the memory path with a real CRIU because {why}");
    None
}

impl Scene {
    fn new(criu: &Path, program: &Program) -> Self {
        let (user, directory) = (somebody(), tempfile::tempdir().expect("a directory"));
        let own = directory.path().join("infinijup-box");
        fs::copy(program.path(), &own).expect("it is there");
        fs::write(directory.path().join(KEEPNAME_FILE), KEEPNAME).expect("the library");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
        chown(directory.path(), Some(user.uid), Some(user.gid)).expect("root may");
        let program = Program::find(Some(&own)).expect("it was just copied");
        Self { user, criu: criu.to_owned(), program, directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().expect("it is there").join(name)
    }

    fn make_dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).expect("a directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("its mode");
        path
    }

    fn launch(&self, name: &str, commands: Option<Commands>) -> LiveBox {
        let spec = BoxSpec {
            id: format!("memory-{}-{name}", std::process::id()),
            commands,
            box_dir: self.make_dir(name),
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
        };
        LiveBox(sandbox::launch(&self.program, &spec).expect("a box"))
    }

    /// The last thing that each has said.
    fn said(&self, name: &str) -> Vec<Option<String>> {
        let log = fs::read_to_string(self.path(name).join("log")).unwrap_or_default();
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        let last = |name: &&str| whole.lines().rfind(|line| line.starts_with(*name)).map(str::to_owned);
        assert!(!whole.contains("DIFFERENT") && !whole.contains("Error"), "{whole}");
        NAMES.iter().map(last).collect()
    }

    /// Waits until everybody has said something new.
    fn goes_on(&self, name: &str) {
        let (before, deadline) = (self.said(name), Instant::now() + Duration::from_secs(60));
        while self.said(name).iter().zip(&before).any(|(now, before)| now.is_none() || now == before) {
            assert!(Instant::now() < deadline, "{:?}", self.said(name));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// CRIU inside a box.
    fn criu(&self, holder: Identity, kdat: Option<&Path>, images: &[&Path], words: &[&str]) -> Command {
        let mut prefix = inside(&self.program, holder, kdat, images).into_iter();
        let mut command = Command::new(prefix.next().expect("the program"));
        command.args(prefix).arg(&self.criu).args(words);
        command
    }

    /// CRIU's notes about the kernel, changed; CRIU is asked whether it agrees.
    fn changed_notes(&self, holder: Identity) -> PathBuf {
        let check = ["check", "--unprivileged", "-v0"];
        let _ = self.criu(holder, None, &[], &check).output().expect("it runs");
        let mut words = inside(&self.program, holder, None, &[]).into_iter();
        let mut cat = Command::new(words.next().expect("the program"));
        let notes = cat.args(words).args(["cat", "/run/criu.kdat"]).output().expect("it runs").stdout;
        let path = self.path("notes");
        let changed = believes_in_dirty_pages(&notes, |notes| {
            fs::write(&path, notes).expect("a file");
            let mut ask = self.criu(holder, Some(&path), &[], &check);
            Ok(ask.args(["--feature", "mem_dirty_track"]).output().expect("it runs").status.success())
        });
        fs::write(&path, changed.expect("this is the build that it was written for")).expect("a file");
        path
    }

    /// Starts a dump. It stops at the freeze until it is answered.
    fn begin_dump(&self, launched: &Launched, kdat: &Path, images: &Path, more: &[&str]) -> Child {
        let (fd, root) = (inside_directory(0), ROOT_PID.to_string());
        let (fd, hook) = (fd.to_str().expect("text"), self.path("hook"));
        let words =
            ["dump", "--unprivileged", "-t", &root, "-D", fd, "-v2", "-o", "criu.log", "--leave-running"];
        let mut dump = self.criu(launched.holder, Some(kdat), &[images], &words);
        dump.args(["--tcp-close", "--network-lock", "skip", "--file-locks", "--manage-cgroups=ignore"]);
        dump.args(["--link-remap", "--action-script"]).arg(hook).args(more).spawn().expect("it runs")
    }

    fn finish(&self, mut criu: Child, images: &Path) {
        let status = criu.wait().expect("it ends");
        let log = || fs::read_to_string(images.join("criu.log")).unwrap_or_default();
        assert!(status.success(), "{status}\n{}", log());
    }

    /// Lays the hook down, and opens what it speaks through.
    fn hook(&self) -> Hook {
        let path = self.path("hook");
        fs::write(&path, HOOK).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
        let [frozen, answer] = ["frozen", "answer"].map(|name| {
            let path = self.path(name);
            let made = Command::new("mkfifo").arg(&path).status().expect("it runs");
            assert!(made.success());
            File::options().read(true).write(true).open(path).expect("opened for both it waits for nobody")
        });
        Hook { frozen, answer }
    }

    fn restore(&self, launched: &mut Launched, images: &Path, more: &[&str]) {
        let fd = inside_directory(0);
        let words =
            ["restore", "--unprivileged", "-d", "-D", fd.to_str().expect("text"), "-v2", "-o", "criu.log"];
        let mut restore = self.criu(launched.holder, None, &[images], &words);
        restore.args(["--tcp-close", "--manage-cgroups=ignore", "--link-remap"]).args(more);
        self.finish(restore.spawn().expect("it runs"), images);
        launched.root = root_of(launched.holder).expect("/proc can be read");
    }
}

struct Hook {
    frozen: File,
    answer: File,
}

impl Hook {
    /// Waits for the freeze; fails if CRIU ends before.
    fn wait(&mut self, criu: &mut Child, images: &Path) {
        let short = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        while poll(&mut [PollFd::new(&self.frozen, PollFlags::IN)], Some(&short)).expect("poll") == 0 {
            if let Some(status) = criu.try_wait().expect("it can be asked") {
                panic!("{status}\n{}", fs::read_to_string(images.join("criu.log")).unwrap_or_default());
            }
        }
        self.frozen.read_exact(&mut [0; 7]).expect("it says so");
    }

    fn go(&mut self) {
        self.answer.write_all(b"go\n").expect("it listens");
    }
}

fn processes(launched: &Launched) -> Vec<Process> {
    let root = launched.root.expect("it has one");
    let all = tree(root.pid).expect("a tree");
    let living = all.iter().filter(|process| !process.is_zombie());
    living
        .filter_map(|process| match Process::of(process.pid) {
            Ok(process) => Some(process),
            // A program under stress has children that end at any moment.
            Err(MemoryError::Gone { .. }) => None,
            Err(error) => panic!("{error}"),
        })
        .collect()
}

/// A box. It ends with this value, so that a test that panics leaves none behind.
struct LiveBox(Launched);

impl Deref for LiveBox {
    type Target = Launched;

    fn deref(&self) -> &Launched {
        &self.0
    }
}

impl DerefMut for LiveBox {
    fn deref_mut(&mut self) -> &mut Launched {
        &mut self.0
    }
}

impl Drop for LiveBox {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.holder.signal(Signal::KILL);
        let gone = self.holder.wait_gone(Duration::from_secs(10));
        assert!(gone || std::thread::panicking(), "the box does not end");
    }
}

/// The last look at a tree that CRIU has frozen.
fn look(ahead: &mut Ahead, tree: &[Process], sample: Sample) -> Rest {
    let frozen: Vec<Frozen> = tree.iter().map(|p| Frozen::look(p.pid).expect("CRIU holds it")).collect();
    let still: Vec<&dyn StandsStill> = frozen.iter().map(|frozen| frozen as &dyn StandsStill).collect();
    ahead.last_look(&still, sample).expect("it can be looked at")
}

/// What CRIU says about a dump.
#[derive(Clone, Copy, prost::Message)]
struct Figures {
    #[prost(uint32, required, tag = "2")]
    frozen_us: u32,
    #[prost(uint64, required, tag = "6")]
    left_out: u64,
}

#[derive(Clone, Copy, prost::Message)]
struct Stats {
    #[prost(message, required, tag = "1")]
    dump: Figures,
}

fn figures(images: &Path) -> Figures {
    let bytes = fs::read(images.join("stats-dump")).expect("CRIU writes it");
    // Two magic numbers and a length.
    <Stats as prost::Message>::decode(&bytes[12..]).expect("a message").dump
}

fn commands(size: usize) -> Commands {
    Commands {
        main: ["python3", "-c", PROGRAM, &size.to_string()].map(Into::into).to_vec(),
        sidecars: Vec::new(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: "/tmp".into(),
    }
}

const SETTLED: Until = Until { pages: 2000, rounds: 6 };

/// A tree that is followed, with all that dumps of it need.
struct Course<'a> {
    scene: &'a Scene,
    launched: LiveBox,
    notes: PathBuf,
    hook: Hook,
    ahead: Ahead,
    sink: Kept,
}

/// A dump that was put together.
struct Dumped {
    images: PathBuf,
    tasks: Vec<Task>,
    /// Pages that were copied while the tree was frozen.
    copied: u64,
    /// Clean pages that were compared.
    compared: u64,
    /// Pages that CRIU has left to us.
    left_out: u64,
}

impl<'a> Course<'a> {
    fn begin(scene: &'a Scene, commands: Commands) -> Self {
        let launched = scene.launch("box", Some(commands));
        let (notes, hook) = (scene.changed_notes(launched.holder), scene.hook());
        Self { scene, launched, notes, hook, ahead: Ahead::new(), sink: Kept::default() }
    }

    /// Copies ahead, dumps without pages, and gives the rest to the sink. The images lack their pages still.
    fn dump(&mut self, name: &str, sample: Sample) -> Dumped {
        let tree = || Ok(processes(&self.launched));
        let rounds = self.ahead.rounds(tree, SETTLED, &mut self.sink).expect("rounds");
        self.ahead.prepare(2 * rounds.last().map_or(0, |round| round.copied) + 4000);
        let images = self.scene.make_dir(name);
        write_parent(&self.scene.make_dir(&format!("{name}-parent")), self.ahead.tasks()).expect("a parent");
        let link = format!("../{name}-parent");
        let more = ["--track-mem", "--prev-images-dir", &link];
        let mut criu = self.scene.begin_dump(&self.launched, &self.notes, &images, &more);
        self.hook.wait(&mut criu, &images);
        let rest = look(&mut self.ahead, &processes(&self.launched), sample);
        self.hook.go();
        self.scene.finish(criu, &images);
        let settled = self.ahead.settle(rest, &mut self.sink).expect("the sink never fails");
        let Verdict::Trusted { compared } = settled.verdict else { panic!("{settled:?}") };
        Dumped { images, tasks: settled.tasks, copied: settled.copied, compared, left_out: 0 }
    }

    /// Dumps everything while the tree is frozen.
    fn plain_dump(&mut self, name: &str) -> PathBuf {
        let images = self.scene.make_dir(name);
        let mut criu = self.scene.begin_dump(&self.launched, &self.notes, &images, &[]);
        self.hook.wait(&mut criu, &images);
        self.hook.go();
        self.scene.finish(criu, &images);
        images
    }

    /// Puts the pages of all tasks that were looked at into the images.
    fn assemble(&mut self, dumped: &mut Dumped) {
        let Dumped { images, tasks, left_out, .. } = dumped;
        let read = |task: &Task| Plan::read(images, *task, tasks).expect("a plan");
        let plans: Vec<Plan> = tasks.iter().map(read).collect();
        Plan::check_counts(&plans, figures(images).left_out).expect("they agree");
        for plan in &plans {
            let mut fetch = |task, at, into: &mut [u8; PAGE_BYTES]| {
                self.sink.get(task, at, into).expect("it never fails")
            };
            assemble(plan, images, &mut fetch).expect("no page is missing");
            *left_out += plan.counts().from_sink;
        }
        fs::remove_file(images.join("parent")).expect("a link");
    }
}

#[test]
fn a_tree_that_was_copied_ahead_is_restored_by_any_criu() {
    let Some(scene) = scene() else { return };
    as_somebody(&scene.user, || {
        let mut course = Course::begin(&scene, commands(4 << 20));
        scene.goes_on("box");
        assert_eq!(processes(&course.launched).len(), 4, "the first process, and three of ours");
        // The second dump stands on what the first has left.
        let mut last = None;
        for name in ["first", "second"] {
            let mut dumped = course.dump(name, Sample::All);
            assert_eq!(dumped.tasks.len(), 4);
            assert!(dumped.compared > 1000, "{}", dumped.compared);
            // A task that nobody has looked at is not put together, and a page that is missing is missed.
            let (images, task) = (&dumped.images, dumped.tasks[1]);
            assert!(matches!(Plan::read(images, task, &[]), Err(Doubt::NotLookedAt { .. })));
            let plan = Plan::read(images, task, &dumped.tasks).unwrap();
            assemble(&plan, images, &mut |_, _, _| false).unwrap_err();
            course.assemble(&mut dumped);
            assert!(dumped.left_out > 4 * (4 << 20) / 4096);
            last = Some(dumped);
        }
        scene.goes_on("box");
        drop(course.launched);

        let mut again = scene.launch("again", None);
        scene.restore(&mut again, &last.unwrap().images, &["--leave-stopped"]);
        assert_memory_is(&processes(&again), &mut course.sink);
        for process in tree(again.root.unwrap().pid).unwrap() {
            process.identity().signal(Signal::CONT).unwrap();
        }
        scene.goes_on("again");
    });
}

#[test]
fn a_box_ends_with_the_test_that_panics() {
    let Some(scene) = scene() else { return };
    as_somebody(&scene.user, || {
        let mut holder = None;
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let launched = scene.launch("box", Some(commands(4096)));
            holder = Some(launched.holder);
            assert!(!launched.holder.wait_gone(Duration::ZERO), "it lives");
            panic!("on purpose");
        }));
        assert_eq!(died.unwrap_err().downcast_ref::<&str>(), Some(&"on purpose"));
        assert!(holder.unwrap().wait_gone(Duration::ZERO), "it was left behind");
    });
}

/// What CRIU lists is what we have, whatever the program does, and it goes on where it was.
#[test]
fn a_program_under_stress_is_dumped_and_goes_on() {
    let Some(scene) = scene() else { return };
    let (directory, program) = compiled(include_str!("stress.c"), &[]);
    let file = directory.path().join("file");
    fs::write(&file, vec![0x5a; 700 * PAGE_BYTES]).unwrap();
    // A bare dump may say that it is to be opened for writing: `images/opened.rs` of checkpoint-criu, which this test goes without, has the reason.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let operations = |name: &str| -> u64 {
        let log = fs::read_to_string(scene.path(name).join("log")).unwrap_or_default();
        let whole = log.rfind('\n').map_or("", |end| &log[..end]);
        whole.lines().next_back().map_or(0, |line| line.parse().unwrap_or_else(|_| panic!("{log}")))
    };
    let goes_on = |name: &str| {
        let (before, deadline) = (operations(name), Instant::now() + Duration::from_secs(60));
        while operations(name) <= before {
            assert!(Instant::now() < deadline, "in vain");
            std::thread::sleep(Duration::from_millis(20));
        }
        before
    };
    as_somebody(&scene.user, || {
        let words = [program.as_os_str(), file.as_os_str()].map(Into::into).to_vec();
        let mut course = Course::begin(&scene, Commands { main: words, ..commands(0) });
        goes_on("box");
        for number in 0..dumps() {
            let mut dumped = course.dump(&format!("dump{number}"), Sample::All);
            let at_dump = operations("box");
            course.assemble(&mut dumped);
            assert!(dumped.left_out > 500, "{}", dumped.left_out);
            if number % 10 == 0 {
                let name = format!("again{number}");
                let mut again = scene.launch(&name, None);
                scene.restore(&mut again, &dumped.images, &[]);
                goes_on(&name);
                assert!(operations(&name) > at_dump / 2, "it does not begin anew");
            }
            fs::remove_dir_all(&dumped.images).unwrap();
            goes_on("box");
        }
    });
}

/// Writes to 8 MiB of its memory every second.
const WRITER: &str = "
import sys, time
size, n = int(sys.argv[1]), 0
data = bytearray(b'x') * size
while True:
    for at in range(0, 8 << 20, 4096):
        data[(n * (8 << 20) + at) % size] = n % 256
    n += 1
    print(n, flush=True)
    time.sleep(1)
";

/// Prints for how long the tree was frozen; `INFINIJUP_MEMORY_MIB` says how large it is.
#[test]
fn little_is_copied_at_the_freeze() {
    let Some(scene) = scene() else { return };
    let mib: usize =
        std::env::var("INFINIJUP_MEMORY_MIB").map_or(64, |text| text.parse().expect("a number of MiB"));
    as_somebody(&scene.user, || {
        let words = ["python3", "-c", WRITER, &(mib << 20).to_string()].map(Into::into).to_vec();
        let mut course = Course::begin(&scene, Commands { main: words, ..commands(0) });
        let deadline = Instant::now() + Duration::from_secs(60);
        while fs::metadata(scene.path("box").join("log")).is_ok_and(|log| log.len() == 0) {
            assert!(Instant::now() < deadline, "it does not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        let plain = course.plain_dump("plain");
        let mut dumped = course.dump("ahead", Sample::Pages(64));
        let [before, after] = [&plain, &dumped.images].map(|images| figures(images).frozen_us / 1000);
        course.assemble(&mut dumped);
        drop(course.launched);
        let all = mib as u64 * 256;
        println!(
            "{mib} MiB: frozen for {before} ms, copied ahead {after} ms with {} pages left",
            dumped.copied
        );
        assert!(dumped.left_out >= all && dumped.copied < all / 2, "{} of {all}", dumped.copied);
    });
}

/// A tenth of the freezes that `stress.rs` makes.
fn dumps() -> u32 {
    crate::stress::checks() / 10
}

/// Compares what a restored tree has in its large mappings with what was copied of them.
fn assert_memory_is(tree: &[Process], sink: &mut Kept) {
    use std::os::unix::fs::FileExt;
    let (mut compared, mut told, mut page, mut kept) = (0, 0, [0; PAGE_BYTES], [0; PAGE_BYTES]);
    for process in tree {
        let memory = File::open(format!("/proc/{}/mem", process.pid)).expect("ours");
        let mut addresses: Vec<u64> =
            sink.pages.keys().filter(|(task, _)| *task == process.task).map(|(_, at)| *at).collect();
        addresses.sort_unstable();
        let maps = base::proc::read(process.pid, "maps").expect("ours").expect("it is there");
        let large: Vec<(u64, u64)> = maps
            .split(|byte| *byte == b'\n')
            .filter_map(base::proc::Mapping::parse)
            .filter(|mapping| mapping.inode == 0 && mapping.len() >= 1 << 20 && mapping.is_writable())
            .map(|mapping| (mapping.start, mapping.end))
            .collect();
        for address in addresses {
            if large.iter().any(|(start, end)| (*start..*end).contains(&address))
                && memory.read_exact_at(&mut page, address).is_ok()
            {
                assert!(sink.get(process.task, address, &mut kept).expect("it never fails"));
                // What was thrown away before the freeze is still in the sink and reads as zeros now. The kernel tells each thread
                // the number of its processor in a few bytes of its own (rseq).
                let differ = page.iter().zip(&kept).filter(|(now, then)| now != then).count();
                if differ > 0 && page != [0; PAGE_BYTES] {
                    assert!(differ <= 16, "page {address:x} of task {}: {differ} bytes", process.task);
                    told += 1;
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 4 * (4 << 20) / PAGE_BYTES, "{compared}");
    assert!(told <= 5, "one page for each thread, not {told}");
}
