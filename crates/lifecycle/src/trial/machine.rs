//! A machine for trials: real processes that do nothing, and a checkpointer that needs neither root nor CRIU.
//!
//! A tree is one `sleep`. What it has in memory is one number, kept in a file that is named after the process; a dump writes it into
//! images of CRIU's form, as a page, and a restore starts a `sleep` and gives it the number out of such images. Stopping, going on and
//! ending are the kernel's own. So whatever a pipeline leaves behind can be looked at from outside: who lives, who stands still, and
//! with which memory. What it has on a GPU is the driver's to know ([`super::gpu`]); taken off it, that is a second number in memory.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use checkpoint_criu::images::{Inventory, PagemapEntry, PstreeEntry};
use checkpoint_criu::{CriuError, DumpStats, Dumped, Event, Hooks, Leave};
use prost::Message;
use rustix::process::Signal;
use sandbox::process::Identity;
use sandbox::{Commands, DeviceNode, Program};
use session_record::{Record, SessionId};
use workspace::Places;

use super::fuse::{outlive, pass, request};
use super::gpu::State;
use crate::error::{LifecycleError, Result};
use crate::ports::{
    Checkpointer, DumpWanted, Examine, Habitat, HabitatKind, Hold, Made, RestoreWanted, Saving, Tree,
};

/// The number that a process has in memory when it was started and not restored.
pub(crate) const FRESH: u8 = 100;
/// Where the page with the number is.
const ADDRESS: u64 = 0x10_0000;
const PAGE: usize = 4096;

/// What a process has in memory: its number, and the one that was on the GPU, or 0.
type Memory = [u8; 2];

/// The machine.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// Has a file for each process, `<session>-<pid>-<start time>`, with what it has in memory.
    pub(super) processes: PathBuf,
    /// Those that this daemon has made to stand by.
    beside: Arc<Mutex<Vec<Identity>>>,
}

impl Machine {
    pub(crate) fn at(home: &Path) -> Self {
        let processes = home.join("machine");
        fs::create_dir_all(&processes).unwrap();
        Self { processes, beside: Arc::default() }
    }

    /// The processes of all sessions that live: whose, which, and what it has in memory.
    pub(crate) fn living(&self) -> Vec<(String, Identity, Memory)> {
        let mut found = Vec::new();
        for item in fs::read_dir(&self.processes).unwrap() {
            let path = item.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let [session, pid, start_time] = name.split('-').collect::<Vec<_>>()[..] else {
                panic!("{name}")
            };
            let identity = Identity { pid: pid.parse().unwrap(), start_time: start_time.parse().unwrap() };
            if identity.is_alive() {
                found.push((session.to_owned(), identity, fs::read(&path).unwrap().try_into().unwrap()));
            }
        }
        found
    }

    /// The processes of one session that live.
    pub(crate) fn of(&self, session: &str) -> Vec<(Identity, u8)> {
        let own = |(whose, identity, [number, _]): (String, Identity, Memory)| {
            (whose == session).then_some((identity, number))
        };
        self.living().into_iter().filter_map(own).collect()
    }

    fn worker(&self) -> PathBuf {
        self.processes.with_extension("worker")
    }

    /// Whether somebody still works for a daemon that is gone.
    pub(crate) fn is_worked_on(&self) -> bool {
        let Ok(text) = fs::read_to_string(self.worker()) else { return false };
        let (pid, start_time) = text.split_once(' ').unwrap();
        Identity { pid: pid.parse().unwrap(), start_time: start_time.parse().unwrap() }.is_alive()
    }

    fn file(&self, session: &str, process: Identity) -> PathBuf {
        self.processes.join(format!("{session}-{}-{}", process.pid, process.start_time))
    }

    /// The program in a session computes something.
    pub(crate) fn compute(&self, session: &str, number: u8) {
        let [(process, _)] = self.of(session)[..] else { panic!("session {session} has not one process") };
        self.remember(process, [number, 0]);
        if self.on_gpu(process).is_some() {
            self.set_on_gpu(process, (State::Running, number));
        }
    }

    /// Starts a process. Its parent is gone when this returns, as with a box.
    fn spawn(&self, session: &str, memory: Memory) -> Identity {
        let process = detached("exec sleep 1000");
        fs::write(self.file(session, process), memory).unwrap();
        process
    }

