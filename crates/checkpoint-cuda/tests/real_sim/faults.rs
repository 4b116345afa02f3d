//! Whatever the driver does, a process ends RUNNING with its bytes, or CHECKPOINTED and restorable; in time.

use std::time::{Duration, Instant};

use checkpoint_cuda::{CudaError, Driver, GpuMap, Limits, NoNotes, State};
use serde_json::{Value, json};

use crate::machine::{LIMIT, Machine, Process, wait_until};

/// Locks, checkpoints, restores and unlocks; the first error, with everything undone as the tree does it.
fn cycle(driver: &Driver, process: &Process) -> Result<(), CudaError> {
    let locked = driver.lock(&[process.target()], &mut NoNotes)?;
    let tree = locked.checkpoint(&mut NoNotes).map_err(|failure| failure.error)?;
    let locked = tree.restore(&GpuMap::identity(), &mut NoNotes).map_err(|(tree, error)| {
        drop(tree);
        error
    })?;
    locked.unlock()
}

/// A call hangs at each of its phases: in the caller, in the target before the work, and there after the work.
fn hangs(call: &str) {
    let Some(machine) = Machine::new(580) else { return };
    let process = Process::new(&machine, 8, &[0]);
    for phase in ["before", "during", "after"] {
        let driver = machine.driver();
        machine.fault(call, phase, process.pid(), &json!({"hang": true}));
        let start = Instant::now();
        let outcome = cycle(&driver, &process);
        // One limit for the call, and one each for asking what became of it, bringing it back, and asking again.
        assert!(start.elapsed() < LIMIT * 6, "{call} {phase}: {:?}", start.elapsed());
        // A call that hangs after its work may be no error: the state says that it was done.
        if let Err(error) = &outcome {
            assert_eq!(error.code(), "IJ-G011", "{call} {phase}: {error}");
        }
        machine.clear();
        wait_until("the end of abandoned workers", || driver.abandoned().is_empty());
        wait_until("the process's return", || driver.state(process.pid()).ok() == Some(State::Running));
        process.is_whole();
    }
}

#[test]
fn a_lock_that_hangs_is_given_up_in_time() {
    hangs("lock");
}

#[test]
fn a_checkpoint_that_hangs_is_given_up_in_time() {
    hangs("checkpoint");
}

#[test]
fn a_restore_that_hangs_is_given_up_in_time() {
    hangs("restore");
}

#[test]
fn an_unlock_that_hangs_is_given_up_in_time() {
    hangs("unlock");
}

#[test]
fn a_question_that_hangs_is_given_up_in_time() {
    let Some(machine) = Machine::new(580) else { return };
    let driver = machine.driver();
    let process = Process::new(&machine, 8, &[0]);
    machine.fault("getstate", "before", process.pid(), &json!({"hang": true}));
    let start = Instant::now();
    let error = driver.state(process.pid()).unwrap_err();
    assert_eq!(error.code(), "IJ-G011");
    assert!(start.elapsed() < LIMIT * 2);
    let workers = driver.abandoned();
    assert_eq!(workers.len(), 1);
    assert_eq!(driver.state(process.pid()).unwrap(), State::Running);
    machine.clear();
    wait_until("the end of the abandoned worker", || driver.abandoned().is_empty());
    process.is_whole();
}

/// Every fault at every call, one process.
#[test]
fn errors_at_every_call_leave_the_process_whole() {
    let Some(machine) = Machine::new(580) else { return };
    let driver = machine.driver();
    let process = Process::new(&machine, 8, &[0]);
    let faults =
        [json!({"error": 999}), json!({"error": 2}), json!({"kill-caller": true}), json!({"delay-ms": 200})];
    for call in ["lock", "checkpoint", "restore", "unlock", "getstate"] {
        for phase in ["before", "after"] {
            for fault in &faults {
                machine.fault(call, phase, process.pid(), fault);
                let _ = cycle(&driver, &process);
                machine.clear();
                let brought = driver.make_running(&[process.pid()]);
                assert!(brought[0].error.is_none(), "{call} {phase} {fault}: {brought:?}");
                process.is_whole();
            }
        }
    }
}

