//! Calls that must be refused, and what they leave behind: nothing.

use std::fs;
use std::time::{Duration, Instant};

use cuda_sim::checkpoint::placement::Pair;
use cuda_sim::checkpoint::state::State;
use cuda_sim::code::Code;
use serde_json::json;

use super::world::{Target, World, state, until};

/// Running, whatever happened before.
fn assert_goes_on(world: &World, target: &Target, before: &serde_json::Value) {
    assert_eq!(state(world, target), State::Running);
    target.assert_whole(before);
}

#[test]
fn steps_in_the_wrong_order() {
    let Some(world) = World::new() else { return };
    let target = Target::start(&world, &[]);
    let before = target.report();
    let caller = world.caller();
    let pid = target.pid;
    assert_eq!(caller.checkpoint(pid), Err(Code::ILLEGAL_STATE));
    assert_eq!(caller.restore(pid, Vec::new()), Err(Code::ILLEGAL_STATE));
    assert_eq!(caller.unlock(pid), Err(Code::ILLEGAL_STATE));
    caller.lock(pid, None).unwrap();
    assert_eq!(caller.lock(pid, None), Err(Code::ILLEGAL_STATE));
    assert_eq!(caller.restore(pid, Vec::new()), Err(Code::ILLEGAL_STATE));
    caller.checkpoint(pid).unwrap();
    assert_eq!(caller.lock(pid, None), Err(Code::ILLEGAL_STATE));
    assert_eq!(caller.checkpoint(pid), Err(Code::ILLEGAL_STATE));
    assert_eq!(caller.unlock(pid), Err(Code::ILLEGAL_STATE));
    caller.restore(pid, Vec::new()).unwrap();
    caller.unlock(pid).unwrap();
    assert_goes_on(&world, &target, &before);
}

#[test]
fn who_is_meant() {
    let Some(world) = World::new() else { return };
    let target = Target::start(&world, &["--fork"]);
    let before = target.report();
    let caller = world.caller();
    let own = i32::try_from(std::process::id()).unwrap();
    assert_eq!(caller.restore_thread(own), Err(Code::NOT_INITIALIZED));
    assert_eq!(caller.state(own), Err(Code::NOT_INITIALIZED));
    assert_eq!(caller.lock(own, None), Err(Code::NOT_INITIALIZED));
    assert_eq!(caller.lock(i32::MAX, None), Err(Code::INVALID_VALUE));

    // A child that was forked has the parent's memory and pipes, but it is not the parent.
    let child = i32::try_from(target.lines("child")[0].as_i64().unwrap()).unwrap();
    assert_eq!(caller.restore_thread(child), Err(Code::NOT_INITIALIZED));
    assert_eq!(caller.lock(child, None), Err(Code::NOT_INITIALIZED));
    assert_eq!(state(&world, &target), State::Running);

    // Any thread will do.
    let thread = caller.restore_thread(target.pid).unwrap();
    let comm = fs::read_to_string(format!("/proc/{}/task/{thread}/comm", target.pid)).unwrap();
    assert!(comm.starts_with("cuda"), "{comm}");
    assert_ne!(thread, target.pid);
    caller.lock(thread, None).unwrap();
    assert_eq!(caller.state(thread), Ok(State::Locked.number()));
    caller.unlock(thread).unwrap();
    assert_goes_on(&world, &target, &before);

    world.ctl(&json!({ "do": "get-state-lies", "on": true }));
    assert_eq!(caller.state(own), Ok(0), "a false positive, as seen with launchers");
    assert_eq!(caller.restore_thread(own), Err(Code::NOT_INITIALIZED), "the better probe");
}

