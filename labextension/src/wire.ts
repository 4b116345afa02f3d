/**
 * What the server extension sends and takes, as JSON. What it passes on from the daemon is made from the daemon's own document
 * (`daemon-wire.ts`), and only what the server adds is written here.
 *
 * The server is newer or older than the page now and then, so the rule of the wire holds here too: fields are only added,
 * a field that is not known is skipped, and what older snapshots do not have is `null` or missing. These are type
 * aliases, not interfaces, where a value goes into JupyterLab as `JSONObject`.
 */
import type * as Daemon from './daemon-wire';

export type * from './daemon-wire';

/** The user's settings, as the server extension takes them. */
export type ServerPolicy = {
  snapshot_every_s: number | null;
  snapshot_after_idle_s: number | null;
  suspend_after_idle_s: number | null;
  suspend_only_gpu: boolean;
  keep: Daemon.Keep | null;
  before_cell: boolean;
  after_cell: boolean;
  /** How long a kernel may stand still for a snapshot after a cell. */
  pause_ms: number;
  before_restart: boolean;
  cull: 'suspend' | 'shutdown';
};

/** A snapshot after a cell that was not taken: the kernel would have stood still for too long. */
export type LeftOut = { number?: number | null; pause_ms?: number | null };

/** A session as the server tells of it. */
export type SessionView = Daemon.SessionView & { left_out?: LeftOut | null };

/** A session as the list of all sessions has it. */
export type ListedSession = SessionView & {
  kernel_id: string | null;
  path: string | null;
};

/** A line of history, and who goes on with it. */
export type ThreadView = Daemon.ThreadView & {
  state?: Daemon.SessionState | null;
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
  commits: Daemon.CommitView[];
  threads: ThreadView[];
};

/** The answer of `GET sessions/{id}/servers`. */
export type ServersAnswer = {
  servers: Daemon.Server[];
  /** Whether the server leads to ports of its machine at `proxy/PORT/`. */
  proxied: boolean;
};

/** The answer of `POST branch`. */
export type BranchAnswer = {
  kernel_id: string;
  kernel_name: string;
  /** Jupyter's session, not ours. */
  session_id: string;
  /** The copy of the notebook. */
  path: string;
  session: Daemon.SessionView;
  warnings: string[];
};

/** The answer of `POST files`. */
export type CopiedFiles = {
  /** The copies, as paths of the server. */
  written: string[];
  skipped: { path: string; reason: string }[];
};

/** One cell in a comparison. */
export type CellView = {
  id?: string | null;
  cell_type?: string;
  source: string;
  number?: number | null;
};

/** The answer of `GET diff`: the daemon's, and the cells of both notebooks. */
export type Diff = Daemon.Diff & {
  cells?: {
    added: CellView[];
    removed: CellView[];
    changed: { before: CellView; after: CellView }[];
  } | null;
};

/** What opening a notebook should offer. */
export type Offer = {
  session: Daemon.SessionView;
  commit: Daemon.CommitView;
  reason: 'crash' | 'reboot' | 'ended' | 'suspended';
};

/** The answer of `GET store`. */
export type StoreAnswer = {
  used_bytes: number | null;
  allowed_bytes: number | null;
  /** The remote that snapshots are pushed to by themselves. */
  remote: Daemon.RemoteView | null;
};

/** The answer of `GET status`. */
export type StatusAnswer = {
  /** The daemon's version; `null` if it cannot be reached. */
  daemon: string | null;
  why_not: string | null;
  transport: 'events' | 'redis' | 'polling';
  every_kernel: boolean;
};

/** What a refusal or a failure looks like; those of the server itself name no exit code. */
export type ErrorBody = Omit<Daemon.ErrorBody, 'exit'> & { exit?: number };

/** A job of the daemon, as events tell it. */
export type JobNews = {
  id: string;
  kind?: string | null;
  state: 'running' | 'done' | 'failed';
  step?: string | null;
  done?: number | null;
  total?: number | null;
  error?: ErrorBody | null;
  /** A snapshot after a cell, which nobody asked for. */
  automatic?: boolean;
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
  | { type: 'snapshot'; kernel_id: string | null; commit: Daemon.CommitView }
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
