/**
 * What the page knows about kernels and their histories.
 *
 * One model serves the whole page. Each kernel that is watched has a `KernelState`; the stream of events keeps it right,
 * and the server is asked only when a kernel is seen for the first time, when events were missed, and when somebody
 * who looks at a history finds it stale.
 */
import type { IDisposable } from '@lumino/disposable';
import { DisposableDelegate } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type { Api } from './api';
import { ApiError } from './api';
import type { EventStream } from './events';
import { withCommit, withSession } from './family';
import type {
  CommitView,
  ErrorBody,
  HistoryAnswer,
  JobNews,
  RunningCell,
  SessionView,
  StreamEvent
} from './wire';

/** Branches may have newer snapshots than a kernel itself; so many are looked at to find its own. */
const LOOKED_AT = 20;

/** How long the event of a snapshot may come after that of its session, in milliseconds. */
const EVENT_LATER = 1000;

/** What is known of one kernel. */
export interface IKernelState {
  readonly kernelId: string;
  /** Whether the server has been asked at all. */
  readonly known: boolean;
  readonly session: SessionView | null;
  /** Why there is no session. */
  readonly whyNot: string | null;
  /** Why the server could not tell. */
  readonly error: ApiError | null;
  /** What is being done with it now. */
  readonly job: JobNews | null;
  /** The newest snapshot, if an event or a history told it. */
  readonly last: CommitView | null;
  readonly history: HistoryAnswer | null;
  /** Whether `history` may lack something. */
  readonly stale: boolean;
}

/** A job of a kernel, as it goes on. */
export interface IJobChange {
  kernelId: string | null;
  job: JobNews;
}

/** A kernel was brought back to a snapshot. */
export interface IRestored {
  kernelId: string;
  commit: string;
  notebook: boolean;
  runningCell: RunningCell | null;
}

/** Something went wrong that nobody had asked for just now. */
export interface IWarning {
  kernelId: string | null;
  error: ErrorBody;
}

/** The model. */
export class Model implements IDisposable {
  constructor(
    readonly api: Api,
    stream: EventStream
  ) {
    stream.event.connect(this._onEvent, this);
    stream.resync.connect(this._onResync, this);
  }

  /** The state of this kernel changed. */
  get changed(): ISignal<this, string> {
    return this._changed;
  }

  /** A job began, went on or ended. */
  get jobChanged(): ISignal<this, IJobChange> {
    return this._jobChanged;
  }

  get restored(): ISignal<this, IRestored> {
    return this._restored;
  }

  /** A session changed, of whatever kernel or of none; `null` if any may have. */
  get sessionChanged(): ISignal<this, SessionView | null> {
    return this._sessionChanged;
  }

  /** Something that happens by itself went wrong: an automatic snapshot, say. */
  get warned(): ISignal<this, IWarning> {
    return this._warned;
  }

  /** The daemon went or came back. */
  get awayChanged(): ISignal<this, boolean> {
    return this._awayChanged;
  }

  /** Whether the daemon cannot be reached. */
  get away(): boolean {
    return this._away;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._kernels.clear();
    Signal.clearData(this);
  }

  /** What is known now, without asking anyone. */
  state(kernelId: string): IKernelState {
    return this._kernels.get(kernelId) ?? unknown(kernelId);
  }

  /** Keeps a kernel's state up to date until the answer is disposed of. */
  watch(kernelId: string): IDisposable {
    const watchers = this._watchers.get(kernelId) ?? 0;
    this._watchers.set(kernelId, watchers + 1);
    if (watchers === 0) {
      void this.refresh(kernelId);
    }
    return new DisposableDelegate(() => {
      const left = (this._watchers.get(kernelId) ?? 1) - 1;
      if (left > 0) {
        this._watchers.set(kernelId, left);
      } else {
        this._watchers.delete(kernelId);
        this._kernels.delete(kernelId);
      }
    });
  }

