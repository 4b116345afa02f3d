//! Device memory in files of ours (CUDA 13.4).

use std::fs;
use std::path::Path;

use checkpoint_cuda::{Beside, GpuMap, GpuUuid, LockOptions, NoNotes, Part, State};

use crate::machine::{Machine, Process};

fn files(directory: &Path, process: &Process) -> Vec<(String, u64)> {
    let mut files: Vec<(String, u64)> = fs::read_dir(directory.join(process.pid().to_string()))
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())
        })
        .collect();
    files.retain(|(name, _)| name != "parts");
    files.sort();
    files
}

const NO_ROOM: LockOptions = LockOptions { thaw: false, room: false };

#[test]
fn device_memory_goes_to_files_and_comes_back() {
    let Some(machine) = Machine::new(615) else { return };
    let driver = machine.driver();
    assert!(driver.capabilities().custom_storage);
    let processes = [Process::new(&machine, 24, &[0, 1]), Process::new(&machine, 8, &[1])];
    let directory = tempfile::tempdir().unwrap();
    let targets = processes.each_ref().map(Process::target);
    let (one, two) = (machine.uuid(0), machine.uuid(1));
    let swap = GpuMap::new(vec![(one, two), (two, one)]).unwrap();
    for map in [GpuMap::identity(), swap] {
        let locked = driver.lock_with(&targets, &NO_ROOM, &mut NoNotes).unwrap();
        let tree = locked.checkpoint_to(directory.path(), &mut NoNotes).unwrap();
        assert_eq!(machine.bytes(), 0);
        let file = |uuid: GpuUuid, mib: u64| (format!("{uuid}.vram"), mib << 20);
        let mut both = vec![file(one, 24), file(two, 24)];
        both.sort();
        assert_eq!(files(directory.path(), &processes[0]), both);
        assert_eq!(files(directory.path(), &processes[1]), [file(two, 8)]);
        let locked = tree.restore_from(directory.path(), &map, &mut NoNotes).unwrap();
        locked.unlock().unwrap();
        processes.iter().for_each(Process::is_whole);
    }
}

#[test]
fn a_dropped_tree_takes_its_memory_from_the_files() {
    let Some(machine) = Machine::new(615) else { return };
    let driver = machine.driver();
    let process = Process::new(&machine, 8, &[0, 1]);
    let directory = tempfile::tempdir().unwrap();
    let locked = driver.lock_with(&[process.target()], &NO_ROOM, &mut NoNotes).unwrap();
    drop(locked.checkpoint_to(directory.path(), &mut NoNotes).unwrap());
    process.is_whole();
}

#[test]
fn a_file_that_cannot_be_written_loses_nothing() {
    let Some(machine) = Machine::new(615) else { return };
    let driver = machine.driver();
    let process = Process::new(&machine, 8, &[0, 1]);
    let directory = tempfile::tempdir().unwrap();
    // Something is in the way of the second file.
    let own = directory.path().join(process.pid().to_string());
    fs::create_dir_all(own.join(format!("{}.vram", machine.uuid(1)))).unwrap();
    let locked = driver.lock_with(&[process.target()], &NO_ROOM, &mut NoNotes).unwrap();
    let failure = locked.checkpoint_to(directory.path(), &mut NoNotes).unwrap_err();
    assert!(failure.error.to_string().contains("cannot write"), "{failure}");
    assert_eq!(failure.stranded.len(), 0);
    process.is_whole();
}

/// Where the bytes of its first GPU are.
fn file_of(machine: &Machine, directory: &Path, process: &Process) -> std::path::PathBuf {
    Beside::of(directory, process.pid()).file(machine.uuid(0))
}

