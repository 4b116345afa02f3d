/**
 * What the daemon sends and takes, as JSON. Made from docs/openapi.json by scripts/wire-types.py: do not edit.
 * A daemon may be newer or older than its client: fields are only ever added, and one that is not known is skipped.
 */

/** A kernel's work. */
export type Activity = {
  /** What it is doing. */
  state: ActivityState;
  /** Since when. */
  since: string;
  /** The number of the cell that runs, or ran last. */
  number?: number | null;
  /** The first line of that cell. */
  cell?: string | null;
};

/** What a kernel is doing, as it said itself. */
export type ActivityState = 'busy' | 'idle' | 'unknown';

/** `POST /v1/attach`. One of `pid` and `container`. */
export type AttachRequest = {
  /** The root of a process tree of the caller's, as the caller sees it. */
  pid?: number | null;
  /** A container. One that is a session already is that one, also while it sleeps. For root only. */
  container?: ContainerName | null;
  /** A name for the session. */
  name?: string | null;
};

/** A branch was made. */
export type BranchOutcome = {
  /** The new session. */
  session: SessionView;
  /** The snapshot that it began with. */
  commit: string;
  /** Files that it has open for writing together with the original. */
  shared: Text[];
  /** What else should be known. */
  warnings: string[];
  /** Where the time went. */
  steps?: TimedStep[];
};

/** `POST /v1/sessions/{id}/branch`. */
export type BranchRequest = {
  /** The snapshot to begin with; a new one is taken if not given. */
  from?: string | null;
  /**
   * The branch's name; `NAME-1`, `NAME-2` … if there are several. If not given, that of the original
   * with `-branch`.
   */
  name?: string | null;
  /** How many; one if not given. */
  count?: number | null;
  /** Onto which GPUs; if not given, those of the original or free ones like them. */
  gpus?: GpuWish | null;
  /** The document as it is in the editor, if a new snapshot is taken. */
  notebook?: string | null;
  /**
   * Also from a snapshot that was made elsewhere: a foreign program, which runs with all rights of its
   * user.
   */
  force?: boolean;
  /** Directories that lie at another place here than where its processes look for them. */
  map?: MappedDirectory[];
  /**
   * The container whose runtime makes the branch, from the specification that this one has: for a
   * snapshot of another container, or of one on another machine. For root only.
   */
  container?: ContainerName | null;
};

/** A cell of a notebook. */
export type CellNote = {
  /** Its id in the document. */
  id?: string | null;
  /** Its number, as in `In [7]`. */
  number?: number | null;
  /** Its text; cut after 2,000 characters. */
  source?: string;
};

/** How something differs. */
export type Change = 'added' | 'removed' | 'changed';

/** `POST /v1/commits/{id}/check`. */
export type CheckRequest = {
  /** Directories that lie at another place here, as for a branch. */
  map?: MappedDirectory[];
};

/** A process tree was written to a directory. */
export type CheckpointOutcome = {
  /** The directory with the images. */
  directory: Text;
  /** How long the processes stood still. */
  frozen_us: number;
  /** How much was written. */
  bytes: number;
};

/** `POST /v1/checkpoint`. For root only: plain images are whatever somebody makes of them. */
export type CheckpointRequest = {
  /** The root of a process tree of the caller's. */
  pid: number;
  /** A directory for the images, absolute; it is made, and must not exist yet. */
  directory: Text;
  /** Whether the processes go on. */
  leave_running?: boolean;
};

/** A snapshot in the history. */
export type CommitView = {
  /** Its id. */
  id: string;
  /** What it was made from; none for the first. */
  parents: string[];
  /** The thread it was made on. */
  thread: string;
  /** Tags that lead to it. */
  tags: string[];
  /** When the processes stood still for it. */
  time: string;
  /**
   * Why: `manual`, `before-cell`, `after-cell`, `interval`, `idle`, `before-rollback`, `rollback`,
   * `before-restart`, `before-shutdown`, `suspend`, `branch` …
   */
  reason: string;
  /** Whether nobody asked for it: such snapshots are the first that retention lets go. */
  automatic?: boolean;
  /** What the user said about it. */
  message: string;
  /** What the notebook called this moment. */
  label?: string | null;
  /** How much it holds. */
  bytes: number;
  /** How much the store grew by. This and the figures below are `null` where nobody wrote them down. */
  new_bytes?: number | null;
  /** How much memory it holds, that of GPUs included. */
  memory_bytes?: number | null;
  /** How much of that is GPU memory. */
  vram_bytes?: number | null;
  /** How long the processes stood still. */
  frozen_us?: number | null;
  /** How long work on the GPU stood still, the freeze included. */
  gpu_paused_us?: number | null;
  /** The cell that ran last, or was about to run. */
  cell?: CellNote | null;
  /** Whether `GET /v1/commits/{id}/notebook` has something. */
  has_notebook?: boolean;
  /** Whether `GET /v1/commits/{id}/variables` has something. */
  has_variables?: boolean;
  /** The session it was taken of, which may be gone. */
  session?: string | null;
  /** The snapshot that the session went back to, if `reason` is `rollback` and that one is still there. */
  back_to?: string | null;
  /** The remote that its data is in, if that is not here: a restore reads it from there. */
  elsewhere?: string | null;
};

