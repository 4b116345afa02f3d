//! What goes wrong between the program and the daemon, against a stand-in for it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use common::Sandbox;
use common::daemon::{Daemon, Reply, ended, event, job, refusal, session, step};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

const COMMIT: &str = "f26f289a073f1220ad134a70f4107024c8ee7c666a4e5574bdb636dbca8b7822";

/// Every command that needs the daemon.
const COMMANDS: &[&[&str]] = &[
    &["run", "--", "true"],
    &["kernel", "start"],
    &["ps"],
    &["ps", "x"],
    &["snapshot", "x"],
    &["rollback", "x", "y"],
    &["branch", "x"],
    &["suspend", "x"],
    &["resume", "x"],
    &["stop", "x"],
    &["rm", "x"],
    &["logs", "x"],
    &["logs", "-f", "x"],
    &["exec", "x", "--", "true"],
    &["history"],
    &["diff", "a", "b"],
    &["forget", "x"],
    &["gc"],
    &["attach", "--pid", "1"],
    &["checkpoint", "--pid", "1", "x"],
    &["restore", "x"],
    &["events"],
    &["events", "--follow"],
];

/// Runs a command, and once more with `--json`; both must fail with these codes.
#[track_caller]
fn fails(sandbox: &Sandbox, exit: i32, code: &str, args: &[&str]) -> common::Ran {
    let ran = sandbox.run(args);
    assert_eq!(ran.code, exit, "{args:?}: {ran:?}");
    assert!(ran.err.contains(&format!("error[{code}]: ")), "{args:?}: {ran:?}");
    let json = sandbox.run(["--json"].iter().chain(args));
    assert_eq!(json.code, exit, "{args:?}: {json:?}");
    let last: serde_json::Value = serde_json::from_str(json.err.lines().last().unwrap()).unwrap();
    assert_eq!((&last["code"], &last["exit"]), (&code.into(), &exit.into()), "{args:?}");
    json.json();
    ran
}

#[test]
fn exit_16_nobody_is_there() {
    let sandbox = Sandbox::new();
    for args in COMMANDS {
        let ran = fails(&sandbox, 16, "IJ-C030", args);
        assert!(ran.err.contains("caused by: No such file"), "{ran:?}");
        assert!(ran.err.contains("hint: start it with `infinijup daemon start`"), "{ran:?}");
    }
    // A socket that nobody listens at any more.
    drop(std::os::unix::net::UnixListener::bind(sandbox.socket()).unwrap());
    fails(&sandbox, 16, "IJ-C030", &["ps"]);
    let elsewhere = sandbox.path("elsewhere");
    let ran = fails(&sandbox, 16, "IJ-C030", &["ps", "--socket", elsewhere.to_str().unwrap()]);
    assert!(ran.err.contains("elsewhere"), "{ran:?}");
}

#[test]
fn what_the_daemon_refuses_is_passed_on_whole() {
    let sandbox = Sandbox::new();
    let _daemon = Daemon::start(&sandbox, |_, _| Reply::Json(404, refusal("IJ-L010", 15, "no session `x`")));
    for args in COMMANDS {
        let ran = fails(&sandbox, 15, "IJ-L010", args);
        assert_eq!(
            ran.err,
            "error[IJ-L010]: no session `x`\n  caused by: the deeper \\u{1b}reason\n  hint: do this\n  hint: or that\n"
        );
    }
}

#[test]
fn a_job_that_fails_is_a_failure() {
    let sandbox = Sandbox::new();
    let error = json!({"error": refusal("IJ-L040", 1, "a snapshot would fail")});
    let _daemon = Daemon::start(&sandbox, move |asked, _| match asked.path.ends_with("/events") {
        false => Reply::Json(202, job("snapshot", "running", json!({}))),
        true => Reply::Stream(ended(1, "snapshot", &error)),
    });
    fails(&sandbox, 1, "IJ-L040", &["snapshot", "x"]);
}

#[test]
fn nonsense_is_called_nonsense() {
    for (reply, code, exit) in [
        (Reply::Json(200, json!({"something": "else"})), "IJ-C031", 1),
        (Reply::Json(500, json!("no reason")), "IJ-C031", 1),
        (Reply::Stream(b"not JSON".to_vec()), "IJ-C031", 1),
        (Reply::Cut(b"{\"sess".to_vec()), "IJ-C032", 16),
        (Reply::Nothing, "IJ-C032", 16),
    ] {
        let sandbox = Sandbox::new();
        let _daemon = Daemon::start(&sandbox, move |_, _| reply.clone());
        fails(&sandbox, exit, code, &["ps"]);
        fails(&sandbox, exit, code, &["stop", "x"]);
    }
    // A result that does not belong to what was asked.
    let sandbox = Sandbox::new();
    let _daemon = Daemon::with_result(&sandbox, "stop", json!({"type": "restore", "pid": 1}));
    fails(&sandbox, 1, "IJ-C031", &["stop", "x"]);
}