#[test]
fn a_target_in_a_pid_namespace_of_its_own() {
    let Some(world) = World::new() else { return };
    let outer = Target::start_by(&world, &["setsid", "unshare", "--pid", "--fork", "--kill-child"], &[]);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", outer.pid)).unwrap();
    let pid: i32 = children.split_whitespace().next().unwrap().parse().unwrap();
    let caller = world.caller();
    let thread = caller.restore_thread(pid).unwrap();
    assert!(
        fs::exists(format!("/proc/{pid}/task/{thread}")).unwrap(),
        "the caller's number, not the target's own"
    );
    caller.lock(pid, Some(Duration::from_secs(10))).unwrap();
    caller.checkpoint(pid).unwrap();
    assert_eq!(world.status()["bytes"], 0);
    caller.restore(pid, Vec::new()).unwrap();
    caller.unlock(pid).unwrap();
    assert_eq!(caller.state(pid), Ok(0));
    assert_eq!(world.known(pid).unwrap().0, "running");
}

#[test]
fn gpus_by_a_map() {
    let Some(world) = World::with(&["--gpus", "4", "--memory", "64MiB"]) else { return };
    let target = Target::start(&world, &[]);
    let before = target.report();
    let caller = world.caller();
    let uuids = world.uuids();
    let map = |new: [usize; 4]| -> Vec<Pair> {
        uuids.iter().zip(new).map(|(old, new)| (old.clone(), uuids[new].clone())).collect()
    };
    caller.lock(target.pid, None).unwrap();
    caller.checkpoint(target.pid).unwrap();
    let incomplete = map([2, 3, 0, 1])[..2].to_vec();
    assert_eq!(caller.restore(target.pid, incomplete), Err(Code::INVALID_VALUE));
    assert_eq!(caller.restore(target.pid, map([2, 2, 0, 1])), Err(Code::INVALID_VALUE));
    let mut elsewhere = map([2, 3, 0, 1]);
    elsewhere[0].1 = "0".repeat(32);
    assert_eq!(caller.restore(target.pid, elsewhere), Err(Code::INVALID_DEVICE));
    assert_eq!(state(&world, &target), State::Checkpointed);
    assert_eq!(world.status()["bytes"], 0);

    caller.restore(target.pid, map([2, 3, 0, 1])).unwrap();
    caller.unlock(target.pid).unwrap();
    assert_goes_on(&world, &target, &before);
    assert_eq!(target.report()["uuids"], json!([uuids[2], uuids[3]]));
    let status = world.status();
    let used = |index: usize| status["gpus"][index]["bytes"].as_u64().unwrap() > 0;
    assert_eq!([used(0), used(1), used(2), used(3)], [false, false, true, true]);

    // And back, from where it is now.
    caller.lock(target.pid, None).unwrap();
    caller.checkpoint(target.pid).unwrap();
    caller.restore(target.pid, map([2, 3, 0, 1])).unwrap();
    caller.unlock(target.pid).unwrap();
    assert_eq!(target.report()["uuids"], before["uuids"]);
    assert_goes_on(&world, &target, &before);
}

#[test]
fn another_machine() {
    let (Some(first), Some(second)) =
        (World::new(), World::with(&["--memory", "64MiB", "--uuid-seed", "other"]))
    else {
        return;
    };
    let target = Target::start(&first, &[]);
    let before = target.report();
    first.caller().lock(target.pid, None).unwrap();
    first.caller().checkpoint(target.pid).unwrap();
    let caller = second.caller();
    assert_eq!(caller.restore(target.pid, Vec::new()), Err(Code::INVALID_DEVICE), "those GPUs are not here");
    let pairs = first.uuids().into_iter().zip(second.uuids()).collect();
    caller.restore(target.pid, pairs).unwrap();
    caller.unlock(target.pid).unwrap();
    assert_goes_on(&second, &target, &before);
    assert_eq!(first.status()["bytes"], 0);
    assert_ne!(second.status()["bytes"], 0);
}

