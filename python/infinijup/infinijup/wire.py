"""What the daemon sends and takes, as JSON. Made from docs/openapi.json by scripts/wire-types.py: do not edit.

A daemon may be newer or older than its client: fields are only ever added, and one that is not known is skipped.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypedDict

# What a kernel is doing, as it said itself.
ActivityState: TypeAlias = Literal["busy", "idle", "unknown"]


# How something differs.
Change: TypeAlias = Literal["added", "removed", "changed"]


# What happened.
EventKind: TypeAlias = Literal[
    "job_began",
    "job_step",
    "job_ended",
    "session_state",
    "snapshot_taken",
    "rolled_back",
    "session_removed",
    "session_changed",
    "session_activity",
    "history_changed",
    "missed",
    "other",
]


# How good a finding is.
FindingState: TypeAlias = Literal["ok", "warn", "fail"]


# How a kernel is interrupted.
InterruptMode: TypeAlias = Literal["signal", "message"]


# What a job does.
JobKind: TypeAlias = Literal[
    "start",
    "snapshot",
    "rollback",
    "branch",
    "suspend",
    "resume",
    "stop",
    "restart",
    "remove",
    "exec",
    "attach",
    "checkpoint",
    "restore",
    "forget",
    "gc",
    "copy_out",
    "push",
    "free_local",
]


# How far a job is.
JobState: TypeAlias = Literal["running", "done", "failed"]


# Which network a session sees.
Network: TypeAlias = Literal["private", "host"]


# What a session is doing.
SessionState: TypeAlias = Literal["starting", "running", "suspended", "ended", "failed"]


# Signals that have a name here.
SignalName: TypeAlias = Literal["INT", "TERM", "KILL", "HUP", "USR1", "USR2"]


# Why a snapshot that nobody asked for was not taken.
Skipped: TypeAlias = Literal["too_long", "nothing_new", "busy", "given_up"]


class _ActivityAlways(TypedDict):
    """What is always there."""

    # What it is doing.
    state: ActivityState
    # Since when.
    since: str


class Activity(_ActivityAlways, total=False):
    """A kernel's work."""

    # The number of the cell that runs, or ran last.
    number: int | None
    # The first line of that cell.
    cell: str | None


class AttachRequest(TypedDict, total=False):
    """`POST /v1/attach`. One of `pid` and `container`."""

    # The root of a process tree of the caller's, as the caller sees it.
    pid: int | None
    # A container. One that is a session already is that one, also while it sleeps. For root only.
    container: ContainerName | None
    # A name for the session.
    name: str | None


class _BranchOutcomeAlways(TypedDict):
    """What is always there."""

    # The new session.
    session: SessionView
    # The snapshot that it began with.
    commit: str
    # Files that it has open for writing together with the original.
    shared: list[Text]
    # What else should be known.
    warnings: list[str]


class BranchOutcome(_BranchOutcomeAlways, total=False):
    """A branch was made."""

    # Where the time went.
    steps: list[TimedStep]


# `POST /v1/sessions/{id}/branch`.
BranchRequest = TypedDict(
    "BranchRequest",
    {
        "from": "str | None",
        "name": "str | None",
        "count": "int | None",
        "gpus": "GpuWish | None",
        "notebook": "str | None",
        "force": "bool",
        "map": "list[MappedDirectory]",
        "container": "ContainerName | None",
    },
    total=False,
)


class CellNote(TypedDict, total=False):
    """A cell of a notebook."""

    # Its id in the document.
    id: str | None
    # Its number, as in `In [7]`.
    number: int | None
    # Its text; cut after 2,000 characters.
    source: str


class CheckRequest(TypedDict, total=False):
    """`POST /v1/commits/{id}/check`."""

    # Directories that lie at another place here, as for a branch.
    map: list[MappedDirectory]


class CheckpointOutcome(TypedDict):
    """A process tree was written to a directory."""

    # The directory with the images.
    directory: Text
    # How long the processes stood still.
    frozen_us: int
    # How much was written.
    bytes: int


class _CheckpointRequestAlways(TypedDict):
    """What is always there."""

    # The root of a process tree of the caller's.
    pid: int
    # A directory for the images, absolute; it is made, and must not exist yet.
    directory: Text


class CheckpointRequest(_CheckpointRequestAlways, total=False):
    """`POST /v1/checkpoint`. For root only: plain images are whatever somebody makes of them."""

    # Whether the processes go on.
    leave_running: bool


class _CommitViewAlways(TypedDict):
    """What is always there."""

    # Its id.
    id: str
    # What it was made from; none for the first.
    parents: list[str]
    # The thread it was made on.
    thread: str
    # Tags that lead to it.
    tags: list[str]
    # When the processes stood still for it.
    time: str
    # Why: `manual`, `before-cell`, `after-cell`, `interval`, `idle`, `before-rollback`, `rollback`, `before-restart`, `before-
    # shutdown`, `suspend`, `branch` …
    reason: str
    # What the user said about it.
    message: str
    # How much it holds.
    bytes: int