/** The answer of `GET /v1/sessions/{id}/history` and `GET /v1/history`. */
export type Commits = {
  /** Newest first; a commit never comes before one that was made from it. */
  commits: CommitView[];
  /** With `family=true`: the threads that these commits are on; none otherwise. */
  threads?: ThreadView[];
};

/** Which container. */
export type ContainerName = {
  /** Its id, its name, its pod or the number of a process in it. */
  which: string;
  /** Only of this runtime: `runc`, `crun`, `containerd` or `podman`. */
  runtime?: string | null;
  /** The socket of containerd. */
  address?: Text | null;
  /** The namespace of containerd. */
  namespace?: string | null;
  /** The state directory of runc or crun. */
  runtime_root?: Text | null;
};

/** A file that was copied. */
export type CopiedFile = {
  /** Its path inside the session. */
  path: Text;
  /** Where it is now. */
  to: Text;
};

/** Files of a snapshot were copied. */
export type CopyOutOutcome = {
  /** Each with where it is now. */
  written: CopiedFile[];
  /** What could not be copied. */
  skipped: Uncaptured[];
};

/** `POST /v1/commits/{id}/files`. */
export type CopyOutRequest = {
  /**
   * A directory that is there, absolute. Nothing in it is overwritten: a file whose name is taken gets
   * a number.
   */
  to: Text;
  /** Which files, by their paths inside the session; all if none is named. */
  paths?: Text[];
};

/** The answer of `GET /v1/daemon`. */
export type DaemonView = {
  /** The daemon's version. */
  version: string;
  /** Its process. */
  pid: number;
  /** When it was started. */
  started: string;
  /** What outlives a reboot. */
  state: Text;
  /** What does not. */
  run: Text;
  /** Where it listens. */
  socket: Text;
  /** What its user may set, whether or not the file is there. */
  settings: Text;
  /** Whether the store is encrypted. */
  store_encrypted?: boolean;
  /** Whether the service manager holds the socket, and starts the daemon when somebody connects. */
  socket_passed: boolean;
  /** Seconds after which it ends when nobody needs it; never if `null`. */
  idle_end_s?: number | null;
  /** Sessions that have processes; `null` if that cannot be told. */
  sessions_running?: number | null;
  /** Operations that are under way. */
  jobs_running: number;
  /** Clients that listen to events or logs. */
  streams: number;
};

/** The answer of `GET /v1/diff`. */
export type Diff = {
  /** The first snapshot. */
  a: string;
  /** The second. */
  b: string;
  /** Processes. */
  processes: ProcessDiff[];
  /** Memory by mapping, the largest difference first. */
  memory: MappingDiff[];
  /** Files. */
  files: FileDiff[];
  /** Variables by name, if both snapshots know them. */
  variables?: VariableDiff[] | null;
  /** All of it together. */
  totals: DiffTotals;
};

/** All of it together. */
export type DiffTotals = {
  /** Bytes of memory, in whole pages, that differ. */
  memory_bytes: number;
  /** Files that differ. */
  files: number;
  /** Processes that differ. */
  processes: number;
};

/** The answer of `GET /v1/doctor`. */
export type Doctor = {
  /** Whether snapshots work here: no finding is `fail`. */
  works: boolean;
  /** Item by item. */
  findings: Finding[];
};

/** One variable of the environment. */
export type EnvVar = {
  /** Before the `=`. */
  name: Text;
  /** After it. */
  value: Text;
};

/**
 * The body of every answer that is not a success, and the `error` of a failed job. It has the fields
 * of the command's `exit_error` line, and what a program needs to act on it without reading the
 * message: `field`, `files`.
 */
