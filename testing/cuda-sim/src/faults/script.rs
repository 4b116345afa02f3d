//! The script: rules, what they count, and who is waiting because of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// How often who waits looks whether the one it waits for has died.
const LOOK: Duration = Duration::from_millis(20);

/// A call that can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Call {
    /// `cuCheckpointProcessGetRestoreThreadId`.
    GetTid,
    /// `cuCheckpointProcessGetState`.
    GetState,
    /// `cuCheckpointProcessLock`.
    Lock,
    /// `cuCheckpointProcessCheckpoint`.
    Checkpoint,
    /// `cuCheckpointProcessRestore`.
    Restore,
    /// `cuCheckpointProcessUnlock`.
    Unlock,
    /// `cuCheckpointOperationComplete`.
    Complete,
    /// Work on the device: what a stream carries out.
    Memory,
}

/// Where in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// In the caller; nothing has been asked of the target.
    #[default]
    Before,
    /// In the target's helper thread, before the work.
    During,
    /// In the target's helper thread: the work is done, the caller does not know.
    After,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// It takes longer.
    DelayMs(u64),
    /// This `CUresult`; `before` and `during` nothing is done, `after` it is done all the same.
    Error(i32),
    /// No answer until the faults are cleared or the caller dies.
    Hang(bool),
    /// No answer until released or cleared.
    Hold(bool),
    /// The driver gives the process up: state FAILED and code 999.
    Terminal(bool),
    /// Out of memory now, and `OPERATING_SYSTEM` at each later restore (580.95.05 did so: cuda-checkpoint#44).
    #[serde(rename = "then-304")]
    Then304(bool),
    /// SIGKILL to the process that is being checkpointed.
    KillTarget(bool),
    /// SIGKILL to the process that makes the call.
    KillCaller(bool),
}

/// One fault of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Of which call.
    pub call: Call,
    /// Where in it.
    #[serde(default)]
    pub phase: Phase,
    /// At the how-manyeth since the rule was set; 0 is each.
    #[serde(default = "first")]
    pub nth: u32,
    /// Of this process only (host pid).
    #[serde(default)]
    pub pid: Option<i32>,
    /// What happens.
    pub action: Action,
}

const fn first() -> u32 {
    1
}

/// Somebody who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// In which call.
    pub call: Call,
    /// Where in it.
    pub phase: Phase,
    /// The process that is being checkpointed.
    pub pid: i32,
    /// The process that makes the call, if it is another.
    pub caller: Option<i32>,
}

/// The answer, once it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing is wrong.
    Go,
    /// Answer with this `CUresult`.
    Code(i32),
    /// The process is lost.
    Terminal,
    /// Out of memory, and then 304 for ever.
    Then304,
}

/// Somebody who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// In which call.
    pub call: Call,
    /// Where in it.
    pub phase: Phase,
    /// The process that is being checkpointed.
    pub pid: i32,
    /// Whether only clearing ends it.
    pub hang: bool,
}

#[derive(Debug, Default)]
struct Book {
    rules: Vec<(Rule, u32)>,
    held: Vec<(u64, Held)>,
    tickets: u64,
    /// How often each call began since the server's start; clearing does not touch it.
    calls: BTreeMap<Call, u64>,
    /// How often a rule applied, the same.
    fired: u64,
}

/// The script of one server. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<(Mutex<Book>, Condvar)>);

impl Faults {
    /// Adds a rule.
    pub fn set(&self, rule: Rule) {
        self.book().rules.push((rule, 0));
    }

    /// Takes away all rules and lets everybody go on.
    pub fn clear(&self) {
        let mut book = self.book();
        book.rules.clear();
        book.held.clear();
        drop(book);
        self.0.1.notify_all();
    }