class CommitView(_CommitViewAlways, total=False):
    """A snapshot in the history."""

    # Whether nobody asked for it: such snapshots are the first that retention lets go.
    automatic: bool
    # What the notebook called this moment.
    label: str | None
    # How much the store grew by. This and the figures below are `null` where nobody wrote them down.
    new_bytes: int | None
    # How much memory it holds, that of GPUs included.
    memory_bytes: int | None
    # How much of that is GPU memory.
    vram_bytes: int | None
    # How long the processes stood still.
    frozen_us: int | None
    # How long work on the GPU stood still, the freeze included.
    gpu_paused_us: int | None
    # The cell that ran last, or was about to run.
    cell: CellNote | None
    # Whether `GET /v1/commits/{id}/notebook` has something.
    has_notebook: bool
    # Whether `GET /v1/commits/{id}/variables` has something.
    has_variables: bool
    # The session it was taken of, which may be gone.
    session: str | None
    # The snapshot that the session went back to, if `reason` is `rollback` and that one is still there.
    back_to: str | None
    # The remote that its data is in, if that is not here: a restore reads it from there.
    elsewhere: str | None


class _CommitsAlways(TypedDict):
    """What is always there."""

    # Newest first; a commit never comes before one that was made from it.
    commits: list[CommitView]


class Commits(_CommitsAlways, total=False):
    """The answer of `GET /v1/sessions/{id}/history` and `GET /v1/history`."""

    # With `family=true`: the threads that these commits are on; none otherwise.
    threads: list[ThreadView]


class _ContainerNameAlways(TypedDict):
    """What is always there."""

    # Its id, its name, its pod or the number of a process in it.
    which: str


class ContainerName(_ContainerNameAlways, total=False):
    """Which container."""

    # Only of this runtime: `runc`, `crun`, `containerd` or `podman`.
    runtime: str | None
    # The socket of containerd.
    address: Text | None
    # The namespace of containerd.
    namespace: str | None
    # The state directory of runc or crun.
    runtime_root: Text | None


class CopiedFile(TypedDict):
    """A file that was copied."""

    # Its path inside the session.
    path: Text
    # Where it is now.
    to: Text


class CopyOutOutcome(TypedDict):
    """Files of a snapshot were copied."""

    # Each with where it is now.
    written: list[CopiedFile]
    # What could not be copied.
    skipped: list[Uncaptured]


class _CopyOutRequestAlways(TypedDict):
    """What is always there."""

    # A directory that is there, absolute. Nothing in it is overwritten: a file whose name is taken gets a number.
    to: Text


class CopyOutRequest(_CopyOutRequestAlways, total=False):
    """`POST /v1/commits/{id}/files`."""

    # Which files, by their paths inside the session; all if none is named.
    paths: list[Text]


class _DaemonViewAlways(TypedDict):
    """What is always there."""

    # The daemon's version.
    version: str
    # Its process.
    pid: int
    # When it was started.
    started: str
    # What outlives a reboot.
    state: Text
    # What does not.
    run: Text
    # Where it listens.
    socket: Text
    # What its user may set, whether or not the file is there.
    settings: Text
    # Whether the service manager holds the socket, and starts the daemon when somebody connects.
    socket_passed: bool
    # Operations that are under way.
    jobs_running: int
    # Clients that listen to events or logs.
    streams: int


class DaemonView(_DaemonViewAlways, total=False):
    """The answer of `GET /v1/daemon`."""

    # Whether the store is encrypted.
    store_encrypted: bool
    # Seconds after which it ends when nobody needs it; never if `null`.
    idle_end_s: float | None
    # Sessions that have processes; `null` if that cannot be told.
    sessions_running: int | None


class _DiffAlways(TypedDict):
    """What is always there."""

    # The first snapshot.
    a: str
    # The second.
    b: str
    # Processes.
    processes: list[ProcessDiff]
    # Memory by mapping, the largest difference first.
    memory: list[MappingDiff]
    # Files.
    files: list[FileDiff]
    # All of it together.
    totals: DiffTotals


class Diff(_DiffAlways, total=False):
    """The answer of `GET /v1/diff`."""

    # Variables by name, if both snapshots know them.
    variables: list[VariableDiff] | None


class DiffTotals(TypedDict):
    """All of it together."""

    # Bytes of memory, in whole pages, that differ.
    memory_bytes: int
    # Files that differ.
    files: int
    # Processes that differ.
    processes: int


class Doctor(TypedDict):
    """The answer of `GET /v1/doctor`."""

    # Whether snapshots work here: no finding is `fail`.
    works: bool
    # Item by item.
    findings: list[Finding]


