//! The control socket: one line of JSON in, one line of JSON out.
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Rule;
use crate::level::Level;
use crate::server::chips::uuid_text;
use crate::server::{Gpu, Server, lock};

/// What a test may say.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
enum Command {
    /// Adds a fault.
    Fault(Rule),
    /// Takes all faults away; everybody goes on.
    Clear,
    /// Lets who is held go on.
    Release {
        #[serde(default)]
        pid: Option<i32>,
    },
    /// Waits until somebody is held or hangs.
    AwaitHold {
        #[serde(default = "ten")]
        seconds: f64,
    },
    /// A GPU falls off the bus, or comes back.
    Lose {
        gpu: u32,
        #[serde(default = "yes")]
        lost: bool,
    },
    /// So many bytes of a GPU are taken by nobody we know; all that are free if not said.
    Fill { gpu: u32, bytes: Option<u64> },
    /// Everything that the server knows.
    Status,
    /// What NVML says: some of [`crate::nvml::Settings`].
    Nvml(Value),
    /// Plays another driver.
    Level { level: u32 },
    /// The state of any process is answered.
    GetStateLies {
        #[serde(default = "yes")]
        on: bool,
    },
    /// The checkpoint calls are for root alone.
    RootOnly {
        #[serde(default = "yes")]
        on: bool,
    },
}

const fn ten() -> f64 {
    10.0
}

const fn yes() -> bool {
    true
}

/// Listens on `DIR/control`, for the server's own user and root, in threads of its own.
///
/// # Errors
/// The socket cannot be made.
pub fn listen(server: &Arc<Server>, directory: &Path) -> io::Result<()> {
    let path = directory.join("control");
    drop(std::fs::remove_file(&path));
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600))?;
    let server = server.clone();
    std::thread::Builder::new().name("control".to_owned()).spawn(move || {
        for connection in listener.incoming().flatten() {
            let server = server.clone();
            let talk = move || drop(talk(&server, &connection));
            drop(std::thread::Builder::new().name("control".to_owned()).spawn(talk));
        }
    })?;
    Ok(())
}

/// One line to a server's control socket, and its answer.
///
/// # Errors
/// There is no server, or it went away.
pub fn send(directory: &Path, line: &str) -> io::Result<String> {
    let mut connection = UnixStream::connect(directory.join("control"))?;
    writeln!(connection, "{}", line.trim())?;
    let mut answer = String::new();
    BufReader::new(connection).read_line(&mut answer)?;
    if answer.is_empty() {
        Err(io::ErrorKind::UnexpectedEof.into())
    } else {
        Ok(answer.trim_end().to_owned())
    }
}

fn talk(server: &Server, connection: &UnixStream) -> io::Result<()> {
    let mut out = connection;
    for line in BufReader::new(connection).lines() {
        writeln!(out, "{}", answer(server, &line?))?;
    }
    Ok(())
}

/// Sets the faults that a text of JSON lines, or one JSON list, names: what `CUDA_SIM_FAULTS` holds.
///
/// # Errors
/// What is no fault.
pub fn script(server: &Server, text: &str) -> Result<(), String> {
    if text.trim_start().starts_with('[') {
        let rules: Vec<Rule> = serde_json::from_str(text).map_err(|cause| cause.to_string())?;
        rules.into_iter().for_each(|rule| server.faults.set(rule));
        return Ok(());
    }
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let said = answer(server, line);
        if let Some(wrong) = said.get("error") {
            return Err(wrong.to_string());
        }
    }
    Ok(())
}

fn answer(server: &Server, line: &str) -> Value {
    match serde_json::from_str(line) {
        Ok(command) => obey(server, command).unwrap_or_else(|wrong| json!({ "error": wrong })),
        Err(cause) => json!({ "error": cause.to_string() }),
    }
}

fn obey(server: &Server, command: Command) -> Result<Value, String> {
    let gpu = |index: u32| server.gpu(index).map_err(|_| format!("there is no GPU {index}"));
    match command {
        Command::Fault(rule) => server.faults.set(rule),
        Command::Clear => server.faults.clear(),
        Command::Release { pid } => return Ok(json!({ "ok": true, "released": server.faults.release(pid) })),
        Command::AwaitHold { seconds } => {
            let limit = Duration::try_from_secs_f64(seconds).map_err(|cause| cause.to_string())?;
            let held = server.faults.await_hold(limit.min(Duration::from_secs(3600)));
            return Ok(json!({ "held": !held.is_empty(), "who": held }));
        }
        Command::Lose { gpu: index, lost } => gpu(index)?.set_lost(lost),
        Command::Fill { gpu: index, bytes } => {
            let filled = fill(server, gpu(index)?, bytes)?;
            return Ok(json!({ "ok": true, "bytes": filled }));
        }
        Command::Status => return Ok(status(server)),
        Command::Nvml(settings) => server.set_nvml(&settings)?,
        Command::Level { level } => {
            server.set_level(Level::new(level).ok_or_else(|| format!("there is no level {level}"))?);
        }
        Command::GetStateLies { on } => lock(&server.whims).get_state_lies = on,
        Command::RootOnly { on } => server.set_root_only(on),
    }
    Ok(json!({ "ok": true }))
}

