/**
 * What the server extension sends and takes, as JSON.
 *
 * The server is newer or older than the page now and then, so the rule of the wire holds here too: fields are only added,
 * a field that is not known is skipped, and what older snapshots do not have is `null` or missing. These are type
 * aliases, not interfaces, where a value goes into JupyterLab as `JSONObject`.
 */

/** A path, an argument: bytes that are nearly always text, and hex where they are not. */
export type Text = string | { hex: string };

/** What a session is doing. */
export type SessionState =
  'starting' | 'running' | 'suspended' | 'ended' | 'failed';

/** What the kernel is doing, as the daemon sees it. */
export type Activity = {
  state: 'busy' | 'idle' | 'unknown';
  since: string;
  number?: number | null;
  /** The first line of the cell that runs. */
  cell?: string | null;
};

/** How many automatic snapshots are kept. */
export type Keep = { last: number; hourly: number; daily: number };

/** What the daemon does with a session by itself. */
export type SessionPolicy = {
  snapshot_every_s?: number | null;
  snapshot_after_idle_s?: number | null;
  suspend_after_idle_s?: number | null;
  suspend_only_gpu?: boolean;
  keep?: Keep | null;
};

/** The user's settings, as the server extension takes them. */
export type ServerPolicy = {
  snapshot_every_s: number | null;
  snapshot_after_idle_s: number | null;
  suspend_after_idle_s: number | null;
  suspend_only_gpu: boolean;
  keep: Keep | null;
  before_cell: boolean;
  after_cell: boolean;
  before_restart: boolean;
  cull: 'suspend' | 'shutdown';
};

/** A session of the daemon: one kernel, with its history. */
export type SessionView = {
  id: string;
  name: string;
  state: SessionState;
  thread: string;
  /** Its newest snapshot. */
  head?: string | null;
  parent?: { session: string; commit?: string } | null;
  created: string;
  exit?: number | null;
  kernel?: {
    kernel_name?: string | null;
    language?: string | null;
    interrupt_mode?: string | null;
  } | null;
  labels?: Record<string, string>;
  notebook?: Text | null;
  policy?: SessionPolicy | null;
  /** The job that is under way, `null` if none. */
  operation?: string | null;
  activity?: Activity | null;
  /** The label that its next snapshot gets. */
  mark?: string | null;
  memory_bytes?: number | null;
  vram_bytes?: number | null;
  gpus?: string[];
  gpu_trouble?: string | null;
};

/** A session as the list of all sessions has it. */
export type ListedSession = SessionView & {
  kernel_id: string | null;
  path: string | null;
};

/** The cell that ran last, or runs, when a snapshot is taken. */
export type CellNote = {
  id?: string | null;
  number?: number | null;
  source: string;
};

/** A snapshot. */
export type CommitView = {
  id: string;
  parents: string[];
  thread: string;
  tags: string[];
  time: string;
  reason: string;
  message: string;
  bytes: number;
  label?: string | null;
  automatic?: boolean;
  new_bytes?: number | null;
  memory_bytes?: number | null;
  vram_bytes?: number | null;
  frozen_us?: number | null;
  gpu_paused_us?: number | null;
  cell?: CellNote | null;
  has_notebook?: boolean;
  has_variables?: boolean;
  /** The session it was taken of. */
  session?: string | null;
  /** Where a rollback went back to. */
  back_to?: string | null;
};

/** A line of history, and who goes on with it. */
export type ThreadView = {
  name: string;
  head: string | null;
  session: string | null;
  state?: SessionState | null;
  kernel_id?: string | null;
  path?: string | null;
};

/** The answer of `GET kernels/{id}`. */
export type KernelAnswer = {
  kernel_id: string;
  session: SessionView | null;
  /** Why this kernel has no history. */
  why_not: string | null;
  path: string | null;
};

/** The answer of `GET history`. */
export type HistoryAnswer = {
  session: SessionView | null;
  kernel_id: string | null;
  /** Newest first. */
  commits: CommitView[];
  threads: ThreadView[];
};

export type TimedStep = { name: string; micros: number };

/** The answer of `POST snapshot`. */
export type SnapshotOutcome = {
  commit: string;
  frozen_us: number;
  total_us: number;
  new_bytes: number;
  memory_bytes: number;
  vram_bytes?: number;
  gpu_paused_us?: number;
  not_captured: { path: Text; reason: string }[];
  warnings: string[];
  steps?: TimedStep[];
};