class EnvVar(TypedDict):
    """One variable of the environment."""

    # Before the `=`.
    name: Text
    # After it.
    value: Text


class _ErrorBodyAlways(TypedDict):
    """What is always there."""

    # A page under `docs/errors/`; it never changes its meaning.
    code: str
    # What happened, for people.
    message: str
    # The exit code that a command should end with, see [`exit`].
    exit: int


class ErrorBody(_ErrorBodyAlways, total=False):
    """The body of every answer that is not a success, and the `error` of a failed job. It has the fields of the command's `exit_error`
    line, and what a program needs to act on it without reading the message: `field`, `files`.
    """

    # Why, from the nearest to the deepest.
    causes: list[str]
    # What to do next, where there is something to do.
    hint: str | None
    # The field of the request's body that is not known (IJ-D017) or cannot be so (IJ-D010); missing if it is about no field.
    field: str | None
    # The files that are in the way, at most 100 of them; missing if no files are.
    files: list[Text]


class _EventAlways(TypedDict):
    """What is always there."""

    # Its number: later is larger.
    id: int
    # When it happened.
    time: str
    # What happened; the fields that belong to it are set.
    kind: EventKind


class Event(_EventAlways, total=False):
    """Something that happened."""

    # In which session.
    session: str | None
    # The state that it has now.
    state: SessionState | None
    # By which job.
    job_id: str | None
    # What that job does.
    job_kind: JobKind | None
    # The job, when it began or ended.
    job: Job | None
    # The step.
    step: Step | None
    # The snapshot.
    commit: str | None
    # What its kernel is doing.
    activity: Activity | None
    # More, for people.
    detail: str | None


class ExecOutcome(TypedDict):
    """A command has run in a session."""

    # Its exit code, or 128 and the signal that ended it.
    status: int
    # What it wrote to its standard output.
    stdout: Text
    # What it wrote to its standard error.
    stderr: Text


class _ExecRequestAlways(TypedDict):
    """What is always there."""

    # The program and its arguments.
    argv: list[Text]


class ExecRequest(_ExecRequestAlways, total=False):
    """`POST /v1/sessions/{id}/exec`."""

    # Its environment.
    env: list[EnvVar]


class _FileDiffAlways(TypedDict):
    """What is always there."""

    # Its path inside the session.
    path: Text
    # How the two snapshots differ in it.
    change: Change


class FileDiff(_FileDiffAlways, total=False):
    """A file that differs."""

    # Its size in the first.
    before_bytes: int | None
    # Its size in the second.
    after_bytes: int | None


class FileNote(TypedDict):
    """A file."""

    # Its path inside the session.
    path: Text
    # How large it is.
    bytes: int


class _FileTextAlways(TypedDict):
    """What is always there."""

    # As it was asked for.
    path: Text
    # How large it is.
    bytes: int


class FileText(_FileTextAlways, total=False):
    """The answer of `GET /v1/commits/{id}/file`."""

    # All of it; null if it is longer than 1 MiB, or no text in UTF-8.
    text: str | None


class _FindingAlways(TypedDict):
    """What is always there."""

    # What was looked at.
    item: str
    # How good it is.
    state: FindingState
    # What was seen.
    evidence: str


class Finding(_FindingAlways, total=False):
    """One thing that `doctor` or `check` looked at."""

    # What to do.
    fix: str | None


class ForgetOutcome(TypedDict):
    """Snapshots were forgotten."""

    # Those that are in no history any more. Their room is freed by the next gc.
    forgotten: list[str]
    # Those that had to stay.
    kept: list[KeptCommit]


class _ForgetRequestAlways(TypedDict):
    """What is always there."""

    # Snapshots, each as in `TagRequest`.
    commits: list[str]


class ForgetRequest(_ForgetRequestAlways, total=False):
    """`POST /v1/forget`."""

    # Also those that have tags; the tags go with them.
    force: bool


class FreeLocalOutcome(TypedDict):
    """Data was let go of that a remote has, too."""

    # The remote's name.
    remote: str
    # How many snapshots have their data only there now.
    snapshots: int
    # How much less the store takes.
    freed_bytes: int


class GaveUp(TypedDict):
    """The answer of `POST /v1/sessions/{id}/give-up`."""

    # Whether an automatic snapshot was under way and will not be taken. If not, there is none, or its processes stand still by now.
    given_up: bool


class GcOutcome(TypedDict):
    """What nothing leads to is gone from the store."""

    # How much room became free.
    freed_bytes: int
    # How many snapshots went.
    commits: int
    # How many objects went, those of the snapshots included.
    objects: int


class _JobAlways(TypedDict):
    """What is always there."""

    # Its id.
    id: str
    # What it does.
    kind: JobKind
    # How far it is.
    state: JobState
    # When it began.
    began: str
    # Its steps so far, in order.
    steps: list[Step]


