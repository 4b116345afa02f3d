//! A session that runs the program, asked from outside what it has on its GPUs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use api::{FilePolicy, GpuWish, JobResult, Network, SessionState, SessionView, Start, StartRequest};
use serde::Deserialize;
use serde_json::json;

use crate::commands::online::client::session_path;
use crate::commands::online::job::expect_result;
use crate::commands::online::{Online, start};

/// How long an answer may take: Python starts, the driver compiles, all bytes are read back.
const PATIENCE: Duration = Duration::from_secs(180);
/// And a second for each of these.
const BYTES_A_SECOND: u64 = 64 << 20;

/// How long a session may take to end.
const REMOVAL: Duration = Duration::from_secs(20);

/// What the program answered. Everything in it was read back from the GPUs.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(super) struct Answer {
    nonce: Option<u64>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    pub(super) rounds: u64,
    #[serde(default)]
    pub(super) gpus: Vec<OfGpu>,
    /// By cuda-core and NVRTC.
    #[serde(default)]
    pub(super) compiled: Option<Computed>,
    #[serde(default)]
    pub(super) torch: Option<Computed>,
    /// Why these are not there.
    #[serde(default)]
    pub(super) absent: BTreeMap<String, Option<String>>,
}

/// The state on one GPU.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(super) struct OfGpu {
    pointers: Vec<u64>,
    bytes: u64,
    hash: String,
    count: u64,
    mark: Option<u32>,
    reserved: Option<Place>,
    pinned: Place,
}

/// Memory of another kind.
#[derive(Clone, PartialEq, Debug, Deserialize)]
struct Place {
    pointer: u64,
    hash: String,
}

/// Something that was computed anew from what was on the GPU.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(super) struct Computed {
    pointers: Vec<u64>,
    /// How many values are not what they should be.
    wrong: u64,
}

/// A session with known state.
pub(super) struct Subject<'a> {
    online: &'a Online<'a>,
    pub(super) session: SessionView,
    /// Where questions are put and answers are found.
    directory: PathBuf,
    /// What it answered when it was new.
    pub(super) first: Answer,
    patience: Duration,
}

/// What a session was given.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// How much of each GPU.
    pub(super) bytes: u64,
    /// How many of them.
    pub(super) gpus: usize,
}

/// No question is taken for another, not even after a rollback or by a branch.
static NONCE: AtomicU64 = AtomicU64::new(1);

impl<'a> Subject<'a> {
    /// Starts one and waits until it answers.
    pub(super) fn start(
        online: &'a Online<'a>,
        name: &str,
        python: &Path,
        directory: PathBuf,
        bytes: u64,
        gpus: Vec<String>,
    ) -> Result<Self> {
        let wanted = Wanted { bytes, gpus: gpus.len() };
        let request = StartRequest {
            name: Some(name.to_owned()),
            start: Start::Command {
                argv: vec![
                    python.into(),
                    "-u".into(),
                    directory.join("program.py").into(),
                    bytes.to_string().into(),
                ],
            },
            cwd: directory.clone().into(),
            env: start::environment(),
            network: Network::Private,
            outside: false,
            workspace: None,
            // A rollback must not put the questions back.
            files: FilePolicy::None,
            memory_limit: None,
            pids_limit: None,
            sidecars: Vec::new(),
            gpus: GpuWish::List { gpus },
            labels: BTreeMap::new(),
            notebook: None,
            policy: None,
        };
        let result = online.post_job("/v1/sessions".to_owned(), &request)?;
        let session = *expect_result!(result, JobResult::Session(session) => session);
        Self::of(online, session, directory, wanted)
    }

    /// One that runs the program already, in this directory. It is removed if it does not answer.
    pub(super) fn of(
        online: &'a Online<'a>,
        session: SessionView,
        directory: PathBuf,
        wanted: Wanted,
    ) -> Result<Self> {
        let Wanted { bytes, gpus: count } = wanted;
        let all = bytes.saturating_mul(u64::try_from(count)?);
        let patience = PATIENCE + Duration::from_secs(all / BYTES_A_SECOND);
        let first = Answer {
            nonce: None,
            error: None,
            rounds: 0,
            gpus: Vec::new(),
            compiled: None,
            torch: None,
            absent: BTreeMap::new(),
        };
        let mut subject = Self { online, session, directory, first, patience };
        subject.first = match subject.ask(Some(1)) {
            Ok(first) => first,
            Err(error) => {
                // Whoever called us does not know of the session.
                let _ = subject.remove();
                return Err(error);
            }
        };
        ensure!(
            subject.first.gpus.len() == count,
            "it was given {count} GPUs and sees {}",
            subject.first.gpus.len()
        );
        Ok(subject)
    }

    /// The same state in another session, whose files lie where the daemon says.
    pub(super) fn branched(&self, session: SessionView) -> Result<Self> {
        let directory = session.workspace.clone().context("the branch has no workspace")?.into();
        Ok(Self { session, directory, first: self.first.clone(), ..*self })
    }

