//! Trees, limits and guards against a worker that misbehaves on demand: no GPU, no driver, no root.
#![expect(
    clippy::unwrap_used,
    reason = "allow-unwrap-in-tests sees #[test] functions only, not their helpers"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use checkpoint_cuda::{
    Action, Checkpointed, CudaError, Driver, GpuMap, GpuUuid, Limits, LockOptions, Locked, NoNotes, Notes,
    Settings, State, Target, Tree,
};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(3);

struct Fake {
    directory: TempDir,
    targets: Vec<Child>,
    driver: Driver,
}

impl Fake {
    /// A driver with `count` CUDA processes that are RUNNING.
    fn new(count: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let worker = directory.path().join("worker.py");
        fs::write(&worker, include_str!("fake_worker.py")).unwrap();
        fs::set_permissions(&worker, fs::Permissions::from_mode(0o755)).unwrap();
        let targets: Vec<Child> =
            (0..count).map(|_| Command::new("sleep").arg("1000").spawn().unwrap()).collect();
        for target in &targets {
            fs::write(directory.path().join(target.id().to_string()), "0").unwrap();
        }
        let mut settings = Settings::new(worker);
        // Questions get more: the worker is Python, and starts slowly on a busy machine.
        let question = Duration::from_secs(10);
        settings.limits = Limits { question, lock: LIMIT, step: LIMIT, unlock: LIMIT };
        let driver = Driver::open(settings).unwrap();
        // The first call starts nothing any more, so that limits measure calls only.
        driver.find(&[1]).unwrap();
        Self { directory, targets, driver }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn pid(&self, number: usize) -> i32 {
        i32::try_from(self.targets[number].id()).unwrap()
    }

    fn targets(&self) -> Vec<Target> {
        (0..self.targets.len()).map(|number| Target { pid: self.pid(number), vram_bytes: 4096 }).collect()
    }

    fn lock(&self) -> Result<Tree<Locked>, CudaError> {
        self.driver.lock(&self.targets(), &mut NoNotes)
    }

    fn checkpoint(&self) -> Tree<Checkpointed> {
        self.lock().unwrap().checkpoint(&mut NoNotes).unwrap()
    }

    fn fault(&self, call: &str, number: usize, what: &str) {
        let path = self.path().join("faults");
        let mut faults = fs::read_to_string(&path).unwrap_or_default();
        faults.push_str(&format!("{call} {} {what}\n", self.pid(number)));
        fs::write(&path, faults).unwrap();
    }

    /// Lets calls that hang go on.
    fn go(&self) {
        fs::write(self.path().join("go"), "").unwrap();
    }

    fn states(&self) -> Vec<i32> {
        self.targets
            .iter()
            .map(|target| {
                fs::read_to_string(self.path().join(target.id().to_string())).unwrap().parse().unwrap()
            })
            .collect()
    }

    fn set(&self, number: usize, state: i32) {
        fs::write(self.path().join(self.pid(number).to_string()), state.to_string()).unwrap();
    }

    fn log(&self) -> String {
        let mut log = fs::read_to_string(self.path().join("log")).unwrap_or_default();
        for (number, target) in self.targets.iter().enumerate() {
            log = log.replace(&target.id().to_string(), &format!("#{number}"));
        }
        log.lines().collect::<Vec<_>>().join("; ")
    }

    fn wait_until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !holds(self) {
            assert!(Instant::now() < deadline, "{what} did not come: {:?}, {}", self.states(), self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        for target in &mut self.targets {
            let _ = target.kill();
            let _ = target.wait();
        }
        // Workers that hang in a test that has failed.
        let _ = fs::write(self.path().join("go"), "");
    }
}

#[test]
fn a_tree_goes_there_and_back_in_order() {
    let fake = Fake::new(2);
    let locked = fake.lock().unwrap();
    assert_eq!(fake.states(), [1, 1]);
    let tree = locked.checkpoint(&mut NoNotes).unwrap();
    assert_eq!(fake.states(), [2, 2]);
    assert_eq!(tree.pids(), [fake.pid(0), fake.pid(1)]);
    let locked = tree.restore(&GpuMap::identity(), &mut NoNotes).unwrap();
    locked.unlock().unwrap();
    assert_eq!(fake.states(), [0, 0]);
    assert_eq!(
        fake.log(),
        "lock #0; lock #1; checkpoint #0; checkpoint #1; restore #0; restore #1; unlock #1; unlock #0"
    );
}

#[test]
fn a_map_reaches_the_driver_unless_it_is_the_identity() {
    let fake = Fake::new(1);
    let (one, two) = (GpuUuid::from_bytes([1; 16]), GpuUuid::from_bytes([2; 16]));
    let same = GpuMap::new(vec![(one, one), (two, two)]).unwrap();
    fake.checkpoint().restore(&same, &mut NoNotes).unwrap().unlock().unwrap();
    assert!(!fake.log().contains("GPU-"), "{}", fake.log());
    let swapped = GpuMap::new(vec![(one, two), (two, one)]).unwrap();
    fake.checkpoint().restore(&swapped, &mut NoNotes).unwrap().unlock().unwrap();
    assert!(fake.log().contains(&format!("restore #0 {one}={two},{two}={one}")), "{}", fake.log());
}

#[test]
fn dropping_a_tree_brings_it_back() {
    let fake = Fake::new(2);
    drop(fake.lock().unwrap());
    assert_eq!(fake.states(), [0, 0]);
    drop(fake.checkpoint());
    assert_eq!(fake.states(), [0, 0]);
    fake.checkpoint().ended();
    assert_eq!(fake.states(), [2, 2]);
    drop(fake.driver.adopt(&fake.targets()).unwrap());
    assert_eq!(fake.states(), [0, 0]);
}

#[test]
fn a_panic_brings_it_back() {
    let fake = Fake::new(2);
    let locked = fake.lock().unwrap();
    catch_unwind(AssertUnwindSafe(move || {
        let _locked = locked;
        panic!("on purpose");
    }))
    .unwrap_err();
    assert_eq!(fake.states(), [0, 0]);
    let tree = fake.checkpoint();
    catch_unwind(AssertUnwindSafe(move || {
        let _tree = tree;
        panic!("on purpose");
    }))
    .unwrap_err();
    assert_eq!(fake.states(), [0, 0]);
}

#[test]
fn locks_are_all_or_none() {
    let fake = Fake::new(3);
    fake.fault("lock", 2, "code=600");
    let error = fake.lock().unwrap_err();
    assert_eq!((error.code(), error.pid()), ("IJ-G010", Some(fake.pid(2))));
    assert!(error.to_string().contains("(600); it is running"), "{error}");
    assert_eq!(fake.states(), [0, 0, 0]);
    assert_eq!(fake.log(), "lock #0; lock #1; unlock #1; unlock #0");
}

#[test]
fn a_failed_checkpoint_brings_all_back() {
    let fake = Fake::new(3);
    fake.fault("checkpoint", 1, "code=801");
    let failure = fake.lock().unwrap().checkpoint(&mut NoNotes).unwrap_err();
    assert_eq!(failure.error.code(), "IJ-G010");
    assert_eq!(failure.stranded.len(), 0);
    assert_eq!(fake.states(), [0, 0, 0]);
}

#[test]
fn a_lost_process_is_named_and_the_others_come_back() {
    let fake = Fake::new(3);
    fake.fault("checkpoint", 1, "failed");
    let failure = fake.lock().unwrap().checkpoint(&mut NoNotes).unwrap_err();
    assert_eq!((failure.error.code(), failure.error.pid()), ("IJ-G012", Some(fake.pid(1))));
    assert_eq!(failure.stranded.len(), 1);
    assert_eq!((failure.stranded[0].pid, failure.stranded[0].state), (fake.pid(1), Some(State::Failed)));
    assert_eq!(fake.states(), [0, 3, 0]);
}

#[test]
fn a_failed_restore_gives_the_tree_back_whole() {
    let fake = Fake::new(2);
    fake.fault("restore", 1, "code=2");
    let (tree, error) = fake.checkpoint().restore(&GpuMap::identity(), &mut NoNotes).unwrap_err();
    assert!(error.to_string().contains("(2); it is checkpointed"), "{error}");
    assert_eq!(fake.states(), [2, 2]);
    // Trying again helps here.
    tree.restore(&GpuMap::identity(), &mut NoNotes).unwrap().unlock().unwrap();
    assert_eq!(fake.states(), [0, 0]);
}

#[test]
fn a_restore_that_can_never_succeed_says_so() {
    let fake = Fake::new(1);
    fake.fault("restore", 0, "code=304");
    let (tree, error) = fake.checkpoint().restore(&GpuMap::identity(), &mut NoNotes).unwrap_err();
    assert_eq!(error.code(), "IJ-G013");
    assert!(error.hint().unwrap().contains("cannot help"));
    tree.ended();
    assert_eq!(fake.states(), [2]);
}

#[test]
fn errors_with_an_effect_count_as_success() {
    let fake = Fake::new(1);
    for call in ["lock", "checkpoint", "restore", "unlock"] {
        fake.fault(call, 0, "code-after=999");
        fake.checkpoint().restore(&GpuMap::identity(), &mut NoNotes).unwrap().unlock().unwrap();
        assert_eq!(fake.states(), [0], "{call}");
    }
}

#[test]
fn a_refused_unlock_is_tried_again() {
    let fake = Fake::new(1);
    fake.fault("unlock", 0, "code=999");
    fake.lock().unwrap().unlock().unwrap();
    assert_eq!(fake.states(), [0]);
    for _ in 0..3 {
        fake.fault("unlock", 0, "code=999");
    }
    let error = fake.lock().unwrap().unlock().unwrap_err();
    assert!(error.to_string().contains("it is locked"), "{error}");
    assert_eq!(fake.driver.make_running(&[fake.pid(0)])[0].now, Some(State::Running));
}

#[test]
fn a_worker_that_dies_is_replaced() {
    let fake = Fake::new(2);
    for call in ["lock", "checkpoint", "restore", "unlock", "state"] {
        for how in ["die", "nonsense"] {
            fake.fault(call, 1, how);
            // With `die` the call had its effect, with `nonsense` not: what counts is the state in the end.
            if let Ok(locked) = fake.lock()
                && let Ok(tree) = locked.checkpoint(&mut NoNotes)
            {
                match tree.restore(&GpuMap::identity(), &mut NoNotes) {
                    Ok(locked) => locked.unlock().unwrap(),
                    Err((tree, error)) => {
                        assert_eq!(error.code(), "IJ-G005", "{call} {how}: {error}");
                        drop(tree);
                    }
                }
            }
            assert_eq!(fake.states(), [0, 0], "{call} {how}");
        }
    }
    fake.fault("checkpoint", 0, "die-before");
    let failure = fake.lock().unwrap().checkpoint(&mut NoNotes).unwrap_err();
    assert_eq!(failure.error.code(), "IJ-G005");
    assert!(failure.error.to_string().contains("exit status: 7"), "{}", failure.error);
    assert_eq!(fake.states(), [0, 0]);
}

#[test]
fn a_hanging_lock_is_given_up_in_time_and_undone_when_it_comes() {
    let fake = Fake::new(2);
    fake.fault("lock", 1, "hang");
    let start = Instant::now();
    let error = fake.lock().unwrap_err();
    assert_eq!((error.code(), error.pid()), ("IJ-G011", Some(fake.pid(1))));
    assert!(start.elapsed() >= LIMIT, "{:?}", start.elapsed());
    assert_eq!(fake.states(), [0, 0]);
    assert_eq!(fake.driver.abandoned().len(), 1);
    // It is still alive, and its lock comes: late, but noticed.
    fake.go();
    fake.wait_until("the late lock and its undoing", |fake| fake.log().ends_with("lock #1; unlock #1"));
    fake.wait_until("the worker's end", |fake| fake.driver.abandoned().is_empty());
    assert_eq!(fake.states(), [0, 0]);
}

#[test]
fn a_hanging_checkpoint_is_given_up_in_time_and_undone_when_it_comes() {
    let fake = Fake::new(2);
    fake.fault("checkpoint", 0, "hang");
    let failure = fake.lock().unwrap().checkpoint(&mut NoNotes).unwrap_err();
    assert_eq!(failure.error.code(), "IJ-G011");
    assert_eq!(failure.stranded.len(), 0);
    assert_eq!(fake.states(), [0, 0]);
    // Somebody else has it in hand when the late call ends: it is left to them.
    let locked = fake.lock().unwrap();
    fake.go();
    fake.wait_until("the late checkpoint", |fake| fake.states() == [2, 1]);
    fake.wait_until("the worker's end", |fake| fake.driver.abandoned().is_empty());
    assert_eq!(fake.states(), [2, 1]);
    locked.unlock().unwrap();
    assert_eq!(fake.states(), [0, 0]);
}

#[test]
fn a_hanging_restore_leaves_the_tree_checkpointed() {
    let fake = Fake::new(1);
    fake.fault("restore", 0, "hang");
    let (tree, error) = fake.checkpoint().restore(&GpuMap::identity(), &mut NoNotes).unwrap_err();
    assert_eq!(error.code(), "IJ-G011");
    assert_eq!(fake.states(), [2]);
    fake.go();
    fake.wait_until("the late restore", |fake| fake.states() == [1]);
    // The next try notices that it is restored already.
    tree.restore(&GpuMap::identity(), &mut NoNotes).unwrap().unlock().unwrap();
    assert_eq!(fake.states(), [0]);
}

#[test]
fn other_calls_of_an_abandoned_worker_are_answered() {
    let fake = Fake::new(2);
    fake.fault("lock", 0, "hang");
    fake.fault("lock", 1, "slow");
    let (one, two) = (fake.targets()[0], fake.targets()[1]);
    thread::scope(|scope| {
        let hangs = scope.spawn(|| fake.driver.lock(&[one], &mut NoNotes).unwrap_err().code());
        thread::sleep(LIMIT / 2);
        // Begun before the other is given up, answered after.
        fake.driver.lock(&[two], &mut NoNotes).unwrap().unlock().unwrap();
        assert_eq!(hangs.join().unwrap(), "IJ-G011");
    });
    assert_eq!(fake.states(), [0, 0]);
    fake.go();
    fake.wait_until("the end of the abandoned worker", |fake| fake.driver.abandoned().is_empty());
}

#[test]
fn a_target_that_dies_is_named_quickly() {
    let mut fake = Fake::new(2);
    let patient = Limits { lock: Duration::from_secs(60), ..Limits::default() };
    let mut settings = Settings::new(fake.path().join("worker.py"));
    settings.limits = patient;
    let driver = Driver::open(settings).unwrap();
    fake.fault("lock", 1, "hang");
    let (targets, pid) = (fake.targets(), fake.pid(1));
    let start = Instant::now();
    let locking = thread::spawn(move || driver.lock(&targets, &mut NoNotes).map(drop));
    fake.wait_until("the first lock", |fake| fake.states() == [1, 0]);
    fake.targets[1].kill().unwrap();
    let error = locking.join().unwrap().unwrap_err();
    assert_eq!((error.code(), error.pid()), ("IJ-G015", Some(pid)));
    assert!(start.elapsed() < Duration::from_secs(30));
    assert_eq!(fake.states()[0], 0);
    fake.go();
}

#[test]
fn a_stopped_target_is_refused_before_any_lock_or_let_go_as_asked() {
    let fake = Fake::new(2);
    let stop = |signal: &str| {
        Command::new("kill").args([signal, &fake.pid(1).to_string()]).status().unwrap();
    };
    let stopped = || {
        let status = fs::read_to_string(format!("/proc/{}/status", fake.pid(1))).unwrap();
        status.lines().any(|line| line.starts_with("State:\tT"))
    };
    stop("-STOP");
    fake.wait_until("the stop", |_| stopped());
    let error = fake.lock().unwrap_err();
    assert_eq!((error.code(), error.pid()), ("IJ-G014", Some(fake.pid(1))));
    assert_eq!(fake.log(), "");
    let options = LockOptions { thaw: true, ..LockOptions::default() };
    let locked = fake.driver.lock_with(&fake.targets(), &options, &mut NoNotes).unwrap();
    assert!(!stopped());
    locked.unlock().unwrap();
    fake.wait_until("the stop again", |_| stopped());
    assert_eq!(fake.states(), [0, 0]);
}

#[test]
fn too_much_memory_is_refused_before_any_lock() {
    let fake = Fake::new(1);
    let target = Target { pid: fake.pid(0), vram_bytes: 1 << 60 };
    assert_eq!(fake.driver.lock(&[target], &mut NoNotes).unwrap_err().code(), "IJ-G020");
    let options = LockOptions { room: false, ..LockOptions::default() };
    fake.driver.lock_with(&[target], &options, &mut NoNotes).unwrap().unlock().unwrap();
    assert_eq!(fake.log(), "lock #0; unlock #0");
}

#[test]
fn a_state_that_does_not_fit_is_refused() {
    let fake = Fake::new(2);
    fake.set(1, 1);
    assert_eq!(fake.lock().unwrap_err().code(), "IJ-G016");
    assert_eq!(fake.log(), "");
    assert_eq!(fake.driver.adopt(&fake.targets()).unwrap_err().code(), "IJ-G016");
    fake.set(1, 9);
    let error = fake.lock().unwrap_err();
    assert!(error.to_string().contains("is state 9"), "{error}");
}

#[test]
fn recovery_brings_back_from_every_state() {
    let fake = Fake::new(5);
    for state in 0..4 {
        fake.set(usize::try_from(state).unwrap(), state);
    }
    fs::remove_file(fake.path().join(fake.pid(4).to_string())).unwrap();
    let pids: Vec<i32> = (0..5).map(|number| fake.pid(number)).collect();
    let brought = fake.driver.make_running(&pids);
    let of = |number: usize| brought.iter().find(|brought| brought.pid == fake.pid(number)).unwrap();
    for number in 0..3 {
        assert_eq!(of(number).now, Some(State::Running));
        assert_eq!(of(number).was, Some(State::from(i32::try_from(number).unwrap())));
    }
    assert_eq!(of(3).error.as_ref().unwrap().code(), "IJ-G012");
    assert!(of(4).was.is_none() && of(4).error.is_none(), "no CUDA in it");
    assert_eq!(fake.driver.find(&pids).unwrap().len(), 4);
}

#[test]
fn two_operations_do_not_share_a_process() {
    let fake = Fake::new(1);
    let mut settings = Settings::new(fake.path().join("worker.py"));
    settings.limits = Limits { question: Duration::from_secs(1), ..Limits::default() };
    let driver = Driver::open(settings).unwrap();
    let locked = driver.lock(&fake.targets(), &mut NoNotes).unwrap();
    assert_eq!(driver.lock(&fake.targets(), &mut NoNotes).unwrap_err().code(), "IJ-G017");
    assert_eq!(driver.make_running(&[fake.pid(0)])[0].error.as_ref().unwrap().code(), "IJ-G017");
    locked.unlock().unwrap();
    driver.lock(&fake.targets(), &mut NoNotes).unwrap().unlock().unwrap();
}

#[derive(Default)]
struct Book {
    lines: Vec<String>,
    workers: Vec<i32>,
    refuse: Option<Action>,
}

impl Notes for Book {
    fn worker(&mut self, pid: i32, start_time: u64) -> Result<(), String> {
        assert!(start_time > 0);
        self.workers.push(pid);
        Ok(())
    }

    fn about_to(&mut self, action: Action, _: i32) -> Result<(), String> {
        self.lines.push(action.to_string());
        if self.refuse == Some(action) { Err("the book is full".to_owned()) } else { Ok(()) }
    }
}

#[test]
fn steps_are_written_down_first_and_not_taken_if_they_cannot_be() {
    let fake = Fake::new(1);
    let mut book = Book::default();
    let locked = fake.driver.lock(&fake.targets(), &mut book).unwrap();
    let tree = locked.checkpoint(&mut book).unwrap();
    tree.restore(&GpuMap::identity(), &mut book).unwrap().unlock().unwrap();
    assert_eq!(book.lines, ["lock", "checkpoint", "restore"]);
    assert_eq!(book.workers.len(), 3);
    let real: Vec<i32> = fs::read_to_string(fake.path().join("workers"))
        .unwrap()
        .lines()
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert!(book.workers.iter().all(|pid| real.contains(pid)), "{:?} of {real:?}", book.workers);

    let mut book = Book { refuse: Some(Action::Checkpoint), ..Book::default() };
    let failure = fake.driver.lock(&fake.targets(), &mut book).unwrap().checkpoint(&mut book).unwrap_err();
    assert_eq!(failure.error.code(), "IJ-G023");
    assert_eq!(fake.states(), [0]);
    assert!(fake.log().ends_with("lock #0; unlock #0"), "{}", fake.log());
}

#[test]
fn a_worker_that_cannot_be_started_is_named() {
    let error = Driver::open(Settings::new("/nowhere/infinijup-gpu")).unwrap_err();
    assert_eq!(error.code(), "IJ-G004");
    assert!(error.to_string().contains("/nowhere/infinijup-gpu"));
    assert_eq!(Driver::open(Settings::new("/bin/true")).unwrap_err().code(), "IJ-G004");
}