class Job(_JobAlways, total=False):
    """A job."""

    # The session it was asked of, as the request named it; the new one's id once `start` or `attach` is done.
    session: str | None
    # When it ended.
    ended: str | None
    # What came of it.
    result: JobResult | None
    # Why it failed.
    error: ErrorBody | None


class Jobs(TypedDict):
    """The answer of `GET /v1/jobs`."""

    # The caller's jobs that run, and the last that ended; oldest first.
    jobs: list[Job]


class Keep(TypedDict, total=False):
    """Which automatic snapshots are kept. Tagged and labelled ones, and those that somebody asked for, always are."""

    # The newest so many.
    last: int
    # The newest of each of the last so many hours that have one.
    hourly: int
    # The newest of each of the last so many days that have one.
    daily: int


class KeptCommit(TypedDict):
    """A snapshot that was to be forgotten and was not."""

    # Its id.
    commit: str
    # Why it had to stay, for people.
    reason: str


class KeptFiles(TypedDict):
    """Files that no snapshot had are in one now."""

    # The snapshot, which has these files and nothing else.
    commit: str
    # The files.
    files: list[FileNote]


class _KernelViewAlways(TypedDict):
    """What is always there."""

    # A connection file that works outside the session.
    connection_file: Text


class KernelView(_KernelViewAlways, total=False):
    """What a client needs to talk to a kernel."""

    # The kernelspec's name.
    kernel_name: str | None
    # The language of its cells, if that is known.
    language: str | None
    # How it is interrupted.
    interrupt_mode: InterruptMode


# A directory that processes find where it was, though it lies elsewhere.
MappedDirectory = TypedDict(
    "MappedDirectory",
    {
        "from": "Text",
        "to": "Text",
    },
    total=False,
)


class MappingDiff(TypedDict):
    """A mapping of memory that differs."""

    # Of which process.
    pid: int
    # Where it begins.
    start: int
    # Where it ends.
    end: int
    # A path, `[heap]`, `[stack]`, `[anon]` …
    name: Text
    # How the two snapshots differ in it.
    change: Change
    # How many bytes, in whole pages, differ.
    changed_bytes: int


class Origin(TypedDict):
    """Where a branch comes from."""

    # The session it was branched off.
    session: str
    # The snapshot it began with.
    commit: str


class ProcessDiff(TypedDict):
    """A process that differs."""

    # Its number inside the session.
    pid: int
    # Its name.
    name: str
    # How the two snapshots differ in it.
    change: Change


class PushOutcome(TypedDict):
    """Threads and tags were sent to a remote."""

    # The remote's name.
    remote: str
    # How many objects it lacked.
    objects: int
    # How much was sent.
    bytes: int
    # The threads and tags that moved there: `threads/main`.
    moved: list[str]


class _RemoteViewAlways(TypedDict):
    """What is always there."""

    # Its name.
    name: str


class RemoteView(_RemoteViewAlways, total=False):
    """The remote that is pushed to by itself, as `GET /v1/store` shows it."""

    # When the last push ended, well or not; `null` if there was none.
    last_push: str | None
    # Why it failed, if it did.
    failed: str | None


class _RestartRequestAlways(TypedDict):
    """What is always there."""

    # What to run. A session that is a kernel stays one, and one that is not stays that.
    start: Start


class RestartRequest(_RestartRequestAlways, total=False):
    """`POST /v1/sessions/{id}/restart`."""

    # The whole environment, as for a new session.
    env: list[EnvVar]
    # The working directory, absolute; the one it had if not given.
    cwd: Text | None
    # How long the old processes have to end by themselves before they are killed; ten seconds if not given.
    grace_ms: int | None
    # Take an automatic snapshot of the old processes first.
    snapshot: bool


class RestoreRequest(TypedDict):
    """`POST /v1/restore`. For root only."""

    # A directory that `checkpoint` wrote.
    directory: Text


class RestoredOutcome(TypedDict):
    """A process tree was brought back from a directory."""

    # Its root.
    pid: int


class ResumeRequest(TypedDict, total=False):
    """`POST /v1/sessions/{id}/resume`."""

    # Go on although files were changed by somebody else, or the machine is not like the one of the snapshot.
    force: bool
    # Onto which GPUs; as the session was started if not given.
    gpus: GpuWish | None


class _RollbackOutcomeAlways(TypedDict):
    """What is always there."""

    # The snapshot it is at now.
    commit: str
    # Files that somebody else had changed and that the processes need as they were; they were overwritten, and are in `automatic`.
    changed_by_others: list[Text]
    # Connections that could not be kept.
    closed_connections: list[str]
    # Where the time went.
    steps: list[TimedStep]