#[test]
fn a_stream_that_breaks_is_taken_up_where_it_broke() {
    let sandbox = Sandbox::new();
    let done = json!({"result": {"type": "suspend", "commit": COMMIT, "freed_bytes": 1, "steps": []}});
    let daemon = Daemon::start(&sandbox, move |asked, before| match (asked.path.as_str(), before) {
        ("/v1/sessions/x/suspend", _) => Reply::Json(202, job("suspend", "running", json!({}))),
        // Broken in the middle of an event, then at once, then for good.
        (_, 1) => Reply::Cut(
            [step(6, "dump", None), step(7, "dump", Some(5)), b"id: 8\ndata: {\"i".to_vec()].concat(),
        ),
        (_, 2) => Reply::Nothing,
        _ => Reply::Stream([step(8, "ingest", Some(5)), ended(9, "suspend", &done)].concat()),
    });
    let ran = sandbox.ok(["suspend", "x", "--json"]);
    assert_eq!(ran.json()[0]["message_type"], "suspended");
    let steps = ran.err.lines().filter(|line| line.contains("\"step\"")).count();
    assert_eq!(steps, 3, "{ran:?}");
    let asked: Vec<_> = daemon.asked().into_iter().map(|asked| asked.last_event).collect();
    assert_eq!(asked, [None, None, Some("7".into()), Some("7".into())]);
}

#[test]
fn a_job_that_ended_unseen_is_asked_for() {
    let sandbox = Sandbox::new();
    let done = json!({"result": {"type": "suspend", "commit": COMMIT, "freed_bytes": 1, "steps": []}});
    let _daemon = Daemon::start(&sandbox, move |asked, _| match asked.path.as_str() {
        "/v1/sessions/x/suspend" => Reply::Json(202, job("suspend", "running", json!({}))),
        "/v1/jobs/j-18" => Reply::Json(200, job("suspend", "done", done.clone())),
        _ => Reply::Held(event(3, "missed", json!({}))),
    });
    assert!(sandbox.ok(["suspend", "x"]).out.contains("x is suspended"));
}

#[test]
fn a_daemon_that_was_restarted_does_not_know_the_job() {
    let sandbox = Sandbox::new();
    let _daemon = Daemon::start(&sandbox, |asked, _| match asked.path.ends_with("/events") {
        false => Reply::Json(202, job("rollback", "running", json!({}))),
        true => Reply::Json(404, refusal("IJ-D012", 15, "no job `j-18`")),
    });
    let ran = fails(&sandbox, 16, "IJ-C033", &["rollback", "x", "y"]);
    assert!(ran.err.contains("how the rollback ended"), "{ran:?}");
}

#[test]
fn events_go_on_after_a_break() {
    let sandbox = Sandbox::new();
    let daemon = Daemon::start(&sandbox, |_, before| match before {
        0 => Reply::Cut(event(4, "session_removed", json!({"session": "a"}))),
        1 => Reply::Stream(event(5, "session_removed", json!({"session": "b"}))),
        // A refusal ends it.
        _ => Reply::Json(400, refusal("IJ-D010", 1, "enough")),
    });
    let ran = sandbox.run(["events", "--follow"]);
    assert_eq!((ran.code, ran.out.lines().count()), (1, 2), "{ran:?}");
    let asked: Vec<_> = daemon.asked().into_iter().map(|asked| (asked.path, asked.last_event)).collect();
    let path = || "/v1/events?follow=true".to_owned();
    assert_eq!(asked, [(path(), None), (path(), Some("4".into())), (path(), Some("5".into()))]);
}

/// Waits for a line of stderr that has this in it.
fn wait_for(stderr: &mut impl BufRead, text: &str) {
    let mut line = String::new();
    while stderr.read_line(&mut line).unwrap() > 0 {
        if line.contains(text) {
            return;
        }
        line.clear();
    }
    panic!("`{text}` never came");
}

fn interrupt(pid: u32) {
    assert!(Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap().success());
}

