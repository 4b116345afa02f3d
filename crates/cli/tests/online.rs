//! The commands that the daemon answers, against a stand-in for it: what they ask, what people see, what programs get.

mod common;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use common::daemon::{Asked, Daemon, Reply, ended, event, job, session, step};
use common::{Ran, Sandbox};
use serde_json::{Value, json};

const COMMIT: &str = "f26f289a073f1220ad134a70f4107024c8ee7c666a4e5574bdb636dbca8b7822";
const BEFORE: &str = "01c36f8436eb5c8ab4e1b1df8e7c6d6bb32ff7dfd1e0b0f4c4a9d5ad6f7e4c32";

/// Runs a command for people and for programs: what it asked first, what people saw, and the line that programs got.
#[track_caller]
fn both(sandbox: &Sandbox, daemon: &Daemon, args: &[&str]) -> (Asked, Ran, Value) {
    let ran = sandbox.ok(args);
    let requests = daemon.asked().len();
    // In front: behind the `--` of a command it would be the command's.
    let json = sandbox.run(["--json"].iter().chain(args));
    assert_eq!(json.code, 0, "{json:?}");
    let mut lines = json.json();
    assert_eq!(lines.len(), 1, "{json:?}");
    let asked = daemon.asked();
    assert_eq!(asked[0].path, asked[requests].path, "both ask the same");
    (asked[0].clone(), ran, lines.remove(0))
}

/// The same for what is a job that ends with this result.
#[track_caller]
fn both_jobs(kind: &'static str, result: Value, args: &[&str]) -> (Asked, Ran, Value) {
    let sandbox = Sandbox::new();
    let daemon = Daemon::with_result(&sandbox, kind, result);
    both(&sandbox, &daemon, args)
}

/// The same for what is a plain question.
#[track_caller]
fn both_answers(answer: Value, args: &[&str]) -> (Asked, Ran, Value) {
    let sandbox = Sandbox::new();
    let daemon = Daemon::start(&sandbox, move |_, _| Reply::Json(200, answer.clone()));
    both(&sandbox, &daemon, args)
}

/// A session as the result of a job.
fn a_session(more: Value) -> Value {
    let mut result = session(more);
    result["type"] = "session".into();
    result
}

#[test]
fn run_sends_everything_and_prints_the_name() {
    let args =
        ["run", "--name", "x", "--files", "tree", "--exclude", "*.tmp", "--memory", "2G", "--pids", "9"];
    let more =
        ["--sidecar", "redis-server --port 1", "--network", "host", "--workspace", "w", "--", "a", "--json"];
    let args: Vec<&str> = args.into_iter().chain(more).collect();
    let (asked, ran, line) = both_jobs("start", a_session(json!({})), &args);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("analysis\n", ""));
    assert_eq!((&line["message_type"], &line["session"]["pid"]), (&"session".into(), &4711.into()));
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/v1/sessions"));
    let body = &asked.body;
    assert_eq!(body["start"], json!({"type": "command", "argv": ["a", "--json"]}));
    assert_eq!(
        body["files"],
        json!({"type": "tree", "include": [], "exclude": ["*.tmp"], "max_bytes": null})
    );
    assert_eq!(
        (&body["name"], &body["memory_limit"], &body["pids_limit"]),
        (&json!("x"), &json!(2_u64 << 30), &json!(9))
    );
    assert_eq!(body["sidecars"], json!([["/bin/sh", "-c", "redis-server --port 1"]]));
    assert_eq!(body["network"], "host");
    assert!(body["cwd"].as_str().unwrap().starts_with('/'));
    let workspace = format!("{}/w", body["cwd"].as_str().unwrap());
    assert_eq!(body["workspace"], workspace);
    assert!(body["env"].as_array().unwrap().contains(&json!({"name": "LC_ALL", "value": "C.UTF-8"})));
}

