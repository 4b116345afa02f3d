//! An ordinary user tries to make the helper act on what is not theirs. Whether it did is the stand-in's word: it counts the calls.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::activation::Activation;
use crate::machine::{
    Dialogue, Kind, Machine, OTHER_USER, PYTHON, Process, USER, as_user, beside, script, wait_until,
};

/// The device server is root's, because it serves two users.
const KIND: Kind = Kind { level: 580, user: 0, root_only: true };
const VERBS: [&str; 6] = ["thread", "state", "lock", "checkpoint", "restore", "unlock"];

const MALFORMED: [i32; 2] = [2, 1];
const NOT_A_PROCESS: [i32; 2] = [2, 2];
const ENDED: [i32; 2] = [2, 3];
const OTHER: [i32; 2] = [2, 4];
const OTHER_NAMESPACE: [i32; 2] = [2, 5];
const CHANGED: [i32; 2] = [2, 8];

/// `attacker.py`, run by [`USER`].
struct Attacker(Dialogue);

impl Attacker {
    fn new(machine: &Machine) -> Self {
        let mut program = as_user(USER);
        program.args([PYTHON, &script("attacker.py")]).arg(Activation::socket(machine));
        Self(Dialogue::begin(&mut program))
    }

    fn begin(&self, request: &Value) {
        self.0.say(&request.to_string());
    }

    fn hear(&self) -> Value {
        self.0.hear_value()
    }

    fn tell(&self, request: &Value) -> Value {
        self.begin(request);
        self.hear()
    }

    /// Asks for everything about a process, and gets the same answer each time.
    #[track_caller]
    fn is_refused(&self, target: (&str, Value), why: [i32; 2]) {
        for verb in VERBS {
            let answer = self.tell(&json!({"do": "ask", target.0: target.1, "verb": verb}));
            assert_eq!(answer["answer"], json!(why), "{verb}");
        }
    }
}

/// The driver was asked for nothing, by nobody.
#[track_caller]
fn nothing_was_done(machine: &Machine) {
    for call in ["gettid", "getstate", "lock", "checkpoint", "restore", "unlock"] {
        assert_eq!(machine.calls(call), 0, "{call}");
    }
}

fn kernel() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap(), numbers.next().unwrap())
}

fn process_of(user: u32, machine: &Machine) -> Process {
    Process::by(as_user(user), machine, 1, &[0])
}

#[test]
fn a_process_of_somebody_else_is_not_touched() {
    let Some(machine) = Machine::of(KIND) else { return };
    let helper = Activation::start(&machine);
    let attacker = Attacker::new(&machine);
    for user in [OTHER_USER, 0] {
        let process = process_of(user, &machine);
        attacker.is_refused(("pid", json!(process.pid())), OTHER);
        nothing_was_done(&machine);
        process.is_whole();
    }
    helper.await_ends(2 * VERBS.len());
    assert_eq!(helper.ended(), (0, 2 * VERBS.len()));
    // The same words about a process of one's own are obeyed, so it was not their form that was refused.
    let own = process_of(USER, &machine);
    let answer = attacker.tell(&json!({"do": "ask", "pid": own.pid(), "verb": "state"}));
    assert_eq!(answer["answer"], json!([0, 0]));
    // Which of several descriptors is meant is not guessed.
    for copies in [0, 2, 3, 100] {
        let answer =
            attacker.tell(&json!({"do": "ask", "pid": own.pid(), "verb": "state", "copies": copies}));
        assert_eq!(answer["answer"], json!(MALFORMED), "{copies}");
    }
    // Nor is a thread taken for its process. Kernels before 6.9 have no pidfds of threads.
    let threads = fs::read_dir(format!("/proc/{}/task", own.pid())).unwrap();
    let thread =
        threads.map(|entry| entry.unwrap().file_name().into_string().unwrap().parse::<i32>().unwrap()).max();
    if kernel() >= (6, 9) {
        attacker.is_refused(("thread", json!(thread)), NOT_A_PROCESS);
    }
    assert_eq!(machine.calls("getstate"), 1);
}

/// One of four user ids is another's, as of a setuid program that has put its rights aside for a while; or those of one thread are,
/// as of a program that serves many users.
#[test]
fn a_process_with_one_foreign_id_is_not_touched() {
    let Some(machine) = Machine::of(KIND) else { return };
    let _helper = Activation::start(&machine);
    let attacker = Attacker::new(&machine);
    let (own, other) = (USER, OTHER_USER);
    let cases =
        [vec![own, own, other], vec![own, other, own], vec![other, own, own], vec![own, own, own, other]];
    for ids in cases {
        let mut program = Command::new(PYTHON);
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        program.args([script("with_ids.py"), ids.join(",")]);
        let process = Process::by(program, &machine, 1, &[0]);
        attacker.is_refused(("pid", json!(process.pid())), OTHER);
        process.is_whole();
    }
    nothing_was_done(&machine);
}

#[test]
fn a_number_that_was_given_to_another_is_not_touched() {
    let Some(machine) = Machine::of(KIND) else { return };
    let _helper = Activation::start(&machine);
    let attacker = Attacker::new(&machine);
    let before = attacker.tell(&json!({"do": "child", "name": "gone"}))["pid"].as_i64().unwrap();
    // The new one is the attacker's own: only the pidfd tells it from the old one.
    let process = with_number(before, || process_of(USER, &machine));
    attacker.is_refused(("kept", json!("gone")), ENDED);
    nothing_was_done(&machine);
    process.is_whole();
}

