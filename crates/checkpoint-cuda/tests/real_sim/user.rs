//! An ordinary user's processes, worker and device server, with a driver that permits it and one that wants root.

use std::fs;
use std::process::Command;

use checkpoint_cuda::{GpuMap, NoNotes, State};

use crate::activation::Activation;
use crate::machine::{Kind, Machine, PYTHON, Process, USER, script};

const PERMITS: Kind = Kind { level: 580, user: USER, root_only: false };
const WANTS_ROOT: Kind = Kind { level: 580, user: USER, root_only: true };

/// This process, its worker and its targets are an ordinary user's, with no right that others have not.
fn is_ordinary() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert_eq!(line("Uid:"), format!("Uid:\t{USER}\t{USER}\t{USER}\t{USER}"));
    for name in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(line(name), format!("{name}\t0000000000000000"));
    }
}

fn whole_cycle(machine: &Machine, process: &Process) {
    let driver = machine.driver();
    assert_eq!(driver.find(&[process.pid()]).unwrap()[0].state, State::Running);
    for _ in 0..2 {
        let locked = driver.lock(&[process.target()], &mut NoNotes).unwrap();
        let tree = locked.checkpoint(&mut NoNotes).unwrap();
        assert_eq!(driver.state(process.pid()).unwrap(), State::Checkpointed);
        assert_eq!(machine.bytes(), 0);
        // Each GPU takes the other's place.
        let (one, two) = (machine.uuid(0), machine.uuid(1));
        let map = GpuMap::new(vec![(one, two), (two, one)]).unwrap();
        tree.restore(&map, &mut NoNotes).unwrap().unlock().unwrap();
        process.is_whole();
    }
}

#[test]
#[ignore = "a part of tests below"]
fn part_whole_cycle() {
    let Some(machine) = Machine::joined() else { return };
    is_ordinary();
    whole_cycle(&machine, &Process::new(&machine, 8, &[0, 1]));
}

#[test]
#[ignore = "a part of tests below"]
fn part_whole_cycle_in_a_box() {
    let Some(machine) = Machine::joined() else { return };
    is_ordinary();
    let mut program = Command::new(PYTHON);
    program.arg(script("box.py"));
    let process = Process::by(program, &machine, 8, &[0, 1]);
    let link = |pid: &str, name: &str| fs::read_link(format!("/proc/{pid}/ns/{name}")).unwrap();
    for name in ["user", "pid", "mnt", "net", "ipc"] {
        assert_ne!(link(&process.pid().to_string(), name), link("self", name));
    }
    whole_cycle(&machine, &process);
}

#[test]
#[ignore = "a part of tests below"]
fn part_refused() {
    let Some(machine) = Machine::joined() else { return };
    is_ordinary();
    let driver = machine.driver();
    let process = Process::new(&machine, 8, &[0]);
    let error = driver.find(&[process.pid()]).unwrap_err();
    assert_eq!((error.code(), error.pid()), ("IJ-G018", Some(process.pid())));
    let text = error.to_string();
    assert!(text.contains("CUDA_ERROR_NOT_PERMITTED (800)"), "{text}");
    assert!(text.contains("`infinijup-gpu-helper` is not installed"), "{text}");
    assert!(error.hint().unwrap().contains("`sudo infinijup setup-gpu`"));
    assert_eq!(driver.lock(&[process.target()], &mut NoNotes).unwrap_err().code(), "IJ-G018");
    process.is_whole();
}

#[test]
fn where_the_driver_permits_it_no_helper_is_needed() {
    let Some(machine) = Machine::of(PERMITS) else { return };
    let helper = Activation::start(&machine);
    machine.run_as_user("user::part_whole_cycle");
    machine.run_as_user("user::part_whole_cycle_in_a_box");
    assert_eq!(helper.ended(), (0, 0));
    assert_eq!(machine.calls("restore"), 4);
}

#[test]
fn without_the_helper_the_error_says_what_to_do() {
    let Some(machine) = Machine::of(WANTS_ROOT) else { return };
    machine.run_as_user("user::part_refused");
    assert_eq!(machine.calls("lock"), 0);
}

#[test]
fn with_the_helper_a_driver_that_wants_root_serves_its_user() {
    let Some(machine) = Machine::of(WANTS_ROOT) else { return };
    let helper = Activation::start(&machine);
    machine.run_as_user("user::part_whole_cycle");
    machine.run_as_user("user::part_whole_cycle_in_a_box");
    assert_eq!(machine.calls("restore"), 4);
    helper.await_ends(4 * 4);
    assert_eq!(helper.ended().1, 0, "none had a reason to refuse");
}
