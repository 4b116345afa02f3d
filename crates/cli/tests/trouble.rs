//! Each exit code, by making what it stands for happen.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use common::Sandbox;

fn one_commit() -> Sandbox {
    let sandbox = Sandbox::with_store();
    sandbox.write("work/data.bin", (0..60_000u32).flat_map(|n| (n * n).to_le_bytes()).collect::<Vec<u8>>());
    sandbox.commit("first", ["--tree", "work"]);
    sandbox
}

/// Changes one byte in the middle of a file.
fn flip(path: &std::path::Path, at: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
}

#[test]
fn exit_1_what_has_no_code_of_its_own() {
    let sandbox = one_commit();
    sandbox.fails(1, "IJ-S003", ["store", "init"]);
    sandbox.fails(1, "IJ-S022", ["store", "rotate-keys", "--new-passphrase-file", "x"]);
    sandbox.fails(1, "IJ-S001", ["import", "nothing"]);
    sandbox.write("there", "already");
    sandbox.fails(1, "IJ-S001", ["export", "main", "there"]);
    assert_eq!(std::fs::read(sandbox.path("there")).unwrap(), b"already");
    let full = sandbox.command(["log"]).stdout(std::fs::File::create("/dev/full").unwrap()).output().unwrap();
    assert_eq!(full.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&full.stderr).contains("error[IJ-C021]: cannot write to stdout"));
}

#[test]
fn exit_2_arguments_that_make_no_sense() {
    let sandbox = one_commit();
    assert_eq!(sandbox.run(["bogus"]).code, 2);
    assert_eq!(sandbox.run(["gc", "--repack-below", "101"]).code, 2);
    assert_eq!(sandbox.run(["cat", "main:memory/pid:1", "--address", "1"]).code, 2);
    let ran = sandbox.run(["store", "--json", "bogus"]);
    let last: serde_json::Value = serde_json::from_str(ran.err.lines().last().unwrap()).unwrap();
    assert_eq!((&last["code"], &last["exit"]), (&"IJ-C001".into(), &2.into()));
    sandbox.fails(2, "IJ-C001", ["cat", "main"]);
    sandbox.fails(2, "IJ-C001", ["cat", "main:workspace"]);
    sandbox.fails(2, "IJ-C001", ["cat", "main:workspace/data.bin", "--address", "0", "--length", "1"]);
    sandbox.fails(2, "IJ-C001", ["debug", "commit", "--from", "main"]);
    sandbox.fails(2, "IJ-C001", ["debug", "commit", "--memory", "work/data.bin"]);
    sandbox.commit("x", ["--memory", "work/data.bin@0"]);
    sandbox.fails(2, "IJ-C001", ["cat", "main:memory/pid:1"]);
}

#[test]
fn exit_3_and_13_damage() {
    let sandbox = one_commit();
    flip(&sandbox.packs()[0], 2_000);
    // The structure is whole: the damage is in the bulk of the data.
    sandbox.ok(["store", "verify"]);
    let ran = sandbox.fails(3, "IJ-C010", ["store", "verify", "--bytes"]);
    assert!(ran.out.contains("lost: object ") && ran.out.contains("  threads/main\n"), "{ran:?}");
    // What comes before the damage is printed, if something does.
    sandbox.fails_midway(13, "IJ-S010", ["cat", "main:workspace/data.bin"]);
    let export = sandbox.fails(13, "IJ-S010", ["export", "main", "out.ijx"]);
    assert!(!sandbox.path("out.ijx").exists(), "{export:?}");
    assert_eq!(sandbox.files(".").keys().filter(|path| path.to_string_lossy().contains("export")).count(), 0);
    sandbox.ok(["log"]);
}

#[test]
fn exit_3_gc_and_rebuild_that_meet_damage_keep_everything() {
    let sandbox = one_commit();
    sandbox.commit("second", []);
    // The smallest pack is the second commit's own: what it led to is unknown now.
    let packs = sandbox.packs();
    let last = packs.last().unwrap();
    let len = std::fs::metadata(last).unwrap().len();
    let before = packs.len();
    (60..len.min(400)).for_each(|at| flip(last, at));
    let ran = sandbox.fails(3, "IJ-C011", ["gc"]);
    assert!(ran.out.contains("cannot be read: object "), "{ran:?}");
    sandbox.fails(3, "IJ-C011", ["gc", "--dry-run"]);
    assert_eq!(sandbox.packs().len(), before);
    sandbox.fails(13, "IJ-S010", ["log"]);

    std::fs::write(last, b"nothing of a pack").unwrap();
    let ran = sandbox.fails(3, "IJ-C013", ["store", "rebuild"]);
    assert!(ran.out.contains("nothing could be saved"), "{ran:?}");
}

#[test]
fn exit_10_no_store() {
    let sandbox = Sandbox::for_store();
    for args in [&["log"][..], &["store", "verify"], &["store", "rebuild"], &["cat", "x"], &["tag", "--list"]]
    {
        sandbox.fails(10, "IJ-S002", args.iter().copied());
    }
    sandbox.fails(10, "IJ-S002", ["log", "--store", "nowhere"]);
}