/// Takes away what was filled before, and fills anew.
fn fill(server: &Server, gpu: &Gpu, bytes: Option<u64>) -> Result<u64, String> {
    let mut whims = lock(&server.whims);
    gpu.give_back(whims.filled.remove(&gpu.info.index).unwrap_or(0));
    let free = gpu.memory().free;
    let bytes = bytes.unwrap_or(free).min(free);
    if bytes > 0 {
        gpu.take(bytes).map_err(|code| format!("GPU {} answers {}", gpu.info.index, code.0))?;
        whims.filled.insert(gpu.info.index, bytes);
    }
    Ok(bytes)
}

fn status(server: &Server) -> Value {
    let mut total = 0;
    let mut processes = Vec::new();
    let mut known = server.processes();
    known.sort_unstable_by_key(|process| process.pid);
    for process in known {
        let Some(state) = process.state() else { continue };
        let mut gpus = BTreeMap::new();
        for gpu in &server.gpus {
            let bytes = process.bytes(gpu.info.index);
            if bytes > 0 {
                total += bytes;
                gpus.insert(uuid_text(&gpu.info.uuid), bytes);
            }
        }
        processes.push(json!({ "pid": process.pid, "state": state, "gpus": gpus }));
    }
    let filled = lock(&server.whims).filled.clone();
    let gpus: Vec<Value> = server
        .gpus
        .iter()
        .map(|gpu| {
            let filled = filled.get(&gpu.info.index).copied().unwrap_or(0);
            json!({
                "index": gpu.info.index,
                "uuid": uuid_text(&gpu.info.uuid),
                "name": gpu.info.name,
                "memory": gpu.info.memory,
                "bytes": gpu.used().saturating_sub(filled),
                "filled": filled,
                "lost": gpu.is_lost(),
            })
        })
        .collect();
    json!({
        "level": server.level(),
        "gpus": gpus,
        "processes": processes,
        "bytes": total,
        "calls": calls(server),
        "fired": server.faults.fired(),
        "held": server.faults.held(),
    })
}

/// The four calls that change a process are always named, the others when they happened.
fn calls(server: &Server) -> Value {
    let mut counts = json!({ "lock": 0, "checkpoint": 0, "restore": 0, "unlock": 0 });
    if let (Some(counts), Ok(Value::Object(seen))) =
        (counts.as_object_mut(), serde_json::to_value(server.faults.calls()))
    {
        counts.extend(seen);
    }
    counts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn server() -> Arc<Server> {
        let config = crate::server::Config {
            chips: vec!["h100".to_owned(); 2],
            memory: Some(1 << 20),
            level: Level::default(),
            uuid_seed: "test".to_owned(),
            pcie: None,
        };
        Server::new(&config).unwrap()
    }

    #[test]
    fn commands_as_they_are_written() {
        let server = server();
        for line in [
            r#"{"do":"fault","call":"lock","phase":"before","nth":1,"pid":null,"action":{"delay-ms":1}}"#,
            r#"{"do":"fault","call":"restore","action":{"then-304":true}}"#,
            r#"{"do":"clear"}"#,
            r#"{"do":"release"}"#,
            r#"{"do":"lose","gpu":1}"#,
            r#"{"do":"fill","gpu":0,"bytes":4096}"#,
            r#"{"do":"nvml","zero-byte-pids":[1,2]}"#,
            r#"{"do":"level","level":570}"#,
            r#"{"do":"get-state-lies","on":true}"#,
            r#"{"do":"root-only","on":true}"#,
        ] {
            assert_eq!(answer(&server, line)["ok"], true, "{line}: {}", answer(&server, line));
        }
        assert_eq!(answer(&server, r#"{"do":"await-hold","seconds":0.01}"#)["held"], false);
        let status = answer(&server, r#"{"do":"status"}"#);
        assert_eq!(status["gpus"][0]["filled"], 4096);
        assert_eq!(status["gpus"][0]["bytes"], 0);
        assert_eq!(status["gpus"][1]["lost"], true);
        assert_eq!(status["bytes"], 0);
        assert_eq!(status["calls"]["lock"], 0);
        assert_eq!(server.level().number(), 570);
        assert!(server.lies());
        for wrong in
            [r#"{"do":"fault","call":"lok","action":{"hang":true}}"#, r#"{"do":"lose","gpu":7}"#, "x", "{}"]
        {
            assert!(answer(&server, wrong).get("error").is_some(), "{wrong}");
        }
    }

    #[test]
    fn a_gpu_is_filled_and_emptied() {
        let server = server();
        let free = || server.gpus[0].memory().free;
        assert_eq!(answer(&server, r#"{"do":"fill","gpu":0}"#)["bytes"], 1 << 20);
        assert_eq!(free(), 0);
        assert_eq!(answer(&server, r#"{"do":"fill","gpu":0,"bytes":0}"#)["bytes"], 0);
        assert_eq!(free(), 1 << 20);
    }

    proptest! {
        #[test]
        fn any_line_is_answered(line in "\\PC{0,60}|\\{\"do\":\"(lose|fill|level)\",\"(gpu|level|bytes)\":-?[0-9]{1,20}\\}") {
            let _ = answer(&server(), &line);
        }
    }
}
