//! `detect` on live processes: of this test, and of nobody.

mod common;

use common::Sandbox;

fn own_pid() -> String {
    std::process::id().to_string()
}

#[test]
fn a_process_without_a_gpu_has_nothing() {
    let sandbox = Sandbox::new();
    let report = sandbox.json(["detect", "--pid", &own_pid()]).remove(0);
    assert_eq!(report["looked_at"], 1);
    assert_eq!(report["strategy"]["do"], "skip");
    assert_eq!(report["processes"][0]["uses_gpu"], false);
    assert_eq!(report["processes"][0]["pid"], std::process::id());
    let ran = sandbox.ok(["detect", "--pid", &own_pid()]);
    assert!(ran.out.contains("nothing on a GPU"), "{ran:?}");
    assert!(ran.err.contains("0 of 1 process use a GPU"), "{ran:?}");
}

#[test]
fn a_tree_has_all_its_processes() {
    let sandbox = Sandbox::new();
    let report = sandbox.json(["detect", "--pid", &own_pid(), "--tree"]).remove(0);
    // The test and the program itself.
    assert!(report["processes"].as_array().unwrap().len() >= 2, "{report}");
    assert_eq!(report["strategy"]["do"], "skip");
}

#[test]
fn both_ways_to_ask_for_json_are_one() {
    let sandbox = Sandbox::new();
    let ran = sandbox.ok(["detect", "--all", "--format", "json"]);
    let report = ran.json().remove(0);
    assert!(report["looked_at"].as_u64().unwrap() > 1, "{report}");
    assert!(report["took_us"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn someone_must_be_named_and_be_there() {
    let sandbox = Sandbox::new();
    for args in [
        &["detect"][..],
        &["detect", "--tree"],
        &["detect", "--pid", "1", "--all"],
        &["detect", "--pid", "0"],
    ] {
        assert_eq!(sandbox.run(args).code, 2, "{args:?}");
    }
    // Above every number that the kernel gives out.
    sandbox.fails(15, "IJ-P010", ["detect", "--pid", "2147483647"]);
    sandbox.fails(15, "IJ-P010", ["detect", "--pid", "2147483647", "--tree"]);
}

#[test]
fn a_container_must_be_named_as_containers_are_and_be_there() {
    let sandbox = Sandbox::new();
    for args in [
        &["detect", "--container", "x", "--all"][..],
        &["detect", "--runtime", "runc"],
        &["detect", "--pid", "1", "--address", "/x"],
        &["detect", "--container", "x", "--runtime", "rkt"],
    ] {
        assert_eq!(sandbox.run(args).code, 2, "{args:?}");
    }
    sandbox.fails(2, "IJ-O001", ["detect", "--container", "../etc"]);
    // Somebody who was named and does not answer.
    let nowhere = ["detect", "--container", "x", "--address", "/nowhere/containerd.sock"];
    sandbox.fails(1, "IJ-O010", nowhere);
}