export type ErrorBody = {
  /** A page under `docs/errors/`; it never changes its meaning. */
  code: string;
  /** What happened, for people. */
  message: string;
  /** Why, from the nearest to the deepest. */
  causes?: string[];
  /** What to do next, where there is something to do. */
  hint?: string | null;
  /** The exit code that a command should end with, see [`exit`]. */
  exit: number;
  /**
   * The field of the request's body that is not known (IJ-D017) or cannot be so (IJ-D010); missing if
   * it is about no field.
   */
  field?: string | null;
  /** The files that are in the way, at most 100 of them; missing if no files are. */
  files?: Text[];
};

/** Something that happened. */
export type Event = {
  /** Its number: later is larger. */
  id: number;
  /** When it happened. */
  time: string;
  /** What happened; the fields that belong to it are set. */
  kind: EventKind;
  /** In which session. */
  session?: string | null;
  /** The state that it has now. */
  state?: SessionState | null;
  /** By which job. */
  job_id?: string | null;
  /** What that job does. */
  job_kind?: JobKind | null;
  /** The job, when it began or ended. */
  job?: Job | null;
  /** The step. */
  step?: Step | null;
  /** The snapshot. */
  commit?: string | null;
  /** What its kernel is doing. */
  activity?: Activity | null;
  /** More, for people. */
  detail?: string | null;
};

/** What happened. */
export type EventKind =
  | 'job_began'
  | 'job_step'
  | 'job_ended'
  | 'session_state'
  | 'snapshot_taken'
  | 'rolled_back'
  | 'session_removed'
  | 'session_changed'
  | 'session_activity'
  | 'history_changed'
  | 'missed'
  | 'other';

/** A command has run in a session. */
export type ExecOutcome = {
  /** Its exit code, or 128 and the signal that ended it. */
  status: number;
  /** What it wrote to its standard output. */
  stdout: Text;
  /** What it wrote to its standard error. */
  stderr: Text;
};

/** `POST /v1/sessions/{id}/exec`. */
export type ExecRequest = {
  /** The program and its arguments. */
  argv: Text[];
  /** Its environment. */
  env?: EnvVar[];
};

/** A file that differs. */
export type FileDiff = {
  /** Its path inside the session. */
  path: Text;
  /** How the two snapshots differ in it. */
  change: Change;
  /** Its size in the first. */
  before_bytes?: number | null;
  /** Its size in the second. */
  after_bytes?: number | null;
};

/** A file. */
export type FileNote = {
  /** Its path inside the session. */
  path: Text;
  /** How large it is. */
  bytes: number;
};

/** Which files a snapshot takes along and a rollback puts back. */
export type FilePolicy =
  | {
    type: 'open';
  }
  | {
    /** Patterns of paths to take; all if empty. */
    include?: string[];
    /** Patterns of paths to leave out. */
    exclude?: string[];
    /** The most that may be taken; `null` for the daemon's own limit. */
    max_bytes?: number | null;
    /**
     * Directories that are mounted in a container and belong to its snapshots with all that is in
     * them, as it sees them.
     */
    volumes?: Text[];
    type: 'tree';
  }
  | {
    type: 'workspace';
  }
  | {
    type: 'none';
  };

/** The answer of `GET /v1/commits/{id}/file`. */
export type FileText = {
  /** As it was asked for. */
  path: Text;
  /** How large it is. */
  bytes: number;
  /** All of it; null if it is longer than 1 MiB, or no text in UTF-8. */
  text?: string | null;
};

/** One thing that `doctor` or `check` looked at. */
export type Finding = {
  /** What was looked at. */
  item: string;
  /** How good it is. */
  state: FindingState;
  /** What was seen. */
  evidence: string;
  /** What to do. */
  fix?: string | null;
};

/** How good a finding is. */
export type FindingState = 'ok' | 'warn' | 'fail';

/** Snapshots were forgotten. */
export type ForgetOutcome = {
  /** Those that are in no history any more. Their room is freed by the next gc. */
  forgotten: string[];
  /** Those that had to stay. */
  kept: KeptCommit[];
};

/** `POST /v1/forget`. */
export type ForgetRequest = {
  /** Snapshots, each as in `TagRequest`. */
  commits: string[];
  /** Also those that have tags; the tags go with them. */
  force?: boolean;
};

/** Data was let go of that a remote has, too. */
export type FreeLocalOutcome = {
  /** The remote's name. */
  remote: string;
  /** How many snapshots have their data only there now. */
  snapshots: number;
  /** How much less the store takes. */
  freed_bytes: number;
};

/** The answer of `POST /v1/sessions/{id}/give-up`. */
export type GaveUp = {
  /**
   * Whether an automatic snapshot was under way and will not be taken. If not, there is none, or its
   * processes stand still by now.
   */
  given_up: boolean;
};