class RollbackOutcome(_RollbackOutcomeAlways, total=False):
    """A session was rolled back."""

    # The snapshot of how it was before; `null` if it had no processes.
    automatic: str | None
    # Files that somebody else had changed and that nobody needs as they were: they were left as they are.
    spared: list[Text]
    # What else should be known.
    warnings: list[str]


class _RollbackRequestAlways(TypedDict):
    """What is always there."""

    # A snapshot: an id or the beginning of one, a tag, a thread, with `~N` for the Nth before it.
    to: str


class RollbackRequest(_RollbackRequestAlways, total=False):
    """`POST /v1/sessions/{id}/rollback`."""

    # Go on although files were changed by somebody else.
    force: bool
    # Whether files are put back too.
    files: bool
    # Something that the kernel is told when it lives again; see `infinijup_reply` in docs/daemon.md.
    note: str | None
    # The document as it is in the editor, for the automatic snapshot of what is left.
    notebook: str | None


class Server(TypedDict):
    """Something that listens in a session."""

    # The port that it listens on, inside.
    port: int
    # The port of the machine's loopback that leads to it, for the session's own user.
    outside_port: int


class Servers(TypedDict):
    """The answer of `GET /v1/sessions/{id}/servers`."""

    # By port. Those of the kernel itself are not among them.
    servers: list[Server]


class SessionFiles(TypedDict):
    """The answer of `GET /v1/sessions/{id}/files`."""

    # Where the files of its workspace are, as they can be opened from outside.
    directory: Text
    # Whether they are its own: a branch has copies, any other session works in the directory that it was started in.
    own: bool
    # Those of a branch that are in no snapshot.
    loose: list[FileNote]


class SessionPatch(TypedDict, total=False):
    """`PATCH /v1/sessions/{id}`."""

    # Another name, unique among the caller's sessions.
    name: str | None
    # Labels to set; a `null` takes that label away, and the others stay.
    labels: dict[str, str | None] | None
    # The document that goes with each snapshot, as an absolute path.
    notebook: Text | None
    # A file with that document as a page shows it. It goes with snapshots in its place while it is the newer of both.
    shown: Text | None
    # What happens to it by itself, all of it anew.
    policy: SessionPolicy | None
    # What its next snapshot will be labelled.
    mark: str | None


class SessionPolicy(TypedDict, total=False):
    """What happens to a session by itself. Everything is off unless it is said."""

    # A snapshot every so many seconds, if anything ran since the last.
    snapshot_every_s: int | None
    # A snapshot when its kernel has been idle for so many seconds.
    snapshot_after_idle_s: int | None
    # It is suspended when its kernel has been idle for so many seconds.
    suspend_after_idle_s: int | None
    # Only what holds GPU memory is suspended so.
    suspend_only_gpu: bool
    # Which automatic snapshots are kept; all if not given.
    keep: Keep | None


class _SessionViewAlways(TypedDict):
    """What is always there."""

    # Never given to another.
    id: str
    # The name that people use.
    name: str
    # What it is doing.
    state: SessionState
    # What it runs.
    command: list[Text]
    # In which directory.
    cwd: Text
    # Which network it sees.
    network: Network
    # The thread its snapshots go to.
    thread: str
    # When it was started.
    created: str
    # Which files belong to its snapshots.
    files: FilePolicy


class SessionView(_SessionViewAlways, total=False):
    """A session."""

    # Its workspace, as it can be opened from outside.
    workspace: Text | None
    # Its first process, as seen from outside; `null` if it has none now.
    pid: int | None
    # How to reach it, if it is a kernel.
    kernel: KernelView | None
    # Its newest snapshot.
    head: str | None
    # Where it was branched off.
    parent: Origin | None
    # How its main command ended: the exit code, or 128 and the signal.
    exit: int | None
    # How much memory its processes take now.
    memory_bytes: int | None
    # How much memory its newest snapshot takes that stands by, restored, so that going back to it is a switch; `null` if none does.
    standby_bytes: int | None
    # Whether it was running before it became a session; it has no namespaces of its own then.
    attached: bool
    # UUIDs of the GPUs that it may use.
    gpus: list[str]
    # How much GPU memory its processes take now; `null` if that cannot be told.
    vram_bytes: int | None
    # Why its work on the GPU stands still, if it does.
    gpu_trouble: str | None
    # What others noted about it.
    labels: dict[str, str]
    # The document that goes with each snapshot.
    notebook: Text | None
    # What happens to it by itself.
    policy: SessionPolicy
    # The kind of the operation that is under way.
    operation: str | None
    # Whether its kernel is at work; `null` for what is no kernel.
    activity: Activity | None
    # What its next snapshot will be labelled.
    mark: str | None
    # In the answer to a removal: its files that were in no snapshot, and are in one now.
    kept_files: KeptFiles | None


class Sessions(TypedDict):
    """The answer of `GET /v1/sessions`."""

    # Oldest first.
    sessions: list[SessionView]


