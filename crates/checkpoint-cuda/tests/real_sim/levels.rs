//! Drivers of all ages.

use std::os::unix::fs::symlink;

use checkpoint_cuda::{Backend, Driver, GpuMap, NoNotes, State};

use crate::machine::{Machine, Process, beside};

#[test]
fn a_driver_that_is_too_old_says_so() {
    let Some(machine) = Machine::new(550) else { return };
    let error = Driver::open(machine.settings()).unwrap_err();
    assert_eq!(error.code(), "IJ-G003", "{error}");
    assert!(error.to_string().contains("CUDA 12.4"), "{error}");
}

#[test]
fn the_program_serves_where_the_library_cannot() {
    let Some(machine) = Machine::new(555) else { return };
    let mut settings = machine.settings();
    let tool = machine.home.join("cuda-checkpoint");
    symlink(beside("cuda-sim"), &tool).unwrap();
    settings.tool = Some(tool);
    let driver = Driver::open(settings).unwrap();
    assert_eq!(driver.capabilities().backend, Backend::Tool);
    let process = Process::new(&machine, 8, &[0]);
    assert_eq!(driver.find(&[process.pid()]).unwrap()[0].state, State::Running);
    let tree = driver.lock(&[process.target()], &mut NoNotes).unwrap().checkpoint(&mut NoNotes).unwrap();
    assert_eq!(machine.bytes(), 0);
    tree.restore(&GpuMap::identity(), &mut NoNotes).unwrap().unlock().unwrap();
    process.is_whole();
    let own = i32::try_from(std::process::id()).unwrap();
    assert_eq!(driver.find(&[own]).unwrap(), []);
}

#[test]
fn other_gpus_need_a_newer_driver() {
    let Some(machine) = Machine::new(575) else { return };
    let driver = machine.driver();
    assert!(!driver.capabilities().pairs);
    let process = Process::new(&machine, 8, &[0]);
    let tree = driver.lock(&[process.target()], &mut NoNotes).unwrap().checkpoint(&mut NoNotes).unwrap();
    let (one, two) = (machine.uuid(0), machine.uuid(1));
    let map = GpuMap::new(vec![(one, two), (two, one)]).unwrap();
    let (tree, error) = tree.restore(&map, &mut NoNotes).unwrap_err();
    assert_eq!(error.code(), "IJ-G021");
    drop(tree);
    process.is_whole();
}