#[test]
fn a_restore_that_lacks_bytes_does_not_begin() {
    let Some(machine) = Machine::new(615) else { return };
    let driver = machine.driver();
    let process = Process::new(&machine, 8, &[0]);
    let directory = tempfile::tempdir().unwrap();
    let locked = driver.lock_with(&[process.target()], &NO_ROOM, &mut NoNotes).unwrap();
    let tree = locked.checkpoint_to(directory.path(), &mut NoNotes).unwrap();
    let parts = Beside::of(directory.path(), process.pid()).parts().unwrap().unwrap();
    assert_eq!(parts, [Part { gpu: machine.uuid(0), bytes: 8 << 20 }]);
    let file = file_of(&machine, directory.path(), &process);
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, "short").unwrap();
    let (tree, error) = tree.restore_from(directory.path(), &GpuMap::identity(), &mut NoNotes).unwrap_err();
    assert!(error.to_string().contains("5 of 8388608 bytes"), "{error}");
    assert_eq!(driver.state(process.pid()).unwrap(), State::Checkpointed);
    fs::write(&file, bytes).unwrap();
    drop(tree);
    process.is_whole();
}

#[test]
fn bytes_that_are_not_there_are_a_loss_that_is_told() {
    let Some(machine) = Machine::new(615) else { return };
    let driver = machine.driver();
    let process = Process::new(&machine, 8, &[0]);
    let directory = tempfile::tempdir().unwrap();
    let locked = driver.lock_with(&[process.target()], &NO_ROOM, &mut NoNotes).unwrap();
    let tree = locked.checkpoint_to(directory.path(), &mut NoNotes).unwrap();
    // With nothing that says how many there should be.
    fs::remove_file(Beside::of(directory.path(), process.pid()).directory().join("parts")).unwrap();
    fs::write(file_of(&machine, directory.path(), &process), "short").unwrap();
    let (tree, error) = tree.restore_from(directory.path(), &GpuMap::identity(), &mut NoNotes).unwrap_err();
    assert_eq!(error.code(), "IJ-G012", "{error}");
    // It is not let run on with bytes that are not its own: not by the drop, and by nobody who finds it later.
    drop(tree);
    assert_eq!(driver.state(process.pid()).unwrap(), State::Locked);
    let brought = driver.make_running(&[process.pid()]);
    assert_eq!(brought[0].error.as_ref().unwrap().code(), "IJ-G012");
    assert_eq!(driver.state(process.pid()).unwrap(), State::Locked);
}

#[test]
fn whoever_comes_later_finds_the_memory() {
    let Some(machine) = Machine::new(615) else { return };
    let process = Process::new(&machine, 8, &[0, 1]);
    let directory = tempfile::tempdir().unwrap();
    let first = machine.driver();
    let locked = first.lock_with(&[process.target()], &NO_ROOM, &mut NoNotes).unwrap();
    locked.checkpoint_to(directory.path(), &mut NoNotes).unwrap().ended();
    drop(first);
    // A daemon that was not there when it was checkpointed.
    let driver = machine.driver();
    let brought = driver.make_running(&[process.pid()]);
    assert!(brought[0].error.is_some(), "it has no memory of its own");
    assert_eq!(driver.state(process.pid()).unwrap(), State::Checkpointed);
    let brought = driver.make_running_from(&[process.pid()], Some(directory.path()));
    assert_eq!((brought[0].was, brought[0].now), (Some(State::Checkpointed), Some(State::Running)));
    process.is_whole();
}

#[test]
fn what_was_given_up_comes_back_from_where_it_went() {
    let Some(machine) = Machine::new(615) else { return };
    let driver = machine.driver();
    let process = Process::new(&machine, 8, &[0]);
    let directory = tempfile::tempdir().unwrap();
    let locked = driver.lock_with(&[process.target()], &NO_ROOM, &mut NoNotes).unwrap();
    locked.checkpoint_to(directory.path(), &mut NoNotes).unwrap().ended();
    // The same driver remembers, without being told where.
    let brought = driver.make_running(&[process.pid()]);
    assert_eq!(brought[0].now, Some(State::Running), "{brought:?}");
    process.is_whole();
}