/** What nothing leads to is gone from the store. */
export type GcOutcome = {
  /** How much room became free. */
  freed_bytes: number;
  /** How many snapshots went. */
  commits: number;
  /** How many objects went, those of the snapshots included. */
  objects: number;
};

/** Which of the machine's GPUs a session may use. */
export type GpuWish =
  | {
    type: 'all';
  }
  | {
    type: 'none';
  }
  | {
    /** Each by its index, its UUID or an unambiguous beginning of its UUID. */
    gpus: string[];
    type: 'list';
  };

/** How a kernel is interrupted. */
export type InterruptMode = 'signal' | 'message';

/** A job. */
export type Job = {
  /** Its id. */
  id: string;
  /** What it does. */
  kind: JobKind;
  /**
   * The session it was asked of, as the request named it; the new one's id once `start` or `attach` is
   * done.
   */
  session?: string | null;
  /** How far it is. */
  state: JobState;
  /** When it began. */
  began: string;
  /** When it ended. */
  ended?: string | null;
  /** Its steps so far, in order. */
  steps: Step[];
  /** What came of it. */
  result?: JobResult | null;
  /** Why it failed. */
  error?: ErrorBody | null;
};

/** What a job does. */
export type JobKind =
  | 'start'
  | 'snapshot'
  | 'rollback'
  | 'branch'
  | 'suspend'
  | 'resume'
  | 'stop'
  | 'restart'
  | 'remove'
  | 'exec'
  | 'attach'
  | 'checkpoint'
  | 'restore'
  | 'forget'
  | 'gc'
  | 'copy_out'
  | 'push'
  | 'free_local';

/** What came of a job. */
export type JobResult =
  | SessionView & {
    type: 'session';
  }
  | SnapshotOutcome & {
    type: 'snapshot';
  }
  | SnapshotSkipped & {
    type: 'skipped';
  }
  | RollbackOutcome & {
    type: 'rollback';
  }
  | {
    /** In the order of their names. */
    branches: BranchOutcome[];
    type: 'branch';
  }
  | SuspendOutcome & {
    type: 'suspend';
  }
  | ExecOutcome & {
    type: 'exec';
  }
  | CheckpointOutcome & {
    type: 'checkpoint';
  }
  | RestoredOutcome & {
    type: 'restore';
  }
  | ForgetOutcome & {
    type: 'forget';
  }
  | GcOutcome & {
    type: 'gc';
  }
  | CopyOutOutcome & {
    type: 'copy_out';
  }
  | PushOutcome & {
    type: 'push';
  }
  | FreeLocalOutcome & {
    type: 'free_local';
  };

/** How far a job is. */
export type JobState = 'running' | 'done' | 'failed';

/** The answer of `GET /v1/jobs`. */
export type Jobs = {
  /** The caller's jobs that run, and the last that ended; oldest first. */
  jobs: Job[];
};

/**
 * Which automatic snapshots are kept. Tagged and labelled ones, and those that somebody asked for,
 * always are.
 */
export type Keep = {
  /** The newest so many. */
  last?: number;
  /** The newest of each of the last so many hours that have one. */
  hourly?: number;
  /** The newest of each of the last so many days that have one. */
  daily?: number;
};

/** A snapshot that was to be forgotten and was not. */
export type KeptCommit = {
  /** Its id. */
  commit: string;
  /** Why it had to stay, for people. */
  reason: string;
};

/** Files that no snapshot had are in one now. */
export type KeptFiles = {
  /** The snapshot, which has these files and nothing else. */
  commit: string;
  /** The files. */
  files: FileNote[];
};

/** What a client needs to talk to a kernel. */
export type KernelView = {
  /** A connection file that works outside the session. */
  connection_file: Text;
  /** The kernelspec's name. */
  kernel_name?: string | null;
  /** The language of its cells, if that is known. */
  language?: string | null;
  /** How it is interrupted. */
  interrupt_mode?: InterruptMode;
};

/** A directory that processes find where it was, though it lies elsewhere. */
export type MappedDirectory = {
  /** Where its processes look for it. */
  from: Text;
  /** Where it lies here. */
  to: Text;
};

/** A mapping of memory that differs. */
export type MappingDiff = {
  /** Of which process. */
  pid: number;
  /** Where it begins. */
  start: number;
  /** Where it ends. */
  end: number;
  /** A path, `[heap]`, `[stack]`, `[anon]` … */
  name: Text;
  /** How the two snapshots differ in it. */
  change: Change;
  /** How many bytes, in whole pages, differ. */
  changed_bytes: number;
};

/** Which network a session sees. */
export type Network = 'private' | 'host';

