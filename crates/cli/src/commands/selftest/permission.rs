//! May a user checkpoint their own process? Nobody has written it down, so the driver is asked.
//!
//! The worker `infinijup-gpu` is started twice, by the user who runs this: first without the helper, so that its answers are the driver's to this
//! user; then, if one of them was "not permitted", with the helper that an administrator may have installed. Each makes the six
//! calls about a process in the session that the other checks use, and whatever they answer, the process is brought back.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::geteuid;
use serde_json::{Value, json};

use super::report::skip;

const WORKER: &str = "infinijup-gpu";
/// In which order the calls make sense.
const CALLS: [&str; 6] = ["thread", "state", "lock", "checkpoint", "restore", "unlock"];
/// A call that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(120);
/// No answer of the worker's comes near this length.
const LONGEST: u64 = 64 << 10;

pub(super) fn check(pid: i32) -> Result<((), String)> {
    let user = geteuid();
    if user.is_root() {
        return skip("you are root, to whom every driver permits it: run it as an ordinary user");
    }
    let user = user.as_raw();
    let program = program()?;
    // A place where nothing can listen.
    let Some((call, said)) = cycle(&program, Some(Path::new("/dev/null/none")), pid)? else {
        return Ok((
            (),
            format!("the driver permits all {} calls to user {user}; no helper is needed", CALLS.len()),
        ));
    };
    ensure!(said.get("not-permitted").is_some(), "{call} answered {said}");
    match cycle(&program, None, pid)? {
        None => Ok((
            (),
            format!("the driver does not permit `{call}` to user {user}; with the helper all calls work"),
        )),
        Some((call, said)) if said.get("not-permitted").is_some() => {
            bail!(
                "the driver does not permit `{call}` to user {user}, and there is no helper: `sudo infinijup setup-gpu`"
            )
        }
        Some((call, said)) => bail!("the driver wants root, and with the helper `{call}` answered {said}"),
    }
}

/// Makes all calls; the first that did not do what it should, and its answer.
fn cycle(program: &Path, helper: Option<&Path>, pid: i32) -> Result<Option<(&'static str, Value)>> {
    let mut worker = Worker::start(program, helper)?;
    // One before may have been permitted to go a part of the way only.
    worker.bring_back(pid)?;
    for call in CALLS {
        let said = worker.ask(call, pid)?;
        if said != json!("done") && said.get("number").is_none() {
            worker.bring_back(pid)?;
            return Ok(Some((call, said)));
        }
    }
    Ok(None)
}

fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program is")?;
    let places = [own.with_file_name(WORKER), Path::new("/usr/lib/infinijup").join(WORKER)];
    match places.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => skip(format!("there is no `{}`", places[0].display())),
    }
}

/// A worker; it ends by itself when its input does. It is never killed: it may be in the middle of a call.
struct Worker {
    input: ChildStdin,
    answers: Receiver<String>,
    _child: Child,
}

impl Worker {
    fn start(program: &Path, helper: Option<&Path>) -> Result<Self> {
        let failed = || format!("cannot start `{}`", program.display());
        let mut command = Command::new(program);
        if let Some(helper) = helper {
            command.arg("--helper").arg(helper);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(failed)?;
        let (input, output) =
            (child.stdin.take().with_context(failed)?, child.stdout.take().with_context(failed)?);
        let (tell, answers) = channel();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = String::new();
            while output.by_ref().take(LONGEST).read_line(&mut line).is_ok_and(|count| count > 0) {
                if tell.send(std::mem::take(&mut line)).is_err() {
                    break;
                }
            }
        });
        Ok(Self { input, answers, _child: child })
    }

    /// Back to work on the GPU, from wherever it is. What does not apply is refused.
    fn bring_back(&mut self, pid: i32) -> Result<()> {
        if self.ask("state", pid)? != json!({ "number": 0 }) {
            self.ask("restore", pid)?;
            self.ask("unlock", pid)?;
        }
        Ok(())
    }

    fn ask(&mut self, call: &str, pid: i32) -> Result<Value> {
        let mut words = json!({ "pid": pid });
        match call {
            "lock" => words["timeout_ms"] = json!(10_000),
            "checkpoint" => words["storage"] = Value::Null,
            "restore" => (words["pairs"], words["storage"]) = (json!([]), Value::Null),
            _ => {}
        }
        let request = json!({ "id": 0, "ask": { call: words } });
        writeln!(self.input, "{request}").context("the GPU worker has ended")?;
        let line = self.answers.recv_timeout(LIMIT);
        let line = line.with_context(|| format!("no answer to `{call}` of process {pid}"))?;
        let mut reply: Value = serde_json::from_str(&line).context("the GPU worker answers nonsense")?;
        Ok(reply["answer"].take())
    }
}