  /** Asks the server what a kernel is. Never throws: the state says what went wrong. */
  async refresh(kernelId: string): Promise<IKernelState> {
    try {
      const answer = await this.api.kernel(kernelId);
      this._set(kernelId, {
        known: true,
        session: answer.session,
        whyNot: answer.why_not,
        error: null,
        // The end of a job may be among the events that were missed.
        job: answer.session?.operation ? this.state(kernelId).job : null
      });
      await this._findLast(kernelId, answer.session?.head);
    } catch (error) {
      this._set(kernelId, { known: true, error: asApiError(error) });
    }
    return this.state(kernelId);
  }

  /** Asks for a kernel's history; two askers at once share one request. */
  loadHistory(kernelId: string): Promise<void> {
    let loading = this._loading.get(kernelId);
    if (!loading) {
      loading = this._load(kernelId).finally(() =>
        this._loading.delete(kernelId)
      );
      this._loading.set(kernelId, loading);
    }
    return loading;
  }

  /** The commit with this id, if a history that is kept has it. */
  commit(id: string): CommitView | null {
    for (const state of this._kernels.values()) {
      const found = state.history?.commits.find(commit => commit.id === id);
      if (found) {
        return found;
      }
    }
    return null;
  }

  /** Learns when the newest snapshot was taken, if nothing has told it yet. */
  private async _findLast(
    kernelId: string,
    head?: string | null
  ): Promise<void> {
    if (!head || this.state(kernelId).last?.id === head) {
      return;
    }
    let found = this.commit(head);
    if (!found) {
      const { commits } = await this.api.history(
        { kernel_id: kernelId },
        LOOKED_AT
      );
      found = commits.find(commit => commit.id === head) ?? null;
    }
    // A session that was looked at before its newest snapshot still names the one before.
    const { last } = this.state(kernelId);
    if (found && (!last || last.time < found.time)) {
      this._set(kernelId, { last: found });
    }
  }

  /** A snapshot that no event told of, as that of an automatic suspend: the session's head says that it is there. */
  private _followHead(kernelId: string): void {
    const isNews = () => {
      const { session, last } = this.state(kernelId);
      return !!session?.head && session.head !== last?.id;
    };
    if (!isNews() || this._following.has(kernelId)) {
      return;
    }
    this._following.add(kernelId);
    // The event of a snapshot mostly comes a moment later, and then there is nothing to ask.
    setTimeout(() => {
      this._following.delete(kernelId);
      if (this._watchers.has(kernelId) && isNews()) {
        const { head } = this.state(kernelId).session ?? {};
        // What cannot be asked now is asked with the next change.
        this._findLast(kernelId, head).catch(() => undefined);
      }
    }, EVENT_LATER);
  }

  private async _load(kernelId: string): Promise<void> {
    // What arrives while the server answers may be missing in the answer.
    this._set(kernelId, { stale: false });
    try {
      const history = await this.api.history({ kernel_id: kernelId });
      this._set(kernelId, {
        known: true,
        history,
        session: history.session ?? this.state(kernelId).session,
        last: newest(history) ?? this.state(kernelId).last,
        error: null
      });
    } catch (error) {
      this._set(kernelId, { error: asApiError(error), stale: true });
      throw error;
    }
  }

  private _onEvent(_: EventStream, event: StreamEvent): void {
    switch (event.type) {
      case 'session':
        if (event.session) {
          this._onSession(event.kernel_id, event.session);
        } else {
          this._onRemoved(event.kernel_id);
        }
        break;
      case 'job':
        this._onJob(event.kernel_id, event.job);
        break;
      case 'snapshot':
        this._onSnapshot(event.kernel_id, event.commit);
        break;
      case 'history':
        for (const [id, state] of this._kernels) {
          if (state.history && (!event.kernel_id || id === event.kernel_id)) {
            this._set(id, { stale: true });
          }
        }
        break;
      case 'restored':
        if (this.state(event.kernel_id).history) {
          this._set(event.kernel_id, { stale: true });
        }
        this._restored.emit({
          kernelId: event.kernel_id,
          commit: event.commit,
          notebook: event.notebook,
          runningCell: event.running_cell
        });
        break;
      case 'resumed':
        if (this._watchers.has(event.kernel_id)) {
          void this.refresh(event.kernel_id);
        }
        break;
      case 'daemon':
        this._setAway(event.away);
        break;
      case 'warning':
        this._warned.emit({ kernelId: event.kernel_id, error: event.error });
        break;
      default:
        break; // hello, and what a newer server says
    }
  }