/** The answer when there is nothing to say. */
export type Nothing = Record<string, never>;

/** Where a branch comes from. */
export type Origin = {
  /** The session it was branched off. */
  session: string;
  /** The snapshot it began with. */
  commit: string;
};

/** A process that differs. */
export type ProcessDiff = {
  /** Its number inside the session. */
  pid: number;
  /** Its name. */
  name: string;
  /** How the two snapshots differ in it. */
  change: Change;
};

/** Threads and tags were sent to a remote. */
export type PushOutcome = {
  /** The remote's name. */
  remote: string;
  /** How many objects it lacked. */
  objects: number;
  /** How much was sent. */
  bytes: number;
  /** The threads and tags that moved there: `threads/main`. */
  moved: string[];
};

/** The remote that is pushed to by itself, as `GET /v1/store` shows it. */
export type RemoteView = {
  /** Its name. */
  name: string;
  /** When the last push ended, well or not; `null` if there was none. */
  last_push?: string | null;
  /** Why it failed, if it did. */
  failed?: string | null;
};

/** `POST /v1/sessions/{id}/restart`. */
export type RestartRequest = {
  /** What to run. A session that is a kernel stays one, and one that is not stays that. */
  start: Start;
  /** The whole environment, as for a new session. */
  env?: EnvVar[];
  /** The working directory, absolute; the one it had if not given. */
  cwd?: Text | null;
  /**
   * How long the old processes have to end by themselves before they are killed; ten seconds if not
   * given.
   */
  grace_ms?: number | null;
  /** Take an automatic snapshot of the old processes first. */
  snapshot?: boolean;
};

/** `POST /v1/restore`. For root only. */
export type RestoreRequest = {
  /** A directory that `checkpoint` wrote. */
  directory: Text;
};

/** A process tree was brought back from a directory. */
export type RestoredOutcome = {
  /** Its root. */
  pid: number;
};

/** `POST /v1/sessions/{id}/resume`. */
export type ResumeRequest = {
  /**
   * Go on although files were changed by somebody else, or the machine is not like the one of the
   * snapshot.
   */
  force?: boolean;
  /** Onto which GPUs; as the session was started if not given. */
  gpus?: GpuWish | null;
};

/** A session was rolled back. */
export type RollbackOutcome = {
  /** The snapshot it is at now. */
  commit: string;
  /** The snapshot of how it was before; `null` if it had no processes. */
  automatic?: string | null;
  /**
   * Files that somebody else had changed and that the processes need as they were; they were
   * overwritten, and are in `automatic`.
   */
  changed_by_others: Text[];
  /**
   * Files that somebody else had changed and that nobody needs as they were: they were left as they
   * are.
   */
  spared?: Text[];
  /** Connections that could not be kept. */
  closed_connections: string[];
  /** What else should be known. */
  warnings?: string[];
  /** Where the time went. */
  steps: TimedStep[];
};

/** `POST /v1/sessions/{id}/rollback`. */
export type RollbackRequest = {
  /** A snapshot: an id or the beginning of one, a tag, a thread, with `~N` for the Nth before it. */
  to: string;
  /** Go on although files were changed by somebody else. */
  force?: boolean;
  /** Whether files are put back too. */
  files?: boolean;
  /** Something that the kernel is told when it lives again; see `infinijup_reply` in docs/daemon.md. */
  note?: string | null;
  /** The document as it is in the editor, for the automatic snapshot of what is left. */
  notebook?: string | null;
};

/** Something that listens in a session. */
export type Server = {
  /** The port that it listens on, inside. */
  port: number;
  /** The port of the machine's loopback that leads to it, for the session's own user. */
  outside_port: number;
};

/** The answer of `GET /v1/sessions/{id}/servers`. */
export type Servers = {
  /** By port. Those of the kernel itself are not among them. */
  servers: Server[];
};

/** The answer of `GET /v1/sessions/{id}/files`. */
export type SessionFiles = {
  /** Where the files of its workspace are, as they can be opened from outside. */
  directory: Text;
  /**
   * Whether they are its own: a branch has copies, any other session works in the directory that it
   * was started in.
   */
  own: boolean;
  /** Those of a branch that are in no snapshot. */
  loose: FileNote[];
};

/** `PATCH /v1/sessions/{id}`. */
export type SessionPatch = {
  /** Another name, unique among the caller's sessions. */
  name?: string | null;
  /** Labels to set; a `null` takes that label away, and the others stay. */
  labels?: Record<string, string | null> | null;
  /** The document that goes with each snapshot, as an absolute path. */
  notebook?: Text | null;
  /**
   * A file with that document as a page shows it. It goes with snapshots in its place while it is the
   * newer of both.
   */
  shown?: Text | null;
  /** What happens to it by itself, all of it anew. */
  policy?: SessionPolicy | null;
  /** What its next snapshot will be labelled. */
  mark?: string | null;
};

