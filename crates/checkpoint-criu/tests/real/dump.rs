//! Dumps with a real CRIU: what they leave behind, also when they fail.

use std::fs;
use std::time::Duration;

use crate::common::{
    At, ROOT, Scratch, assert_consecutive, assert_goes_on, boxed, criu, empty_box, numbers, plain, wait_for,
};
use checkpoint_criu::{Action, CriuError, DumpOptions, Event, Leave, NoHooks, TreeState, release};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn criu_tells_its_version() {
    let Some(criu) = criu() else { return };
    let version = criu.version().unwrap();
    assert!(version >= (4, 2, 0), "{version:?}");
}

#[test]
fn a_box_runs_on_and_branches_start_where_it_was() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let original = boxed(&scratch);
    let (images, logs) = (scratch.sub("images"), scratch.sub("logs"));

    let mut at_dump = 0;
    let log = original.log();
    criu.dump(
        &original.dump_options(&images, &logs),
        &mut At::new(Event::PostDump, |_| {
            at_dump = *numbers(&log).last().unwrap();
            Ok(())
        }),
    )
    .unwrap();
    assert_goes_on(&log);

    let mut branches = Vec::new();
    for number in 0..2 {
        let branch = empty_box(&scratch, &format!("box{number}"));
        let logs = scratch.sub(&format!("logs{number}"));
        let restored = criu.restore(&branch.restore_options(&images, &logs), &mut NoHooks).unwrap();
        assert_eq!(restored.pid, ROOT, "as CRIU sees it");
        branches.push(branch);
    }
    for branch in &branches {
        let log = branch.log();
        wait_for("the branch counts", || numbers(&log).len() > 3);
        let counted = numbers(&log);
        assert_eq!(counted[0], at_dump + 1);
        assert_consecutive(&counted);
        assert_ne!(branch.root(), original.root());
    }
    assert_goes_on(&log);
    assert_consecutive(&numbers(&log));
}

#[test]
fn a_hook_that_says_no_cancels_the_dump_and_the_tree_runs_on() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let log = scratch.dir.path().join("log");
    let tree = plain(&log);
    let mut options = DumpOptions::new(tree.pid, scratch.sub("images"), scratch.sub("logs"));
    options.leave = Leave::Ended;
    let mut hooks = At::new(Event::PostDump, |_| Err("the disk is full".to_owned()));
    let error = criu.dump(&options, &mut hooks).unwrap_err();
    assert_eq!(error.code(), "IJ-K014");
    assert_eq!(error.tree(), Some(TreeState::Running));
    assert!(
        error.to_string().contains("post-dump") && error.to_string().contains("the disk is full"),
        "{error}"
    );
    assert_goes_on(&log);
    assert_consecutive(&numbers(&log));
}

#[test]
fn a_hook_that_says_no_to_a_dump_or_a_restore_in_a_box_is_heard() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let original = boxed(&scratch);
    let (images, logs) = (scratch.sub("images"), scratch.sub("logs"));
    let mut options = original.dump_options(&images, &logs);
    options.leave = Leave::Ended;
    let mut hooks = At::new(Event::PostDump, |_| Err("the disk is full".to_owned()));
    let error = criu.dump(&options, &mut hooks).unwrap_err();
    assert_eq!((error.code(), error.tree()), ("IJ-K014", Some(TreeState::Running)), "{error}");
    assert_goes_on(&original.log());

    let (images, logs) = (scratch.sub("images1"), scratch.sub("logs1"));
    criu.dump(&original.dump_options(&images, &logs), &mut NoHooks).unwrap();
    let branch = empty_box(&scratch, "branch");
    let mut hooks = At::new(Event::PostRestore { pid: 0 }, |_| Err("no port is free".to_owned()));
    let error = criu.restore(&branch.restore_options(&images, &logs), &mut hooks).unwrap_err();
    assert_eq!((error.code(), error.tree()), ("IJ-K014", Some(TreeState::Cleared)), "{error}");
    assert_eq!(numbers(&branch.log()), []);
    assert_goes_on(&original.log());
}

#[test]
fn a_time_limit_leaves_the_tree_running() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let log = scratch.dir.path().join("log");
    let tree = plain(&log);
    let mut options = DumpOptions::new(tree.pid, scratch.sub("images"), scratch.sub("logs"));
    options.leave = Leave::Ended;
    options.time_limit = Duration::from_millis(700);
    let mut hooks = At::new(Event::PostDump, |_| {
        std::thread::sleep(Duration::from_millis(800));
        Ok(())
    });
    let error = criu.dump(&options, &mut hooks).unwrap_err();
    assert!(matches!(error, CriuError::Timeout { action: Action::Dump, .. }), "{error}");
    assert_eq!(error.tree(), Some(TreeState::Running), "{error}");
    assert_goes_on(&log);
    assert_consecutive(&numbers(&log));
}

#[test]
fn a_time_limit_may_fire_at_any_moment_of_a_dump() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let log = scratch.dir.path().join("log");
    let tree = plain(&log);
    let mut fired = 0;
    for (round, millis) in [0, 1, 2, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 70].into_iter().enumerate() {
        let images = scratch.sub(&format!("images{round}"));
        let mut options = DumpOptions::new(tree.pid, images, scratch.sub(&format!("logs{round}")));
        options.time_limit = Duration::from_millis(millis);
        match criu.dump(&options, &mut NoHooks) {
            Ok(_) => {}
            Err(error) => {
                assert!(matches!(error, CriuError::Timeout { .. }), "after {millis} ms: {error}");
                assert_eq!(error.tree(), Some(TreeState::Running), "after {millis} ms: {error}");
                fired += 1;
            }
        }
        assert!(tree.is_alive(), "after {millis} ms");
        assert_goes_on(&log);
    }
    assert!(fired > 0);
    assert_consecutive(&numbers(&log));
}

#[test]
fn a_worker_that_is_killed_leaves_a_tree_that_can_be_released() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let log = scratch.dir.path().join("log");
    let tree = plain(&log);
    let mut options = DumpOptions::new(tree.pid, scratch.sub("images"), scratch.sub("logs"));
    options.leave = Leave::Ended;
    let mut hooks = At::new(Event::PostDump, |worker| {
        kill_process(Pid::from_raw(worker).unwrap(), Signal::KILL).unwrap();
        wait_for("the worker is gone", || {
            fs::read_to_string(format!("/proc/{worker}/stat")).is_ok_and(|stat| stat.contains(") Z "))
        });
        Ok(())
    });
    let error = criu.dump(&options, &mut hooks).unwrap_err();
    assert_eq!(error.code(), "IJ-K013");
    assert!(error.to_string().contains("signal 9"), "{error}");
    release(tree.pid).unwrap();
    assert_goes_on(&log);
    assert_consecutive(&numbers(&log));
}

#[test]
fn a_tree_may_be_left_standing_until_it_is_released() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let log = scratch.dir.path().join("log");
    let tree = plain(&log);
    let mut options = DumpOptions::new(tree.pid, scratch.sub("images"), scratch.sub("logs"));
    options.leave = Leave::Stopped;
    let mut at_dump = Vec::new();
    criu.dump(
        &options,
        &mut At::new(Event::PostDump, |_| {
            at_dump = numbers(&log);
            Ok(())
        }),
    )
    .unwrap();
    wait_for("it stands", || {
        fs::read_to_string(format!("/proc/{}/stat", tree.pid)).is_ok_and(|stat| stat.contains(") T "))
    });
    assert_eq!(numbers(&log), at_dump);
    release(tree.pid).unwrap();
    assert_goes_on(&log);
    assert_consecutive(&numbers(&log));
}