class _SignalRequestAlways(TypedDict):
    """What is always there."""

    # The signal to send.
    signal: Signal


class SignalRequest(_SignalRequestAlways, total=False):
    """`POST /v1/sessions/{id}/signal`."""

    # To the process group of the main command, not to its process alone.
    group: bool


class SnapshotCheck(TypedDict):
    """The answer of `GET /v1/commits/{id}/check`: whether a snapshot would come up here."""

    # The snapshot.
    commit: str
    # Whether it would: no finding is `fail`.
    fits: bool
    # What is missing or different, and what to do.
    findings: list[Finding]


class SnapshotFiles(TypedDict):
    """The answer of `GET /v1/commits/{id}/files`."""

    # The files whose content it has, by path; the first so many that were asked for.
    files: list[FileNote]
    # How many there are.
    count: int
    # How many bytes all of them have.
    bytes: int


class _SnapshotOutcomeAlways(TypedDict):
    """What is always there."""

    # Its id.
    commit: str
    # How long the processes stood still.
    frozen_us: int
    # How long all of it took.
    total_us: int
    # How much the store grew by.
    new_bytes: int
    # How much memory it holds, that of GPUs included.
    memory_bytes: int
    # What it does not hold.
    not_captured: list[Uncaptured]
    # What else should be known.
    warnings: list[str]
    # Where the time went.
    steps: list[TimedStep]


class SnapshotOutcome(_SnapshotOutcomeAlways, total=False):
    """A snapshot was taken."""

    # How much of that is GPU memory.
    vram_bytes: int
    # How long work on the GPU stood still, the freeze included; 0 for sessions without any.
    gpu_paused_us: int
    # How much memory was copied while the processes stood still; null if all of it was.
    frozen_bytes: int | None


class SnapshotRequest(TypedDict, total=False):
    """`POST /v1/sessions/{id}/snapshot`."""

    # What it is, for the history.
    message: str | None
    # A name that leads to it.
    tag: str | None
    # Another policy than the session's own, for this one only.
    files: FilePolicy | None
    # A command that runs in the session before it is frozen; the snapshot is given up if it fails.
    quiesce: list[Text] | None
    # Why: `before-cell`, `after-cell`, `interval`, `idle`, `before-restart`, `before-shutdown`; `manual` if not given.
    reason: str | None
    # What to call this moment; the session's `mark` if not given.
    label: str | None
    # The document as it is in the editor, at most 64 MiB. If not given, the file that the session names as its notebook is read.
    notebook: str | None
    # The cell that ran last, or is about to run.
    cell: CellNote | None
    # Whether variables are asked for, if the kernel can say; yes if not given.
    variables: bool | None
    # For one that nobody asked for (its `reason` says so): only if the processes are expected to stand still no longer than so many
    # milliseconds, if something ran since the last one, and if nothing else is under way. Otherwise the result is `skipped`, and that
    # is no failure.
    within_ms: int | None
    # Whether a container that somebody holds still is let go for it, and held again as it was.
    thaw: bool


class _SnapshotSkippedAlways(TypedDict):
    """What is always there."""

    # Why.
    why: Skipped


class SnapshotSkipped(_SnapshotSkippedAlways, total=False):
    """A snapshot was not taken, and nobody misses it."""

    # The newest snapshot that there is.
    head: str | None
    # How long the processes would have stood still, if that was found out.
    expected_us: int | None


class _StartRequestAlways(TypedDict):
    """What is always there."""

    # What to run.
    start: Start
    # The working directory, absolute.
    cwd: Text


class StartRequest(_StartRequestAlways, total=False):
    """`POST /v1/sessions`."""

    # A name of the caller's choice, unique among their sessions; one is made up if not given.
    name: str | None
    # The whole environment; nothing is added but what the session needs itself.
    env: list[EnvVar]
    # Which network it sees.
    network: Network
    # Whether a private network has a way out.
    outside: bool
    # The directory that a branch gets a copy of; the working directory if not given.
    workspace: Text | None
    # Which files belong to a snapshot.
    files: FilePolicy
    # The most memory that all its processes may take together, in bytes.
    memory_limit: int | None
    # The most processes and threads that it may have.
    pids_limit: int | None
    # Further commands that live, are captured and come back with the first.
    sidecars: list[list[Text]]
    # Which GPUs it may use; all if not given.
    gpus: GpuWish
    # What others note about it: at most 32, a key is 1 to 64 of `a-z`, `0-9`, `.`, `_` and `-`, a value at most 4096 bytes.
    labels: dict[str, str]
    # The document that goes with each snapshot, as an absolute path.
    notebook: Text | None
    # What happens to it by itself; nothing if not given.
    policy: SessionPolicy | None


class _StepAlways(TypedDict):
    """What is always there."""

    # Its name, which is stable.
    name: str