    /// Asks; `mark` is written to the GPUs first.
    pub(super) fn ask(&self, mark: Option<u32>) -> Result<Answer> {
        let nonce = NONCE.fetch_add(1, Ordering::Relaxed);
        let (new, ask) = (self.directory.join("ask.new"), self.directory.join("ask"));
        fs::write(&new, json!({"nonce": nonce, "mark": mark}).to_string())
            .and_then(|()| fs::rename(&new, &ask))
            .with_context(|| format!("cannot write `{}`", ask.display()))?;
        let deadline = Instant::now() + self.patience;
        let mut looked = Instant::now();
        loop {
            let answer = fs::read(self.directory.join("answer")).ok();
            let answer = answer.and_then(|bytes| serde_json::from_slice::<Answer>(&bytes).ok());
            if let Some(error) = answer.as_ref().and_then(|answer| answer.error.as_ref()) {
                bail!("the program failed: {}", error.trim().lines().last().unwrap_or_default());
            }
            if let Some(answer) = answer.filter(|answer| answer.nonce == Some(nonce)) {
                return Ok(answer);
            }
            if looked.elapsed() > Duration::from_secs(1) {
                looked = Instant::now();
                let state = self.look()?.state;
                let ended = matches!(state, SessionState::Ended | SessionState::Failed);
                ensure!(!ended, "the session is {}; {}", state.as_str(), self.last_words());
            }
            ensure!(Instant::now() < deadline, "no answer within {} s", self.patience.as_secs());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The session as it is now.
    pub(super) fn look(&self) -> Result<SessionView> {
        self.online.get(self.path(""))
    }

    pub(super) fn path(&self, operation: &str) -> String {
        format!("{}{operation}", session_path(&self.session.id))
    }

    /// The end of its log, for messages.
    fn last_words(&self) -> String {
        let log = self.online.get_text(self.path("/log")).unwrap_or_default();
        let last = log.lines().rev().find(|line| !line.trim().is_empty());
        last.map_or_else(|| "it said nothing".to_owned(), |line| format!("its last words: {line}"))
    }

    /// Everything that it was given, with this mark, and work that goes on.
    pub(super) fn holds(&self, mark: u32) -> Result<String> {
        let now = self.ask(None)?;
        now.same_as(&self.first, mark)?;
        let later = self.ask(None)?;
        ensure!(later.rounds > now.rounds, "its loop stands still at round {}", now.rounds);
        Ok(format!("{} bytes equal, pointers equal, the loop goes on", now.bytes()))
    }

    /// Ends and forgets it.
    pub(super) fn remove(&self) -> Result<()> {
        let deadline = Instant::now() + REMOVAL;
        loop {
            // It may have none to end any more, or its end may be under way: what counts is that it can be forgotten.
            let _ = self.online.post_job(self.path("/stop"), &json!({"grace_ms": 2000}));
            match self.online.delete_job(self.path("")) {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }
}

impl Answer {
    /// On all GPUs together.
    pub(super) fn bytes(&self) -> u64 {
        self.gpus.iter().map(|gpu| gpu.bytes).fold(0, u64::saturating_add)
    }

    /// Compares with what it was at first.
    fn same_as(&self, first: &Self, mark: u32) -> Result<()> {
        ensure!(self.gpus.len() == first.gpus.len(), "it has {} GPUs now", self.gpus.len());
        for (index, (now, then)) in self.gpus.iter().zip(&first.gpus).enumerate() {
            ensure!(now.hash == then.hash, "bytes on GPU {index} changed");
            ensure!(now.pointers == then.pointers, "pointers to GPU {index} changed");
            ensure!(
                now.reserved == then.reserved,
                "memory of the virtual memory calls on GPU {index} changed"
            );
            ensure!(now.pinned == then.pinned, "pinned memory of GPU {index} changed");
            ensure!(now.mark == Some(mark), "the mark on GPU {index} is {:?}, not {mark}", now.mark);
            ensure!(
                now.count == self.rounds,
                "GPU {index} has counted {} rounds and the program {}",
                now.count,
                self.rounds
            );
        }
        for (what, now, then) in
            [("the compiled kernel", &self.compiled, &first.compiled), ("PyTorch", &self.torch, &first.torch)]
        {
            match (now, then) {
                (Some(now), Some(then)) => {
                    ensure!(now.wrong == 0, "{what} computes wrong values");
                    ensure!(now.pointers == then.pointers, "pointers of {what} changed");
                }
                (None, None) => {}
                _ => bail!("{what} came or went"),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(change: impl FnOnce(&mut serde_json::Value)) -> Answer {
        let mut value = json!({
            "nonce": 3, "rounds": 9,
            "gpus": [{
                "pointers": [1, 2], "bytes": 4096, "hash": "aa", "count": 9, "mark": 1,
                "reserved": {"pointer": 3, "hash": "bb"}, "pinned": {"pointer": 4, "hash": "cc"}
            }],
            "compiled": {"pointers": [5], "wrong": 0}, "torch": null, "absent": {"torch": "not installed"}
        });
        change(&mut value);
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn each_difference_is_seen() {
        let first = answer(|_| {});
        first.same_as(&first, 1).unwrap();
        // it went on, and that is all
        answer(|value| {
            value["rounds"] = 12.into();
            value["gpus"][0]["count"] = 12.into();
        })
        .same_as(&first, 1)
        .unwrap();
        for (path, wrong, words) in [
            ("/gpus/0/hash", json!("ab"), "bytes on GPU 0 changed"),
            ("/gpus/0/pointers", json!([1, 3]), "pointers to GPU 0 changed"),
            ("/gpus/0/mark", json!(2), "the mark on GPU 0"),
            ("/gpus/0/mark", json!(null), "the mark on GPU 0"),
            ("/gpus/0/count", json!(8), "has counted 8 rounds"),
            ("/gpus/0/reserved", json!(null), "virtual memory calls"),
            ("/gpus/0/pinned/hash", json!("cd"), "pinned memory"),
            ("/gpus", json!([]), "it has 0 GPUs now"),
            ("/compiled/wrong", json!(1), "the compiled kernel computes wrong values"),
            ("/compiled", json!(null), "the compiled kernel came or went"),
        ] {
            let other = answer(|value| *value.pointer_mut(path).unwrap() = wrong);
            let error = other.same_as(&first, 1).unwrap_err().to_string();
            assert!(error.contains(words), "{path}: {error}");
        }
    }
}
