//! There and back.

use checkpoint_cuda::{Driver, GpuMap, NoNotes, State};

use crate::machine::{Machine, Process};

#[test]
fn two_processes_on_two_gpus_go_there_and_back() {
    let Some(machine) = Machine::new(580) else { return };
    let driver = machine.driver();
    let tree = [Process::new(&machine, 32, &[0]), Process::new(&machine, 16, &[1])];
    let pids = tree.each_ref().map(Process::pid);
    let held = machine.bytes();
    assert!(held >= 48 << 20);

    let own = i32::try_from(std::process::id()).unwrap();
    let found = driver.find(&[own, pids[0], pids[1]]).unwrap();
    assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), pids);
    assert!(
        found.iter().all(|process| process.state == State::Running && process.restore_tid != process.pid)
    );

    for _ in 0..3 {
        let locked = driver.lock(&tree.each_ref().map(Process::target), &mut NoNotes).unwrap();
        assert_eq!(pids.map(|pid| driver.state(pid).unwrap()), [State::Locked; 2]);
        let checkpointed = locked.checkpoint(&mut NoNotes).unwrap();
        assert_eq!(pids.map(|pid| driver.state(pid).unwrap()), [State::Checkpointed; 2]);
        assert_eq!(machine.bytes(), 0);
        let locked = checkpointed.restore(&GpuMap::identity(), &mut NoNotes).unwrap();
        locked.unlock().unwrap();
        assert_eq!(machine.bytes(), held);
        tree.iter().for_each(Process::is_whole);
    }
    assert_eq!(driver.abandoned(), []);
}

fn on(machine: &Machine, process: &Process) -> Vec<String> {
    let status = machine.status();
    let processes = status["processes"].as_array().unwrap();
    let own = processes.iter().find(|entry| entry["pid"] == process.pid()).unwrap();
    let gpus = own["gpus"].as_object().unwrap();
    gpus.iter().filter(|(_, bytes)| bytes.as_u64() > Some(0)).map(|(uuid, _)| uuid.clone()).collect()
}

#[test]
fn processes_change_places_by_a_map() {
    let Some(machine) = Machine::new(580) else { return };
    let driver = machine.driver();
    assert!(driver.capabilities().pairs);
    let process = Process::new(&machine, 32, &[0]);
    let (one, two) = (machine.uuid(0), machine.uuid(1));
    assert_eq!(on(&machine, &process), [one.to_string()]);
    let map = GpuMap::new(vec![(one, two), (two, one)]).unwrap();
    let checkpointed =
        driver.lock(&[process.target()], &mut NoNotes).unwrap().checkpoint(&mut NoNotes).unwrap();
    checkpointed.restore(&map, &mut NoNotes).unwrap().unlock().unwrap();
    assert_eq!(on(&machine, &process), [two.to_string()]);
    process.is_whole();
}

#[test]
fn dropped_trees_are_whole() {
    let Some(machine) = Machine::new(580) else { return };
    let driver = machine.driver();
    let process = Process::new(&machine, 16, &[0, 1]);
    let lock = |driver: &Driver| driver.lock(&[process.target()], &mut NoNotes).unwrap();
    drop(lock(&driver));
    process.is_whole();
    drop(lock(&driver).checkpoint(&mut NoNotes).unwrap());
    process.is_whole();
    // By the id of a thread, too.
    let thread = driver.find(&[process.pid()]).unwrap()[0].restore_tid;
    assert_eq!(driver.state(thread).unwrap(), State::Running);
    let target = checkpoint_cuda::Target { pid: thread, vram_bytes: process.vram_bytes };
    let locked = driver.lock(&[target, process.target()], &mut NoNotes).unwrap();
    assert_eq!(locked.pids(), [process.pid()]);
    locked.unlock().unwrap();
    // Left as it is by one, taken over by another.
    lock(&driver).checkpoint(&mut NoNotes).unwrap().ended();
    assert_eq!(driver.state(process.pid()).unwrap(), State::Checkpointed);
    let other = machine.driver();
    other
        .adopt(&[process.target()])
        .unwrap()
        .restore(&GpuMap::identity(), &mut NoNotes)
        .unwrap()
        .unlock()
        .unwrap();
    process.is_whole();
}
