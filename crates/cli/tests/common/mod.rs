//! A directory with stores in it, and the real program to work on them.
#![allow(dead_code, reason = "each test program uses its own part")]
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

pub(crate) mod daemon;
pub(crate) mod home;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_infinijup");

pub(crate) struct Sandbox {
    dir: TempDir,
    /// Whether commands are about the store in `.infinijup` here, and not about a daemon's.
    in_folder: bool,
}

/// What a run of the program gave.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) bytes: Vec<u8>,
}

impl Sandbox {
    /// One whose commands are about the store of a daemon.
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), in_folder: false }
    }

    /// One whose commands are about a store in a folder, which is not there yet.
    pub(crate) fn for_store() -> Self {
        Self { in_folder: true, ..Self::new() }
    }

    /// The same with an empty store.
    pub(crate) fn with_store() -> Self {
        let sandbox = Self::for_store();
        sandbox.ok(["store", "init"]);
        sandbox
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Where a daemon for this directory would listen.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path("daemon.sock")
    }

    pub(crate) fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// The program, in this directory, with nothing of the tester's own settings.
    pub(crate) fn command(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(BINARY);
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null()).env("LC_ALL", "C.UTF-8");
        for name in ["STORE", "PASSPHRASE_FILE", "KEY_FILE", "STATE", "SETTINGS"] {
            command.env_remove(format!("INFINIJUP_{name}"));
        }
        if self.in_folder {
            command.env("INFINIJUP_STORE", self.path(".infinijup"));
        }
        command.env_remove("NO_COLOR").env("INFINIJUP_SOCKET", self.socket());
        command
    }

    pub(crate) fn run(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Ran {
        Ran::from(self.command(args).output().unwrap())
    }

    /// A run that must succeed.
    #[track_caller]
    pub(crate) fn ok(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran
    }

    /// A run with `--json` that must succeed. Every line must be as `docs/scripting.md` says.
    #[track_caller]
    pub(crate) fn json<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Vec<Value> {
        let ran = self.run(args.into_iter().chain(["--json"]));
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.json()
    }

    /// A run that must fail with this exit code and error code; both with and without `--json`.
    #[track_caller]
    pub(crate) fn fails<'a>(&self, exit: i32, code: &str, args: impl IntoIterator<Item = &'a str>) -> Ran {
        let (ran, json) = self.fails_midway(exit, code, args);
        json.json();
        ran
    }

    /// The same for a command that may have printed something by then that is not JSON: plain, and with `--json`.
    #[track_caller]
    pub(crate) fn fails_midway<'a>(
        &self,
        exit: i32,
        code: &str,
        args: impl IntoIterator<Item = &'a str>,
    ) -> (Ran, Ran) {
        let args: Vec<&str> = args.into_iter().collect();
        let ran = self.run(&args);
        assert_eq!(ran.code, exit, "{ran:?}");
        assert!(ran.err.contains(&format!("error[{code}]: ")), "{ran:?}");
        let json = self.run(args.iter().copied().chain(["--json"]));
        assert_eq!(json.code, exit, "{json:?}");
        let last: Value = serde_json::from_str(json.err.lines().last().unwrap()).unwrap();
        assert_eq!(
            (&last["message_type"], &last["code"], &last["exit"]),
            (&"exit_error".into(), &code.into(), &exit.into())
        );
        (ran, json)
    }

    /// A snapshot of `work`, with this message.
    #[track_caller]
    pub(crate) fn commit<'a>(&self, message: &'a str, more: impl IntoIterator<Item = &'a str>) -> String {
        let args = ["debug", "commit", "--message", message].into_iter().chain(more);
        self.json(args)[0]["commit"].as_str().unwrap().to_owned()
    }

    /// Every file below a directory of this sandbox, with its content.
    pub(crate) fn files(&self, name: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut todo = vec![self.path(name)];
        while let Some(directory) = todo.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    todo.push(path);
                } else {
                    found.insert(path.clone(), std::fs::read(path).unwrap());
                }
            }
        }
        found
    }

    /// The packs of the default store, largest first.
    pub(crate) fn packs(&self) -> Vec<PathBuf> {
        let mut packs: Vec<_> = self
            .files(".infinijup/objects")
            .into_iter()
            .map(|(path, content)| (content.len(), path))
            .collect();
        packs.sort_by_key(|(len, _)| std::cmp::Reverse(*len));
        packs.into_iter().map(|(_, path)| path).collect()
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            bytes: output.stdout,
        }
    }
}

impl Ran {
    /// The lines of stdout, after a look at all lines.
    #[track_caller]
    pub(crate) fn json(&self) -> Vec<Value> {
        let parse = |line: &str| {
            serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        let lines: Vec<Value> = self.out.lines().map(parse).collect();
        let errors = self.err.lines().map(parse);
        for line in lines.iter().cloned().chain(errors) {
            check_fields(&line);
        }
        lines
    }
}

/// Fields that the documentation says are not always there.
const OPTIONAL: &[(&str, &[&str])] =
    &[("commit", &["lane", "edges"]), ("snapshot", &["here"]), ("diff", &["texts"])];

/// The top-level fields of a line must be those of the example in `docs/scripting.md`.
#[track_caller]
fn check_fields(line: &Value) {
    let kind = line["message_type"].as_str().expect("a message_type");
    let documented =
        documented().remove(kind).unwrap_or_else(|| panic!("`{kind}` is not in docs/scripting.md"));
    let optional = OPTIONAL.iter().find(|(name, _)| *name == kind).map_or(&[][..], |(_, fields)| fields);
    let found: BTreeSet<String> = line.as_object().unwrap().keys().cloned().collect();
    for field in found.symmetric_difference(&documented) {
        assert!(
            optional.contains(&field.as_str()),
            "field `{field}` of `{kind}` is not as docs/scripting.md says: {line}"
        );
    }
}

/// The examples in `docs/scripting.md`: which fields each sort of line has.
pub(crate) fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scripting.md")).unwrap();
    let mut kinds = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("{\"message_type\"")) {
        let example: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let fields = example.as_object().unwrap().keys().cloned().collect();
        kinds.insert(example["message_type"].as_str().unwrap().to_owned(), fields);
    }
    kinds
}