#[test]
fn arguments_need_not_be_text() {
    let sandbox = Sandbox::new();
    let daemon = Daemon::with_result(&sandbox, "start", a_session(json!({})));
    let words = [OsStr::new("run"), OsStr::new("--"), OsStr::from_bytes(b"caf\xe9")];
    sandbox.ok(words);
    assert_eq!(daemon.asked()[0].body["start"]["argv"], json!([{"hex": "636166e9"}]));
    // What belongs to another policy is refused before anybody is asked.
    let ran = sandbox.fails(2, "IJ-C001", ["snapshot", "x", "--exclude", "*.tmp"]);
    assert!(ran.err.contains("--files tree"), "{ran:?}");
    assert_eq!(sandbox.run(["run", "true"]).code, 2);
    assert_eq!(sandbox.run(["ps", ""]).code, 2);
    assert_eq!(daemon.asked().len(), 2);
}

#[test]
fn a_kernel_tells_how_to_reach_it() {
    let kernel = json!({"kernel": {"connection_file": "/run/x.json", "kernel_name": "python3"}});
    let (asked, ran, line) = both_jobs("start", a_session(kernel), &["kernel", "start", "--spec", "python3"]);
    assert_eq!(asked.body["start"], json!({"type": "kernel", "spec": "python3"}));
    assert_eq!(ran.out, "analysis\n");
    assert!(ran.err.contains("jupyter console --existing /run/x.json"), "{ran:?}");
    assert_eq!(line["session"]["kernel"]["connection_file"], "/run/x.json");
}

#[test]
fn kernel_list_needs_no_daemon() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "jupyter/kernels/Mine/kernel.json",
        r#"{"argv": ["x"], "display_name": "My kernel", "language": "x"}"#,
    );
    sandbox.write("jupyter/kernels/broken/kernel.json", "{");
    let list = |json: bool| {
        let mut command = sandbox.command(["kernel", "list"]);
        command
            .env("JUPYTER_PATH", sandbox.path("jupyter"))
            .env("HOME", sandbox.path("home"))
            .env("PATH", "/none");
        if json {
            command.arg("--json");
        }
        Ran::from(command.output().unwrap())
    };
    let ran = list(false);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("mine  My kernel  "), "{ran:?}");
    assert!(ran.err.contains("broken/kernel.json` makes no sense"), "{ran:?}");
    assert!(
        list(true).json()[0]["kernelspecs"].as_array().unwrap().iter().any(|spec| spec["name"] == "mine")
    );
}

