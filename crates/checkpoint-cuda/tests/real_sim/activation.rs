//! The helper as systemd would start it: one process for each connection.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::machine::{Machine, PYTHON, script, wait_until};

const HELPER: &str = env!("CARGO_BIN_EXE_infinijup-gpu-helper");

/// The capabilities that the unit leaves it, in the words of setpriv(1).
fn capabilities() -> String {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/systemd/infinijup-gpu@.service");
    let unit = fs::read_to_string(unit).unwrap();
    let set = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let names = set.split_whitespace().map(|name| name.strip_prefix("CAP_").unwrap().to_lowercase());
    names.fold("-all".to_owned(), |all, name| format!("{all},+{name}"))
}

/// Listens, as root, where workers of this machine look for the helper.
pub(crate) struct Activation {
    activator: Child,
    log: PathBuf,
}

impl Activation {
    pub(crate) fn start(machine: &Machine) -> Self {
        let log = machine.home.join("helper.log");
        // What the activator has no more, the helpers have not either.
        let mut activator = Command::new("setpriv")
            .args(["--no-new-privs", "--inh-caps=-all", "--bounding-set", &capabilities()])
            .args([PYTHON, &script("activator.py")])
            .arg(Self::socket(machine))
            .arg(&log)
            .arg(HELPER)
            .env("LD_LIBRARY_PATH", machine.home.join("lib"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(activator.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        Self { activator, log }
    }

    /// As `INFINIJUP_GPU_HELPER` names it.
    pub(crate) fn socket(machine: &Machine) -> PathBuf {
        machine.home.join("helper.sock")
    }

    /// How many helpers have asked the driver, and how many have refused to; none has ended in another way, nor said a word.
    #[track_caller]
    pub(crate) fn ended(&self) -> (usize, usize) {
        let codes = fs::read_to_string(&self.log).unwrap();
        let count = |code: &str| codes.lines().filter(|line| *line == code).count();
        assert_eq!(count("0") + count("1"), codes.lines().count(), "{codes}");
        assert_eq!(fs::read_to_string(self.log.with_extension("log.err")).unwrap(), "");
        (count("0"), count("1"))
    }

    /// Waits until so many have ended.
    pub(crate) fn await_ends(&self, number: usize) {
        wait_until("the end of all helpers", || {
            let (served, refused) = self.ended();
            served + refused >= number
        });
    }
}

impl Drop for Activation {
    fn drop(&mut self) {
        drop(self.activator.stdin.take());
        let _ = self.activator.wait();
    }
}
