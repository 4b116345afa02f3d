//! Idle or busy, out of what a kernel says about itself.
//!
//! A kernel publishes `busy` and `idle` around everything that it is asked, on whichever channel, so the words alone say
//! little: a page that completes a name makes it busy, and a look through the control channel makes it idle in the midst of
//! a cell. What counts is the request that each status belongs to. A kernel is busy while a request that runs the user's
//! code is under way, and idle otherwise; what we ask ourselves never counts.
//!
//! After a connection was made anew nobody says what is under way, because a status is told once. So the shell is asked
//! something (`kernel_info_request`): it answers at once when nothing runs, and after the cell when one does. While there is
//! no answer the state is unknown, and after a second of silence the kernel is taken to be busy.

use std::collections::VecDeque;

use jupyter_protocol::{ExecuteInput, ExecutionState};

use super::message::Head;

/// The longest first line of a cell that is told, in characters.
const LINE: usize = 120;

/// More requests than this at once are not told apart.
const AT_ONCE: usize = 64;

/// What a kernel is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// The user's code runs.
    Busy,
    /// It waits.
    Idle,
    /// It cannot be told yet, or not any more.
    Unknown,
}

/// What a kernel is doing, and with which cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// Whether it works.
    pub doing: Doing,
    /// The number of the cell that runs or ran last.
    pub number: Option<u32>,
    /// Its first line.
    pub cell: Option<String>,
    /// Counts requests that ran the user's code: it has changed if something ran.
    pub runs: u64,
}

/// Keeps the account.
#[derive(Debug)]
pub(crate) struct Activity {
    /// Ids of the requests under way that run the user's code.
    under_way: VecDeque<String>,
    /// Those of them that were under way when the shell was last asked something.
    asked_behind: Vec<String>,
    /// Whether the shell has shown since the last connection that it answers.
    shell: Shell,
    number: Option<u32>,
    cell: Option<String>,
    runs: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shell {
    Unknown,
    Silent,
    Answers,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self {
            under_way: VecDeque::new(),
            asked_behind: Vec::new(),
            shell: Shell::Unknown,
            number: None,
            cell: None,
            runs: 0,
        }
    }

    pub(crate) fn status(&self) -> Status {
        let doing = match self.shell {
            _ if !self.under_way.is_empty() => Doing::Busy,
            Shell::Answers => Doing::Idle,
            Shell::Silent => Doing::Busy,
            Shell::Unknown => Doing::Unknown,
        };
        Status { doing, number: self.number, cell: self.cell.clone(), runs: self.runs }
    }

    /// The kernel may be another one now: nothing is known of what it does.
    pub(crate) fn anew(&mut self) {
        self.under_way.clear();
        self.asked_behind.clear();
        self.shell = Shell::Unknown;
        (self.number, self.cell) = (None, None);
    }

    /// The shell is being asked something of ours.
    pub(crate) fn shell_asked(&mut self) {
        self.asked_behind = self.under_way.iter().cloned().collect();
    }

    /// It has answered.
    pub(crate) fn shell_answered(&mut self) {
        self.shell = Shell::Answers;
        // It answers in order, so what came before our question is done: a kernel that is listened to too slowly drops what
        // it publishes, and with it may go the word that a cell has ended. What came after it is another matter.
        let behind = std::mem::take(&mut self.asked_behind);
        self.under_way.retain(|id| !behind.contains(id));
    }

    /// The shell has not answered for a while.
    pub(crate) fn shell_is_silent(&mut self) {
        if self.shell == Shell::Unknown {
            self.shell = Shell::Silent;
        }
    }

    /// A status with its parent.
    pub(crate) fn status_came(&mut self, state: &ExecutionState, parent: &Head, ours: &str) {
        if parent.session == ours || !runs_code(&parent.msg_type) {
            return;
        }
        let known = self.under_way.iter().position(|id| *id == parent.msg_id);
        match (state, known) {
            (ExecutionState::Busy, None) => {
                if self.under_way.len() == AT_ONCE {
                    self.under_way.pop_front();
                }
                self.under_way.push_back(parent.msg_id.clone());
                self.runs = self.runs.wrapping_add(1);
            }
            (ExecutionState::Idle, known) => {
                if let Some(at) = known {
                    self.under_way.remove(at);
                } else {
                    // It began before we listened.
                    self.runs = self.runs.wrapping_add(1);
                }
                // The end of the cell that kept the shell silent.
                if self.under_way.is_empty() {
                    self.shell = Shell::Answers;
                }
            }
            _ => (),
        }
    }