/// A `debug commit` that waits for the other end of a pipe, in the middle of its write transaction.
fn waiting_writer(sandbox: &Sandbox) -> std::process::Child {
    let pipe = sandbox.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let args = ["debug", "commit", "--blob", "x=pipe", "--message", "slow"];
    let mut child = sandbox.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let locks = sandbox.path(".infinijup/locks");
    let begun = || {
        let mut names = std::fs::read_dir(&locks).unwrap().map(|entry| entry.unwrap().file_name());
        names.any(|name| name.to_string_lossy().starts_with("session-"))
            && sandbox.json(["store", "stat"])[0]["write_sessions"] == 1
    };
    for _ in 0..200 {
        if begun() {
            return child;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    child.kill().and_then(|()| child.wait()).unwrap();
    panic!("the writer does not begin");
}

#[test]
fn exit_11_somebody_is_writing() {
    let sandbox = one_commit();
    sandbox.write("work/data.bin", "less");
    sandbox.ok(["export", "main", "x.ijx"]);
    // Something to delete: an import that nothing leads to.
    sandbox.ok(["store", "init", "--store", "other"]);
    sandbox.ok(["debug", "commit", "--store", "other", "--tree", "work", "--message", "elsewhere"]);
    sandbox.ok(["export", "main", "y.ijx", "--store", "other"]);
    sandbox.ok(["import", "y.ijx"]);
    let mut writer = waiting_writer(&sandbox);
    sandbox.fails(11, "IJ-S040", ["store", "rebuild"]);
    let ran = sandbox.fails(11, "IJ-C012", ["gc", "--wait", "0"]);
    assert!(ran.out.contains("nothing was deleted"), "{ran:?}");
    std::fs::write(sandbox.path("pipe"), b"at last").unwrap();
    assert!(writer.wait().unwrap().success());
    assert_eq!(sandbox.ok(["cat", "main:criu/x"]).out, "at last");
    sandbox.ok(["store", "gc"]);
}

#[test]
fn exit_12_keys() {
    let sandbox = Sandbox::for_store();
    sandbox.write("right", "right");
    sandbox.write("wrong", "wrong");
    sandbox.write("short", "too short for a key file");
    sandbox.fails(12, "IJ-S020", ["store", "init", "--encrypt"]);
    sandbox.fails(1, "IJ-S061", ["store", "init", "--key-file", "short", "--store", "other"]);
    sandbox.ok(["store", "init", "--passphrase-file", "right"]);
    let ran = sandbox.fails(12, "IJ-S020", ["log"]);
    assert!(ran.err.contains("hint: give --passphrase-file or --key-file"), "{ran:?}");
    sandbox.fails(12, "IJ-S021", ["log", "--passphrase-file", "wrong"]);
    sandbox.ok(["log", "--passphrase-file", "right"]);
}

#[test]
fn exit_14_names_in_use() {
    let sandbox = one_commit();
    let first = sandbox.json(["show"])[0]["commit"]["id"].clone();
    sandbox.ok(["tag", "v1"]);
    sandbox.commit("second", []);
    sandbox.fails(14, "IJ-S030", ["tag", "v1"]);
    assert_eq!(sandbox.json(["show", "v1"])[0]["commit"]["id"], first);
    sandbox.ok(["export", "v1", "x.ijx"]);
    sandbox.fails(14, "IJ-S030", ["import", "x.ijx", "--thread", "main"]);
    sandbox.ok(["import", "x.ijx", "--tag", "v1"]);
}

#[test]
fn exit_14_a_thread_that_moved_meanwhile() {
    let sandbox = one_commit();
    let mut writer = waiting_writer(&sandbox);
    let other = sandbox.commit("faster", []);
    std::fs::write(sandbox.path("pipe"), b"too late").unwrap();
    assert_eq!(writer.wait().unwrap().code(), Some(14));
    assert_eq!(sandbox.json(["show"])[0]["commit"]["id"], other.as_str());
    assert_eq!(sandbox.json(["store", "stat"])[0]["write_sessions"], 0);
}

#[test]
fn exit_15_what_is_not_there() {
    let sandbox = one_commit();
    sandbox.fails(15, "IJ-C002", ["show", "nobody"]);
    sandbox.fails(15, "IJ-C002", ["show", "0000000000"]);
    sandbox.fails(15, "IJ-C002", ["show", "main~x"]);
    sandbox.fails(15, "IJ-C004", ["show", "main~1"]);
    sandbox.fails(15, "IJ-C005", ["cat", "main:workspace/nothing"]);
    sandbox.fails(15, "IJ-C005", ["cat", "main:workspace/data.bin/below"]);
    sandbox.fails(15, "IJ-C005", ["cat", "main:criu/core-1.img"]);
    sandbox.fails(15, "IJ-C006", ["cat", &"0".repeat(64)]);
    sandbox.fails(15, "IJ-S032", ["log", "--thread", "nobody"]);
    sandbox.commit("x", ["--memory", "work/data.bin@0x1000"]);
    sandbox.fails(15, "IJ-C005", ["cat", "main:memory/pid:1", "--address", "0", "--length", "1"]);
    let end = u64::MAX.to_string();
    sandbox.fails(15, "IJ-C005", ["cat", "main:memory/pid:1", "--address", &end, "--length", "9"]);
}

#[test]
fn an_interrupted_write_leaves_a_whole_store() {
    let sandbox = one_commit();
    let mut writer = waiting_writer(&sandbox);
    let kill = std::process::Command::new("kill").args(["-INT", &writer.id().to_string()]).status().unwrap();
    assert!(kill.success());
    // A shell shows this as 130.
    assert_eq!(writer.wait().unwrap().signal(), Some(2));
    assert_eq!(sandbox.json(["store", "verify", "--bytes"])[0]["clean"], true);
    sandbox.commit("after", []);
    assert_eq!(sandbox.json(["store", "stat"])[0]["write_sessions"], 0);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let sandbox = one_commit();
    for n in 0..3 {
        sandbox.commit(&format!("number {n}"), []);
    }
    for args in
        [&["log"][..], &["log", "--json"], &["cat", "main~3:workspace/data.bin"], &["export", "main", "-"]]
    {
        let mut child = sandbox.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The pipe has no reader before the first byte is written.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
