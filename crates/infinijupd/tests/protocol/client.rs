//! A daemon to talk to, and clients that are different users.

use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use infinijupd::listener::PeerListener;
use infinijupd::{App, Limits};
use rustix::process::{Gid, Uid};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::double::Double;

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Two people who are in no user database.
pub(crate) const ADA: u32 = 40_001;
pub(crate) const BOB: u32 = 40_002;

pub(crate) fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether other users can be tried here. Says so if not.
pub(crate) fn can_be_others() -> bool {
    if me() == 0 {
        return true;
    }
    let required = std::env::var_os("INFINIJUP_TESTS_REQUIRED").is_some_and(|value| value == "1");
    assert!(!required, "a test that is required cannot run: it needs root, to be several users");
    println!("skipped: a test with several users, because it needs root");
    false
}

/// Fails a test that hangs.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("this takes too long")
}

/// Looks again and again until something is so.
pub(crate) async fn eventually(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it did not come to pass");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) struct Daemon {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) socket: PathBuf,
    pub(crate) double: Arc<Double>,
    pub(crate) app: App,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) server: JoinHandle<std::io::Result<()>>,
}

impl Daemon {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| (), Limits::default()).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Double), limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let socket = directory.path().join("socket");
        let mut double = Double::new(directory.path().join("log"));
        change(&mut double);
        let double = Arc::new(double);
        let app = App::new(Arc::clone(&double) as Arc<dyn infinijupd::Operations>, limits);
        let listener = PeerListener::bind(&socket, limits.connections).unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = app.clone().serve(listener, async {
            let _ = stopped.await;
        });
        let server = tokio::spawn(serving);
        Self { directory, socket, double, app, stop: Some(stop), server }
    }

    /// Whoever runs the test.
    pub(crate) fn client(&self) -> Client {
        self.client_of(me())
    }

    pub(crate) fn client_of(&self, uid: u32) -> Client {
        Client { socket: self.socket.clone(), uid }
    }

    /// Tells the daemon to stop.
    pub(crate) fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits until it has stopped.
    pub(crate) async fn stopped(&mut self) {
        soon(&mut self.server).await.unwrap().unwrap();
    }
}

#[derive(Clone)]
pub(crate) struct Client {
    socket: PathBuf,
    uid: u32,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks that it is an error in our own form, and returns its code.
    pub(crate) fn code(&self) -> String {
        let body: api::ErrorBody =
            serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        assert!(!body.message.is_empty() && body.exit > 0, "{body:?}");
        body.code
    }
}

/// Connects as a user. The kernel notes the credentials of the thread that connects, so a thread can be anybody.
fn connect(socket: &Path, uid: u32) -> std::io::Result<std::os::unix::net::UnixStream> {
    let connect = || std::os::unix::net::UnixStream::connect(socket);
    if uid == me() {
        return connect();
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (gid, uid) = (Gid::from_raw(uid), Uid::from_raw(uid));
            rustix::thread::set_thread_groups(&[])?;
            rustix::thread::set_thread_res_gid(gid, gid, gid)?;
            rustix::thread::set_thread_res_uid(uid, uid, uid)?;
            connect()
        });
        thread.join().unwrap()
    })
}

impl Client {
    /// Sends a request and returns the answer while its body is still to come.
    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<Response<Incoming>> {
        let stream = connect(&self.socket, self.uid)?;
        stream.set_nonblocking(true)?;
        let stream = TokioIo::new(tokio::net::UnixStream::from_std(stream)?);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(stream).await.map_err(std::io::Error::other)?;
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body))).map_err(std::io::Error::other)?;
        sender.send_request(request).await.map_err(std::io::Error::other)
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        let answer = soon(self.open(method, path, &[], body)).await.unwrap();
        let status = answer.status().as_u16();
        Answer { status, body: soon(answer.into_body().collect()).await.unwrap().to_bytes() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, b"").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, body.to_string().as_bytes()).await
    }

    /// Takes a snapshot with this message; the double understands some of them.
    pub(crate) async fn snapshot(&self, session: &str, message: &str, query: &str) -> Answer {
        let body = serde_json::json!({ "message": message });
        self.post(&format!("/v1/sessions/{session}/snapshot{query}"), &body).await
    }

    pub(crate) async fn stream(&self, path: &str, last: Option<u64>) -> Stream {
        let last = last.map(|last| last.to_string());
        let headers: Vec<_> = last.iter().map(|last| ("last-event-id", last.as_str())).collect();
        let answer = soon(self.open("GET", path, &headers, b"")).await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Stream { body: answer.into_body(), text: String::new() }
    }
}

/// A stream of events.
pub(crate) struct Stream {
    body: Incoming,
    text: String,
}

impl Stream {
    /// The next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<api::Event> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let frame = frame.to_owned();
                self.text = rest.to_owned();
                let Some(data) = frame.lines().find_map(|line| line.strip_prefix("data: ")) else { continue };
                let event: api::Event = serde_json::from_str(data).unwrap();
                let id = format!("id: {}", event.id);
                assert!(frame.lines().any(|line| line == id), "{frame}");
                return Some(event);
            }
            let frame = soon(self.body.frame()).await?.unwrap();
            self.text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
    }

    /// Everything until the end.
    pub(crate) async fn rest(mut self) -> Vec<api::Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}