#[test]
fn ps_lists_and_shows() {
    let ended = session(
        json!({"name": "evil\u{1b}[2J", "state": "ended", "exit": 143, "pid": null, "memory_bytes": null}),
    );
    let (asked, ran, line) = both_answers(json!({"sessions": [session(json!({})), ended]}), &["ps"]);
    assert_eq!(asked.path, "/v1/sessions");
    let rows: Vec<Vec<&str>> = ran.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["SESSION", "STATE", "PID", "MEMORY", "SNAPSHOT", "STARTED", "COMMAND"]);
    assert_eq!(rows[1][..6], ["analysis", "running", "4711", "64.0", "MiB", "f26f289a073f"]);
    assert_eq!(rows[2][..3], ["evil\\u{1b}[2J", "ended", "(143)"]);
    assert!(!ran.out.contains('\u{1b}'));
    assert_eq!(line["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(line["sessions"][0]["command"][2], json!({"hex": "636166e9"}));

    let (asked, ran, line) = both_answers(session(json!({})), &["ps", "a/../b"]);
    assert_eq!(asked.path, "/v1/sessions/a%2F..%2Fb");
    assert!(ran.out.contains("command    python3 train.py 'caf\\xe9'\n"), "{ran:?}");
    assert_eq!(line["session"]["name"], "analysis");

    let (_, ran, line) = both_answers(json!({"sessions": []}), &["ps", "--running"]);
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", "there are no sessions\n"));
    assert_eq!(line["sessions"], json!([]));
}

#[test]
fn snapshot_tells_what_it_cost_and_what_it_lacks() {
    let outcome = json!({
        "type": "snapshot", "commit": COMMIT, "frozen_us": 48_210, "total_us": 190_332, "new_bytes": 1_048_576,
        "memory_bytes": 67_108_864, "not_captured": [{"path": "/big", "reason": "too large"}], "warnings": ["mind\u{7} this"],
        "steps": [{"name": "dump", "micros": 48_210}]
    });
    let args = ["snapshot", "analysis", "-m", "why", "--tag", "good", "--files", "none", "--quiesce", "sync"];
    let (asked, ran, line) = both_jobs("snapshot", outcome, &args);
    assert_eq!(asked.path, "/v1/sessions/analysis/snapshot");
    assert_eq!(
        asked.body,
        json!({"message": "why", "tag": "good", "files": {"type": "none"}, "quiesce": ["/bin/sh", "-c", "sync"]})
    );
    assert_eq!(
        ran.out,
        "snapshot f26f289a073f of analysis: 64.0 MiB of memory, 1.0 MiB new in the store, frozen for 48.2 ms\n"
    );
    assert_eq!(ran.err, "warning: `/big` is not in the snapshot: too large\nwarning: mind\\u{7} this\n");
    assert_eq!((&line["message_type"], &line["commit"]), (&"snapshot_taken".into(), &COMMIT.into()));
    assert_eq!(line["not_captured"][0]["path"], "/big");
}

#[test]
fn rollback_tells_how_to_undo_it_and_what_was_closed() {
    let outcome = json!({
        "type": "rollback", "commit": COMMIT, "automatic": BEFORE, "changed_by_others": ["/home/ada/x"],
        "closed_connections": ["tcp 10.0.0.1:5432"], "warnings": [], "steps": []
    });
    let (asked, ran, line) =
        both_jobs("rollback", outcome, &["rollback", "analysis", "good~1", "--force", "--no-files"]);
    assert_eq!(asked.body, json!({"to": "good~1", "force": true, "files": false}));
    assert_eq!(ran.out, "analysis is at snapshot f26f289a073f; how it was before is 01c36f8436eb\n");
    assert!(
        ran.err.contains("`/home/ada/x` was changed by somebody else; that is kept in 01c36f8436eb"),
        "{ran:?}"
    );
    assert!(ran.err.contains("closed: tcp 10.0.0.1:5432"), "{ran:?}");
    assert_eq!((&line["message_type"], &line["session"]), (&"rolled_back".into(), &"analysis".into()));
}

#[test]
fn servers_are_listed_with_their_addresses() {
    let answer =
        json!({"servers": [{"port": 80, "outside_port": 40123}, {"port": 8050, "outside_port": 40124}]});
    let (asked, ran, line) = both_answers(answer.clone(), &["servers", "analysis"]);
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("GET", "/v1/sessions/analysis/servers"));
    assert_eq!(ran.out, "port 80     http://127.0.0.1:40123/\nport 8050   http://127.0.0.1:40124/\n");
    assert_eq!((&line["message_type"], &line["servers"]), (&"servers".into(), &answer["servers"]));
}

#[test]
fn branch_lists_what_was_made_and_what_is_shared() {
    let one = |name: &str| {
        json!({
            "session": session(json!({"name": name, "workspace": format!("/b/{name}")})), "commit": COMMIT,
            "shared": ["/var/log/x"], "warnings": ["SQLite …"], "steps": []
        })
    };
    let outcome = json!({"type": "branch", "branches": [one("try-1"), one("try-2")]});
    let args = ["branch", "analysis", "--from", "good", "--count", "2", "--name", "try"];
    let (asked, ran, line) = both_jobs("branch", outcome, &args);
    assert_eq!(asked.body, json!({"from": "good", "name": "try", "count": 2}));
    assert_eq!(ran.out, "try-1  running  /b/try-1\ntry-2  running  /b/try-2\n");
    assert!(ran.err.contains("try-2 shares `/var/log/x` with the original"), "{ran:?}");
    assert!(ran.err.contains("warning: try-1: SQLite …"), "{ran:?}");
    assert_eq!(line["branches"][1]["session"]["name"], "try-2");
}

