//! An `infinijupd` of the user's, with directories of its own.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, Uid, kill_process};
use rustix::thread::set_thread_res_uid;
use serde_json::{Value, json};

use crate::live::{CRIU, Place, User, copy_programs};
use crate::measure::out_of_page_cache;

/// Ends, with all its sessions, with this value.
pub(crate) struct Daemon {
    child: Child,
    socket: PathBuf,
    home: PathBuf,
    uid: Uid,
    more: Vec<(String, PathBuf)>,
    place: Place,
}

impl Daemon {
    /// Starts it and waits until it answers.
    pub(crate) fn start(user: &User) -> Result<Self> {
        Self::start_with(user, &[])
    }

    /// The same, with more in its environment.
    pub(crate) fn start_with(user: &User, more: &[(&str, PathBuf)]) -> Result<Self> {
        let place = Place::of(user, "d")?;
        Self::start_in(place, (user.uid(), user.home()), owned(more), |program| user.command(program))
    }

    /// Root's own.
    pub(crate) fn start_as_root(more: &[(&str, PathBuf)]) -> Result<Self> {
        let program = |program: &Path| {
            let mut command = Command::new(program);
            command.env_clear().env("LC_ALL", "C.UTF-8").current_dir("/");
            command
        };
        Self::start_in(Place::new("d")?, (Uid::ROOT, Path::new("/root")), owned(more), program)
    }

    fn start_in(
        place: Place,
        (uid, home): (Uid, &Path),
        more: Vec<(String, PathBuf)>,
        program: impl FnOnce(&Path) -> Command,
    ) -> Result<Self> {
        copy_programs(&place.dir.join("bin"))?;
        let child = spawn(program(&program_in(&place)), &place, &more)?;
        let socket = socket_in(&place);
        let mut daemon = Self { child, socket, home: home.to_owned(), uid, more, place };
        daemon.wait_for_answer()?;
        Ok(daemon)
    }