/** What happens to a session by itself. Everything is off unless it is said. */
export type SessionPolicy = {
  /** A snapshot every so many seconds, if anything ran since the last. */
  snapshot_every_s?: number | null;
  /** A snapshot when its kernel has been idle for so many seconds. */
  snapshot_after_idle_s?: number | null;
  /** It is suspended when its kernel has been idle for so many seconds. */
  suspend_after_idle_s?: number | null;
  /** Only what holds GPU memory is suspended so. */
  suspend_only_gpu?: boolean;
  /** Which automatic snapshots are kept; all if not given. */
  keep?: Keep | null;
};

/** What a session is doing. */
export type SessionState = 'starting' | 'running' | 'suspended' | 'ended' | 'failed';

/** A session. */
export type SessionView = {
  /** Never given to another. */
  id: string;
  /** The name that people use. */
  name: string;
  /** What it is doing. */
  state: SessionState;
  /** What it runs. */
  command: Text[];
  /** In which directory. */
  cwd: Text;
  /** Its workspace, as it can be opened from outside. */
  workspace?: Text | null;
  /** Its first process, as seen from outside; `null` if it has none now. */
  pid?: number | null;
  /** Which network it sees. */
  network: Network;
  /** How to reach it, if it is a kernel. */
  kernel?: KernelView | null;
  /** The thread its snapshots go to. */
  thread: string;
  /** Its newest snapshot. */
  head?: string | null;
  /** Where it was branched off. */
  parent?: Origin | null;
  /** When it was started. */
  created: string;
  /** How its main command ended: the exit code, or 128 and the signal. */
  exit?: number | null;
  /** Which files belong to its snapshots. */
  files: FilePolicy;
  /** How much memory its processes take now. */
  memory_bytes?: number | null;
  /**
   * How much memory its newest snapshot takes that stands by, restored, so that going back to it is a
   * switch; `null` if none does.
   */
  standby_bytes?: number | null;
  /** Whether it was running before it became a session; it has no namespaces of its own then. */
  attached?: boolean;
  /** UUIDs of the GPUs that it may use. */
  gpus?: string[];
  /** How much GPU memory its processes take now; `null` if that cannot be told. */
  vram_bytes?: number | null;
  /** Why its work on the GPU stands still, if it does. */
  gpu_trouble?: string | null;
  /** What others noted about it. */
  labels?: Record<string, string>;
  /** The document that goes with each snapshot. */
  notebook?: Text | null;
  /** What happens to it by itself. */
  policy?: SessionPolicy;
  /** The kind of the operation that is under way. */
  operation?: string | null;
  /** Whether its kernel is at work; `null` for what is no kernel. */
  activity?: Activity | null;
  /** What its next snapshot will be labelled. */
  mark?: string | null;
  /** In the answer to a removal: its files that were in no snapshot, and are in one now. */
  kept_files?: KeptFiles | null;
};

/** The answer of `GET /v1/sessions`. */
export type Sessions = {
  /** Oldest first. */
  sessions: SessionView[];
};

/** A signal. */
export type Signal = SignalName | number;

/** Signals that have a name here. */
export type SignalName =
  | 'INT'
  | 'TERM'
  | 'KILL'
  | 'HUP'
  | 'USR1'
  | 'USR2';

/** `POST /v1/sessions/{id}/signal`. */
export type SignalRequest = {
  /** The signal to send. */
  signal: Signal;
  /** To the process group of the main command, not to its process alone. */
  group?: boolean;
};

/** Why a snapshot that nobody asked for was not taken. */
export type Skipped = 'too_long' | 'nothing_new' | 'busy' | 'given_up';

/** The answer of `GET /v1/commits/{id}/check`: whether a snapshot would come up here. */
export type SnapshotCheck = {
  /** The snapshot. */
  commit: string;
  /** Whether it would: no finding is `fail`. */
  fits: boolean;
  /** What is missing or different, and what to do. */
  findings: Finding[];
};

/** The answer of `GET /v1/commits/{id}/files`. */
export type SnapshotFiles = {
  /** The files whose content it has, by path; the first so many that were asked for. */
  files: FileNote[];
  /** How many there are. */
  count: number;
  /** How many bytes all of them have. */
  bytes: number;
};