#[test]
fn gpus_are_asked_for_and_told() {
    let list = json!({"type": "list", "gpus": ["0", "GPU-5f"]});
    for (args, path, kind, result) in [
        (&["run", "--gpus", "0,GPU-5f", "--", "true"][..], "/v1/sessions", "start", a_session(json!({}))),
        (
            &["resume", "analysis", "--gpus", "0,GPU-5f"],
            "/v1/sessions/analysis/resume",
            "resume",
            a_session(json!({})),
        ),
        (
            &["branch", "analysis", "--gpus", "0,GPU-5f"],
            "/v1/sessions/analysis/branch",
            "branch",
            json!({"type": "branch", "branches": []}),
        ),
    ] {
        let (asked, ..) = both_jobs(kind, result, args);
        assert_eq!((asked.path.as_str(), &asked.body["gpus"]), (path, &list), "{args:?}");
    }
    let outcome = json!({
        "type": "suspend", "commit": COMMIT, "freed_bytes": 67_108_864, "freed_vram_bytes": 2_147_483_648_u64
    });
    let (_, ran, line) = both_jobs("suspend", outcome, &["suspend", "analysis"]);
    assert!(ran.out.ends_with("64.0 MiB of memory and 2.0 GiB of GPU memory are free again\n"), "{ran:?}");
    assert_eq!(line["freed_vram_bytes"], 2_147_483_648_u64);
    let outcome = json!({
        "type": "snapshot", "commit": COMMIT, "frozen_us": 48_210, "total_us": 190_332, "new_bytes": 1_048_576,
        "memory_bytes": 2_200_000_000_u64, "vram_bytes": 2_147_483_648_u64, "gpu_paused_us": 951_000, "not_captured": [],
        "warnings": [], "steps": []
    });
    let (_, ran, _) = both_jobs("snapshot", outcome, &["snapshot", "analysis"]);
    let expected = "2.0 GiB of memory, 2.0 GiB of it from the GPU, 1.0 MiB new in the store, frozen for 48.2 ms, the GPU \
                    paused for 951.0 ms\n";
    assert!(ran.out.ends_with(expected), "{ran:?}");
    let view = session(json!({"gpus": ["GPU-5f"], "vram_bytes": 4096, "gpu_trouble": "no room\u{7}"}));
    let (_, ran, _) = both_answers(view, &["ps", "analysis"]);
    for words in ["GPU-5f", "4.0 KiB", "no room\\u{7}"] {
        assert!(ran.out.contains(words), "{ran:?}");
    }
}