#[test]
fn no_room_and_no_gpu() {
    let Some(world) = World::new() else { return };
    let target = Target::start(&world, &["--mib", "4"]);
    let before = target.report();
    let caller = world.caller();
    caller.lock(target.pid, None).unwrap();
    caller.checkpoint(target.pid).unwrap();
    world.ctl(&json!({ "do": "fill", "gpu": 1 }));
    assert_eq!(caller.restore(target.pid, Vec::new()), Err(Code::OUT_OF_MEMORY));
    assert_eq!(state(&world, &target), State::Checkpointed);
    assert_eq!(world.status()["bytes"], 0, "what was begun on GPU 0 was undone");
    world.ctl(&json!({ "do": "fill", "gpu": 1, "bytes": 0 }));

    let nodes = world.path().join("dev");
    let away = world.path().join("away");
    fs::rename(&nodes, &away).unwrap();
    assert_eq!(caller.restore(target.pid, Vec::new()), Err(Code::NO_DEVICE));
    fs::rename(&away, &nodes).unwrap();
    assert!(!target.descriptors().iter().any(|link| link.contains("nvidia")));

    caller.restore(target.pid, Vec::new()).unwrap();
    caller.unlock(target.pid).unwrap();
    assert_goes_on(&world, &target, &before);
}

#[test]
fn a_lost_gpu_is_the_end() {
    let Some(world) = World::new() else { return };
    let target = Target::start(&world, &[]);
    let caller = world.caller();
    caller.lock(target.pid, None).unwrap();
    world.ctl(&json!({ "do": "lose", "gpu": 0 }));
    assert_eq!(caller.checkpoint(target.pid), Err(Code::UNKNOWN));
    assert_eq!(state(&world, &target), State::Failed);
    assert_eq!(world.known(target.pid).unwrap().0, "failed");
    assert_eq!(caller.unlock(target.pid), Err(Code::ILLEGAL_STATE));
}

#[test]
fn old_drivers() {
    let Some(world) = World::new() else { return };
    let target = Target::start(&world, &[]);
    let before = target.report();
    let caller = world.caller();
    for level in [550, 555] {
        world.ctl(&json!({ "do": "level", "level": level }));
        assert_eq!(caller.restore_thread(target.pid), Err(Code::NOT_SUPPORTED));
        assert_eq!(caller.lock(target.pid, None), Err(Code::NOT_SUPPORTED));
    }
    world.ctl(&json!({ "do": "level", "level": 570 }));
    caller.lock(target.pid, None).unwrap();
    caller.checkpoint(target.pid).unwrap();
    let uuids = world.uuids();
    let swapped = vec![(uuids[0].clone(), uuids[1].clone()), (uuids[1].clone(), uuids[0].clone())];
    assert_eq!(caller.restore(target.pid, swapped), Err(Code::INVALID_VALUE), "maps came with 580");
    caller.restore(target.pid, Vec::new()).unwrap();
    caller.unlock(target.pid).unwrap();
    assert_goes_on(&world, &target, &before);
}

#[test]
fn lock_waits_for_the_streams() {
    let Some(world) = World::new() else { return };
    let target = Target::start(&world, &["--mib", "1"]);
    let caller = world.caller();
    world.fault("memory", "before", &json!({ "hold": true }));
    target.signal(nix::sys::signal::Signal::SIGUSR2);
    assert_eq!(world.ctl(&json!({ "do": "await-hold", "seconds": 30 }))["held"], true);
    let begin = Instant::now();
    assert_eq!(caller.lock(target.pid, Some(Duration::from_millis(200))), Err(Code::NOT_READY));
    assert!((200..10_000).contains(&begin.elapsed().as_millis()), "{:?}", begin.elapsed());
    assert_eq!(state(&world, &target), State::Running);
    let waiting = std::thread::scope(|scope| {
        let lock = scope.spawn(|| world.caller().lock(target.pid, None));
        until("lock has begun", || (world.status()["calls"]["lock"] == 2).then_some(()));
        assert!(!lock.is_finished());
        world.ctl(&json!({ "do": "release" }));
        lock.join().unwrap()
    });
    assert_eq!(waiting, Ok(()));
    caller.unlock(target.pid).unwrap();
    assert_eq!(state(&world, &target), State::Running);
}