    /// A process has something else in memory.
    pub(super) fn remember(&self, process: Identity, memory: Memory) {
        fs::write(self.file(&self.session_of(process).0, process), memory).unwrap();
    }

    /// Ends what is left.
    pub(crate) fn clear(&self) {
        for (_, process, _) in self.living() {
            let _gone = process.signal(Signal::KILL);
        }
    }

    fn end_of(&self, session: &str) {
        let beside = self.beside().clone();
        for (process, _) in self.of(session).into_iter().filter(|(process, _)| !beside.contains(process)) {
            Self::end(process);
        }
    }

    fn end(process: Identity) {
        let _gone = process.signal(Signal::KILL);
        assert!(process.wait_gone(Duration::from_secs(10)));
    }

    fn beside(&self) -> MutexGuard<'_, Vec<Identity>> {
        self.beside.lock().unwrap()
    }

    /// Whose a process is, and what it has in memory.
    pub(super) fn session_of(&self, process: Identity) -> (String, Memory) {
        let own = self.living().into_iter().find(|(_, identity, _)| *identity == process);
        own.map(|(session, _, memory)| (session, memory)).unwrap()
    }
}

/// Starts a process whose parent is gone when this returns.
fn detached(script: &str) -> Identity {
    let start = "setsid /bin/sh -c \"$0\" </dev/null >/dev/null 2>&1 & echo $!";
    let made = Command::new("/bin/sh").args(["-c", start, script]).current_dir("/").output().unwrap();
    let pid = String::from_utf8(made.stdout).unwrap().trim().parse().unwrap();
    Identity::of(pid).unwrap().unwrap()
}

/// Whether a process stands still.
pub(crate) fn is_stopped(process: Identity) -> bool {
    let text = fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
    text.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
}

/// Signals are not carried out at once.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..2000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{what}");
}

/// Of memory that was copied ahead.
pub(crate) const BE_SURE: &str = "be sure of the memory";

/// Dumps and restores without CRIU.
pub(crate) struct FakeCriu(pub(crate) Machine);

impl Checkpointer for FakeCriu {
    fn ready(&self) -> Result<()> {
        request("look for CRIU")
    }

    fn version(&self) -> Option<String> {
        None
    }

    fn can_serve_host(&self) -> Result<()> {
        Err(LifecycleError::BadRequest { detail: "no tree of the host in a trial".to_owned() })
    }

    fn can_fill(&self, _: HabitatKind) -> bool {
        true
    }

    fn copies_ahead(&self, _: &Tree<'_>) -> bool {
        true
    }

    fn dump(&self, _: &Tree<'_>, wanted: &DumpWanted<'_>, hooks: &mut dyn Hooks) -> Result<Dumped> {
        request("dump")?;
        outlive(|| {
            // It stops the tree long after its daemon is gone.
            let (daemon, tree) = (std::process::id(), wanted.init.pid);
            let worker =
                detached(&format!("while kill -0 {daemon}; do sleep 0.01; done; sleep 2; kill -STOP {tree}"));
            fs::write(self.0.worker(), format!("{} {}", worker.pid, worker.start_time)).unwrap();
            hooks.worker(worker.pid, worker.start_time);
        });
        // A worker that is gone: nobody has to be waited for.
        hooks.worker(i32::MAX, 1);
        let told = |event: &Event, hooks: &mut dyn Hooks| {
            hooks.event(event).map_err(|detail| LifecycleError::BadRequest { detail })
        };
        let (_, memory) = self.0.session_of(wanted.init);
        if let Some((State::Running | State::Locked, _)) = self.0.on_gpu(wanted.init) {
            return Err(LifecycleError::BadRequest { detail: "a device of the GPU is open".to_owned() });
        }
        let _gone = wanted.init.signal(Signal::STOP);
        wait_until("it does not stop", || is_stopped(wanted.init));
        pass("the tree stands still");
        let dumped = told(&Event::PreDump, hooks)
            .and_then(|()| {
                write_images(wanted.images, wanted.init, memory);
                pass("the images are written");
                request("write all of the images")
            })
            .and_then(|()| told(&Event::PostDump, hooks))
            .and_then(|()| match wanted.stored {
                // Of memory that was copied ahead one can be in doubt.
                Some(_) => request(BE_SURE).map_err(|error| in_doubt(&error)),
                None => Ok(()),
            });
        if dumped.is_err() || wanted.leave == Leave::Running {
            self.release(wanted.init);
            pass("the tree goes on");
        }
        let stats = DumpStats { frozen_us: 1, ..DumpStats::default() };
        dumped.map(|()| Dumped { stats, left_out: None })
    }