#[test]
fn a_terminal_failure_is_named() {
    let Some(machine) = Machine::new(580) else { return };
    let driver = machine.driver();
    let tree = [Process::new(&machine, 8, &[0]), Process::new(&machine, 8, &[1])];
    machine.fault("checkpoint", "during", tree[1].pid(), &json!({"terminal": true}));
    let locked = driver.lock(&tree.each_ref().map(Process::target), &mut NoNotes).unwrap();
    let failure = locked.checkpoint(&mut NoNotes).unwrap_err();
    assert_eq!((failure.error.code(), failure.error.pid()), ("IJ-G012", Some(tree[1].pid())));
    assert_eq!(failure.stranded.len(), 1);
    tree[0].is_whole();
    assert_eq!(driver.state(tree[1].pid()).unwrap(), State::Failed);
}

#[test]
fn a_full_gpu_leaves_the_tree_checkpointed_until_there_is_room() {
    let Some(machine) = Machine::new(580) else { return };
    let driver = machine.driver();
    let tree = [Process::new(&machine, 8, &[0]), Process::new(&machine, 8, &[1])];
    let locked = driver.lock(&tree.each_ref().map(Process::target), &mut NoNotes).unwrap();
    let checkpointed = locked.checkpoint(&mut NoNotes).unwrap();
    machine.control(&json!({"do": "fill", "gpu": 1}));
    let (checkpointed, error) = checkpointed.restore(&GpuMap::identity(), &mut NoNotes).unwrap_err();
    assert_eq!((error.code(), error.pid()), ("IJ-G010", Some(tree[1].pid())));
    assert!(error.to_string().contains("(2); it is checkpointed"), "{error}");
    for process in &tree {
        assert_eq!(driver.state(process.pid()).unwrap(), State::Checkpointed);
    }
    machine.control(&json!({"do": "fill", "gpu": 1, "bytes": 0}));
    checkpointed.restore(&GpuMap::identity(), &mut NoNotes).unwrap().unlock().unwrap();
    tree.iter().for_each(Process::is_whole);
}

#[test]
fn a_process_that_can_never_be_restored_is_named() {
    let Some(machine) = Machine::new(580) else { return };
    let driver = machine.driver();
    let process = Process::new(&machine, 8, &[0]);
    let tree = driver.lock(&[process.target()], &mut NoNotes).unwrap().checkpoint(&mut NoNotes).unwrap();
    machine.fault("restore", "before", process.pid(), &json!({"then-304": true}));
    let (tree, first) = tree.restore(&GpuMap::identity(), &mut NoNotes).unwrap_err();
    assert_eq!(first.code(), "IJ-G010", "{first}");
    let (tree, second) = tree.restore(&GpuMap::identity(), &mut NoNotes).unwrap_err();
    assert_eq!(second.code(), "IJ-G013", "{second}");
    tree.ended();
}

#[test]
fn a_target_that_dies_is_named_quickly() {
    let Some(machine) = Machine::new(580) else { return };
    let mut settings = machine.settings();
    let minute = Duration::from_secs(60);
    settings.limits = Limits { question: minute, lock: minute, step: minute, unlock: minute };
    let driver = Driver::open(settings).unwrap();
    for call in ["lock", "checkpoint", "restore", "unlock"] {
        let process = Process::new(&machine, 8, &[0]);
        let kill: Value = json!({"kill-target": true});
        machine.fault(call, "before", process.pid(), &kill);
        let start = Instant::now();
        // An unlock of a process that is gone is none.
        if let Err(error) = cycle(&driver, &process) {
            assert_eq!((error.code(), error.pid()), ("IJ-G015", Some(process.pid())), "{call}: {error}");
        } else {
            assert_eq!(call, "unlock");
        }
        assert!(start.elapsed() < minute / 3, "{call}: {:?}", start.elapsed());
        machine.clear();
    }
    wait_until("the end of memory that nobody has", || machine.bytes() == 0);
}

#[test]
fn a_process_without_cuda_is_none() {
    let Some(machine) = Machine::new(580) else { return };
    let driver = machine.driver();
    let own = i32::try_from(std::process::id()).unwrap();
    assert_eq!(driver.find(&[own]).unwrap(), []);
    let brought = driver.make_running(&[own]);
    assert!(brought[0].was.is_none() && brought[0].error.is_none());
}
