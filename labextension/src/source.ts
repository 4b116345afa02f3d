/**
 * What the History panel shows: the history of the kernel of the current notebook.
 *
 * The source asks for a history only while somebody looks (`setVisible`), and again only when the model says that the
 * one it keeps is stale. An idle panel makes no requests.
 */
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type { ApiError } from './api';
import type { IHistorySource, IHistoryState } from './history/source';
import type { IKernelState, Model } from './model';
import { asApiError } from './model';
import { linksOf, Servers } from './servers';
import type { HistoryAnswer } from './wire';

/** How long news are gathered before the server is asked, in milliseconds. */
const GATHER = 150;

/** The source. */
export class HistorySource implements IHistorySource, IDisposable {
  constructor(private readonly _model: Model) {
    const { api } = _model;
    this._servers = new Servers(
      async session =>
        linksOf(
          await api.servers(session),
          api.settings.baseUrl,
          window.location
        ),
      () => this._update()
    );
    _model.changed.connect(this._onChanged, this);
    _model.awayChanged.connect(this._update, this);
    this._state = this._compute();
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get state(): IHistoryState {
    return this._state;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    clearTimeout(this._timer);
    this._servers.stop();
    Signal.clearData(this);
  }

  /** Follows another notebook and its kernel; a notebook without a kernel has the history of its path. */
  setTarget(kernelId: string | null, path: string | null): void {
    if (kernelId !== this._kernelId || path !== this._path) {
      this._kernelId = kernelId;
      this._path = path;
      this._ofPath = null;
      this._error = null;
      this._want();
      this._update();
    }
  }

  /** Says whether the panel can be seen. */
  setVisible(visible: boolean): void {
    this._visible = visible;
    this._want();
    this._update();
  }

  /** Asks the server now. */
  async refresh(): Promise<void> {
    const { _kernelId: kernelId, _path: path } = this;
    this._error = null;
    try {
      if (kernelId) {
        await this._model.loadHistory(kernelId);
      } else if (path) {
        const answer = await this._model.api.history({ path });
        if (this._path === path && !this._kernelId) {
          this._ofPath = answer;
        }
      }
    } catch (error) {
      if (this._kernelId === kernelId && this._path === path) {
        this._error = asApiError(error);
      }
    }
    this._update();
  }

  private _onChanged(_: Model, kernelId: string): void {
    if (kernelId === this._kernelId) {
      this._error = this._model.state(kernelId).error && this._error;
      this._want();
      this._update();
    }
  }

  /** Asks for the history if it is needed and not there. */
  private _want(): void {
    if (!this._visible || this._timer || this._isDisposed) {
      return;
    }
    if (this._needed()) {
      this._timer = setTimeout(
        () => {
          this._timer = undefined;
          if (this._visible && this._needed()) {
            void this.refresh();
          }
        },
        this._kernel()?.history ? GATHER : 0
      );
    }
  }

  private _needed(): boolean {
    const kernel = this._kernel();
    if (kernel) {
      // What failed is not tried again by itself: the stream says when it may work.
      return (
        !kernel.error && !!kernel.session && (!kernel.history || kernel.stale)
      );
    }
    return !!this._path && !this._ofPath && !this._error;
  }

  private _kernel(): IKernelState | null {
    return this._kernelId ? this._model.state(this._kernelId) : null;
  }

  private _update(): void {
    if (!this._isDisposed) {
      const session = this._kernel()?.session ?? null;
      this._servers.follow(this._visible ? session : null);
      this._state = this._compute();
      this._changed.emit();
    }
  }

  private _compute(): IHistoryState {
    const kernel = this._kernel();
    const history = kernel ? kernel.history : this._ofPath;
    const error = this._error ?? kernel?.error ?? null;
    const session = kernel ? kernel.session : (history?.session ?? null);
    let status: IHistoryState['status'] = 'loading';
    if (!kernel && !this._path) {
      status = 'none';
    } else if (error) {
      status = 'error';
    } else if (kernel && kernel.known && !kernel.session) {
      status = 'none';
    } else if (history) {
      status = 'ready';
    }
    return {
      status,
      kernelId: this._kernelId,
      path: this._path,
      session,
      whyNot: kernel?.whyNot ?? null,
      commits: history?.commits ?? [],
      threads: history?.threads ?? [],
      servers: this._servers.links,
      job: kernel?.job ?? null,
      away: this._model.away,
      error
    };
  }

  private readonly _servers: Servers;
  private readonly _changed = new Signal<this, void>(this);
  private _state: IHistoryState;
  private _kernelId: string | null = null;
  private _path: string | null = null;
  private _ofPath: HistoryAnswer | null = null;
  private _error: ApiError | null = null;
  private _visible = false;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isDisposed = false;
}