    fn wait_for_answer(&mut self) -> Result<()> {
        let begun = Instant::now();
        while self.call("GET", "/v1/version", None).is_err() {
            if self.child.try_wait()?.is_some() || begun.elapsed() > Duration::from_secs(60) {
                let log = fs::read_to_string(self.place.dir.join("log")).unwrap_or_default();
                bail!("the daemon does not answer; its log: {log}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Starts it again as after a reboot, when its sessions are suspended: nothing of its store is in the page cache.
    pub(crate) fn reboot(&mut self, user: &User) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.child = spawn(user.command(program_in(&self.place)), &self.place, &self.more)?;
        self.wait_for_answer()?;
        out_of_page_cache(&self.place.dir.join("state"))
    }

    /// Ends it in good order and starts it again with something else in its environment. Its sessions live on meanwhile.
    pub(crate) fn restart_with(&mut self, user: &User, more: &[(&str, PathBuf)]) -> Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).context("cannot end the daemon")?;
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(begun.elapsed() < Duration::from_secs(60), "the daemon does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.more = owned(more);
        self.child = spawn(user.command(program_in(&self.place)), &self.place, &self.more)?;
        self.wait_for_answer()
    }

    /// Its process.
    pub(crate) fn pid(&self) -> i32 {
        Pid::from_child(&self.child).as_raw_nonzero().get()
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// One request; fails unless it was done.
    pub(crate) fn call(&self, method: &str, target: &str, body: Option<&Value>) -> Result<Value> {
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(Duration::from_secs(300)))?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{kind}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        let (status, body) = read_answer(BufReader::new(stream))?;
        ensure!(["200", "202"].contains(&status.as_str()), "{method} {target}: {status} {body}");
        Ok(serde_json::from_str(&body)?)
    }

    /// A connection of its user's: it lets in nobody else, not even root. Who connects is a matter of the thread.
    fn connect(&self) -> Result<UnixStream> {
        let as_user = || {
            set_thread_res_uid(Uid::ROOT, self.uid, Uid::ROOT)?;
            UnixStream::connect(&self.socket)
        };
        let stream = std::thread::scope(|scope| scope.spawn(as_user).join());
        Ok(stream.map_err(|_| anyhow!("the thread that connects panicked"))??)
    }

    /// Something that takes its time; the result of the job.
    pub(crate) fn job(&self, target: &str, body: &Value) -> Result<Value> {
        let mut job = self.call("POST", &format!("{target}?wait=true"), Some(body))?;
        ensure!(job["state"] == "done", "{target}: {job}");
        Ok(job["result"].take())
    }

    /// Waits until a step of a job is over, which may go on after it.
    pub(crate) fn past_step(&self, job: &str, step: &str) -> Result<()> {
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(Duration::from_secs(300)))?;
        // In HTTP/1.0 the events come as they are, not in chunks.
        write!(stream, "GET /v1/jobs/{job}/events HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        for line in BufReader::new(stream).lines() {
            let line = line?;
            let Some(event) = line.strip_prefix("data:") else { continue };
            let event: Value = serde_json::from_str(event)?;
            if event["step"]["name"] == step && !event["step"]["micros"].is_null() {
                return Ok(());
            }
        }
        bail!("job {job} ended without the step `{step}`")
    }

    /// Waits for the end of a job.
    pub(crate) fn ended(&self, id: &str) -> Result<Value> {
        loop {
            let job = self.call("GET", &format!("/v1/jobs/{id}"), None)?;
            if job["state"] != "running" {
                return Ok(job);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Where it keeps everything.
    pub(crate) fn state(&self) -> PathBuf {
        self.place.dir.join("state")
    }

    /// Starts a kernel of the tests' Python; its id and connection file.
    pub(crate) fn kernel(&self, name: &str) -> Result<(String, PathBuf)> {
        self.kernel_in(name, &self.home)
    }

    /// The same in a directory.
    pub(crate) fn kernel_in(&self, name: &str, directory: &Path) -> Result<(String, PathBuf)> {
        self.kernel_of(name, directory, Path::new(crate::live::PYTHON))
    }

    /// The same of another Python.
    pub(crate) fn kernel_of(&self, name: &str, directory: &Path, python: &Path) -> Result<(String, PathBuf)> {
        let home = &self.home;
        let paths = python.ancestors().nth(2).context("no prefix")?.join("share/jupyter");
        let request = json!({
            "name": name, "start": { "type": "kernel", "spec": "python3" }, "cwd": directory,
            "env": [
                { "name": "PATH", "value": "/usr/local/bin:/usr/bin:/bin" },
                { "name": "HOME", "value": home },
                { "name": "JUPYTER_PATH", "value": paths },
            ],
        });
        let view = self.job("/v1/sessions", &request)?;
        connection(&view)
    }

    /// Starts a command with the command's environment; the session's id.
    pub(crate) fn command(&self, name: &str, command: &Command) -> Result<String> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let argv: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        let env = command.get_envs().filter_map(|(name, value)| {
            Some(json!({ "name": name.to_string_lossy(), "value": value?.to_string_lossy() }))
        });
        let request = json!({
            "name": name, "start": { "type": "command", "argv": argv }, "cwd": "/", "workspace": self.home,
            "files": { "type": "none" }, "env": env.collect::<Vec<_>>(),
        });
        let view = self.job("/v1/sessions", &request)?;
        Ok(view["id"].as_str().context("a session without id")?.to_owned())
    }

    /// The first process of a session, as the machine numbers it.
    pub(crate) fn pid_of(&self, id: &str) -> Result<i32> {
        let view = self.call("GET", &format!("/v1/sessions/{id}"), None)?;
        let pid = view["pid"].as_i64().with_context(|| format!("session {id} has no processes"))?;
        Ok(i32::try_from(pid)?)
    }

    /// The file that a session's output goes to.
    pub(crate) fn log_of(&self, id: &str) -> Result<PathBuf> {
        let session = self.place.dir.join("state/sessions").join(id);
        let found = [session.join("box/log"), session.join("log")].into_iter().find(|path| path.exists());
        found.with_context(|| format!("session {id} has no log"))
    }

    /// Ends and removes a session.
    pub(crate) fn remove(&self, id: &str) -> Result<()> {
        self.job(&format!("/v1/sessions/{id}/stop"), &json!({ "grace_ms": 0 }))?;
        self.call("DELETE", &format!("/v1/sessions/{id}?wait=true"), None)?;
        Ok(())
    }
}

fn owned(more: &[(&str, PathBuf)]) -> Vec<(String, PathBuf)> {
    more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn socket_in(place: &Place) -> PathBuf {
    place.dir.join("run/infinijupd.sock")
}

fn program_in(place: &Place) -> PathBuf {
    place.dir.join("bin/infinijupd")
}

fn spawn(mut program: Command, place: &Place, more: &[(String, PathBuf)]) -> Result<Child> {
    let log = fs::File::options().create(true).append(true).open(place.dir.join("log"))?;
    program
        .env("INFINIJUP_STATE", place.dir.join("state"))
        .env("INFINIJUP_RUN", place.dir.join("run"))
        .env("INFINIJUP_SOCKET", socket_in(place))
        .env("INFINIJUP_BOX", place.dir.join("bin/infinijup-box"))
        .env("INFINIJUP_CRIU", CRIU)
        // It would be made beside what is measured. `undo` measures it.
        .env("INFINIJUP_STANDBY", "off")
        .envs(more.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {}", program_in(place).display()))
}

/// The status and the body, and nothing after it: a daemon that hangs up before it has read all of a request resets the
/// connection, and what it has answered is whole all the same.
fn read_answer(mut stream: impl BufRead) -> Result<(String, String)> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).context("the daemon hung up")?.to_owned();
    let mut length = None;
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = Some(value.trim().parse()?);
            }
            Some(_) => (),
            None => break,
        }
    }
    let mut body = vec![0; length.context("an answer without a length")?];
    stream.read_exact(&mut body)?;
    Ok((status, String::from_utf8(body)?))
}

/// Id and connection file of a session.
pub(crate) fn connection(view: &Value) -> Result<(String, PathBuf)> {
    let id = view["id"].as_str().context("a session without id")?;
    let file = view["kernel"]["connection_file"].as_str().context("a kernel without connection file")?;
    Ok((id.to_owned(), PathBuf::from(file)))
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // What cannot be ended in good order is ended below, by its place.
        if let Ok(sessions) = self.call("GET", "/v1/sessions", None) {
            for session in sessions["sessions"].as_array().into_iter().flatten() {
                let _ = self.remove(session["id"].as_str().unwrap_or_default());
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