class Step(_StepAlways, total=False):
    """A step of a job."""

    # How long it took; `null` while it runs.
    micros: int | None
    # How much of it is done, if that can be counted.
    done: int | None
    # How much there is to do in it.
    total: int | None


class StopRequest(TypedDict, total=False):
    """`POST /v1/sessions/{id}/stop`."""

    # How long the processes have to end by themselves before they are killed; ten seconds if not given.
    grace_ms: int | None


class _StoreViewAlways(TypedDict):
    """What is always there."""

    # The directory.
    path: Text


class StoreView(_StoreViewAlways, total=False):
    """The answer of `GET /v1/store`."""

    # What it takes now; `null` if that cannot be told.
    used_bytes: int | None
    # What it may take: `store_budget` of the settings, or half of what it takes and what is free.
    allowed_bytes: int | None
    # The remote that snapshots are pushed to by themselves; `null` if they are not.
    remote: RemoteView | None


class _SuspendOutcomeAlways(TypedDict):
    """What is always there."""

    # The snapshot that it will come back from.
    commit: str
    # How much memory it gave back.
    freed_bytes: int


class SuspendOutcome(_SuspendOutcomeAlways, total=False):
    """A session was put to sleep."""

    # How much GPU memory it gave back.
    freed_vram_bytes: int
    # Where the time went.
    steps: list[TimedStep]


class SuspendRequest(TypedDict, total=False):
    """`POST /v1/sessions/{id}/suspend`. The fields are those of a snapshot."""

    # What it is, for the history.
    message: str | None
    # Why: `idle` if nobody asked for it, so that the snapshot is an automatic one; `suspend` if not given.
    reason: str | None
    # What to call this moment; the session's `mark` if not given.
    label: str | None
    # The document as it is in the editor.
    notebook: str | None
    # The cell that ran last.
    cell: CellNote | None
    # Whether variables are asked for, if the kernel can say; yes if not given.
    variables: bool | None
    # Whether a container that somebody holds still is let go for it. If it is not put to sleep then, it is held again as it was.
    thaw: bool
    # Which files belong to this snapshot; the session's own policy if not given.
    files: FilePolicy | None


class _TagRequestAlways(TypedDict):
    """What is always there."""

    # The tag.
    name: str
    # The snapshot: an id or the beginning of one, another tag, a thread, with `~N` for the Nth before it.
    commit: str


class TagRequest(_TagRequestAlways, total=False):
    """`POST /v1/tags`."""

    # Whether a tag that is there already may be moved.
    move: bool


class _ThreadViewAlways(TypedDict):
    """What is always there."""

    # Its name.
    name: str
    # Its newest snapshot.
    head: str


class ThreadView(_ThreadViewAlways, total=False):
    """A thread: where the snapshots of one session go, one after the other."""

    # The session that goes on with it; `null` if that is gone.
    session: str | None


class TimedStep(TypedDict):
    """One step of a pipeline and how long it took."""

    # Its name.
    name: str
    # How long it took.
    micros: int


class Uncaptured(TypedDict):
    """Something that a snapshot does not hold."""

    # Its path inside the session.
    path: Text
    # Why it could not be captured, for people.
    reason: str


class _VariableAlways(TypedDict):
    """What is always there."""

    # Its name.
    name: str
    # The name of its type.
    type: str


class Variable(_VariableAlways, total=False):
    """A variable of a kernel, as it was at a snapshot."""

    # How many bytes it takes, if the kernel could say.
    size: int | None
    # The beginning of what it looks like; at most 200 characters.
    summary: str


class _VariableDiffAlways(TypedDict):
    """What is always there."""

    # Its name.
    name: str
    # How the two snapshots differ in it.
    change: Change


class VariableDiff(_VariableDiffAlways, total=False):
    """A variable that differs."""

    # What it was.
    before: Variable | None
    # What it is.
    after: Variable | None


class Variables(TypedDict):
    """The answer of `GET /v1/commits/{id}/variables`."""

    # Sorted by name.
    variables: list[Variable]


class _VersionAlways(TypedDict):
    """What is always there."""

    # The daemon's.
    version: str
    # The wire's, see [`crate::API_VERSION`].
    api: int


class Version(_VersionAlways, total=False):
    """The answer of `GET /v1/version`."""

    # CRIU's, if there is one.
    criu: str | None
    # Why no operation can be done here, if so. Looking still works.
    refusal: ErrorBody | None


class FilePolicyOpen(TypedDict):
    """The notebook, and every file that a process of the session has open for writing."""

    type: Literal["open"]


class _FilePolicyTreeAlways(TypedDict):
    """What is always there."""

    type: Literal["tree"]


class FilePolicyTree(_FilePolicyTreeAlways, total=False):
    """The workspace too."""

    # Patterns of paths to take; all if empty.
    include: list[str]
    # Patterns of paths to leave out.
    exclude: list[str]
    # The most that may be taken; `null` for the daemon's own limit.
    max_bytes: int | None
    # Directories that are mounted in a container and belong to its snapshots with all that is in them, as it sees them.
    volumes: list[Text]


