//! An engine that does nothing but keep a list, and can be told to wait and to fail.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex};

use api::{
    AttachRequest, BranchOutcome, BranchRequest, CheckpointOutcome, CheckpointRequest, CommitView, Commits,
    CopiedFile, CopyOutOutcome, CopyOutRequest, Diff, Doctor, ErrorBody, EventKind, ExecOutcome, ExecRequest,
    FileNote, FilePolicy, FileText, ForgetOutcome, ForgetRequest, GcOutcome, JobResult, KeptFiles, Network,
    RestartRequest, RestoreRequest, RestoredOutcome, ResumeRequest, RollbackOutcome, RollbackRequest, Server,
    SessionFiles, SessionPatch, SessionPolicy, SessionState, SessionView, Signal, SignalRequest, Skipped,
    SnapshotFiles, SnapshotOutcome, SnapshotRequest, SnapshotSkipped, StartRequest, StopRequest, StoreView,
    SuspendOutcome, SuspendRequest, TagRequest, Text, Variable, Version,
};
use lifecycle::{Asked, Did, Errand, LifecycleError, SessionId};
use serde_json::Value;

use infinijupd::{Backend, Failure, Happening, Outcome, Progress};

pub(crate) struct Double {
    sessions: Mutex<Vec<SessionView>>,
    pub(crate) log: PathBuf,
    held: Mutex<bool>,
    released: Condvar,
    happenings: Mutex<(Sender<Happening>, Option<Receiver<Happening>>)>,
    pub(crate) asked: Mutex<Option<Receiver<Asked>>>,
    pub(crate) due: Mutex<Option<Receiver<Errand>>>,
    /// What kernels were answered, and how errands went.
    pub(crate) answers: Mutex<Vec<Value>>,
    pub(crate) dids: Mutex<Vec<Did>>,
    /// Why sessions were suspended.
    pub(crate) suspended: Mutex<Vec<Option<String>>>,
}

impl Double {
    pub(crate) fn new(log: PathBuf) -> Self {
        let (sender, receiver) = channel();
        Self {
            sessions: Mutex::default(),
            log,
            held: Mutex::new(true),
            released: Condvar::new(),
            happenings: Mutex::new((sender, Some(receiver))),
            asked: Mutex::default(),
            due: Mutex::default(),
            answers: Mutex::default(),
            dids: Mutex::default(),
            suspended: Mutex::default(),
        }
    }

    pub(crate) fn add(&self, name: &str) -> SessionView {
        let mut sessions = self.sessions.lock().unwrap();
        let view = SessionView {
            id: format!("{:012x}", 0xabc0_0000_0000_u64 + sessions.len() as u64),
            name: name.to_owned(),
            state: SessionState::Running,
            command: vec!["sleep".into(), "inf".into()],
            cwd: "/home".into(),
            workspace: None,
            pid: Some(4242),
            network: Network::Private,
            kernel: None,
            thread: name.to_owned(),
            head: None,
            parent: None,
            created: "2026-11-15T09:12:09Z".to_owned(),
            exit: None,
            files: FilePolicy::Open,
            memory_bytes: None,
            standby_bytes: None,
            attached: false,
            gpus: Vec::new(),
            vram_bytes: None,
            gpu_trouble: None,
            labels: BTreeMap::new(),
            notebook: None,
            policy: SessionPolicy::default(),
            operation: None,
            activity: None,
            mark: None,
            kept_files: None,
        };
        sessions.push(view.clone());
        view
    }

    pub(crate) fn set_state(&self, id: &str, state: SessionState) {
        let mut sessions = self.sessions.lock().unwrap();
        sessions.iter_mut().find(|session| session.id == id).unwrap().state = state;
    }

    /// Lets every operation go on that waits because its message is `hold`.
    pub(crate) fn release(&self) {
        *self.held.lock().unwrap() = false;
        self.released.notify_all();
    }