#[test]
fn ctrl_c_leaves_the_job_to_the_daemon() {
    let sandbox = Sandbox::new();
    let _daemon = Daemon::start(&sandbox, |asked, _| match asked.path.ends_with("/events") {
        false => Reply::Json(202, job("snapshot", "running", json!({}))),
        true => Reply::Held(step(1, "dump", None)),
    });
    let mut child = sandbox
        .command(["snapshot", "x", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    wait_for(&mut stderr, "\"dump\"");
    interrupt(child.id());
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
    assert!(rest.contains("\"IJ-C034\"") && rest.contains("the snapshot goes on in the daemon"), "{rest}");
}

#[test]
fn ctrl_c_leaves_a_session_that_is_followed_alone() {
    let sandbox = Sandbox::new();
    let _daemon = Daemon::start(&sandbox, |asked, _| match asked.path.as_str() {
        "/v1/sessions" => {
            let mut result = session(json!({}));
            result["type"] = "session".into();
            Reply::Json(202, job("start", "done", json!({"result": result})))
        }
        _ => Reply::Held(b"its output\n".to_vec()),
    });
    let mut child = sandbox
        .command(["run", "-f", "--", "x"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&mut BufReader::new(child.stdout.take().unwrap()), "its output");
    interrupt(child.id());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stderr).contains("session analysis goes on"), "{output:?}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure_but_a_daemon_is() {
    let sandbox = Sandbox::new();
    let _daemon = Daemon::start(&sandbox, |asked, _| match asked.path.as_str() {
        "/v1/sessions" => Reply::Json(200, json!({"sessions": [session(json!({}))]})),
        _ => Reply::Stream(vec![b'x'; 1 << 20]),
    });
    for args in [&["ps"][..], &["ps", "--json"], &["logs", "x"], &["logs", "-f", "x"]] {
        let mut child = sandbox.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A daemon that rolls back only if forced to.
fn careful_daemon(sandbox: &Sandbox) -> Daemon {
    let outcome = json!({"result": {
        "type": "rollback", "commit": COMMIT, "automatic": null, "changed_by_others": [], "closed_connections": [],
        "warnings": [], "steps": []
    }});
    Daemon::start(sandbox, move |asked, _| {
        if asked.body["force"] == false {
            let error =
                refusal("IJ-L030", 14, "`/home/ada/x` changed since the last snapshot, not by this session");
            return Reply::Json(202, job("rollback", "failed", json!({"error": error})));
        }
        Reply::Json(202, job("rollback", "done", outcome.clone()))
    })
}

#[test]
fn nothing_is_overwritten_where_nobody_can_be_asked() {
    let sandbox = Sandbox::new();
    let daemon = careful_daemon(&sandbox);
    let ran = fails(&sandbox, 14, "IJ-L030", &["rollback", "x", "y"]);
    assert!(ran.err.contains("`/home/ada/x` changed"), "{ran:?}");
    assert_eq!(daemon.asked().len(), 2);
    assert_eq!(sandbox.ok(["rollback", "x", "y", "--force"]).out, "x is at snapshot f26f289a073f\n");
}

/// Runs a rollback whose user, at a terminal, types `answer` when asked.
fn asked_and_answered(sandbox: &Sandbox, answer: &str) -> common::Ran {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut command = sandbox.command(["rollback", "x", "y"]);
    let mut child = command.stdin(theirs).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut question = Vec::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_until(b']', &mut question).unwrap();
    assert!(String::from_utf8_lossy(&question).contains("Overwrite? [y/N]"), "{question:?}");
    File::from(ours.try_clone().unwrap()).write_all(answer.as_bytes()).unwrap();
    let mut rest = Vec::new();
    stderr.read_to_end(&mut rest).unwrap();
    let mut output = child.wait_with_output().unwrap();
    output.stderr = rest;
    output.into()
}

#[test]
fn a_user_at_a_terminal_is_asked() {
    let sandbox = Sandbox::new();
    let daemon = careful_daemon(&sandbox);
    let ran = asked_and_answered(&sandbox, "y\n");
    assert_eq!((ran.code, ran.out.as_str()), (0, "x is at snapshot f26f289a073f\n"), "{ran:?}");
    let force: Vec<_> = daemon.asked().into_iter().map(|asked| asked.body["force"].clone()).collect();
    assert_eq!(force, [false, true]);

    let ran = asked_and_answered(&sandbox, "\n");
    assert_eq!(ran.code, 14, "{ran:?}");
    assert!(ran.err.contains("error[IJ-L030]"), "{ran:?}");
    assert_eq!(daemon.asked().len(), 3);
}

#[test]
fn a_selftest_that_cannot_begin_says_so_in_its_report() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(["selftest", "--report", "report.json"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.err.contains("IJ-C036") && ran.err.contains("daemon"), "{ran:?}");
    assert!(ran.out.contains("0 passed, 1 failed, 18 skipped"), "{ran:?}");
    let text = std::fs::read_to_string(sandbox.path("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["passed"], false);
    assert_eq!(
        (&report["checks"][0]["name"], &report["checks"][0]["state"]),
        (&"daemon".into(), &"failed".into())
    );
    let skipped = &report["checks"][5];
    assert_eq!(
        (&skipped["state"], &skipped["detail"]),
        (&"skipped".into(), &"an earlier check failed".into())
    );
}