#[test]
fn suspend_resume_stop_rm_and_attach() {
    let outcome = json!({"type": "suspend", "commit": COMMIT, "freed_bytes": 67_108_864, "steps": []});
    let (asked, ran, line) = both_jobs("suspend", outcome, &["suspend", "analysis"]);
    assert_eq!(asked.path, "/v1/sessions/analysis/suspend");
    assert!(ran.out.starts_with("analysis is suspended at snapshot f26f289a073f; 64.0 MiB"), "{ran:?}");
    assert_eq!(line["message_type"], "suspended");

    let (asked, ran, line) = both_jobs("resume", a_session(json!({})), &["resume", "analysis"]);
    assert_eq!(asked.body, json!({"force": false}));
    assert_eq!(
        (ran.out.as_str(), &line["message_type"]),
        ("analysis is running, process 4711\n", &"resumed".into())
    );

    let stopped = a_session(json!({"state": "ended", "exit": 143, "pid": null}));
    let (asked, ran, line) = both_jobs("stop", stopped.clone(), &["stop", "analysis", "--grace", "3"]);
    assert_eq!(asked.body, json!({"grace_ms": 3000}));
    assert_eq!(
        (ran.out.as_str(), &line["message_type"]),
        ("analysis is ended, status 143\n", &"stopped".into())
    );

    let (asked, ran, line) = both_jobs("remove", stopped, &["rm", "analysis"]);
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("DELETE", "/v1/sessions/analysis"));
    assert_eq!(
        (ran.out.as_str(), &line["message_type"]),
        ("removed analysis; its snapshots stay\n", &"removed".into())
    );

    let (asked, ran, line) =
        both_jobs("attach", a_session(json!({"attached": true})), &["attach", "--pid", "7"]);
    assert_eq!(asked.body, json!({"pid": 7, "name": null}));
    assert_eq!((ran.out.as_str(), &line["message_type"]), ("analysis\n", &"attached".into()));
}

#[test]
fn checkpoint_and_restore_send_whole_paths() {
    let outcome = json!({"type": "checkpoint", "directory": "/x", "frozen_us": 900, "bytes": 4096});
    let (asked, ran, line) =
        both_jobs("checkpoint", outcome, &["checkpoint", "--pid", "7", "--end", "images"]);
    assert!(asked.body["directory"].as_str().unwrap().starts_with('/'), "{asked:?}");
    assert_eq!((&asked.body["pid"], &asked.body["leave_running"]), (&7.into(), &false.into()));
    assert_eq!(
        (ran.out.as_str(), &line["bytes"]),
        ("wrote 4.0 KiB to /x, frozen for 900 µs\n", &4096.into())
    );

    let (asked, ran, line) = both_jobs("restore", json!({"type": "restore", "pid": 99}), &["restore", "/x"]);
    assert_eq!(asked.body, json!({"directory": "/x"}));
    assert_eq!((ran.out.as_str(), &line["pid"]), ("99\n", &99.into()));
}

#[test]
fn exec_passes_on_output_and_status() {
    let sandbox = Sandbox::new();
    let result = json!({"type": "exec", "status": 7, "stdout": {"hex": "ff0a"}, "stderr": "oh\n"});
    let daemon = Daemon::with_result(&sandbox, "exec", result);
    let ran = sandbox.run(["exec", "analysis", "--", "ls", "-l"]);
    assert_eq!((ran.code, &ran.bytes[..], ran.err.as_str()), (7, &b"\xff\n"[..], "oh\n"));
    let asked = daemon.asked();
    assert_eq!(asked[0].body["argv"], json!(["ls", "-l"]));
    assert!(!asked[0].body["env"].as_array().unwrap().is_empty());
    let json = sandbox.run(["--json", "exec", "analysis", "--", "ls"]);
    assert_eq!((json.code, json.err.as_str()), (7, ""));
    assert_eq!(json.json()[0]["status"], 7);
}

#[test]
fn forget_says_what_had_to_stay() {
    let outcome = json!({
        "type": "forget", "forgotten": [BEFORE],
        "kept": [{"commit": COMMIT, "reason": "it is the newest snapshot of session analysis"}]
    });
    let sandbox = Sandbox::new();
    let view = json!({
        "version": "0.1.0", "pid": 1, "started": "2026-11-15T09:12:09Z", "state": sandbox.path("state"),
        "run": sandbox.path("run"), "socket": sandbox.socket(), "settings": sandbox.path("settings.toml"),
        "socket_passed": false, "jobs_running": 0, "streams": 0
    });
    let daemon = Daemon::start(&sandbox, move |asked, _| match asked.path.as_str() {
        "/v1/daemon" => Reply::Json(200, view.clone()),
        "/v1/forget" => Reply::Json(202, job("forget", "running", json!({}))),
        _ => Reply::Stream(ended(9, "forget", &json!({"result": outcome.clone()}))),
    });
    let (_, ran, line) = both(&sandbox, &daemon, &["forget", "analysis~1", "analysis", "--force"]);
    let asked = daemon.asked().into_iter().find(|asked| asked.path == "/v1/forget").unwrap();
    assert_eq!(asked.body, json!({"commits": ["analysis~1", "analysis"], "force": true}));
    assert_eq!(ran.out, "forgot 01c36f8436eb\n");
    assert_eq!(ran.err, "warning: f26f289a073f stays: it is the newest snapshot of session analysis\n");
    assert_eq!(line["kept"][0]["commit"], COMMIT);
}