/** A snapshot was taken. */
export type SnapshotOutcome = {
  /** Its id. */
  commit: string;
  /** How long the processes stood still. */
  frozen_us: number;
  /** How long all of it took. */
  total_us: number;
  /** How much the store grew by. */
  new_bytes: number;
  /** How much memory it holds, that of GPUs included. */
  memory_bytes: number;
  /** How much of that is GPU memory. */
  vram_bytes?: number;
  /** How long work on the GPU stood still, the freeze included; 0 for sessions without any. */
  gpu_paused_us?: number;
  /** How much memory was copied while the processes stood still; null if all of it was. */
  frozen_bytes?: number | null;
  /** What it does not hold. */
  not_captured: Uncaptured[];
  /** What else should be known. */
  warnings: string[];
  /** Where the time went. */
  steps: TimedStep[];
};

/** `POST /v1/sessions/{id}/snapshot`. */
export type SnapshotRequest = {
  /** What it is, for the history. */
  message?: string | null;
  /** A name that leads to it. */
  tag?: string | null;
  /** Another policy than the session's own, for this one only. */
  files?: FilePolicy | null;
  /** A command that runs in the session before it is frozen; the snapshot is given up if it fails. */
  quiesce?: Text[] | null;
  /**
   * Why: `before-cell`, `after-cell`, `interval`, `idle`, `before-restart`, `before-shutdown`;
   * `manual` if not given.
   */
  reason?: string | null;
  /** What to call this moment; the session's `mark` if not given. */
  label?: string | null;
  /**
   * The document as it is in the editor, at most 64 MiB. If not given, the file that the session names
   * as its notebook is read.
   */
  notebook?: string | null;
  /** The cell that ran last, or is about to run. */
  cell?: CellNote | null;
  /** Whether variables are asked for, if the kernel can say; yes if not given. */
  variables?: boolean | null;
  /**
   * For one that nobody asked for (its `reason` says so): only if the processes are expected to stand
   * still no longer than so many milliseconds, if something ran since the last one, and if nothing
   * else is under way. Otherwise the result is `skipped`, and that is no failure.
   */
  within_ms?: number | null;
  /** Whether a container that somebody holds still is let go for it, and held again as it was. */
  thaw?: boolean;
};

/** A snapshot was not taken, and nobody misses it. */
export type SnapshotSkipped = {
  /** Why. */
  why: Skipped;
  /** The newest snapshot that there is. */
  head?: string | null;
  /** How long the processes would have stood still, if that was found out. */
  expected_us?: number | null;
};

/** What a session runs. */
export type Start =
  | {
  /**
   * The program and its arguments; the program is looked for in the `PATH` of the request's
   * environment.
   */
  argv: Text[];
  type: 'command';
}
  | {
  /** The name of a kernelspec, as `jupyter kernelspec list` shows it; `python3` if not given. */
  spec?: string | null;
  /**
   * The kernel's command. If it is given, no kernelspec is looked for, `spec` is no more than a name,
   * and `{connection_file}` in it is replaced by the path of the connection file.
   */
  argv?: Text[] | null;
  /** How it wants to be interrupted, if `argv` is given; by a signal if not said. */
  interrupt_mode?: InterruptMode | null;
  /** The language of its cells, if `argv` is given. */
  language?: string | null;
  /**
   * A connection file of the user's on loopback: the session takes over its ports and its key. A
   * restart keeps those that it has.
   */
  connection_file?: Text | null;
  type: 'kernel';
};

/** `POST /v1/sessions`. */
export type StartRequest = {
  /** A name of the caller's choice, unique among their sessions; one is made up if not given. */
  name?: string | null;
  /** What to run. */
  start: Start;
  /** The working directory, absolute. */
  cwd: Text;
  /** The whole environment; nothing is added but what the session needs itself. */
  env?: EnvVar[];
  /** Which network it sees. */
  network?: Network;
  /** Whether a private network has a way out. */
  outside?: boolean;
  /** The directory that a branch gets a copy of; the working directory if not given. */
  workspace?: Text | null;
  /** Which files belong to a snapshot. */
  files?: FilePolicy;
  /** The most memory that all its processes may take together, in bytes. */
  memory_limit?: number | null;
  /** The most processes and threads that it may have. */
  pids_limit?: number | null;
  /** Further commands that live, are captured and come back with the first. */
  sidecars?: Text[][];
  /** Which GPUs it may use; all if not given. */
  gpus?: GpuWish;
  /**
   * What others note about it: at most 32, a key is 1 to 64 of `a-z`, `0-9`, `.`, `_` and `-`, a value
   * at most 4096 bytes.
   */
  labels?: Record<string, string>;
  /** The document that goes with each snapshot, as an absolute path. */
  notebook?: Text | null;
  /** What happens to it by itself; nothing if not given. */
  policy?: SessionPolicy | null;
};

