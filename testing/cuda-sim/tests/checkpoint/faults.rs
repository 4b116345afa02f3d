//! Faults of the script, on live processes.

use std::time::{Duration, Instant};

use cuda_sim::checkpoint::state::State;
use cuda_sim::code::Code;
use serde_json::{Value, json};

use super::world::{PROGRAM, Target, World, state, until};

fn await_hold(world: &World) -> Value {
    let answer = world.ctl(&json!({ "do": "await-hold", "seconds": 30 }));
    assert_eq!(answer["held"], true);
    answer["who"][0].clone()
}

#[test]
fn an_error_before_and_after_the_work() {
    let Some(world) = World::new() else { return };
    let target = Target::start(&world, &[]);
    let before = target.report();
    let caller = world.caller();
    world.fault("lock", "before", &json!({ "error": 304 }));
    assert_eq!(caller.lock(target.pid, None), Err(Code::OPERATING_SYSTEM));
    assert_eq!(state(&world, &target), State::Running);
    world.fault("lock", "after", &json!({ "error": 999 }));
    assert_eq!(caller.lock(target.pid, None), Err(Code::UNKNOWN));
    assert_eq!(state(&world, &target), State::Locked, "it was done, though the caller was told otherwise");
    world.fault("checkpoint", "during", &json!({ "error": 2 }));
    assert_eq!(caller.checkpoint(target.pid), Err(Code::OUT_OF_MEMORY));
    assert_eq!(state(&world, &target), State::Locked);
    caller.unlock(target.pid).unwrap();
    target.assert_whole(&before);
}

#[test]
fn a_failed_checkpoint_is_terminal() {
    let Some(world) = World::new() else { return };
    let target = Target::start(&world, &[]);
    let caller = world.caller();
    caller.lock(target.pid, None).unwrap();
    world.fault("checkpoint", "before", &json!({ "terminal": true }));
    assert_eq!(caller.checkpoint(target.pid), Err(Code::UNKNOWN));
    assert_eq!(state(&world, &target), State::Failed);
    for refused in
        [caller.unlock(target.pid), caller.checkpoint(target.pid), caller.restore(target.pid, Vec::new())]
    {
        assert_eq!(refused, Err(Code::ILLEGAL_STATE));
    }
}

#[test]
fn out_of_memory_and_then_304_for_ever() {
    let Some(world) = World::new() else { return };
    let target = Target::start(&world, &[]);
    let caller = world.caller();
    caller.lock(target.pid, None).unwrap();
    caller.checkpoint(target.pid).unwrap();
    world.fault("restore", "before", &json!({ "then-304": true }));
    assert_eq!(caller.restore(target.pid, Vec::new()), Err(Code::OUT_OF_MEMORY));
    world.ctl(&json!({ "do": "clear" }));
    assert_eq!(caller.restore(target.pid, Vec::new()), Err(Code::OPERATING_SYSTEM));
    assert_eq!(caller.restore(target.pid, Vec::new()), Err(Code::OPERATING_SYSTEM));
    assert_eq!(caller.unlock(target.pid), Err(Code::ILLEGAL_STATE));
    assert_eq!(state(&world, &target), State::Checkpointed);
}

#[test]
fn held_at_each_place() {
    let Some(world) = World::new() else { return };
    let target = Target::start(&world, &[]);
    let before = target.report();
    let caller = world.caller();
    type Call = fn(&World, i32) -> Result<(), Code>;
    let calls: [(&str, Call, [&str; 2]); 4] = [
        ("lock", |world, pid| world.caller().lock(pid, None), ["running", "locked"]),
        ("checkpoint", |world, pid| world.caller().checkpoint(pid), ["locked", "checkpointed"]),
        ("restore", |world, pid| world.caller().restore(pid, Vec::new()), ["checkpointed", "locked"]),
        ("unlock", |world, pid| world.caller().unlock(pid), ["locked", "running"]),
    ];
    for (name, call, [from, to]) in calls {
        for phase in ["before", "during", "after"] {
            world.fault(name, phase, &json!({ "hold": true }));
        }
        std::thread::scope(|scope| {
            let work = scope.spawn(|| call(&world, target.pid));
            for (phase, known) in [("before", from), ("during", from), ("after", to)] {
                let who = await_hold(&world);
                assert_eq!(who, json!({ "call": name, "phase": phase, "pid": target.pid, "hang": false }));
                assert_eq!(world.known(target.pid).unwrap().0, known);
                assert_eq!(world.ctl(&json!({ "do": "release" }))["released"], 1);
            }
            assert_eq!(work.join().unwrap(), Ok(()));
        });
        world.ctl(&json!({ "do": "clear" }));
    }
    assert_eq!(caller.state(target.pid), Ok(0));
    target.assert_whole(&before);
}

#[test]
fn a_hang_ends_with_the_faults_or_with_the_caller() {
    let Some(world) = World::new() else { return };
    let target = Target::start(&world, &[]);
    let before = target.report();
    world.fault("lock", "before", &json!({ "hang": true }));
    std::thread::scope(|scope| {
        let lock = scope.spawn(|| world.caller().lock(target.pid, Some(Duration::from_secs(20))));
        assert_eq!(await_hold(&world)["hang"], true);
        assert_eq!(state(&world, &target), State::Running, "others can ask meanwhile");
        world.ctl(&json!({ "do": "clear" }));
        assert_eq!(lock.join().unwrap(), Ok(()), "and the call is made after all");
    });
    world.fault("unlock", "after", &json!({ "hang": true }));
    let mut other = std::process::Command::new(PROGRAM)
        .args(["cuda-checkpoint", "--action", "unlock", "--pid", &target.pid.to_string()])
        .envs(world.environment())
        .spawn()
        .unwrap();
    await_hold(&world);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(state(&world, &target), State::Running);
    target.assert_whole(&before);
}

#[test]
fn slow_calls_and_dead_ones() {
    let Some(world) = World::new() else { return };
    let target = Target::start(&world, &[]);
    let caller = world.caller();
    world.fault("lock", "before", &json!({ "delay-ms": 300 }));
    let begin = Instant::now();
    caller.lock(target.pid, Some(Duration::from_secs(10))).unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(300));

    world.fault("unlock", "before", &json!({ "kill-caller": true }));
    let other = std::process::Command::new(PROGRAM)
        .args(["cuda-checkpoint", "--action", "unlock", "--pid", &target.pid.to_string()])
        .envs(world.environment())
        .output()
        .unwrap();
    assert!(!other.status.success());
    assert_eq!(state(&world, &target), State::Locked, "the caller died before it asked");

    world.fault("checkpoint", "before", &json!({ "kill-target": true }));
    assert!(caller.checkpoint(target.pid).is_err());
    until("the server forgets it", || world.known(target.pid).is_none().then_some(()));
    assert_eq!(world.status()["bytes"], 0);
}
