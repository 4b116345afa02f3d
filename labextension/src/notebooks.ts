/**
 * Which notebooks are open, and what their kernels are.
 *
 * Each open notebook's kernel is watched as long as the notebook is open. Commands without arguments mean the notebook
 * that was used last; with a kernel's id they mean the notebook that runs on it, which may not be open at all.
 */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type { IKernelState, Model } from './model';

/** A notebook and its kernel. */
export interface ITarget {
  kernelId: string;
  state: IKernelState;
  /** `null` if the notebook is not open in this page. */
  panel: NotebookPanel | null;
}

/** The open notebooks. */
export class Notebooks {
  constructor(
    readonly tracker: INotebookTracker,
    readonly model: Model
  ) {
    tracker.forEach(panel => this._follow(panel));
    tracker.widgetAdded.connect((_, panel) => this._follow(panel));
    tracker.currentChanged.connect(() => this._changed.emit());
    model.changed.connect((_, kernelId) => {
      if (this.find(kernelId)) {
        this._changed.emit();
      }
    });
    model.awayChanged.connect(() => this._changed.emit());
  }

  /** The current notebook, a notebook's kernel or what is known of it changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The notebook that was used last, if it has a kernel. */
  get current(): ITarget | null {
    const panel = this.tracker.currentWidget;
    return panel ? this.target(panel) : null;
  }

  /** A notebook and its kernel; `null` if it has none. */
  target(panel: NotebookPanel): ITarget | null {
    const kernelId = kernelOf(panel);
    return kernelId
      ? { kernelId, state: this.model.state(kernelId), panel }
      : null;
  }

  /** The open notebook that runs on a kernel, the current one first. */
  find(kernelId: string): NotebookPanel | null {
    const current = this.tracker.currentWidget;
    if (current && kernelOf(current) === kernelId) {
      return current;
    }
    return this.tracker.find(panel => kernelOf(panel) === kernelId) ?? null;
  }

  /** What the arguments of a command mean. */
  meant(args: { kernel_id?: unknown }): ITarget | null {
    const { kernel_id: kernelId } = args;
    if (typeof kernelId !== 'string') {
      return this.current;
    }
    return {
      kernelId,
      state: this.model.state(kernelId),
      panel: this.find(kernelId)
    };
  }

  private _follow(panel: NotebookPanel): void {
    let watched: string | null = null;
    let watch: IDisposable | null = null;
    const update = () => {
      const kernelId = panel.isDisposed ? null : kernelOf(panel);
      if (kernelId !== watched) {
        const before = watch;
        watched = kernelId;
        watch = kernelId ? this.model.watch(kernelId) : null;
        before?.dispose();
      }
      this._changed.emit();
    };
    panel.sessionContext.kernelChanged.connect(update);
    panel.sessionContext.statusChanged.connect(() => this._changed.emit());
    panel.context.pathChanged.connect(() => this._changed.emit());
    panel.disposed.connect(update);
    update();
  }

  private readonly _changed = new Signal<this, void>(this);
}

/** The id of a notebook's kernel. */
export function kernelOf(panel: NotebookPanel): string | null {
  return panel.sessionContext.session?.kernel?.id ?? null;
}