#[test]
fn events_are_told_one_by_one() {
    let sandbox = Sandbox::new();
    let daemon = Daemon::start(&sandbox, |asked, _| match asked.path.as_str() {
        "/v1/sessions/analysis" => Reply::Json(200, session(json!({}))),
        _ => Reply::Stream(
            [
                event(1, "snapshot_taken", json!({"session": "s-4be1", "commit": COMMIT})),
                event(2, "snapshot_taken", json!({"session": "s-other", "commit": COMMIT})),
                step(3, "dump", None),
                event(4, "session_state", json!({"session": "s-4be1", "state": "ended"})),
                event(5, "never_heard_of", json!({"session": "s-4be1"})),
            ]
            .concat(),
        ),
    });
    let ran = sandbox.ok(["events"]);
    assert_eq!(ran.out.lines().count(), 4, "{ran:?}");
    assert_eq!(daemon.asked()[0].path, "/v1/events?follow=false");
    let ran = sandbox.ok(["events", "--session", "analysis"]);
    assert_eq!(
        ran.out,
        "2026-11-15 09:12:09Z  snapshot_taken  s-4be1  f26f289a073f\n\
         2026-11-15 09:12:09Z  session_state  s-4be1  ended\n2026-11-15 09:12:09Z  other  s-4be1\n"
    );
    let lines = sandbox.json(["events", "--steps"]);
    assert_eq!(lines.iter().map(|line| line["id"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
}

#[test]
fn doctor_tells_item_by_item_and_its_exit_code_tells_the_rest() {
    let answer = |works: bool| {
        let finding = |state: &str| json!({"item": "criu", "state": state, "evidence": "CRIU 4.2", "fix": "install it"});
        let finding = finding(if works { "ok" } else { "fail" });
        move |asked: &Asked, _| match asked.path.as_str() {
            "/v1/version" => Reply::Json(200, json!({"version": "0.1.0", "api": 1})),
            _ => Reply::Json(200, json!({"works": works, "findings": [finding.clone()]})),
        }
    };
    let sandbox = Sandbox::new();
    let _daemon = Daemon::start(&sandbox, answer(true));
    let ran = sandbox.ok(["doctor"]);
    assert!(
        ran.out.starts_with("snapshots work here\nok    daemon: infinijupd 0.1.0 answers at "),
        "{ran:?}"
    );
    assert!(ran.out.ends_with("ok    criu: CRIU 4.2\n      fix: install it\n"), "{ran:?}");
    assert_eq!(ran.err, "");
    assert_eq!(sandbox.json(["doctor"])[0]["works"], true);

    let sandbox = Sandbox::new();
    let _daemon = Daemon::start(&sandbox, answer(false));
    let ran = sandbox.fails(3, "IJ-C035", ["doctor"]);
    assert!(ran.err.contains("snapshots do not work here: criu"), "{ran:?}");

    let ran = Sandbox::new().fails(3, "IJ-C035", ["doctor"]);
    assert!(
        ran.out.starts_with("snapshots do not work here\nfail  daemon: cannot reach the daemon at "),
        "{ran:?}"
    );
    assert!(ran.out.contains("infinijup daemon start"), "{ran:?}");
}

#[test]
fn steps_are_shown_as_asked_for() {
    let sandbox = Sandbox::new();
    let outcome = json!({"result": {"type": "suspend", "commit": COMMIT, "freed_bytes": 1, "steps": []}});
    let _daemon = Daemon::start(&sandbox, move |asked, _| match asked.path.ends_with("/events") {
        false => Reply::Json(202, job("suspend", "running", json!({}))),
        true => Reply::Stream(
            [step(1, "dump", None), step(2, "dump", Some(48_210)), ended(3, "suspend", &outcome)].concat(),
        ),
    });
    let json = sandbox.run(["suspend", "analysis", "--json"]);
    json.json();
    let steps: Vec<Value> = json.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(steps.len(), 2, "{json:?}");
    assert_eq!((&steps[0]["micros"], &steps[1]["micros"]), (&Value::Null, &48_210.into()));
    assert_eq!(sandbox.ok(["suspend", "analysis", "--json", "--no-progress"]).err, "");
    assert_eq!(sandbox.ok(["suspend", "analysis"]).err, "");
    assert_eq!(sandbox.ok(["suspend", "analysis", "--verbose"]).err, "suspend: dump took 48.2 ms\n");
}

#[test]
fn a_log_is_printed_as_it_is_and_followed_over_a_break() {
    let sandbox = Sandbox::new();
    let _daemon = Daemon::start(&sandbox, |_, _| Reply::Stream(b"plain \xff\n".to_vec()));
    assert_eq!(sandbox.ok(["logs", "analysis"]).bytes, b"plain \xff\n");
    assert_eq!(sandbox.ok(["logs", "analysis", "--json"]).bytes, b"plain \xff\n");

    let sandbox = Sandbox::new();
    let daemon = Daemon::start(&sandbox, |asked, before| match asked.path.as_str() {
        "/v1/sessions/analysis/log?from=0&follow=true" => Reply::Cut(b"first ".to_vec()),
        "/v1/sessions/analysis/log?from=6&follow=true" => Reply::Stream(b"second\n".to_vec()),
        _ if before < 2 => Reply::Json(200, session(json!({}))),
        _ => Reply::Json(200, session(json!({"state": "ended", "exit": 0}))),
    });
    assert_eq!(sandbox.ok(["logs", "-f", "analysis"]).out, "first second\n");
    assert_eq!(daemon.asked().len(), 4);
}

#[test]
fn run_can_wait_and_exit_with_the_status() {
    let answer = |asked: &Asked, _| match asked.path.as_str() {
        "/v1/sessions" => Reply::Json(202, job("start", "running", json!({}))),
        "/v1/jobs/j-18/events" => Reply::Stream(ended(1, "start", &json!({"result": a_session(json!({}))}))),
        "/v1/sessions/s-4be1" => Reply::Json(200, session(json!({"state": "ended", "exit": 143}))),
        _ => Reply::Stream(b"its output\n".to_vec()),
    };
    let sandbox = Sandbox::new();
    let _daemon = Daemon::start(&sandbox, answer);
    let ran = sandbox.run(["run", "--wait", "--", "x"]);
    assert_eq!((ran.code, ran.out.as_str()), (143, "analysis\n"), "{ran:?}");
    let ran = sandbox.run(["run", "--follow", "--wait", "--", "x"]);
    assert_eq!((ran.code, ran.out.as_str()), (143, "its output\n"), "{ran:?}");
    assert!(ran.err.contains("session analysis ended, status 143"), "{ran:?}");
    let ran = sandbox.run(["run", "-f", "--", "x"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "its output\n"), "{ran:?}");
    let ran = sandbox.run(["--json", "run", "--wait", "--", "x"]);
    let lines = ran.json();
    assert_eq!(
        (ran.code, &lines[0]["session"]["state"], &lines[1]["session"]["exit"]),
        (143, &"running".into(), &143.into())
    );
}
