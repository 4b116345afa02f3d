//! Who comes in, and how much of them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use infinijupd::Limits;
use rustix::process::{Gid, Uid};
use serde_json::json;

use crate::client::{Daemon, PATIENCE, eventually};

/// Every request that names a session, with a body that would be good.
fn session_requests() -> Vec<(&'static str, &'static str, &'static str)> {
    vec![
        ("GET", "/v1/sessions/{}", ""),
        ("DELETE", "/v1/sessions/{}", ""),
        ("GET", "/v1/sessions/{}/history", ""),
        ("GET", "/v1/sessions/{}/history?family=true&limit=3", ""),
        ("GET", "/v1/sessions/{}/files", ""),
        ("GET", "/v1/sessions/{}/servers", ""),
        ("GET", "/v1/sessions/{}/log", ""),
        ("GET", "/v1/sessions/{}/log?follow=true", ""),
        ("POST", "/v1/sessions/{}/snapshot", "{}"),
        ("POST", "/v1/sessions/{}/snapshot?wait=true", "{}"),
        ("POST", "/v1/sessions/{}/rollback", r#"{"to":"main"}"#),
        ("POST", "/v1/sessions/{}/branch", r#"{"count":2}"#),
        ("POST", "/v1/sessions/{}/suspend", ""),
        ("POST", "/v1/sessions/{}/resume", "{}"),
        ("POST", "/v1/sessions/{}/stop", r#"{"grace_ms":5}"#),
        ("POST", "/v1/sessions/{}/restart", r#"{"start":{"type":"command","argv":["id"]}}"#),
        ("POST", "/v1/sessions/{}/signal", r#"{"signal":"INT"}"#),
        ("POST", "/v1/sessions/{}/give-up", ""),
        ("PATCH", "/v1/sessions/{}", r#"{"labels":{"a":"b"}}"#),
        ("POST", "/v1/sessions/{}/exec", r#"{"argv":["id"]}"#),
    ]
}

#[tokio::test]
async fn the_table_of_requests_is_complete() {
    // What is not in the table is not tried below: a new route must be added to it.
    let document: serde_json::Value = serde_json::from_str(&infinijupd::openapi::document()).unwrap();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let Some(rest) = path.strip_prefix("/v1/sessions/{id}") else { continue };
        for method in methods.as_object().unwrap().keys() {
            let known = session_requests().into_iter().any(|(tried, path, _)| {
                let path = path.split('?').next().unwrap();
                tried.eq_ignore_ascii_case(method) && path.strip_prefix("/v1/sessions/{}") == Some(rest)
            });
            assert!(known, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_session_that_is_not_there_has_one_answer() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    for (method, path, body) in session_requests() {
        let answer = client.send(method, &path.replace("{}", "nothing"), body.as_bytes()).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "IJ-L010"), "{method} {path}");
    }
}

/// Connects as somebody else. The kernel notes the credentials of the thread that connects, so a thread can be anybody.
fn connect_as(socket: &Path, uid: u32) -> std::io::Result<UnixStream> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (gid, uid) = (Gid::from_raw(uid), Uid::from_raw(uid));
            rustix::thread::set_thread_groups(&[])?;
            rustix::thread::set_thread_res_gid(gid, gid, gid)?;
            rustix::thread::set_thread_res_uid(uid, uid, uid)?;
            UnixStream::connect(socket)
        });
        thread.join().unwrap()
    })
}

/// What comes back until the other side closes.
fn answer_to(mut stream: UnixStream, request: &str) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // It may be closed already.
    let _ = stream.write_all(request.as_bytes());
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

const VERSION: &str = "GET /v1/version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn somebody_else_is_sent_away_before_a_word_is_read() {
    if !rustix::process::geteuid().is_root() {
        let required = std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_some_and(|value| value == "1");
        assert!(!required, "a test that is required cannot run: it needs root, to be somebody else");
        println!("skipped: a connection of somebody else, because it needs root");
        return;
    }
    let daemon = Daemon::start().await;
    connect_as(&daemon.socket, 40_001).unwrap_err();
    // As if the modes did not hold.
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    open(daemon.directory.path(), 0o755);
    open(&daemon.socket, 0o666);
    let stranger = connect_as(&daemon.socket, 40_001).unwrap();
    let answer = tokio::task::spawn_blocking(move || answer_to(stranger, VERSION)).await.unwrap();
    assert_eq!(answer, "");
    assert_eq!(daemon.client().get("/v1/version").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_too_many_is_told_so_at_once() {
    let daemon = Daemon::start_with(|_| (), Limits { connections: 3, ..Limits::default() }).await;
    let client = daemon.client();
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(client.stream("/v1/events", None).await);
    }
    let (one_more, begun) = (UnixStream::connect(&daemon.socket).unwrap(), Instant::now());
    let answer = tokio::task::spawn_blocking(move || answer_to(one_more, VERSION)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("IJ-D022"), "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    streams.pop();
    eventually(|| {
        let connection = UnixStream::connect(&daemon.socket).unwrap();
        answer_to(connection, VERSION).starts_with("HTTP/1.1 200")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_says_nothing_gives_its_seat_back() {
    // Whoever asks afterwards is not to be taken for silent, because a busy machine let it wait between two steps.
    let limits = Limits { connections: 1, silence: Duration::from_secs(3), ..Limits::default() };
    let daemon = Daemon::start_with(|_| (), limits).await;
    let silent = UnixStream::connect(&daemon.socket).unwrap();
    let answer = tokio::task::spawn_blocking(move || answer_to(silent, "GET /v1/ver")).await.unwrap();
    assert!(!answer.contains("200"), "{answer}");
    assert_eq!(daemon.client().get("/v1/version").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_announced_too_large_is_refused_unread() {
    let daemon = Daemon::start().await;
    daemon.double.add("work");
    for (method, path, length) in [
        ("POST", "/v1/attach", (8 << 20) + 1),
        ("GET", "/v1/version", (64 << 10) + 1),
        ("DELETE", "/v1/sessions/work", (64 << 10) + 1),
        ("POST", "/v1/gc", (8 << 20) + 1),
        ("POST", "/v1/sessions/work/snapshot", 150_000_000),
        ("POST", "/nowhere", 150_000_000),
        ("POST", "/v1/attach", usize::MAX >> 1),
    ] {
        let stream = UnixStream::connect(&daemon.socket).unwrap();
        // Nothing of it is sent: the answer comes all the same.
        let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
        let answer = tokio::task::spawn_blocking(move || answer_to(stream, &request)).await.unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 413 ") && answer.contains("IJ-D014"),
            "{method} {path}: {answer}"
        );
    }
    // Without a length it is counted while it comes.
    let stream = UnixStream::connect(&daemon.socket).unwrap();
    let piece = format!("10000\r\n{}\r\n", "x".repeat(0x1_0000));
    let request = format!(
        "POST /v1/attach HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{}",
        piece.repeat(8 * 16 + 1)
    );
    let answer = tokio::task::spawn_blocking(move || answer_to(stream, &request)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn a_body_that_nobody_asked_for_does_not_break_the_connection() {
    let daemon = Daemon::start().await;
    daemon.double.add("work");
    let client = daemon.client();
    let body = vec![b'x'; 60_000];
    for (method, path, status) in [
        ("GET", "/v1/version", 200),
        ("GET", "/v1/sessions/nothing", 404),
        ("DELETE", "/v1/tags/none", 404),
        ("POST", "/v1/gc?wait=true", 200),
        ("POST", "/nowhere", 404),
        ("PUT", "/v1/sessions", 405),
    ] {
        assert_eq!(client.send(method, path, &body).await.status, status, "{method} {path}");
    }
}

#[tokio::test]
async fn large_bodies_wait_for_each_other_and_all_are_answered() {
    let daemon = Daemon::start().await;
    daemon.double.add("work");
    let body = json!({ "notebook": "x".repeat(40 << 20) }).to_string();
    let ask = || {
        let (client, body) = (daemon.client(), body.clone());
        tokio::spawn(async move {
            client.send("POST", "/v1/sessions/work/snapshot?wait=true", body.as_bytes()).await.status
        })
    };
    for asked in [ask(), ask(), ask()] {
        assert_eq!(asked.await.unwrap(), 200);
    }
}

#[tokio::test]
async fn the_store_and_the_daemon_say_where_they_are() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    assert_eq!(
        client.get("/v1/store").await.json(),
        json!({ "path": "/the/store", "used_bytes": 5, "allowed_bytes": 9, "remote": null })
    );
    daemon.double.add("mine");
    let view = client.get("/v1/daemon").await.json();
    assert_eq!((&view["pid"], &view["sessions_running"]), (&json!(std::process::id()), &json!(1)));
    assert_eq!(view["socket"], json!(daemon.socket.to_str().unwrap()));
    assert_eq!((&view["idle_end_s"], &view["socket_passed"]), (&json!(null), &json!(false)));
}
