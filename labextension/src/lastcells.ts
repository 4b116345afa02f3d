/**
 * Remembers which cell of each notebook ran last, as far as its kernel is concerned.
 *
 * What the page saw run comes first. A notebook that was just opened (a branch, a reloaded page) has seen nothing, and the
 * execution counts tell; the active cell does not: it is where the cursor is. A restart leaves no cell, and a restore the
 * one of its snapshot.
 */
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import { isRunning, lastByCount, noteOf } from './cellnotes';
import type { Model } from './model';
import { kernelOf } from './notebooks';
import type { CellNote } from './wire';

/** Which cell of each notebook ran last. */
export class LastCells {
  constructor(tracker: INotebookTracker, model: Model) {
    NotebookActions.executionScheduled.connect((_, { notebook, cell }) => {
      // Its number comes when it runs.
      this._cells.set(notebook, { ...noteOf(cell.model), number: null });
    });
    const opened = (panel: NotebookPanel) => {
      panel.sessionContext.statusChanged.connect((_, status) => {
        if (status === 'restarting' || status === 'autorestarting') {
          this._cells.set(panel.content, null);
        }
      });
    };
    tracker.forEach(opened);
    tracker.widgetAdded.connect((_, panel) => opened(panel));
    model.restored.connect((_, { kernelId, commit }) => {
      const cell = model.commit(commit)?.cell;
      tracker
        .filter(panel => kernelOf(panel) === kernelId)
        .forEach(panel => {
          if (cell) {
            this._cells.set(panel.content, cell);
          } else {
            this._cells.delete(panel.content);
          }
        });
    });
  }

  /** The cell that runs or ran last; none if none did. */
  of(panel: NotebookPanel): CellNote | undefined {
    const models = panel.content.widgets.map(cell => cell.model);
    const running = models.find(model => isRunning(model));
    if (running) {
      return noteOf(running);
    }
    const noted = this._cells.get(panel.content);
    if (noted === undefined) {
      return lastByCount(models);
    }
    if (noted === null) {
      return undefined;
    }
    const there = models.find(model => model.id === noted.id);
    const number = noted.number ?? (there && noteOf(there).number);
    return { ...noted, number };
  }

  /** `null`: no cell has run in this kernel. */
  private readonly _cells = new WeakMap<object, CellNote | null>();
}