    pub(crate) fn tell(&self, session: &SessionView) {
        let happening = Happening {
            kind: EventKind::SnapshotTaken,
            state: None,
            session: session.id.clone(),
            commit: Some("c0ffee".to_owned()),
            activity: None,
        };
        self.happenings.lock().unwrap().0.send(happening).unwrap();
    }
}

pub(crate) fn failure(status: u16, message: &str) -> Failure {
    let (code, message) = ("TEST".to_owned(), message.to_owned());
    let body = ErrorBody {
        code,
        message,
        causes: vec!["a cause".to_owned()],
        hint: Some("a hint".to_owned()),
        exit: 14,
        field: None,
        files: Vec::new(),
    };
    Failure { status, body: Box::new(body), another_time: false }
}

impl Backend for Double {
    fn version(&self) -> Version {
        Version { version: "0".to_owned(), api: api::API_VERSION, criu: None, refusal: None }
    }

    fn doctor(&self) -> Outcome<Doctor> {
        Ok(Doctor { works: true, findings: Vec::new() })
    }

    fn check(&self, which: &str, _: &api::CheckRequest) -> Outcome<api::SnapshotCheck> {
        Ok(api::SnapshotCheck { commit: which.to_owned(), fits: true, findings: Vec::new() })
    }

    fn trust(&self, which: &str) -> Outcome<CommitView> {
        self.commit(which)
    }

    fn sessions(&self) -> Outcome<Vec<SessionView>> {
        Ok(self.sessions.lock().unwrap().clone())
    }

    fn session(&self, which: &str) -> Outcome<SessionView> {
        let sessions = self.sessions()?;
        let found = sessions.into_iter().find(|session| session.id == which || session.name == which);
        found.ok_or_else(|| LifecycleError::NoSuchSession { which: which.to_owned() }.into())
    }

    fn servers(&self, which: &str) -> Outcome<Vec<Server>> {
        self.session(which).map(|_| vec![Server { port: 8050, outside_port: 40123 }])
    }

    fn log(&self, _: &str) -> Outcome<PathBuf> {
        Ok(self.log.clone())
    }

    fn history(&self, which: Option<&str>, _: bool, _: Option<usize>) -> Outcome<Commits> {
        let mut commit = self.commit("c0ffee")?;
        which.unwrap_or("all").clone_into(&mut commit.thread);
        Ok(Commits { commits: vec![commit], threads: Vec::new() })
    }

    fn commit(&self, which: &str) -> Outcome<CommitView> {
        Ok(CommitView {
            id: which.to_owned(),
            parents: Vec::new(),
            thread: "main".to_owned(),
            tags: Vec::new(),
            time: String::new(),
            reason: "manual".to_owned(),
            automatic: false,
            message: String::new(),
            label: None,
            bytes: 1,
            new_bytes: None,
            memory_bytes: None,
            vram_bytes: None,
            frozen_us: None,
            gpu_paused_us: None,
            cell: None,
            has_notebook: true,
            has_variables: false,
            session: None,
            back_to: None,
            elsewhere: None,
        })
    }

    fn notebook(&self, which: &str) -> Outcome<Vec<u8>> {
        Ok(format!("notebook of {which}").into_bytes())
    }

    fn variables(&self, _: &str) -> Outcome<Vec<Variable>> {
        Ok(Vec::new())
    }

    fn tag(&self, request: TagRequest) -> Outcome<CommitView> {
        let tags = vec![request.name];
        Ok(CommitView { tags, ..self.commit(&request.commit)? })
    }

    fn untag(&self, name: &str) -> Outcome<()> {
        if name == "paper/fig 3" { Ok(()) } else { Err(failure(404, "no such tag")) }
    }

    fn forget(&self, request: ForgetRequest, _: &dyn Progress) -> Outcome<ForgetOutcome> {
        Ok(ForgetOutcome { forgotten: request.commits, kept: Vec::new() })
    }