    /// Lets those go on who are held (not who hang), all or those of one process. How many there were.
    pub fn release(&self, pid: Option<i32>) -> usize {
        let mut book = self.book();
        let before = book.held.len();
        book.held.retain(|(_, held)| held.hang || pid.is_some_and(|pid| pid != held.pid));
        let freed = before - book.held.len();
        drop(book);
        self.0.1.notify_all();
        freed
    }

    /// Who waits now.
    #[must_use]
    pub fn held(&self) -> Vec<Held> {
        self.book().held.iter().map(|(_, held)| *held).collect()
    }

    /// How often each call began since the server's start.
    #[must_use]
    pub fn calls(&self) -> BTreeMap<Call, u64> {
        self.book().calls.clone()
    }

    /// How often a fault came about since the server's start.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.book().fired
    }

    /// Waits until somebody waits; the list is empty if nobody did in this time.
    #[must_use]
    pub fn await_hold(&self, limit: Duration) -> Vec<Held> {
        let end = Instant::now() + limit;
        let mut book = self.book();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if !book.held.is_empty() || left.is_zero() {
                return book.held.iter().map(|(_, held)| *held).collect();
            }
            book = self.0.1.wait_timeout(book, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks the script, and waits as long as it says. `gone` tells that the asker itself has ended.
    #[must_use]
    pub fn meet(&self, question: Question, gone: &dyn Fn() -> bool) -> Verdict {
        let mut book = self.book();
        let Some(action) = book.fire(question) else { return Verdict::Go };
        match action {
            Action::Error(code) => Verdict::Code(code),
            Action::Terminal(true) => Verdict::Terminal,
            Action::Then304(true) => Verdict::Then304,
            Action::DelayMs(millis) => {
                drop(book);
                thread::sleep(Duration::from_millis(millis));
                Verdict::Go
            }
            Action::Hang(true) => {
                self.wait(book, question, true, &|| gone() || question.caller.is_some_and(has_ended));
                Verdict::Go
            }
            Action::Hold(true) => {
                self.wait(book, question, false, gone);
                Verdict::Go
            }
            Action::KillTarget(true) => {
                drop(book);
                end(Some(question.pid));
                Verdict::Go
            }
            Action::KillCaller(true) => {
                drop(book);
                end(question.caller);
                Verdict::Go
            }
            Action::Hang(false)
            | Action::Hold(false)
            | Action::Terminal(false)
            | Action::Then304(false)
            | Action::KillTarget(false)
            | Action::KillCaller(false) => Verdict::Go,
        }
    }

    fn wait(&self, mut book: MutexGuard<'_, Book>, question: Question, hang: bool, over: &dyn Fn() -> bool) {
        book.tickets += 1;
        let ticket = book.tickets;
        let Question { call, phase, pid, .. } = question;
        book.held.push((ticket, Held { call, phase, pid, hang }));
        self.0.1.notify_all();
        while book.held.iter().any(|(other, _)| *other == ticket) {
            if over() {
                book.held.retain(|(other, _)| *other != ticket);
                break;
            }
            book = self.0.1.wait_timeout(book, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// Counts the question in every rule that it fits; the first whose turn it is acts.
    fn fire(&mut self, question: Question) -> Option<Action> {
        if question.phase == Phase::Before {
            *self.calls.entry(question.call).or_default() += 1;
        }
        let mut action = None;
        for (rule, seen) in &mut self.rules {
            let fits = rule.call == question.call
                && rule.phase == question.phase
                && rule.pid.is_none_or(|pid| pid == question.pid);
            if !fits {
                continue;
            }
            *seen += 1;
            if action.is_none() && (rule.nth == 0 || rule.nth == *seen) {
                action = Some(rule.action);
            }
        }
        self.fired += u64::from(action.is_some());
        action
    }
}

/// Whether there is no such process any more, or only its name.
pub(crate) fn has_ended(pid: i32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(line) => line.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X'])),
        Err(_) => true,
    }
}

fn end(pid: Option<i32>) {
    // 0 and negative numbers would mean a group.
    if let Some(pid) = pid.filter(|pid| *pid > 1) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        // A frozen process dies only when it is thawed.
        let limit = Instant::now() + Duration::from_secs(5);
        while !has_ended(pid) && Instant::now() < limit {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(pid: i32) -> Question {
        Question { call: Call::Lock, phase: Phase::Before, pid, caller: None }
    }

    fn rule(text: &str) -> Rule {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_nth_since_it_was_set() {
        let faults = Faults::default();
        faults.set(rule(r#"{"call":"lock","nth":2,"action":{"error":999}}"#));
        assert_eq!(faults.meet(question(1), &|| false), Verdict::Go);
        assert_eq!((faults.meet(question(1), &|| false), faults.fired()), (Verdict::Code(999), 1));
        assert_eq!((faults.meet(question(1), &|| false), faults.fired()), (Verdict::Go, 1));
    }

    #[test]
    fn other_processes_and_other_calls_are_left_alone() {
        let faults = Faults::default();
        faults.set(rule(r#"{"call":"lock","phase":"after","nth":0,"pid":null,"action":{"error":1}}"#));
        faults.set(rule(r#"{"call":"lock","nth":0,"pid":7,"action":{"then-304":true}}"#));
        faults.set(rule(r#"{"call":"gettid","nth":0,"action":{"terminal":true}}"#));
        assert_eq!(faults.meet(question(8), &|| false), Verdict::Go);
        assert_eq!(faults.meet(question(7), &|| false), Verdict::Then304);
        assert_eq!(faults.meet(question(7), &|| false), Verdict::Then304);
        let after = Question { phase: Phase::After, ..question(8) };
        assert_eq!(faults.meet(after, &|| false), Verdict::Code(1));
    }

    #[test]
    fn held_until_released() {
        let faults = Faults::default();
        faults.set(rule(r#"{"call":"lock","action":{"hold":true}}"#));
        assert!(faults.await_hold(Duration::from_millis(1)).is_empty());
        let other = faults.clone();
        let asker = thread::spawn(move || other.meet(question(5), &|| false));
        let held = faults.await_hold(Duration::from_secs(10));
        assert_eq!(held, [Held { call: Call::Lock, phase: Phase::Before, pid: 5, hang: false }]);
        assert_eq!(faults.release(Some(6)), 0);
        assert_eq!(faults.release(None), 1);
        assert!(faults.held().is_empty(), "who is released is not listed, even before it has gone on");
        assert_eq!(asker.join().unwrap(), Verdict::Go);
    }

    #[test]
    fn a_hang_is_ended_by_clearing_and_by_the_end_of_the_caller() {
        let faults = Faults::default();
        faults.set(rule(r#"{"call":"lock","nth":0,"action":{"hang":true}}"#));
        let other = faults.clone();
        let asker = thread::spawn(move || other.meet(question(5), &|| false));
        assert_eq!(faults.await_hold(Duration::from_secs(10)).len(), 1);
        assert_eq!(faults.release(None), 0);
        faults.clear();
        assert_eq!(asker.join().unwrap(), Verdict::Go);

        faults.set(rule(r#"{"call":"lock","nth":0,"action":{"hang":true}}"#));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let caller = i32::try_from(child.id()).ok();
        let other = faults.clone();
        let asker = thread::spawn(move || other.meet(Question { caller, ..question(5) }, &|| false));
        assert_eq!(faults.await_hold(Duration::from_secs(10)).len(), 1);
        child.kill().unwrap();
        assert_eq!(asker.join().unwrap(), Verdict::Go);
        child.wait().unwrap();
        assert!(faults.held().is_empty());
    }

    #[test]
    fn killing_is_done_when_the_answer_comes() {
        let faults = Faults::default();
        faults.set(rule(r#"{"call":"lock","action":{"kill-target":true}}"#));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert_eq!(faults.meet(question(pid), &|| false), Verdict::Go);
        assert!(has_ended(pid));
        child.wait().unwrap();
    }
}
