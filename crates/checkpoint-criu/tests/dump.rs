//! Dumps with a real CRIU: what they leave behind, also when they fail.

mod common;

use std::fs;
use std::time::Duration;

use checkpoint_criu::images::{FileKind, Images};
use checkpoint_criu::{
    Action, CriuError, DumpOptions, Event, Leave, NoHooks, RestoreOptions, TreeState, release,
};
use common::{
    At, Scratch, Tree, assert_consecutive, assert_goes_on, boxed, branch, criu, numbers, plain, wait_for,
};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn criu_tells_what_it_can_do() {
    let Some(criu) = criu() else { return };
    let probe = criu.probe().unwrap();
    assert!(probe.version >= (4, 0, 0), "{probe:?}");
    assert!(probe.features.pidfd_store, "{probe:?}");
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
fn a_box_runs_on_and_branches_start_where_it_was() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let original = boxed(&scratch);
    let (images, logs) = (scratch.sub("images"), scratch.sub("logs"));

    let mut options = DumpOptions::new(original.tree.pid, &images, &logs);
    options.mounts = original.mounts();
    options.network = Some(original.network());
    let mut at_dump = 0;
    let log = original.log();
    criu.dump(
        &options,
        &mut At::new(Event::PostDump, |_| {
            at_dump = *numbers(&log).last().unwrap();
            Ok(())
        }),
    )
    .unwrap();
    assert_goes_on(&log);

    let mut branches = Vec::new();
    for number in 0..2 {
        let root = scratch.sub(&format!("root{number}"));
        let box_dir = scratch.sub(&format!("box{number}"));
        let logs = scratch.sub(&format!("logs{number}"));
        fs::write(box_dir.join("log"), "").unwrap();
        let restored = criu.restore(&branch(&images, &logs, &root, &box_dir), &mut NoHooks).unwrap();
        branches.push((Tree::restored(restored.pid), box_dir.join("log")));
    }
    for (tree, log) in &branches {
        wait_for("the branch counts", || numbers(log).len() > 3);
        let counted = numbers(log);
        assert_eq!(counted[0], at_dump + 1);
        assert_consecutive(&counted);
        assert!(tree.is_alive());
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
fn images_of_a_box_can_be_read() {
    let Some(criu) = criu() else { return };
    let scratch = Scratch::new();
    let original = boxed(&scratch);
    let images = scratch.sub("images");
    let mut options = DumpOptions::new(original.tree.pid, &images, scratch.sub("logs"));
    options.mounts = original.mounts();
    options.network = Some(original.network());
    let dumped = criu.dump(&options, &mut NoHooks).unwrap();

    let images = Images::open(&images).unwrap();
    assert!(images.inventory().unwrap().img_version >= 2);
    let tree = images.pstree().unwrap();
    assert_eq!((tree[0].pid, tree[0].ppid, tree[0].sid), (1, 0, 1));
    assert_eq!(tree[0].threads, [1]);

    let core = images.core(1).unwrap();
    assert_eq!(core.comm().unwrap(), "sh");
    let credentials = core.credentials().unwrap();
    assert_eq!((credentials.uid, credentials.euid, credentials.fsuid), (0, 0, 0));
    assert!(credentials.cap_eff.iter().any(|word| *word != 0), "{credentials:?}");
    assert!(!core.task.as_ref().unwrap().rlimits.as_ref().unwrap().limits.is_empty());

    let ids = images.ids(1).unwrap();
    let host = images.inventory().unwrap().root_ids.unwrap();
    assert_ne!(ids.pid_ns, host.pid_ns);
    assert_ne!(ids.mnt_ns, host.mnt_ns);
    assert_eq!(ids.user_ns, host.user_ns);

    let files = images.files().unwrap();
    let path_of = |id: u32| {
        files.iter().find(|file| file.id == id).and_then(|file| match &file.kind {
            FileKind::Reg(reg) => Some(reg.path().to_path_buf()),
            _ => None,
        })
    };
    let place = images.fs(1).unwrap();
    assert_eq!(path_of(place.cwd_id).unwrap().as_os_str(), "/");
    let fds = images.fdinfo(ids.files).unwrap();
    let output = fds.iter().find(|fd| fd.fd == 1).unwrap();
    assert_eq!(path_of(output.id).unwrap(), original.inside.join("log"));

    let mm = images.mm(1).unwrap();
    let exe = path_of(mm.exe_file_id).unwrap();
    assert!(exe.is_absolute(), "{exe:?}");
    let mapped: Vec<_> = mm.vmas.iter().filter_map(|vma| vma.file_id()).collect();
    assert!(!mapped.is_empty() && mapped.iter().all(|id| path_of(*id).is_some()));
    assert!(mm.vmas.iter().all(|vma| vma.start < vma.end));

    let pagemap = images.pagemap(1).unwrap();
    let mut pages: u64 = 0;
    for entry in tree {
        if images.core(entry.pid).unwrap().is_over() {
            continue;
        }
        let map = images.pagemap(entry.pid).unwrap();
        pages += map.entries.iter().filter(|run| run.is_present()).map(|run| run.pages()).sum::<u64>();
    }
    assert_eq!(pages, dumped.stats.pages_written);
    assert!(fs::metadata(images.dir().join(format!("pages-{}.img", pagemap.pages_id))).unwrap().len() > 0);

    let (_, mounts) = images.mountpoints().unwrap().remove(0);
    let external = mounts.iter().find(|mount| mount.mountpoint() == original.inside).unwrap();
    assert_eq!(external.external_key().unwrap(), "box");
    assert!(mounts.iter().any(|mount| mount.fs_name().is_some_and(|name| name == "proc")));
    for name in images.names().unwrap() {
        let name = name.to_str().unwrap();
        let bytes = fs::read(images.dir().join(name)).unwrap();
        checkpoint_criu::images::check(name, &bytes).unwrap();
    }
}