/** A step of a job. */
export type Step = {
  /** Its name, which is stable. */
  name: string;
  /** How long it took; `null` while it runs. */
  micros?: number | null;
  /** How much of it is done, if that can be counted. */
  done?: number | null;
  /** How much there is to do in it. */
  total?: number | null;
};

/** `POST /v1/sessions/{id}/stop`. */
export type StopRequest = {
  /** How long the processes have to end by themselves before they are killed; ten seconds if not given. */
  grace_ms?: number | null;
};

/** The answer of `GET /v1/store`. */
export type StoreView = {
  /** The directory. */
  path: Text;
  /** What it takes now; `null` if that cannot be told. */
  used_bytes?: number | null;
  /** What it may take: `store_budget` of the settings, or half of what it takes and what is free. */
  allowed_bytes?: number | null;
  /** The remote that snapshots are pushed to by themselves; `null` if they are not. */
  remote?: RemoteView | null;
};

/** A session was put to sleep. */
export type SuspendOutcome = {
  /** The snapshot that it will come back from. */
  commit: string;
  /** How much memory it gave back. */
  freed_bytes: number;
  /** How much GPU memory it gave back. */
  freed_vram_bytes?: number;
  /** Where the time went. */
  steps?: TimedStep[];
};

/** `POST /v1/sessions/{id}/suspend`. The fields are those of a snapshot. */
export type SuspendRequest = {
  /** What it is, for the history. */
  message?: string | null;
  /**
   * Why: `idle` if nobody asked for it, so that the snapshot is an automatic one; `suspend` if not
   * given.
   */
  reason?: string | null;
  /** What to call this moment; the session's `mark` if not given. */
  label?: string | null;
  /** The document as it is in the editor. */
  notebook?: string | null;
  /** The cell that ran last. */
  cell?: CellNote | null;
  /** Whether variables are asked for, if the kernel can say; yes if not given. */
  variables?: boolean | null;
  /**
   * Whether a container that somebody holds still is let go for it. If it is not put to sleep then, it
   * is held again as it was.
   */
  thaw?: boolean;
  /** Which files belong to this snapshot; the session's own policy if not given. */
  files?: FilePolicy | null;
};

/** `POST /v1/tags`. */
export type TagRequest = {
  /** The tag. */
  name: string;
  /**
   * The snapshot: an id or the beginning of one, another tag, a thread, with `~N` for the Nth before
   * it.
   */
  commit: string;
  /** Whether a tag that is there already may be moved. */
  move?: boolean;
};

/** The two shapes on the wire. */
export type Text =
  | string
  | {
  /** The bytes, two lower-case hex digits each. */
  hex: string;
};

/** A thread: where the snapshots of one session go, one after the other. */
export type ThreadView = {
  /** Its name. */
  name: string;
  /** Its newest snapshot. */
  head: string;
  /** The session that goes on with it; `null` if that is gone. */
  session?: string | null;
};

/** One step of a pipeline and how long it took. */
export type TimedStep = {
  /** Its name. */
  name: string;
  /** How long it took. */
  micros: number;
};

/** Something that a snapshot does not hold. */
export type Uncaptured = {
  /** Its path inside the session. */
  path: Text;
  /** Why it could not be captured, for people. */
  reason: string;
};

/** A variable of a kernel, as it was at a snapshot. */
export type Variable = {
  /** Its name. */
  name: string;
  /** The name of its type. */
  type: string;
  /** How many bytes it takes, if the kernel could say. */
  size?: number | null;
  /** The beginning of what it looks like; at most 200 characters. */
  summary?: string;
};

/** A variable that differs. */
export type VariableDiff = {
  /** Its name. */
  name: string;
  /** How the two snapshots differ in it. */
  change: Change;
  /** What it was. */
  before?: Variable | null;
  /** What it is. */
  after?: Variable | null;
};

/** The answer of `GET /v1/commits/{id}/variables`. */
export type Variables = {
  /** Sorted by name. */
  variables: Variable[];
};

/** The answer of `GET /v1/version`. */
export type Version = {
  /** The daemon's. */
  version: string;
  /** The wire's, see [`crate::API_VERSION`]. */
  api: number;
  /** CRIU's, if there is one. */
  criu?: string | null;
  /** Why no operation can be done here, if so. Looking still works. */
  refusal?: ErrorBody | null;
};
