//! A stand-in for the daemon: it listens on the sandbox's socket, writes down what it was asked, and answers what the test
//! wants. One request for each connection, as the program does it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::Sandbox;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) last_event: Option<String>,
    pub(crate) body: Value,
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Json(u16, Value),
    /// A whole body.
    Stream(Vec<u8>),
    /// The beginning of a body; then the connection breaks.
    Cut(Vec<u8>),
    /// The beginning of a body; then nothing, until the other side goes away.
    Held(Vec<u8>),
    /// None at all.
    Nothing,
}

pub(crate) struct Daemon {
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Daemon {
    /// One that answers as `answer` says: it gets the request and how many came before it.
    pub(crate) fn start(
        sandbox: &Sandbox,
        answer: impl Fn(&Asked, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = UnixListener::bind(sandbox.socket()).unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (list, answer) = (Arc::clone(&asked), Arc::new(answer));
        // It ends with the test program.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (list, answer) = (Arc::clone(&list), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream.unwrap(), &list, &*answer));
            }
        });
        Self { asked }
    }

    /// One for which every job ends at once, with this result.
    pub(crate) fn with_result(sandbox: &Sandbox, kind: &'static str, result: Value) -> Self {
        Self::start(sandbox, move |asked, _| match asked.path.ends_with("/events") {
            false => Reply::Json(202, job(kind, "running", json!({}))),
            true => Reply::Stream(ended(9, kind, &json!({"result": result.clone()}))),
        })
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(stream: UnixStream, list: &Mutex<Vec<Asked>>, answer: &dyn Fn(&Asked, usize) -> Reply) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let Some(asked) = request(&mut reader) else { return };
    let before = {
        let mut list = list.lock().unwrap();
        list.push(asked.clone());
        list.len() - 1
    };
    // A client that has seen enough goes away; that is its right.
    let _ = reply(stream, answer(&asked, before));
}

fn reply(mut stream: UnixStream, reply: Reply) -> std::io::Result<()> {
    match reply {
        Reply::Json(status, value) => {
            let body = value.to_string();
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            )
        }
        Reply::Stream(bytes) => chunk(&mut stream, &bytes).and_then(|()| stream.write_all(b"0\r\n\r\n")),
        Reply::Cut(bytes) => chunk(&mut stream, &bytes),
        Reply::Held(bytes) => {
            chunk(&mut stream, &bytes)?;
            stream.read_to_end(&mut Vec::new()).map(drop)
        }
        Reply::Nothing => Ok(()),
    }
}

fn chunk(stream: &mut UnixStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n")?;
    if !bytes.is_empty() {
        write!(stream, "{:x}\r\n", bytes.len())?;
        stream.write_all(bytes)?;
        stream.write_all(b"\r\n")?;
    }
    stream.flush()
}

fn request(reader: &mut BufReader<UnixStream>) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut last_event) = (0, None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "last-event-id" => last_event = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    Some(Asked { method, path, last_event, body })
}

/// A job on the wire.
pub(crate) fn job(kind: &str, state: &str, more: Value) -> Value {
    let mut job = json!({
        "id": "j-18", "kind": kind, "session": "analysis", "state": state, "began": "2026-11-15T09:12:09Z", "steps": []
    });
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    job
}

/// An event on the wire.
pub(crate) fn event(id: u64, kind: &str, more: Value) -> Vec<u8> {
    let mut data = json!({"id": id, "time": "2026-11-15T09:12:09Z", "kind": kind});
    data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    format!("id: {id}\nevent: {kind}\ndata: {data}\n\n").into_bytes()
}

/// A step of a job.
pub(crate) fn step(id: u64, name: &str, micros: Option<u64>) -> Vec<u8> {
    event(id, "job_step", json!({"step": {"name": name, "micros": micros}}))
}

/// The last event of a job.
pub(crate) fn ended(id: u64, kind: &str, more: &Value) -> Vec<u8> {
    let state = if more.get("error").is_some() { "failed" } else { "done" };
    event(id, "job_ended", json!({"job": job(kind, state, more.clone())}))
}

/// A session on the wire.
pub(crate) fn session(more: Value) -> Value {
    let mut session = json!({
        "id": "s-4be1", "name": "analysis", "state": "running",
        "command": ["python3", "train.py", {"hex": "636166e9"}], "cwd": "/home/ada/work", "workspace": "/home/ada/work",
        "pid": 4711, "network": "private", "thread": "analysis", "head": "f26f289a073f1220ad134a70", "parent": null,
        "created": "2026-11-15T09:12:09Z", "exit": null, "files": {"type": "open"}, "memory_bytes": 67_108_864,
        "attached": false
    });
    session.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    session
}

/// A refusal on the wire.
pub(crate) fn refusal(code: &str, exit: u8, message: &str) -> Value {
    json!({"code": code, "message": message, "causes": ["the deeper \u{1b}reason"], "hint": "do this\nor that", "exit": exit})
}