    fn restore(&self, _: &Tree<'_>, wanted: &RestoreWanted<'_>, hooks: &mut dyn Hooks) -> Result<i32> {
        request("restore")?;
        let session = wanted.log_dir.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let memory = memory_in(wanted.images);
        let process = self.0.spawn(&session, memory);
        if memory[1] != 0 {
            self.0.set_on_gpu(process, (State::Checkpointed, 0));
        }
        let pid = process.pid;
        if wanted.hold.is_some() {
            self.0.beside().push(process);
        }
        pass("processes are restored and do not run yet");
        let last = hooks
            .event(&Event::PostRestore { pid })
            .and_then(|()| hooks.event(&Event::PreResume))
            .map_err(|detail| LifecycleError::BadRequest { detail })
            .and_then(|()| match &wanted.hold {
                Some(hold) => stand(process, hold),
                None => Ok(()),
            })
            .and_then(|()| request("let the restored processes run"));
        // What it has made and nothing else: what stands by is given up beside a restore of the same session.
        if last.is_err() {
            Machine::end(process);
        }
        last.map(|()| pid)
    }

    fn release(&self, init: Identity) {
        let _gone = init.signal(Signal::CONT);
        wait_until("it does not go on", || !is_stopped(init));
    }
}

/// It stands still until it is wanted.
fn stand(process: Identity, hold: &Hold) -> Result<()> {
    let _gone = process.signal(Signal::STOP);
    wait_until("it does not stop", || is_stopped(process));
    let wanted = hold(process.pid);
    let _gone = process.signal(Signal::CONT);
    wait_until("it does not go on", || !is_stopped(process));
    if wanted { Ok(()) } else { Err(LifecycleError::BadRequest { detail: "nobody wants it".to_owned() }) }
}

fn in_doubt(error: &LifecycleError) -> LifecycleError {
    let (action, tree) = (checkpoint_criu::Action::Dump, checkpoint_criu::TreeState::Running);
    CriuError::Memory { action, reason: error.to_string(), tree }.into()
}

/// Processes without anything around them.
pub(crate) struct FakeBox(pub(crate) Machine);

impl Habitat for FakeBox {
    fn launch(&self, record: &mut Record, _: Commands, devices: Vec<DeviceNode>) -> Result<()> {
        request("launch")?;
        let process = self.0.spawn(record.id.as_str(), [FRESH, 0]);
        record.init = Some(process);
        if !devices.is_empty() {
            self.0.set_on_gpu(process, (State::Running, FRESH));
        }
        pass("processes were made");
        Ok(())
    }

    fn make_ready(&self, _: &mut Record, _: &Path, _: Vec<DeviceNode>) -> Result<()> {
        request("make a box for the restore")
    }

    fn make_beside(&self, _: &mut Record, _: &Path, _: &Path) -> Result<()> {
        request("make a box beside")
    }

    fn move_in(&self, record: &mut Record, beside: &Record) -> Result<()> {
        request("see that what stands by is fit")?;
        self.0.beside().retain(|process| Some(*process) != beside.init);
        record.init = beside.init;
        request("lead clients to what stands by")
    }

    fn end_beside(&self, beside: &Record) -> Result<()> {
        let all = std::mem::take(&mut *self.0.beside());
        let own = self.0.of(beside.id.as_str());
        all.into_iter().filter(|one| own.iter().any(|(process, _)| process == one)).for_each(Machine::end);
        Ok(())
    }

    fn end_strays(&self, record: &Record) -> Result<()> {
        let own = self.0.of(record.id.as_str()).into_iter().map(|(process, _)| process);
        own.filter(|process| Some(*process) != record.init).for_each(Machine::end);
        Ok(())
    }

    fn check_images(&self, _: &Record, _: &Path) -> Result<()> {
        request("check the images")
    }

    fn before_they_run(&self, _: &Record, _: &Path, _: Made) -> Result<()> {
        request("settle the restored processes")
    }

    fn restored_root(&self, _: &Record, pid: i32) -> Result<Option<Identity>> {
        Ok(Identity::of(pid)?)
    }

