//! Restores with a real CRIU, and what is left when they fail.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use checkpoint_criu::images::{FileKind, Images, rewrite};
use checkpoint_criu::{
    Action, Criu, CriuError, DumpOptions, Event, Leave, NoHooks, RestoreOptions, TreeState,
};

use crate::common::{At, Scratch, Tree, assert_consecutive, criu, numbers, plain, wait_for};

/// Directories of images and of logs of a plain process that was ended, and its log.
fn ended(criu: &Criu, scratch: &Scratch) -> (PathBuf, PathBuf, PathBuf) {
    let log = scratch.dir.path().join("log");
    let mut tree = plain(&log);
    let (images, logs) = (scratch.sub("images"), scratch.sub("logs"));
    let mut options = DumpOptions::new(tree.pid, &images, &logs);
    options.leave = Leave::Ended;
    criu.dump(&options, &mut NoHooks).unwrap();
    tree.reap();
    (images, logs, log)
}

fn root_of(images: &PathBuf) -> u32 {
    Images::open(images).unwrap().pstree().unwrap()[0].pid
}

/// Nothing with this number runs (it may be a zombie of init's for a while).
fn assert_gone(pid: u32) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    assert!(stat.as_ref().map_or(true, |stat| stat.contains(") Z ")), "{stat:?}");
}

#[test]
fn a_plain_process_is_ended_and_comes_back() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let log = scratch.dir.path().join("log");
    let mut tree = plain(&log);
    let pid = tree.pid;
    let (images, logs) = (scratch.sub("images"), scratch.sub("logs"));

    let mut options = DumpOptions::new(pid, &images, &logs);
    options.leave = Leave::Ended;
    let mut hooks = At::new(Event::PostDump, |_| Ok(()));
    let dumped = criu.dump(&options, &mut hooks).unwrap();
    tree.reap();
    assert!(
        hooks.seen.contains(&Event::PreDump) && hooks.seen.contains(&Event::PostDump),
        "{:?}",
        hooks.seen
    );
    assert!(dumped.stats.frozen_us > 0 && dumped.stats.pages_written > 0, "{dumped:?}");
    let before = numbers(&log).len();

    let mut hooks = At::new(Event::PostResume, |_| Ok(()));
    let restored = criu.restore(&RestoreOptions::new(&images, &logs), &mut hooks).unwrap();
    let tree = Tree::restored(restored.pid);
    assert_eq!(tree.pid, pid);
    assert!(hooks.seen.contains(&Event::PostRestore { pid }), "{:?}", hooks.seen);
    wait_for("it counts on", || numbers(&log).len() > before + 3);
    assert_consecutive(&numbers(&log));
}

#[test]
fn a_hook_that_says_no_leaves_nothing() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let (images, logs, log) = ended(&criu, &scratch);
    let before = numbers(&log).len();
    let mut hooks = At::new(Event::PostRestore { pid: 0 }, |_| Err("no port is free".to_owned()));
    let error = criu.restore(&RestoreOptions::new(&images, &logs), &mut hooks).unwrap_err();
    assert_eq!(error.code(), "IJ-K014");
    assert_eq!(error.tree(), Some(TreeState::Cleared));
    assert_gone(root_of(&images));
    assert_eq!(numbers(&log).len(), before);
}

#[test]
fn a_time_limit_leaves_nothing() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let (images, logs, log) = ended(&criu, &scratch);
    let before = numbers(&log).len();
    let mut options = RestoreOptions::new(&images, &logs);
    options.time_limit = Duration::from_millis(500);
    let mut hooks = At::new(Event::PostRestore { pid: 0 }, |_| {
        std::thread::sleep(Duration::from_millis(600));
        Ok(())
    });
    let error = criu.restore(&options, &mut hooks).unwrap_err();
    assert!(matches!(error, CriuError::Timeout { action: Action::Restore, .. }), "{error}");
    assert_eq!(error.tree(), Some(TreeState::Cleared), "{error}");
    assert_gone(root_of(&images));
    assert_eq!(numbers(&log).len(), before);
}

#[test]
fn a_missing_file_is_explained() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let (images, logs, log) = ended(&criu, &scratch);
    fs::remove_file(&log).unwrap();
    let error = criu.restore(&RestoreOptions::new(&images, &logs), &mut NoHooks).unwrap_err();
    assert_eq!(error.code(), "IJ-K011");
    assert_eq!(error.tree(), Some(TreeState::Cleared));
    assert!(error.to_string().contains("is gone"), "{error}");
    let evidence = error.evidence().unwrap();
    assert!(evidence.lines.iter().any(|line| line.contains("log")), "{evidence:?}");
    assert_eq!(evidence.log_path, logs.join("restore.log"));
    assert_gone(root_of(&images));
}

#[test]
fn a_file_may_be_given_another_path() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let (images, logs, log) = ended(&criu, &scratch);
    let before = numbers(&log);
    let other = scratch.dir.path().join("a longer name than the one before");
    fs::write(&other, "").unwrap();
    let files = Images::open(&images).unwrap().files().unwrap();
    let names: BTreeMap<u32, PathBuf> = files
        .iter()
        .filter(|file| matches!(&file.kind, FileKind::Reg(reg) if reg.path() == log))
        .map(|file| (file.id, other.clone()))
        .collect();
    assert_eq!(names.len(), 1);
    rewrite::set_paths(&images, &names).unwrap();

    let restored = criu.restore(&RestoreOptions::new(&images, &logs), &mut NoHooks).unwrap();
    let _tree = Tree::restored(restored.pid);
    wait_for("it counts in the other file", || numbers(&other).len() > 3);
    assert_eq!(numbers(&log), before);
    let counted: Vec<u64> = before.into_iter().chain(numbers(&other)).collect();
    assert_consecutive(&counted);
}
