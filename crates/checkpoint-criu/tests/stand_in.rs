//! Conversations with a stand-in for CRIU that misbehaves: what is left of them does not depend on CRIU's good will. No root needed.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use checkpoint_criu::{
    ComingBack, Criu, CriuError, DumpOptions, DumpStats, Leave, Leaving, LeftOut, MemoryPath, NoHooks,
    RestoreOptions, Runner, TreeState, WayBack, WayOut,
};
use tempfile::TempDir;

/// A CRIU whose part is played by `script`; its arguments are those that CRIU would get.
fn stand_in(script: &str) -> (Criu, Runner) {
    let criu = Criu::find(Some(Path::new("/bin/true"))).unwrap();
    (criu, Runner(["sh", "-c", script].into_iter().map(Into::into).collect()))
}

struct Place {
    _dir: TempDir,
    images: PathBuf,
    logs: PathBuf,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let (images, logs) = (dir.path().join("images"), dir.path().join("logs"));
    fs::create_dir(&images).unwrap();
    fs::create_dir(&logs).unwrap();
    Place { images, logs, _dir: dir }
}

/// Something to dump.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("60").spawn().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn dump_with(script: &str) -> CriuError {
    dump_within(Duration::from_secs(60), script)
}

fn dump_within(limit: Duration, script: &str) -> CriuError {
    let (criu, runner) = stand_in(script);
    let (place, sleeper) = (place(), Sleeper::new());
    let mut options = DumpOptions::new(i32::try_from(sleeper.0.id()).unwrap(), &place.images, &place.logs);
    options.runner = runner;
    options.time_limit = limit;
    criu.dump(&options, &mut NoHooks).unwrap_err()
}

#[test]
fn one_that_ends_at_once_is_quoted() {
    let error = dump_with("echo 'criu: error while loading shared libraries' >&2; exit 127");
    assert_eq!(error.code(), "IJ-K013");
    assert_eq!(error.tree(), Some(TreeState::Running));
    assert!(error.to_string().contains("code 127"), "{error}");
    assert_eq!(error.evidence().unwrap().lines, ["criu: error while loading shared libraries"]);
}

#[test]
fn one_that_talks_nonsense_is_not_believed() {
    // Field 1 as a string; and a message that says "success" of something else than was asked.
    for (script, word) in [
        ("printf '\\012\\003abc' >&0; cat >/dev/null", "decoded"),
        ("printf '\\010\\012\\020\\001' >&0", "dump"),
    ] {
        let error = dump_with(script);
        assert!(matches!(error.code(), "IJ-K013" | "IJ-K010"), "{error}");
        assert_eq!(error.tree(), Some(TreeState::Running));
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn a_dump_that_does_not_let_go_is_killed() {
    let begun = Instant::now();
    let error = dump_within(Duration::from_millis(200), "sleep 120");
    assert!(matches!(error, CriuError::Timeout { .. }), "{error}");
    assert_eq!(error.tree(), Some(TreeState::Running), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn what_a_silent_restore_has_started_is_ended() {
    let (criu, runner) = stand_in("sh -c 'echo $$ >\"$0\"; sleep 60; :' \"$3/../pid\" & sleep 60");
    let place = place();
    let mut options = RestoreOptions::new(&place.images, &place.logs);
    options.runner = runner;
    options.time_limit = Duration::from_millis(1500);
    let begun = Instant::now();
    let error = criu.restore(&options, &mut NoHooks).unwrap_err();
    assert!(matches!(error, CriuError::Timeout { .. }), "{error}");
    assert_eq!(error.tree(), Some(TreeState::Cleared), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let child = fs::read_to_string(place.logs.join("pid")).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.trim()));
    assert!(stat.as_ref().map_or(true, |stat| stat.contains(") Z ")), "{stat:?}");
}

#[test]
fn criu_is_asked_for_nothing_but_what_we_say() {
    let error = dump_with("echo \"$0 $*\" >&2; ls -A \"$3\" >&2");
    let lines = &error.evidence().unwrap().lines;
    let words: Vec<&str> = lines[0].split(' ').collect();
    assert_eq!(words[0], "/bin/true");
    assert_eq!(words[1..3], ["--no-default-config", "--libdir"]);
    assert_eq!(words[4..], ["swrk", "0"]);
    assert_eq!(lines.len(), 1, "plugins: {lines:?}");
}

/// Claims to have every page already.
#[derive(Clone, Copy, Debug)]
struct Claims;

impl MemoryPath for Claims {
    fn leave(&self, _: &Leaving<'_>) -> Result<Box<dyn WayOut>, String> {
        Ok(Box::new(Self))
    }

    fn come_back(&self, _: &ComingBack<'_>) -> Result<Box<dyn WayBack>, String> {
        Err("not asked for here".to_owned())
    }
}

impl WayOut for Claims {
    fn parent(&self) -> Option<PathBuf> {
        Some("../claims".into())
    }

    fn frozen(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn thawed(self: Box<Self>, _: &Path, _: Option<&DumpStats>) -> Result<Option<Arc<dyn LeftOut>>, String> {
        Ok(None)
    }
}

#[test]
fn pages_are_left_out_by_a_parent_that_has_them() {
    let (criu, runner) = stand_in("dd bs=64k count=1 2>/dev/null | od -An -v -tx1 | tr -d ' \\n' >&2");
    let (place, sleeper) = (place(), Sleeper::new());
    let mut options = DumpOptions::new(i32::try_from(sleeper.0.id()).unwrap(), &place.images, &place.logs);
    options.runner = runner;
    options.memory = Arc::new(Claims);
    let error = criu.dump(&options, &mut NoHooks).unwrap_err();
    let asked = error.evidence().unwrap().lines.concat();
    // Field 14, nine bytes, `../claims`; field 15, true.
    assert!(asked.contains("72092e2e2f636c61696d737801"), "{asked}");

    // Without its tree nobody could answer for what was left out.
    options.leave = Leave::Ended;
    assert_eq!(criu.dump(&options, &mut NoHooks).unwrap_err().code(), "IJ-K021");
}
