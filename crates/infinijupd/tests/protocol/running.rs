//! Starting, stopping, and what a daemon leaves behind.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::time::Duration;

use infinijupd::listener::PeerListener;
use infinijupd::{DaemonError, Limits};

use crate::client::{Daemon, eventually, soon};

#[tokio::test]
async fn the_socket_is_its_users_alone() {
    let daemon = Daemon::start().await;
    let metadata = std::fs::metadata(&daemon.socket).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_stop_waits_for_jobs_and_for_those_who_wait_for_them() {
    // No limit at all: a pipeline is waited for nevertheless.
    let limits = Limits { drain: Duration::ZERO, ..Limits::default() };
    let mut daemon = Daemon::start_with(|_| (), limits).await;
    let client = daemon.client();
    daemon.double.add("mine");
    let waiting = {
        let client = client.clone();
        tokio::spawn(async move { client.snapshot("mine", "hold", "?wait=true").await })
    };
    eventually(|| daemon.app.jobs_running() == 1).await;
    let events = client.stream("/v1/events", None).await;

    daemon.stop();
    // Streams without an end are ended, the socket is gone, the job still runs.
    events.rest().await;
    eventually(|| !daemon.socket.exists()).await;
    client.open("GET", "/v1/version", &[], b"").await.unwrap_err();
    assert_eq!(daemon.app.jobs_running(), 1);
    assert!(!daemon.server.is_finished());

    daemon.double.release();
    assert_eq!(soon(waiting).await.unwrap().status, 200);
    daemon.stopped().await;
    assert_eq!(daemon.app.jobs_running(), 0);
}

#[tokio::test]
async fn a_client_that_says_nothing_does_not_hold_up_a_stop() {
    let limits = Limits { farewell: Duration::from_millis(50), ..Limits::default() };
    let mut daemon = Daemon::start_with(|_| (), limits).await;
    let mut silent = std::os::unix::net::UnixStream::connect(&daemon.socket).unwrap();
    std::io::Write::write_all(&mut silent, b"GET /v1/ver").unwrap();
    assert_eq!(daemon.client().get("/v1/version").await.status, 200);
    daemon.stop();
    daemon.stopped().await;
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_living_one_is_not() {
    let daemon = Daemon::start().await;
    let refused = PeerListener::bind(&daemon.socket).err().unwrap();
    assert!(matches!(refused, DaemonError::AlreadyRunning { .. }), "{refused}");
    assert!(refused.to_string().contains(&format!("pid {}", std::process::id())), "{refused}");
    assert_eq!(daemon.client().get("/v1/version").await.status, 200);

    // As after a SIGKILL: the file is there, and nobody listens.
    let stale = daemon.directory.path().join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    let listener = PeerListener::bind(&stale).unwrap();
    std::os::unix::net::UnixStream::connect(&stale).unwrap();
    drop(listener);
    assert!(!stale.exists());
}

#[tokio::test]
async fn something_else_in_the_sockets_place_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    std::fs::write(&path, "mine").unwrap();
    let refused = PeerListener::bind(&path).err().unwrap();
    assert_eq!(refused.code(), "IJ-D001");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

#[tokio::test]
async fn it_ends_when_it_is_asked_to() {
    let mut daemon = Daemon::start().await;
    let client = daemon.client();
    let events = client.stream("/v1/events", None).await;
    assert_eq!(client.send("POST", "/v1/daemon/stop", b"").await.status, 200);
    events.rest().await;
    daemon.stopped().await;
    assert!(!daemon.socket.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_by_itself_when_nobody_needs_it() {
    // Long enough for a busy machine, on which a request can take a while to begin: what is asked here is asked within it.
    let limit = Duration::from_secs(4);
    let mut daemon = Daemon::start_idle(limit).await;
    let client = daemon.client();
    let session = daemon.double.add("mine");
    let stays = async |daemon: &Daemon| {
        tokio::time::sleep(limit * 3 / 2).await;
        assert!(!daemon.server.is_finished());
    };
    stays(&daemon).await;

    daemon.double.set_state(&session.id, api::SessionState::Suspended);
    let events = client.stream("/v1/events", None).await;
    stays(&daemon).await;
    client.snapshot("mine", "hold", "").await;
    drop(events);
    stays(&daemon).await;
    daemon.double.release();
    for _ in 0..8 {
        tokio::time::sleep(limit / 4).await;
        assert_eq!(client.get("/v1/version").await.status, 200, "who asks needs it");
    }
    let last = std::time::Instant::now();
    daemon.stopped().await;
    assert!(last.elapsed() >= limit / 2, "{:?}", last.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_socket_comes_back_when_its_directory_was_taken_away() {
    let daemon = Daemon::start().await;
    let mut events = daemon.client().stream("/v1/events", None).await;
    // As when the last login of its user ends, and another begins.
    std::fs::remove_file(&daemon.socket).unwrap();
    eventually(|| daemon.socket.exists()).await;
    assert_eq!(daemon.client().get("/v1/version").await.status, 200);
    let session = daemon.double.add("mine");
    daemon.double.tell(&session);
    assert!(events.next().await.is_some(), "who was connected stays so");
}
