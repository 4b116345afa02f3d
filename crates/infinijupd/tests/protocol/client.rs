//! A daemon to talk to, and its clients.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use infinijupd::listener::PeerListener;
use infinijupd::{App, Home, Limits};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::double::Double;

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

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
    pub(crate) server: JoinHandle<()>,
}

impl Daemon {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| (), Limits::default()).await
    }

    pub(crate) async fn start_idle(idle_end: Duration) -> Self {
        Self::start_whole(|_| (), Limits::default(), Some(idle_end)).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Double), limits: Limits) -> Self {
        Self::start_whole(change, limits, None).await
    }

    async fn start_whole(
        change: impl FnOnce(&mut Double),
        limits: Limits,
        idle_end: Option<Duration>,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let mut double = Double::new(directory.path().join("log"));
        change(&mut double);
        let double = Arc::new(double);
        let places = api::Places {
            state: directory.path().into(),
            run: directory.path().into(),
            socket: socket.clone(),
            settings: directory.path().join("settings.toml"),
        };
        let home = Home::new(places, false, idle_end);
        let app = App::new(Arc::clone(&double) as Arc<dyn infinijupd::Backend>, limits, home);
        let listener = PeerListener::bind(&socket).unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = app.clone().serve(listener, async {
            let _ = stopped.await;
        });
        let server = tokio::spawn(serving);
        Self { directory, socket, double, app, stop: Some(stop), server }
    }

    pub(crate) fn client(&self) -> Client {
        Client { socket: self.socket.clone() }
    }

    /// Tells the daemon to stop.
    pub(crate) fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits until it has stopped.
    pub(crate) async fn stopped(&mut self) {
        soon(&mut self.server).await.unwrap();
    }
}

#[derive(Clone)]
pub(crate) struct Client {
    socket: PathBuf,
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

impl Client {
    /// Sends a request and returns the answer while its body is still to come.
    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<Response<Incoming>> {
        let stream = TokioIo::new(tokio::net::UnixStream::connect(&self.socket).await?);
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