/// Starts a process until it has this number. Others start processes too, so it may take a few tries.
fn with_number(number: i64, start: impl Fn() -> Process) -> Process {
    let mut tries = (0..200).map(|_| {
        fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string()).unwrap();
        start()
    });
    tries.find(|process| i64::from(process.pid()) == number).unwrap()
}

#[test]
fn a_process_in_a_namespace_of_somebody_else_is_not_touched() {
    let Some(machine) = Machine::of(KIND) else { return };
    let _helper = Activation::start(&machine);
    let attacker = Attacker::new(&machine);
    for owner in [OTHER_USER, 0] {
        let mut program = Command::new(PYTHON);
        program.args([&script("in_namespace.py"), &owner.to_string(), &USER.to_string()]);
        let process = Process::by(program, &machine, 1, &[0]);
        attacker.is_refused(("pid", json!(process.pid())), OTHER_NAMESPACE);
        nothing_was_done(&machine);
        process.is_whole();
    }
}

/// A Python that runs as [`OTHER_USER`], whoever starts it, and the words that make it a process with GPU memory.
fn setuid_words(machine: &Machine) -> String {
    let program = machine.home.join("setuid-python");
    fs::copy(PYTHON, &program).unwrap();
    chown(&program, Some(OTHER_USER), Some(OTHER_USER)).unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    format!("{} {} 1 0", program.display(), script("target.py"))
}

fn can_become_another(machine: &Machine) -> Process {
    let mut program = as_user(USER);
    program.env("INFINIJUP_TEST_LIBRARY", machine.home.join("lib/libcuda.so.1"));
    Process::by(program, machine, 1, &[0])
}

#[test]
fn a_process_that_has_become_another_users_is_not_touched() {
    let Some(machine) = Machine::of(KIND) else { return };
    let _helper = Activation::start(&machine);
    let attacker = Attacker::new(&machine);
    let process = can_become_another(&machine);
    attacker.tell(&json!({"do": "keep", "name": "before", "pid": process.pid()}));
    process.execute(&setuid_words(&machine));
    attacker.is_refused(("kept", json!("before")), OTHER);
    nothing_was_done(&machine);
    process.is_whole();
}

/// The last look at the target is over and the driver has been called, when the target becomes another user's. The driver knows
/// its number only, and locks it.
#[test]
fn a_process_that_becomes_another_users_during_a_lock_is_let_go() {
    let Some(machine) = Machine::of(KIND) else { return };
    let _helper = Activation::start(&machine);
    let attacker = Attacker::new(&machine);
    let words = setuid_words(&machine);
    let process = can_become_another(&machine);
    machine.fault("lock", "before", process.pid(), &json!({"hold": true}));
    attacker.begin(&json!({"do": "ask", "pid": process.pid(), "verb": "lock", "timeout_ms": 60_000}));
    assert_eq!(machine.control(&json!({"do": "await-hold", "seconds": 20}))["held"], true);
    process.execute(&words);
    machine.control(&json!({"do": "release"}));
    assert_eq!(attacker.hear()["answer"], json!(CHANGED));
    assert_eq!((machine.calls("lock"), machine.calls("unlock")), (1, 1));
    process.is_whole();
}

#[test]
fn nonsense_is_refused_each_time_and_nobody_is_kept_waiting() {
    let Some(machine) = Machine::of(KIND) else { return };
    let helper = Activation::start(&machine);
    let attacker = Attacker::new(&machine);
    let process = process_of(OTHER_USER, &machine);
    attacker.tell(&json!({"do": "child", "name": "gone"}));
    let wanted = std::env::var("INFINIJUP_TEST_MESSAGES").ok();
    let count = wanted.map_or(1000, |count| count.parse::<usize>().unwrap());
    let begun = Instant::now();
    let flood = json!({"do": "flood", "count": count, "seed": 11, "pid": process.pid()});
    let seen = attacker.tell(&flood)["seen"].as_object().unwrap().clone();
    for (answer, number) in &seen {
        let refused = answer.starts_with("[2, ");
        // One that has refused before it read leaves the sender with a connection that is closed.
        assert!(refused || answer == "None", "{answer} {number} times");
    }
    println!("{count} messages in {:?}: {seen:?}", begun.elapsed());
    helper.await_ends(count);
    assert_eq!(helper.ended(), (0, count));
    nothing_was_done(&machine);
    process.is_whole();

    // Fifty who say nothing are sent away, and do not keep others from being served.
    attacker.begin(&json!({"do": "idle", "count": 50}));
    let other = Attacker::new(&machine);
    let own = process_of(USER, &machine);
    let answer = other.tell(&json!({"do": "ask", "pid": own.pid(), "verb": "state"}));
    assert_eq!(answer["answer"], json!([0, 0]));
    let seconds = Duration::try_from_secs_f64(attacker.hear()["seconds"].as_f64().unwrap()).unwrap();
    assert!(seconds < Duration::from_secs(20), "{seconds:?}");
    wait_until("the end of those who were kept waiting", || helper.ended() == (1, count + 50));
}

/// Nothing on the machine is left for the helper to be called with but its socket.
#[test]
fn the_helper_has_no_options_and_needs_a_socket() {
    let program = beside("infinijup-gpu-helper");
    for input in [Stdio::null(), Stdio::piped()] {
        let ended = Command::new(&program).arg("--library").stdin(input).output().unwrap();
        assert_eq!(ended.status.code(), Some(1));
        assert!(ended.stdout.is_empty() && ended.stderr.is_empty());
    }
}
