/**
 * What this page has run: which cell, as which number, and what it showed before.
 *
 * A snapshot that is taken by itself has the notebook as it was saved last, which may be minutes old. So a page remembers what
 * each cell showed when it was run, and can put that back. A page that is reloaded has forgotten it.
 */
import type { CodeCell } from '@jupyterlab/cells';
import type { Notebook } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type { IRun } from './shown';
import { shown } from './shown';

/** So many runs of a notebook are remembered. */
const KEPT = 1000;

/** What each open notebook has run since the page was opened. */
export class Journal {
  constructor() {
    NotebookActions.executionScheduled.connect((_, { notebook, cell }) => {
      if (cell.model.type === 'code') {
        this._add(notebook, cell as CodeCell);
      }
    });
    NotebookActions.executed.connect((_, { notebook, cell }) => {
      if (cell.model.type === 'code') {
        this._end(notebook, cell as CodeCell);
      }
    });
  }

  /** A cell of this notebook has ended. */
  get changed(): ISignal<this, Notebook> {
    return this._changed;
  }

  /** Runs that have ended, oldest first. */
  runs(notebook: Notebook): readonly IRun[] {
    return (this._runs.get(notebook) ?? []).filter(run => run.number !== null);
  }

  /** The kernel has gone back to before the cell with this number: runs from there on have not been. */
  forgetFrom(notebook: Notebook, number: number): void {
    this._keep(notebook, run => run.number !== null && run.number < number);
  }

  /** The kernel is another one, which has run nothing. */
  forget(notebook: Notebook): void {
    this._keep(notebook, run => run.number === null);
  }

  private _add(notebook: Notebook, cell: CodeCell): void {
    const run = {
      cellId: cell.model.id,
      number: null,
      before: shown(cell.model)
    };
    this._runs.set(notebook, [
      ...(this._runs.get(notebook) ?? []).slice(1 - KEPT),
      run
    ]);
  }

  private _end(notebook: Notebook, cell: CodeCell): void {
    const run = [...(this._runs.get(notebook) ?? [])]
      .reverse()
      .find(one => one.cellId === cell.model.id && one.number === null);
    if (run) {
      run.number = cell.model.executionCount;
      // One that was cut off has no number, and changed nothing that could be gone back behind.
      this._keep(notebook, one => one !== run || one.number !== null);
      this._changed.emit(notebook);
    }
  }

  private _keep(notebook: Notebook, which: (run: IRun) => boolean): void {
    this._runs.set(notebook, (this._runs.get(notebook) ?? []).filter(which));
  }

  private readonly _runs = new WeakMap<Notebook, IRun[]>();
  private readonly _changed = new Signal<this, Notebook>(this);
}