class FilePolicyWorkspace(TypedDict):
    """The workspace too, as far as people work on it: without hidden directories and what programs fill again by themselves
    (`node_modules`, `venv`, `__pycache__` …), at most 100,000 files, 256 MiB each and 4 GiB together. Of a home only the files that
    lie directly in it.
    """

    type: Literal["workspace"]


class FilePolicyNone(TypedDict):
    """None."""

    type: Literal["none"]


# Which files a snapshot takes along and a rollback puts back.
FilePolicy: TypeAlias = FilePolicyOpen | FilePolicyTree | FilePolicyWorkspace | FilePolicyNone


class GpuWishAll(TypedDict):
    """All that there are; none is fine too."""

    type: Literal["all"]


class GpuWishNone(TypedDict):
    """None."""

    type: Literal["none"]


class GpuWishList(TypedDict):
    """These."""

    # Each by its index, its UUID or an unambiguous beginning of its UUID.
    gpus: list[str]
    type: Literal["list"]


# Which of the machine's GPUs a session may use.
GpuWish: TypeAlias = GpuWishAll | GpuWishNone | GpuWishList


class JobResultSession(SessionView):
    """The session as it is now: after `start`, `resume`, `stop`, `restart`, `remove` and `attach`."""

    type: Literal["session"]


class JobResultSnapshot(SnapshotOutcome):
    """After `snapshot`."""

    type: Literal["snapshot"]


class JobResultSkipped(SnapshotSkipped):
    """After `snapshot`, if it was left out."""

    type: Literal["skipped"]


class JobResultRollback(RollbackOutcome):
    """After `rollback`."""

    type: Literal["rollback"]


class JobResultBranch(TypedDict):
    """After `branch`."""

    # In the order of their names.
    branches: list[BranchOutcome]
    type: Literal["branch"]


class JobResultSuspend(SuspendOutcome):
    """After `suspend`."""

    type: Literal["suspend"]


class JobResultExec(ExecOutcome):
    """After `exec`."""

    type: Literal["exec"]


class JobResultCheckpoint(CheckpointOutcome):
    """After `checkpoint`."""

    type: Literal["checkpoint"]


class JobResultRestore(RestoredOutcome):
    """After `restore`."""

    type: Literal["restore"]


class JobResultForget(ForgetOutcome):
    """After `forget`."""

    type: Literal["forget"]


class JobResultGc(GcOutcome):
    """After `gc`."""

    type: Literal["gc"]


class JobResultCopyOut(CopyOutOutcome):
    """After `copy_out`."""

    type: Literal["copy_out"]


class JobResultPush(PushOutcome):
    """After `push`."""

    type: Literal["push"]


class JobResultFreeLocal(FreeLocalOutcome):
    """After `free_local`."""

    type: Literal["free_local"]


# What came of a job.
JobResult: TypeAlias = (
    JobResultSession
    | JobResultSnapshot
    | JobResultSkipped
    | JobResultRollback
    | JobResultBranch
    | JobResultSuspend
    | JobResultExec
    | JobResultCheckpoint
    | JobResultRestore
    | JobResultForget
    | JobResultGc
    | JobResultCopyOut
    | JobResultPush
    | JobResultFreeLocal
)


# The answer when there is nothing to say.
Nothing: TypeAlias = dict[str, Any]


# A signal.
Signal: TypeAlias = SignalName | int


class StartCommand(TypedDict):
    """A command."""

    # The program and its arguments; the program is looked for in the `PATH` of the request's environment.
    argv: list[Text]
    type: Literal["command"]


class _StartKernelAlways(TypedDict):
    """What is always there."""

    type: Literal["kernel"]


class StartKernel(_StartKernelAlways, total=False):
    """A Jupyter kernel."""

    # The name of a kernelspec, as `jupyter kernelspec list` shows it; `python3` if not given.
    spec: str | None
    # The kernel's command. If it is given, no kernelspec is looked for, `spec` is no more than a name, and `{connection_file}` in it is
    # replaced by the path of the connection file.
    argv: list[Text] | None
    # How it wants to be interrupted, if `argv` is given; by a signal if not said.
    interrupt_mode: InterruptMode | None
    # The language of its cells, if `argv` is given.
    language: str | None
    # A connection file of the user's on loopback: the session takes over its ports and its key. A restart keeps those that it has.
    connection_file: Text | None


# What a session runs.
Start: TypeAlias = StartCommand | StartKernel


class TextHex(TypedDict):
    """Anything else."""

    # The bytes, two lower-case hex digits each.
    hex: str


# The two shapes on the wire.
Text: TypeAlias = str | TextHex
