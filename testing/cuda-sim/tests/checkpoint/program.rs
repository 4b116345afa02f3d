//! The stand-in of the `cuda-checkpoint` program, and the C interface from Python.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use super::world::{PROGRAM, Target, World, until};

fn run(world: &World, words: &[&str]) -> Output {
    let program = world.path().join("cuda-checkpoint");
    if !program.exists() {
        symlink(PROGRAM, &program).unwrap();
    }
    Command::new(program).args(words).envs(world.environment()).output().unwrap()
}

fn says(world: &World, words: &[&str]) -> String {
    let output = run(world, words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn the_program_does_the_round() {
    let Some(world) = World::new() else { return };
    let target = Target::start(&world, &[]);
    let before = target.report();
    let pid = target.pid.to_string();
    let state = || says(&world, &["--get-state", "--pid", &pid]);
    let thread = says(&world, &["--get-restore-tid", "--pid", &pid]);
    assert_eq!(thread, world.caller().restore_thread(target.pid).unwrap().to_string());
    assert_eq!(state(), "running");
    says(&world, &["--action", "lock", "--pid", &pid, "--timeout", "5000"]);
    assert_eq!(state(), "locked");
    says(&world, &["--action", "checkpoint", "--pid", &pid]);
    assert_eq!(state(), "checkpointed");
    let uuids = world.uuids();
    let map = format!("{}={},GPU-{}={}", uuids[0], uuids[1], uuids[1], uuids[0]);
    says(&world, &["--action", "restore", "--pid", &pid, "--device-map", &map]);
    says(&world, &["--action", "unlock", "--pid", &pid]);
    assert_eq!(state(), "running");
    assert_eq!(target.report()["uuids"], json!([uuids[1], uuids[0]]));
    target.assert_whole(&before);

    let wrong = run(&world, &["--action", "unlock", "--pid", &pid]);
    assert!(!wrong.status.success());
    let text = String::from_utf8(wrong.stderr).unwrap();
    assert!(text.contains("the operation cannot be performed in the present state"), "{text}");

    world.ctl(&json!({ "do": "level", "level": 555 }));
    assert_eq!(state(), "running", "the program is older than the calls");
    world.ctl(&json!({ "do": "level", "level": 550 }));
    assert!(!run(&world, &["--get-state", "--pid", &pid]).status.success());
    says(&world, &["--toggle", "--pid", &pid]);
    until("the memory is off the device", || (world.status()["bytes"] == 0).then_some(()));
    says(&world, &["--toggle", "--pid", &pid]);
    target.assert_whole(&before);
}

#[test]
fn the_c_interface() {
    let Some(world) = World::with(&["--level", "580", "--memory", "64MiB"]) else { return };
    let target = Target::start(&world, &[]);
    let before = target.report();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/checkpoint/calls.py");
    let run = |what: &str| {
        let output = Command::new("/usr/bin/python3")
            .arg(&script)
            .args([what, &target.pid.to_string()])
            .args(world.uuids())
            .envs(world.environment())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run("round");
    target.assert_whole(&before);
    run("itself");
    world.ctl(&json!({ "do": "level", "level": 555 }));
    run("absent");
}

#[test]
fn custom_storage() {
    let Some(world) = World::with(&["--level", "615", "--memory", "16MiB"]) else { return };
    let target = Target::start(&world, &["--mib", "12"]);
    let before = target.report();
    let small = target.anonymous();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/checkpoint/storage.py");
    let mut caller = Command::new("/usr/bin/python3")
        .arg(script)
        .arg(target.pid.to_string())
        .args(world.uuids())
        .envs(world.environment())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(caller.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "checkpointed\n");
    assert_eq!(world.known(target.pid), Some(("checkpointed".to_owned(), 0)));
    assert!(target.anonymous() < small + (8 << 20), "the memory is with the caller, not in the process");
    assert!(!target.descriptors().iter().any(|link| link.contains("nvidia")));
    writeln!(caller.stdin.take().unwrap(), "go on").unwrap();
    assert!(caller.wait().unwrap().success());
    let uuids = world.uuids();
    assert_eq!(target.report()["uuids"], json!([uuids[1], uuids[0]]));
    target.assert_whole(&before);
}