  private _onJob(kernelId: string | null, job: JobNews): void {
    // One that is taken by itself keeps nobody from anything: whoever wants something meanwhile waits a moment.
    if (kernelId && !job.automatic) {
      this._set(kernelId, { job: job.state === 'running' ? job : null });
    }
    this._jobChanged.emit({ kernelId, job });
  }

  private _onSession(kernelId: string | null, session: SessionView): void {
    for (const [id, state] of this._kernels) {
      if (state.history && id !== kernelId) {
        this._keep(id, withSession(state.history, session));
      }
    }
    if (kernelId) {
      const { history } = this.state(kernelId);
      this._set(kernelId, { known: true, session, whyNot: null, error: null });
      if (history) {
        this._keep(kernelId, withSession(history, session));
      }
      this._followHead(kernelId);
    }
    this._sessionChanged.emit(session);
  }

  private _onRemoved(kernelId: string | null): void {
    if (kernelId) {
      this._set(kernelId, { session: null, history: null, last: null });
    }
    this._sessionChanged.emit(null);
  }

  private _onSnapshot(kernelId: string | null, commit: CommitView): void {
    if (kernelId) {
      this._set(kernelId, { last: commit });
    }
    for (const [id, state] of this._kernels) {
      if (state.history) {
        this._keep(id, withCommit(state.history, commit));
      }
    }
  }

  private _keep(
    kernelId: string,
    { history, outcome }: ReturnType<typeof withCommit>
  ): void {
    if (outcome !== 'same') {
      const { stale } = this.state(kernelId);
      this._set(kernelId, { history, stale: stale || outcome === 'stale' });
    }
  }

  private _onResync(): void {
    for (const kernelId of this._watchers.keys()) {
      if (this.state(kernelId).history) {
        this._set(kernelId, { stale: true });
      }
      void this.refresh(kernelId);
    }
    this._sessionChanged.emit(null);
  }

  private _setAway(away: boolean): void {
    if (this._away !== away) {
      this._away = away;
      this._awayChanged.emit(away);
      if (!away) {
        this._onResync();
      }
    }
  }

  private _set(kernelId: string, change: Partial<IKernelState>): void {
    if (this._isDisposed || !this._watchers.has(kernelId)) {
      return;
    }
    this._kernels.set(kernelId, { ...this.state(kernelId), ...change });
    this._changed.emit(kernelId);
  }

  private readonly _kernels = new Map<string, IKernelState>();
  private readonly _watchers = new Map<string, number>();
  private readonly _following = new Set<string>();
  private readonly _loading = new Map<string, Promise<void>>();
  private readonly _changed = new Signal<this, string>(this);
  private readonly _jobChanged = new Signal<this, IJobChange>(this);
  private readonly _warned = new Signal<this, IWarning>(this);
  private readonly _restored = new Signal<this, IRestored>(this);
  private readonly _sessionChanged = new Signal<this, SessionView | null>(this);
  private readonly _awayChanged = new Signal<this, boolean>(this);
  private _away = false;
  private _isDisposed = false;
}

/** Whatever was thrown, as an error that can be shown. */
export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) {
    return error;
  }
  const message = error instanceof Error ? error.message : String(error);
  return new ApiError(0, { code: 'page', message });
}

function unknown(kernelId: string): IKernelState {
  return {
    kernelId,
    known: false,
    session: null,
    whyNot: null,
    error: null,
    job: null,
    last: null,
    history: null,
    stale: false
  };
}

function newest(history: HistoryAnswer): CommitView | null {
  const head = history.session?.head;
  return (
    history.commits.find(commit => commit.id === head) ??
    history.commits.find(commit => commit.thread === history.session?.thread) ??
    null
  );
}
