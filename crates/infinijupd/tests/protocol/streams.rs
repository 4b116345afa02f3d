//! Events, logs and metrics.

use std::io::Write;

use api::{Event, EventKind, SessionState};
use http_body_util::BodyExt;

use crate::client::{Daemon, eventually, soon};

fn kinds(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

#[tokio::test]
async fn a_job_streams_its_steps_and_its_end() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    daemon.double.add("mine");
    let job = client.snapshot("mine", "hold", "").await.json();
    let path = format!("/v1/jobs/{}/events", job["id"].as_str().unwrap());
    let mut stream = client.stream(&path, None).await;
    let first = stream.next().await.unwrap();
    assert_eq!(first.kind, EventKind::JobBegan);
    daemon.double.release();

    let events = stream.rest().await;
    let last = events.last().unwrap();
    assert_eq!(last.kind, EventKind::JobEnded);
    let ended = last.job.as_ref().unwrap();
    assert!(ended.result.is_some());
    assert!(events.iter().any(|event| event.step.as_ref().is_some_and(|step| step.micros == Some(40_000))));

    // Somebody who was cut off after the first gets the same again; somebody who comes late gets the end.
    assert_eq!(client.stream(&path, Some(first.id)).await.rest().await, events);
    assert_eq!(kinds(&client.stream(&path, None).await.rest().await), ["job_began", "job_ended"]);
    assert_eq!(kinds(&client.stream(&path, Some(1)).await.rest().await)[0], "missed");
}

#[tokio::test]
async fn events_go_on_where_a_client_was_cut_off() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let session = daemon.double.add("mine");
    let mut stream = client.stream("/v1/events", None).await;
    daemon.double.tell(&session);
    let taken = stream.next().await.unwrap();
    assert_eq!((taken.kind, taken.commit.as_deref()), (EventKind::SnapshotTaken, Some("c0ffee")));
    assert_eq!(taken.session.as_deref(), Some(session.id.as_str()));
    drop(stream);

    client.snapshot("mine", "", "?wait=true").await;
    let mut stream = client.stream("/v1/events", Some(taken.id)).await;
    let mut missed = Vec::new();
    while missed.last().is_none_or(|event: &Event| event.kind != EventKind::JobEnded) {
        missed.push(stream.next().await.unwrap());
    }
    assert_eq!(missed[0].kind, EventKind::JobBegan);
    assert!(missed.iter().is_sorted_by_key(|event| event.id) && missed[0].id > taken.id);
    assert_eq!(missed.last().unwrap().job.as_ref().unwrap().result, None, "results are not kept in the ring");

    let refused = soon(client.open("GET", "/v1/events", &[("last-event-id", "x")], b"")).await.unwrap();
    assert_eq!(refused.status(), 400);
}

#[tokio::test]
async fn a_log_is_sent_from_anywhere_and_followed_to_the_end() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let session = daemon.double.add("mine");
    assert_eq!(client.get("/v1/sessions/mine/log").await.code(), "IJ-D016");
    std::fs::write(&daemon.double.log, "one two").unwrap();
    for (query, expected) in
        [("", "one two"), ("?from=4", "two"), ("?from=-3", "two"), ("?from=99", ""), ("?from=-99", "one two")]
    {
        let answer = client.get(&format!("/v1/sessions/mine/log{query}")).await;
        assert_eq!((answer.status, &*answer.body), (200, expected.as_bytes()), "{query}");
    }

    let answer = soon(client.open("GET", "/v1/sessions/mine/log?follow=true", &[], b"")).await.unwrap();
    let mut body = answer.into_body();
    let first = soon(body.frame()).await.unwrap().unwrap();
    assert_eq!(&**first.data_ref().unwrap(), b"one two");
    let mut file = std::fs::OpenOptions::new().append(true).open(&daemon.double.log).unwrap();
    file.write_all(b" three").unwrap();
    daemon.double.set_state(&session.id, SessionState::Ended);
    assert_eq!(&*soon(body.collect()).await.unwrap().to_bytes(), b" three");
}

#[tokio::test]
async fn a_log_that_is_something_else_is_not_shown_and_not_waited_for() {
    let daemon = Daemon::start().await;
    daemon.double.add("mine");
    let log = &daemon.double.log;
    let refused = async || {
        let answer = daemon.client().get("/v1/sessions/mine/log").await;
        assert_eq!((answer.status, answer.code().as_str()), (409, "IJ-D016"));
    };
    std::os::unix::fs::symlink("/etc/passwd", log).unwrap();
    refused().await;
    std::fs::remove_file(log).unwrap();
    nix::unistd::mkfifo(log, nix::sys::stat::Mode::S_IRWXU).unwrap();
    refused().await;
    std::fs::remove_file(log).unwrap();
    std::fs::create_dir(log).unwrap();
    refused().await;
}

#[tokio::test]
async fn the_end_of_a_huge_log_is_there_at_once() {
    let daemon = Daemon::start().await;
    daemon.double.add("mine");
    let mut log = std::fs::File::create(&daemon.double.log).unwrap();
    log.set_len(3 << 30).unwrap();
    std::io::Seek::seek(&mut log, std::io::SeekFrom::End(0)).unwrap();
    log.write_all(b"the end").unwrap();
    assert_eq!(&*daemon.client().get("/v1/sessions/mine/log?from=-7").await.body, b"the end");
    // From the beginning it is sent as it is taken: whoever takes only a little costs only a little.
    let mut body = daemon.client().open("GET", "/v1/sessions/mine/log", &[], b"").await.unwrap().into_body();
    assert!(soon(body.frame()).await.unwrap().unwrap().data_ref().unwrap().len() <= 64 << 10);
}

#[tokio::test]
async fn metrics_count_and_name_nobody() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    daemon.double.add("a-secret-name");
    client.snapshot("a-secret-name", "", "?wait=true").await;
    client.snapshot("a-secret-name", "fail", "?wait=true").await;
    let job = client.snapshot("a-secret-name", "hold", "").await.json();
    let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    soon(async { while client.get(&path).await.json()["steps"].as_array().unwrap().len() < 2 {} }).await;
    let text = String::from_utf8(client.get("/metrics").await.body.to_vec()).unwrap();
    for line in [
        "infinijup_step_duration_seconds_count{operation=\"snapshot\",step=\"ingest\"} 1",
        "infinijup_step_duration_seconds_count{operation=\"snapshot\",step=\"freeze\"} 3",
        "infinijup_operation_duration_seconds_count{operation=\"snapshot\"} 1",
        "infinijup_failures_total{operation=\"snapshot\",code=\"TEST\"} 1",
        "infinijup_captured_bytes_total 5000",
        "infinijup_written_bytes_total 1000",
        "infinijup_deduplicated_bytes_total 4000",
        "infinijup_frozen_seconds_count 1",
        "infinijup_sessions{state=\"running\"} 1",
        "infinijup_sessions{state=\"failed\"} 0",
        "infinijup_standby_bytes 0",
        "infinijup_jobs_running{operation=\"snapshot\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains("secret"), "{text}");
    daemon.double.release();
    eventually(|| daemon.app.jobs_running() == 0).await;
}

#[tokio::test]
async fn the_document_is_served() {
    let daemon = Daemon::start().await;
    let document = daemon.client().get("/v1/openapi.json").await.json();
    assert!(document["paths"]["/v1/sessions/{id}/branch"]["post"].is_object());
}