    fn gc(&self, _: &dyn Progress) -> Outcome<GcOutcome> {
        Ok(GcOutcome { freed_bytes: 1, commits: 2, objects: 3 })
    }

    fn diff(&self, a: &str, b: &str) -> Outcome<Diff> {
        Err(failure(404, &format!("there is neither {a} nor {b}")))
    }

    fn store(&self) -> Outcome<StoreView> {
        Ok(StoreView { path: "/the/store".into(), used_bytes: Some(5), allowed_bytes: Some(9), remote: None })
    }

    fn start(&self, request: StartRequest, progress: &dyn Progress) -> Outcome<SessionView> {
        progress.begun("launch");
        progress.done("launch", 1500);
        Ok(self.add(&request.name.unwrap_or_else(|| "made-up".to_owned())))
    }

    fn snapshot(&self, _: &str, request: SnapshotRequest, progress: &dyn Progress) -> Outcome<JobResult> {
        progress.begun("freeze");
        progress.done("freeze", 2_000);
        progress.begun("ingest");
        progress.progress("ingest", 1, Some(2));
        match request.message.as_deref() {
            Some("hold") => {
                let held = self.held.lock().unwrap();
                drop(self.released.wait_while(held, |held| *held).unwrap());
            }
            Some("fail") => return Err(failure(409, "it is in use")),
            Some("panic") => panic!("as asked"),
            Some("skip") => {
                let head = Some("c0ffee".to_owned());
                let skipped = SnapshotSkipped { why: Skipped::TooLong, head, expected_us: Some(900_000) };
                return Ok(JobResult::Skipped(skipped));
            }
            _ => (),
        }
        progress.done("ingest", 40_000);
        Ok(JobResult::Snapshot(SnapshotOutcome {
            commit: "c0ffee".to_owned(),
            frozen_us: 2_000,
            total_us: 42_000,
            new_bytes: 1_000,
            memory_bytes: 5_000,
            vram_bytes: 0,
            gpu_paused_us: 0,
            frozen_bytes: None,
            not_captured: Vec::new(),
            warnings: Vec::new(),
            steps: Vec::new(),
        }))
    }

    fn give_up(&self, _: &str) -> Outcome<bool> {
        Ok(true)
    }

    fn rollback(&self, _: &str, request: RollbackRequest, _: &dyn Progress) -> Outcome<RollbackOutcome> {
        if request.to == "overwrites" && !request.force {
            let paths = (0..150).map(|number| format!("/home/ada/{number}").into()).collect();
            return Err(LifecycleError::FilesChanged { paths }.into());
        }
        Ok(RollbackOutcome {
            commit: request.to,
            automatic: None,
            changed_by_others: Vec::new(),
            spared: Vec::new(),
            closed_connections: Vec::new(),
            warnings: Vec::new(),
            steps: Vec::new(),
        })
    }

    fn branch(&self, _: Option<&str>, _: BranchRequest, _: &dyn Progress) -> Outcome<Vec<BranchOutcome>> {
        Ok(Vec::new())
    }

    fn suspend(&self, which: &str, request: SuspendRequest, _: &dyn Progress) -> Outcome<SuspendOutcome> {
        let session = self.session(which)?.name;
        match session.as_str() {
            "busy" => return Err(LifecycleError::Busy { session, doing: "a snapshot" }.into()),
            "asleep" => {
                return Err(LifecycleError::WrongState { session, state: "suspended", action: "" }.into());
            }
            _ => (),
        }
        self.suspended.lock().unwrap().push(request.reason);
        Ok(SuspendOutcome {
            commit: "c0ffee".to_owned(),
            freed_bytes: 1,
            freed_vram_bytes: 0,
            steps: Vec::new(),
        })
    }

    fn resume(&self, which: &str, _: ResumeRequest, _: &dyn Progress) -> Outcome<SessionView> {
        self.session(which)
    }

    fn stop(&self, which: &str, _: StopRequest, _: &dyn Progress) -> Outcome<SessionView> {
        self.session(which)
    }

