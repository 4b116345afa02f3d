//! What the tests share: a process that does what it is told, as an ordinary user, and a sink in memory.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use memory_path::{PAGE, PAGE_BYTES, PageSink, Run, SinkError, Task};
use sandbox::User;

/// A user whom nobody knows; root is needed to become them. Whoever else runs the tests is an ordinary user already.
pub(crate) fn somebody() -> User {
    if !rustix::process::geteuid().is_root() {
        return User::current().expect("we are somebody");
    }
    let uid = 2_000_000 + std::process::id() % 1_000_000;
    User {
        uid,
        gid: uid,
        groups: vec![uid],
        name: format!("ij{uid}"),
        home: "/nonexistent".into(),
        shell: "/bin/sh".into(),
    }
}

/// Does the work of a test with the rights of the user whose process it is about.
pub(crate) fn as_somebody<T: Send>(user: &User, work: impl FnOnce() -> T + Send) -> T {
    sandbox::as_user(user, work).expect("root may")
}

/// A directory that everybody may look into, with a program of C compiled into it.
pub(crate) fn compiled(source: &str, more: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    let (file, program) = (directory.path().join("program.c"), directory.path().join("program"));
    fs::write(&file, source).expect("the source");
    let words = ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"];
    let done = Command::new("cc").args(words).arg(&program).arg(&file).args(more).status();
    assert!(done.expect("there is a C compiler").success());
    (directory, program)
}

/// A command of the user's.
pub(crate) fn command(user: &User, program: &Path) -> Command {
    if user.uid == rustix::process::geteuid().as_raw() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    let id = user.uid.to_string();
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--no-new-privs", "--"]).arg(program);
    command
}

/// A process that does to its memory what it is told.
pub(crate) struct Victim {
    pub(crate) user: User,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _directory: tempfile::TempDir,
}

impl Victim {
    pub(crate) fn new() -> Self {
        let user = somebody();
        let (directory, program) = compiled(include_str!("victim.c"), &[]);
        let mut child =
            command(&user, &program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut victim = Self { user, child, input, output, _directory: directory };
        assert_eq!(victim.line(), "ready");
        victim
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id().try_into().expect("pids fit")
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        line.trim().to_owned()
    }

    pub(crate) fn tell(&mut self, command: &str) {
        writeln!(self.input, "{command}").expect("it listens");
    }

    /// A command with numbers, and its answer.
    pub(crate) fn ask(&mut self, command: &str, numbers: &[u64]) -> String {
        let numbers: String = numbers.iter().map(|number| format!(" {number:x}")).collect();
        self.tell(&format!("{command}{numbers}"));
        self.line()
    }

    /// A command that is only done.
    pub(crate) fn does(&mut self, command: &str, numbers: &[u64]) {
        assert_eq!(self.ask(command, numbers), "done", "{command}");
    }

    /// A command that answers with a number.
    pub(crate) fn number(&mut self, command: &str, numbers: &[u64]) -> u64 {
        let answer = self.ask(command, numbers);
        u64::from_str_radix(&answer, 16).unwrap_or_else(|_| panic!("{command}: {answer}"))
    }

    /// New pages, each written to.
    pub(crate) fn pages(&mut self, count: u64) -> Run {
        let start = self.number("map", &[count]);
        let run = Run { start, end: start + count * PAGE };
        self.does("fill", &[start, count, 1, 0x11]);
        run
    }

    /// Writes to one page.
    pub(crate) fn write(&mut self, address: u64, byte: u64) {
        self.does("fill", &[address, 1, 1, byte]);
    }

    /// The signal that has ended it.
    pub(crate) fn ended_by(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        self.child.wait().expect("it ends").signal()
    }

    /// It says that it is there again, after an `exec`.
    pub(crate) fn is_ready_again(&mut self) {
        assert_eq!(self.line(), "ready");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The parts of runs that are in this one.
pub(crate) fn within(runs: &[Run], whole: Run) -> Vec<Run> {
    let cut = |run: &Run| Run { start: run.start.max(whole.start), end: run.end.min(whole.end) };
    runs.iter().filter(|run| run.start < whole.end && run.end > whole.start).map(cut).collect()
}

/// Pages in memory. It can be told to fail.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) pages: HashMap<(Task, u64), Box<[u8]>>,
    /// So many more calls succeed, then one fails.
    pub(crate) fails_after: Option<usize>,
}

impl PageSink for Kept {
    fn put(&mut self, task: Task, start: u64, pages: &[u8]) -> Result<(), SinkError> {
        if let Some(left) = self.fails_after {
            self.fails_after = left.checked_sub(1);
            if left == 0 {
                return Err("the disk is full".into());
            }
        }
        assert!(!pages.is_empty() && pages.len().is_multiple_of(PAGE_BYTES) && start.is_multiple_of(PAGE));
        for (number, page) in pages.chunks(PAGE_BYTES).enumerate() {
            self.pages.insert((task, start + number as u64 * PAGE), page.into());
        }
        Ok(())
    }

    fn forget(&mut self, task: Task, run: Run) -> Result<(), SinkError> {
        for address in run.addresses() {
            self.pages.remove(&(task, address));
        }
        Ok(())
    }

    fn holds(&mut self, task: Task, address: u64, page: &[u8]) -> Result<bool, SinkError> {
        Ok(self.pages.get(&(task, address)).is_some_and(|kept| **kept == *page))
    }
}

impl Kept {
    /// Gives a page back; `false` if it has none.
    pub(crate) fn get(
        &self,
        task: Task,
        address: u64,
        into: &mut [u8; PAGE_BYTES],
    ) -> Result<bool, SinkError> {
        let found = self.pages.get(&(task, address));
        if let Some(page) = found {
            into.copy_from_slice(page);
        }
        Ok(found.is_some())
    }
}
