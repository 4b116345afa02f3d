//! What CRIU notes about the kernel when it runs in a box, and its notes of there and of outside changed by one byte.
//!
//! CRIU probes the kernel at each start and keeps what it finds in `/run/criu.kdat`. A box has a `/run` of its own, so the notes are made
//! once, by a CRIU in a box that is there for nothing else, and lent to all others.
//!
//! The changed notes make CRIU believe in a parent that has every page (`memory_path::parent`). CRIU itself is asked whether it takes them as they are
//! meant, where it will run with them: in the same sort of box, or outside with notes that no other CRIU finds. If it does not, there are none, and memory
//! is dumped plainly.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use checkpoint_criu::CriuError;
use lifecycle::ports::{LOG, explain, make_private};
use memory_path::parent::{Doubt, believes_in_dirty_pages};
use sandbox::{BoxSpec, Launched, Program, inside, own_notes_runner};

/// How CRIU is asked to look around. What it thinks of the machine does not matter here.
const CHECK: [&str; 3] = ["--no-default-config", "--unprivileged", "check"];
/// The same outside of boxes, where it has all rights.
const CHECK_BESIDE: [&str; 2] = ["--no-default-config", "check"];
/// What it must answer for.
const DIRTY_TRACKING: [&str; 2] = ["--feature", "mem_dirty_track"];

/// A box for a look, gone with this.
struct Look<'a> {
    program: &'a Program,
    scratch: &'a Path,
    launched: Launched,
}

impl<'a> Look<'a> {
    fn begin(program: &'a Program, scratch: &'a Path) -> Result<Self, String> {
        make_private(scratch).map_err(|error| explain(&error))?;
        let spec = BoxSpec {
            id: "kernel".to_owned(),
            commands: None,
            box_dir: scratch.to_owned(),
            log: LOG.into(),
            workspace: None,
            mapped: Vec::new(),
            network: sandbox::Network::Private,
            gate: None,
            cgroup: None,
            limits: Vec::new(),
            devices: Vec::new(),
            clocks: None,
            ids: None,
        };
        let launched = sandbox::launch(program, &spec).map_err(|error| explain(&error))?;
        Ok(Self { program, scratch, launched })
    }

    fn run(&self, notes: Option<&Path>, words: &[&OsStr]) -> io::Result<Output> {
        let mut runner = inside(self.program, self.launched.holder, notes, &[]).into_iter();
        let mut command = Command::new(runner.next().unwrap_or_default());
        command.args(runner).args(words).stdin(Stdio::null()).output()
    }

    fn criu(&self, criu: &Path, notes: Option<&Path>, more: &[&str]) -> io::Result<Output> {
        let words = CHECK.iter().chain(more).map(OsStr::new);
        self.run(notes, &std::iter::once(criu.as_os_str()).chain(words).collect::<Vec<_>>())
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        let _gone = self.launched.holder.signal(sandbox::Signal::KILL);
        let _litter = fs::remove_dir_all(self.scratch);
    }
}

fn failed(detail: String) -> CriuError {
    CriuError::Kernel { detail }
}

/// What CRIU notes when it runs in a box.
pub(crate) fn in_box(program: &Program, scratch: &Path, criu: &Path) -> Result<Vec<u8>, CriuError> {
    let look = Look::begin(program, scratch).map_err(failed)?;
    let checked = look.criu(criu, None, &[]);
    let words = ["cat", "/run/criu.kdat"].map(OsStr::new);
    let notes = checked.and_then(|_| look.run(None, &words)).map_err(|error| failed(error.to_string()))?;
    match notes.status.success() {
        true => Ok(notes.stdout),
        false => Err(failed("criu did not write it".to_owned())),
    }
}

/// The notes changed, if CRIU agrees.
pub(crate) fn changed(
    program: &Program,
    scratch: &Path,
    criu: &Path,
    notes: &Path,
) -> Result<Vec<u8>, CriuError> {
    let look = Look::begin(program, scratch).map_err(failed)?;
    convinced(notes, &scratch.join("notes"), |tried| look.criu(criu, Some(tried), &DIRTY_TRACKING))
}

/// The same for a CRIU that runs beside containers, in the machine's namespaces. `scratch` is a directory.
pub(crate) fn changed_beside(
    program: &Program,
    scratch: &Path,
    criu: &Path,
    notes: &Path,
) -> Result<Vec<u8>, CriuError> {
    convinced(notes, &scratch.join("notes"), |tried| {
        let mut runner = own_notes_runner(program, tried, notes).into_iter();
        let mut command = Command::new(runner.next().unwrap_or_default());
        command.args(runner).arg(criu).args(CHECK_BESIDE).args(DIRTY_TRACKING);
        command.stdin(Stdio::null()).output()
    })
}

/// Notes changed, if CRIU takes them as they are meant: `ask` asks it about those in `tried`.
fn convinced(
    notes: &Path,
    tried: &Path,
    ask: impl Fn(&Path) -> io::Result<Output>,
) -> Result<Vec<u8>, CriuError> {
    let bytes = fs::read(notes).map_err(CriuError::io("read", notes))?;
    let asked = |notes: &[u8]| -> Result<bool, Doubt> {
        let io = |what, source| Doubt::Io { what, path: tried.to_owned(), source };
        fs::write(tried, notes).map_err(|source| io("write", source))?;
        Ok(ask(tried).map_err(|source| io("ask about", source))?.status.success())
    };
    believes_in_dirty_pages(&bytes, asked).map_err(|doubt| failed(explain(&doubt)))
}