/** The answer of `POST restore`. */
export type RollbackOutcome = {
  commit: string;
  /** The snapshot of how it was before; `null` if there was nothing to keep. */
  automatic?: string | null;
  changed_by_others: Text[];
  closed_connections: string[];
  warnings?: string[];
  steps?: TimedStep[];
};

/** The answer of `POST branch`. */
export type BranchAnswer = {
  kernel_id: string;
  kernel_name: string;
  /** Jupyter's session, not ours. */
  session_id: string;
  /** The copy of the notebook. */
  path: string;
  session: SessionView;
  warnings: string[];
};

/** The answer of `POST suspend`. */
export type SuspendOutcome = {
  commit: string;
  freed_bytes: number;
  freed_vram_bytes?: number;
  steps?: TimedStep[];
};

/** The answer of `POST forget`. */
export type ForgetOutcome = {
  forgotten: string[];
  kept: { commit: string; reason: string }[];
};

/** The answer of `POST gc`. */
export type GcOutcome = {
  freed_bytes: number;
  commits: number;
  objects: number;
};

export type Change = 'added' | 'removed' | 'changed';

/** A name in the kernel, as a snapshot remembers it. */
export type Variable = {
  name: string;
  type: string;
  size?: number | null;
  summary: string;
};

/** One cell in a comparison. */
export type CellView = {
  id?: string | null;
  cell_type?: string;
  source: string;
  number?: number | null;
};

/** The answer of `GET diff`. */
export type Diff = {
  a: string;
  b: string;
  processes: { pid: number; name: string; change: Change }[];
  memory: {
    pid: number;
    start: number;
    end: number;
    name: Text;
    change: Change;
    changed_bytes: number;
  }[];
  files: {
    path: Text;
    change: Change;
    before_bytes?: number | null;
    after_bytes?: number | null;
  }[];
  totals: { memory_bytes: number; files: number; processes: number };
  variables?:
    | {
        name: string;
        change: Change;
        before?: Variable | null;
        after?: Variable | null;
      }[]
    | null;
  cells?: {
    added: CellView[];
    removed: CellView[];
    changed: { before: CellView; after: CellView }[];
  } | null;
};

/** What opening a notebook should offer. */
export type Offer = {
  session: SessionView;
  commit: CommitView;
  reason: 'crash' | 'reboot' | 'ended' | 'suspended';
};

/** The answer of `GET status`. */
export type StatusAnswer = {
  /** The daemon's version; `null` if it cannot be reached. */
  daemon: string | null;
  why_not: string | null;
  transport: 'events' | 'redis' | 'polling';
  every_kernel: boolean;
};

/** The answer of `GET doctor`. */
export type Doctor = {
  works: boolean;
  findings: {
    item: string;
    state: 'ok' | 'warn' | 'fail';
    evidence: string;
    fix?: string | null;
  }[];
};

/** What a refusal or a failure looks like. */
export type ErrorBody = {
  code: string;
  message: string;
  hint?: string | null;
  causes?: string[];
  /** Files that others changed, when a restore is refused because of them. */
  files?: Text[];
};

/** A job of the daemon, as events tell it. */
export type JobNews = {
  id: string;
  /** Steps come without it: it is that of the job's beginning. */
  kind?: string | null;
  state: 'running' | 'done' | 'failed';
  step?: string | null;
  done?: number | null;
  total?: number | null;
  error?: ErrorBody | null;
};

/** The cell that a restored kernel goes on with. */
export type RunningCell = { cell_id: string | null; msg_id: string };

/** What the stream of events says. */
export type StreamEvent =
  | { type: 'hello' }
  | {
      type: 'session';
      kernel_id: string | null;
      /** `null` if it was removed. */
      session: SessionView | null;
      id?: string;
    }
  | { type: 'job'; kernel_id: string | null; job: JobNews }
  | { type: 'snapshot'; kernel_id: string | null; commit: CommitView }
  | { type: 'history'; kernel_id: string | null }
  | {
      type: 'restored';
      kernel_id: string;
      commit: string;
      notebook: boolean;
      running_cell: RunningCell | null;
    }
  | { type: 'resumed'; kernel_id: string }
  | { type: 'daemon'; away: boolean; why_not?: string | null }
  | { type: 'warning'; kernel_id: string | null; error: ErrorBody };

/** The answer of `GET events?since=N`. */
export type EventsAnswer = {
  events: StreamEvent[];
  next: number;
  /** Whether events are gone that nobody has heard of. */
  missed?: boolean;
};