    fn saving<'a>(&'a self, _: &'a Record) -> Result<Saving<'a>> {
        Ok(Box::new(|_| request("save what is beside the tree")))
    }

    fn places(&self, record: &Record) -> Places {
        Places::of_box(&record.workspace, &record.files_at, &record.outside_copies)
    }

    fn watched(&self, _: &Record) -> Vec<PathBuf> {
        Vec::new()
    }

    fn look_inside(&self, _: &Record) -> Option<(Program, Identity)> {
        None
    }

    fn why_no_branch(&self, _: &Record) -> Option<&'static str> {
        None
    }

    fn why_no_restart(&self) -> Option<&'static str> {
        None
    }

    fn open_network(&self, _: &mut Record) {}

    fn forward(&self, _: &SessionId, _: &[u16]) -> Result<Identity> {
        Err(LifecycleError::BadRequest { detail: "no kernel in a trial".to_owned() })
    }

    fn exec(
        &self,
        _: &Record,
        _: &[OsString],
        _: &[(OsString, OsString)],
        _: &'static str,
    ) -> Result<Output> {
        request("run a command inside")?;
        Ok(Command::new("true").stdin(Stdio::null()).output().unwrap())
    }

    fn signal(&self, init: Identity, signal: Signal, _: bool) -> Result<()> {
        Ok(init.signal(signal)?)
    }

    fn thaw(&self, _: &SessionId) {}

    fn end(&self, record: &Record) -> Result<()> {
        request("end the processes")?;
        self.0.end_of(record.id.as_str());
        pass("processes were ended");
        Ok(())
    }

    fn free(&self, _: &Record) {
        pass("the machine is free of it");
    }

    fn sweep(&self, id: &SessionId) -> Result<()> {
        request("sweep")?;
        self.0.end_of(id.as_str());
        Ok(())
    }
}

/// Images of one process with one page, filled with its memory.
fn write_images(directory: &Path, process: Identity, memory: Memory) {
    let pid = u32::try_from(process.pid).unwrap();
    write_image(
        directory,
        "inventory.img",
        0x5831_3116,
        &[Inventory { img_version: 2, ..Inventory::default() }.encode_to_vec()],
    );
    let tree = PstreeEntry { pid, ppid: 0, threads: vec![pid], ..PstreeEntry::default() };
    write_image(directory, "pstree.img", 0x5027_3030, &[tree.encode_to_vec()]);
    write_image(directory, "files.img", 0x5630_3138, &[]);
    let page = PagemapEntry {
        vaddr: ADDRESS,
        compat_nr_pages: 1,
        flags: Some(1 << 2),
        nr_pages: Some(1),
        ..PagemapEntry::default()
    };
    // The head has one field, the number of the pages file.
    write_image(
        directory,
        &format!("pagemap-{pid}.img"),
        0x5608_4025,
        &[vec![0x08, 1], page.encode_to_vec()],
    );
    fs::write(directory.join("pages-1.img"), memory.repeat(PAGE / memory.len())).unwrap();
}

/// An image file: two magic numbers, then each entry with its length.
fn write_image(directory: &Path, name: &str, magic: u32, entries: &[Vec<u8>]) {
    let mut bytes = [0x5456_4319_u32.to_le_bytes(), magic.to_le_bytes()].concat();
    for entry in entries {
        bytes.extend(u32::try_from(entry.len()).unwrap().to_le_bytes());
        bytes.extend(entry);
    }
    fs::write(directory.join(name), bytes).unwrap();
}

/// The memory in the page of such images.
fn memory_in(images: &Path) -> Memory {
    let page = fs::read(images.join("pages-1.img")).unwrap();
    let memory = [page[0], page[1]];
    assert!(page.len() == PAGE && page.chunks(2).all(|bytes| *bytes == memory), "half of a page");
    memory
}

/// The number in such images, which what was on the GPU has, too.
pub(crate) fn number_in(images: &Path) -> u8 {
    let [number, on_gpu] = memory_in(images);
    assert!(on_gpu == 0 || on_gpu == number, "{number} in memory, {on_gpu} on the GPU");
    number
}

/// Nobody looks at the machine.
pub(super) struct NoDoctor;

impl Examine for NoDoctor {
    fn examine(&self, _: &mut dyn FnMut() -> std::result::Result<String, String>) -> Vec<doctor::Finding> {
        Vec::new()
    }
}