    fn restart(&self, which: &str, _: RestartRequest, _: &dyn Progress) -> Outcome<SessionView> {
        self.session(which)
    }

    fn signal(&self, which: &str, request: SignalRequest) -> Outcome<()> {
        self.session(which)?;
        if request.signal == Signal::Number(0) { Err(failure(400, "no signal")) } else { Ok(()) }
    }

    fn change(&self, which: &str, patch: SessionPatch) -> Outcome<SessionView> {
        let view = self.session(which)?;
        let mut sessions = self.sessions.lock().unwrap();
        let session = sessions.iter_mut().find(|session| session.id == view.id).unwrap();
        for (key, value) in patch.labels.unwrap_or_default() {
            match value {
                Some(value) => session.labels.insert(key, value),
                None => session.labels.remove(&key),
            };
        }
        Ok(session.clone())
    }

    fn remove(&self, which: &str, discard_files: bool, _: &dyn Progress) -> Outcome<SessionView> {
        let file = FileNote { path: "/home/ada/new.csv".into(), bytes: 5 };
        let kept = KeptFiles { commit: "f".repeat(64), files: vec![file] };
        Ok(SessionView { kept_files: (!discard_files).then_some(kept), ..self.session(which)? })
    }

    fn loose_files(&self, which: &str) -> Outcome<SessionFiles> {
        Ok(SessionFiles { directory: self.session(which)?.cwd, own: true, loose: Vec::new() })
    }

    fn snapshot_files(&self, _: &str, limit: usize) -> Outcome<SnapshotFiles> {
        let file = FileNote { path: "/home/ada/new.csv".into(), bytes: 5 };
        Ok(SnapshotFiles { files: vec![file; limit.min(2)], count: 2, bytes: 10 })
    }

    fn file_text(&self, _: &str, path: &Path) -> Outcome<FileText> {
        Ok(FileText { path: path.into(), bytes: 2, text: Some("ab".to_owned()) })
    }

    fn copy_out(&self, _: &str, request: CopyOutRequest, _: &dyn Progress) -> Outcome<CopyOutOutcome> {
        let copied = |path: Text| CopiedFile { to: request.to.clone(), path };
        Ok(CopyOutOutcome {
            written: request.paths.iter().cloned().map(copied).collect(),
            skipped: Vec::new(),
        })
    }

    fn exec(&self, _: &str, request: ExecRequest, _: &dyn Progress) -> Outcome<ExecOutcome> {
        let stdout = request.argv.last().cloned().unwrap_or_default();
        Ok(ExecOutcome { status: 0, stdout, stderr: vec![0xff].into() })
    }

    fn attach(&self, request: AttachRequest, _: &dyn Progress) -> Outcome<SessionView> {
        let pid = request.pid.map(|pid| format!("pid-{pid}"));
        Ok(self.add(&pid.or(request.container.map(|one| one.which)).unwrap_or_default()))
    }

    fn checkpoint(&self, _: CheckpointRequest, _: &dyn Progress) -> Outcome<CheckpointOutcome> {
        Err(failure(403, "only root"))
    }

    fn restore(&self, _: RestoreRequest, _: &dyn Progress) -> Outcome<RestoredOutcome> {
        Err(failure(403, "only root"))
    }

    fn asked(&self) -> Option<Receiver<Asked>> {
        self.asked.lock().unwrap().take()
    }

    fn answer(&self, _: &SessionId, id: &str, answer: Option<Value>) {
        self.answers.lock().unwrap().push(answer.unwrap_or_else(|| id.into()));
    }

    fn due(&self) -> Option<Receiver<Errand>> {
        self.due.lock().unwrap().take()
    }

    fn did(&self, _: &SessionId, did: Did) {
        self.dids.lock().unwrap().push(did);
    }

    fn happenings(&self) -> Option<Receiver<Happening>> {
        self.happenings.lock().unwrap().1.take()
    }
}