    /// What is being run.
    pub(crate) fn input_came(&mut self, input: &ExecuteInput, parent: &Head, ours: &str) {
        if parent.session == ours {
            return;
        }
        self.number = u32::try_from(input.execution_count.value()).ok();
        let line = input.code.lines().map(str::trim).find(|line| !line.is_empty());
        self.cell = line.map(|line| line.chars().filter(|c| !c.is_control()).take(LINE).collect());
    }
}

/// Requests that run the user's code: cells, and callbacks of widgets.
fn runs_code(kind: &str) -> bool {
    matches!(kind, "execute_request" | "comm_msg" | "comm_open" | "comm_close")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(id: &str, kind: &str, session: &str) -> Head {
        Head { msg_id: id.to_owned(), msg_type: kind.to_owned(), session: session.to_owned() }
    }

    struct Scene(Activity);

    impl Scene {
        fn says(&mut self, state: ExecutionState, id: &str, kind: &str, session: &str) -> Doing {
            self.0.status_came(&state, &head(id, kind, session), "us");
            self.0.status().doing
        }
    }

    #[test]
    fn a_cell_makes_it_busy_and_nothing_else_does() {
        let mut scene = Scene(Activity::new());
        assert_eq!(scene.0.status().doing, Doing::Unknown);
        scene.0.shell_answered();
        for kind in ["kernel_info_request", "complete_request", "history_request"] {
            assert_eq!(scene.says(ExecutionState::Busy, "a", kind, "page"), Doing::Idle, "{kind}");
        }
        assert_eq!(scene.says(ExecutionState::Busy, "mine", "execute_request", "us"), Doing::Idle);
        assert_eq!(scene.0.status().runs, 0);
        assert_eq!(scene.says(ExecutionState::Busy, "1", "execute_request", "page"), Doing::Busy);
        // A look through the control channel in the midst of it.
        assert_eq!(scene.says(ExecutionState::Idle, "2", "kernel_info_request", "page"), Doing::Busy);
        assert_eq!(scene.says(ExecutionState::Idle, "1", "execute_request", "page"), Doing::Idle);
        assert_eq!(scene.0.status().runs, 1);
    }

    #[test]
    fn two_at_once_are_told_apart() {
        let mut scene = Scene(Activity::new());
        scene.says(ExecutionState::Busy, "1", "execute_request", "page");
        scene.says(ExecutionState::Busy, "2", "comm_msg", "page");
        assert_eq!(scene.says(ExecutionState::Idle, "1", "execute_request", "page"), Doing::Busy);
        assert_eq!(scene.says(ExecutionState::Idle, "2", "comm_msg", "page"), Doing::Idle);
    }

    #[test]
    fn a_cell_that_was_restored_ends() {
        let mut scene = Scene(Activity::new());
        scene.says(ExecutionState::Busy, "1", "execute_request", "page");
        scene.0.anew();
        assert_eq!(scene.0.status().doing, Doing::Unknown);
        scene.0.shell_is_silent();
        assert_eq!(scene.0.status().doing, Doing::Busy);
        assert_eq!(scene.says(ExecutionState::Idle, "0", "execute_request", "page"), Doing::Idle);
    }

    #[test]
    fn an_idle_that_was_lost_does_not_keep_it_busy() {
        let mut scene = Scene(Activity::new());
        scene.says(ExecutionState::Busy, "1", "execute_request", "page");
        scene.0.shell_asked();
        scene.says(ExecutionState::Busy, "2", "execute_request", "page");
        scene.0.shell_answered();
        assert_eq!(scene.0.status().doing, Doing::Busy, "2 came after the question");
        assert_eq!(scene.says(ExecutionState::Idle, "2", "execute_request", "page"), Doing::Idle);
    }

    #[test]
    fn the_first_line_is_told_and_is_short() {
        let mut activity = Activity::new();
        let code = format!("\n  \n\tx = '{}'\u{7}\nprint(x)", "y".repeat(500));
        let input = ExecuteInput { code, execution_count: 7.into() };
        activity.input_came(&input, &head("1", "execute_request", "page"), "us");
        let status = activity.status();
        assert_eq!(status.number, Some(7));
        assert!(status.cell.as_ref().is_some_and(|line| line.starts_with("x = 'yyy") && line.len() == LINE));
    }
}
