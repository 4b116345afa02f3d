//! Who may see and touch what.

use infinijupd::Limits;
use serde_json::json;

use crate::client::{ADA, Answer, BOB, Client, Daemon, can_be_others, me};

/// Every request that names a session, with a body that would be good.
fn session_requests() -> Vec<(&'static str, &'static str, &'static str)> {
    vec![
        ("GET", "/v1/sessions/{}", ""),
        ("DELETE", "/v1/sessions/{}", ""),
        ("GET", "/v1/sessions/{}/history", ""),
        ("GET", "/v1/sessions/{}/history?family=true&limit=3", ""),
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
        ("PATCH", "/v1/sessions/{}", r#"{"labels":{"a":"b"}}"#),
        ("POST", "/v1/sessions/{}/exec", r#"{"argv":["id"]}"#),
    ]
}

async fn ask(client: &Client, (method, path, body): (&str, &str, &str), id: &str) -> Answer {
    client.send(method, &path.replace("{}", id), body.as_bytes()).await
}

/// That `id` is answered exactly as one that does not exist.
async fn does_not_exist(client: &Client, id: &str) {
    for request in session_requests() {
        let (real, absent) =
            (ask(client, request, id).await, ask(client, request, "nothing-of-the-kind").await);
        let real_body = String::from_utf8_lossy(&real.body).replace(id, "nothing-of-the-kind");
        assert_eq!((real.status, real_body.as_bytes()), (absent.status, &*absent.body), "{request:?}");
        assert_eq!((real.status, real.code().as_str()), (404, "IJ-D011"), "{request:?}");
    }
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
async fn nobody_sees_or_touches_what_is_anothers() {
    if !can_be_others() {
        return;
    }
    let daemon = Daemon::start().await;
    let (ada, bob, root) = (daemon.client_of(ADA), daemon.client_of(BOB), daemon.client_of(0));
    let session = daemon.double.add(ADA, "hers");
    std::fs::write(&daemon.double.log, "secret").unwrap();
    std::os::unix::fs::chown(&daemon.double.log, Some(ADA), Some(ADA)).unwrap();

    does_not_exist(&bob, &session.id).await;
    does_not_exist(&bob, &session.name).await;
    assert_eq!(bob.get("/v1/sessions").await.json(), json!({ "sessions": [] }));
    for client in [&ada, &root] {
        assert_eq!(client.get("/v1/sessions").await.json()["sessions"][0]["id"], session.id.as_str());
        assert_eq!(&*client.get("/v1/sessions/hers/log").await.body, b"secret");
    }

    let job = ada.snapshot("hers", "", "?wait=true").await.json();
    let job = job["id"].as_str().unwrap();
    for path in ["/v1/jobs/{}", "/v1/jobs/{}/events"] {
        let real = bob.get(&path.replace("{}", job)).await;
        let absent = bob.get(&path.replace("{}", "0000000000000000")).await;
        let real_body = String::from_utf8_lossy(&real.body).replace(job, "0000000000000000");
        assert_eq!((real.status, real_body.as_bytes()), (404, &*absent.body));
        for client in [&ada, &root] {
            assert_eq!(client.get(&path.replace("{}", job)).await.status, 200);
        }
    }
    assert_eq!(bob.get("/v1/jobs").await.json(), json!({ "jobs": [] }));
    assert_eq!(bob.stream("/v1/events?follow=false", None).await.rest().await, []);
    assert_eq!(ada.get("/v1/jobs").await.json()["jobs"].as_array().unwrap().len(), 1);
    assert_ne!(ada.stream("/v1/events?follow=false", None).await.rest().await, []);
}

#[tokio::test]
async fn a_careless_engine_gives_nothing_away() {
    if !can_be_others() {
        return;
    }
    let daemon = Daemon::start_with(|double| double.careless = true, Limits::default()).await;
    let session = daemon.double.add(ADA, "hers");
    let bob = daemon.client_of(BOB);
    does_not_exist(&bob, &session.id).await;
    assert_eq!(bob.get("/v1/sessions").await.json(), json!({ "sessions": [] }));
}

#[tokio::test]
async fn the_kernel_says_who_it_is() {
    if !can_be_others() {
        return;
    }
    let daemon = Daemon::start().await;
    let ada = daemon.client_of(ADA);
    let request = json!({ "start": { "type": "command", "argv": ["sh"] }, "cwd": "/" });
    let job = ada.post("/v1/sessions?wait=true", &request).await.json();
    assert_eq!(job["result"]["owner_uid"], ADA);
    assert_eq!(ada.get("/v1/history").await.json()["commits"][0]["id"], format!("commit of {ADA}"));
}

#[tokio::test]
async fn only_root_learns_where_stores_are() {
    let daemon = Daemon::start().await;
    if can_be_others() {
        let refused = daemon.client_of(ADA).get("/v1/store").await;
        assert_eq!((refused.status, refused.code().as_str()), (403, "IJ-D015"));
    }
    let mine = daemon.client().get("/v1/store?uid=7").await;
    assert_eq!(mine.status, if me() == 0 { 200 } else { 403 });
}

#[tokio::test]
async fn one_user_cannot_take_all_connections() {
    if !can_be_others() {
        return;
    }
    let daemon = Daemon::start_with(|_| (), Limits { connections: 3, ..Limits::default() }).await;
    let (ada, bob) = (daemon.client_of(ADA), daemon.client_of(BOB));
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(ada.stream("/v1/events", None).await);
    }
    ada.open("GET", "/v1/version", &[], b"").await.unwrap_err();
    assert_eq!(bob.get("/v1/version").await.status, 200);
    drop(streams);
}
