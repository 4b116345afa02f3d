/**
 * Going back to before a cell, and running on from there.
 *
 * Kernel and files go back by a restore; the cells that had run since show again what they showed then. What was typed stays:
 * no cell's source is touched. Where the wanted moment has no snapshot, the person is told what there is and decides.
 */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import type { Journal } from '../cells/journal';
import type { IExecuted } from '../cells/past';
import { cellsOf, executed, lineOfKernel, shownThen } from '../cells/past';
import { putShown } from '../cells/shown';
import type { ITarget } from '../notebooks';
import { CommandIDs } from '../tokens';
import type { RollbackOutcome } from '../wire';
import type { IDeps } from './deps';
import type { Restorer } from './restore';

/** Takes cells back. */
export class CellUndo {
  constructor(
    private readonly _deps: IDeps,
    private readonly _restorer: Restorer,
    private readonly _journal: Journal
  ) {
    const { notebooks, model } = _deps;
    notebooks.tracker.widgetAdded.connect((_, panel) => this._follow(panel));
    notebooks.tracker.forEach(panel => this._follow(panel));
    model.restored.connect((_, { kernelId }) => this._since.delete(kernelId));
  }

  /** The cells of a notebook that have run in its kernel as it is now, in that order. */
  executed({ panel, state, kernelId }: ITarget): IExecuted[] {
    return panel
      ? executed(
          cellsOf(panel),
          this._journal.runs(panel.content),
          lineOfKernel(state, this._since.get(kernelId))
        )
      : [];
  }

  /** Takes the last cell back. */
  async undoLast(target: ITarget): Promise<RollbackOutcome | null> {
    const last = (await this._now(target)).pop();
    if (!last) {
      await this._say(
        this._deps.trans.__('There is no cell to take back'),
        this._deps.trans.__(
          'No cell of this notebook has run in its kernel as it is now.'
        )
      );
      return null;
    }
    return this._goBack(target, last);
  }

  /** Goes back to before a cell. */
  async goBack(
    target: ITarget,
    cellId: string
  ): Promise<RollbackOutcome | null> {
    const { trans } = this._deps;
    const cell = (await this._now(target)).find(one => one.cellId === cellId);
    if (!cell) {
      await this._say(
        trans.__('This cell has not run'),
        trans.__(
          'It has not run in the kernel as it is now, so there is nothing to take back.'
        )
      );
      return null;
    }
    return this._goBack(target, cell);
  }

  /** Goes back to before a cell, and runs it and all cells below. */
  async runFrom(target: ITarget, cellId: string): Promise<void> {
    const { panel } = target;
    if (!panel || !(await this.goBack(target, cellId)) || panel.isDisposed) {
      return;
    }
    const at = panel.content.widgets.findIndex(
      cell => cell.model.id === cellId
    );
    if (at >= 0) {
      panel.content.activeCellIndex = at;
      panel.content.deselectAll();
      await NotebookActions.runAllBelow(panel.content, panel.sessionContext);
    }
  }

  /** What has run, by a history that is up to date. */
  private async _now(target: ITarget): Promise<IExecuted[]> {
    await this._deps.model.loadHistory(target.kernelId);
    return this.executed(
      this._deps.notebooks.meant({ kernel_id: target.kernelId })!
    );
  }

  private async _goBack(
    target: ITarget,
    cell: IExecuted
  ): Promise<RollbackOutcome | null> {
    const { model, notebooks, trans } = this._deps;
    const { panel } = target;
    if (!panel) {
      return null;
    }
    const { before } = cell;
    if (!before) {
      await this._nothingBefore(cell);
      return null;
    }
    const fresh = notebooks.meant({ kernel_id: target.kernelId })!;
    const undone = this.executed(fresh).filter(
      one => one.number > before.number
    );
    if (
      before.number < cell.number - 1 &&
      !(await this._askFurther(cell, undone))
    ) {
      return null;
    }
    const runs = this._journal.runs(panel.content);
    const saved = before.commit.has_notebook
      ? await model.api.notebook(before.commit.id).catch(() => null)
      : null;
    const then = shownThen(undone, runs, before.number, saved);
    return this._restorer.restoreCells(target, before.commit, {
      begin: trans.__(
        'Going back to before [%1]',
        undone[0]?.number ?? cell.number
      ),
      end: trans.__(
        'Kernel and outputs are back to before [%1].',
        undone[0]?.number ?? cell.number
      ),
      cells: undone.map(one => one.cellId),
      put: one => {
        putShown(one, then);
        this._journal.forgetFrom(one.content, before.number + 1);
      }
    });
  }

  /** There is no snapshot right before the cell, but an earlier one. */
  private async _askFurther(
    cell: IExecuted,
    undone: readonly IExecuted[]
  ): Promise<boolean> {
    const { trans } = this._deps;
    const result = await showDialog({
      title: trans.__('No snapshot right before [%1]', cell.number),
      body: trans.__(
        'The nearest one is before [%1]. Going back there takes back these cells: %2. They can be run again.',
        undone[0]?.number ?? cell.number,
        undone.map(one => `[${one.number}]`).join(', ')
      ),
      buttons: [
        Dialog.cancelButton(),
        Dialog.okButton({
          label: trans.__(
            'Go Back to Before [%1]',
            undone[0]?.number ?? cell.number
          )
        })
      ]
    });
    return result.button.accept;
  }

  private async _nothingBefore(cell: IExecuted): Promise<void> {
    const { app, trans } = this._deps;
    const result = await showDialog({
      title: trans.__('No snapshot before [%1]', cell.number),
      body: trans.__(
        'Nothing was kept of the kernel as it was before this cell: it was the first, or ran when no snapshot could be taken. The history has what there is; restarting the kernel begins anew.'
      ),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Close') }),
        Dialog.okButton({ label: trans.__('Show History') })
      ]
    });
    if (result.button.accept) {
      await app.commands.execute(CommandIDs.openHistory);
    }
  }

  private async _say(title: string, body: string): Promise<void> {
    await showDialog({ title, body, buttons: [Dialog.okButton()] });
  }

  /** A kernel that is restarted has run nothing, and what was before belongs to another process. */
  private _follow(panel: NotebookPanel): void {
    panel.sessionContext.statusChanged.connect((context, status) => {
      const kernel = context.session?.kernel?.id;
      if (kernel && (status === 'restarting' || status === 'autorestarting')) {
        this._since.set(kernel, new Date().toISOString());
        this._journal.forget(panel.content);
      }
    });
    panel.sessionContext.kernelChanged.connect(() => {
      this._journal.forget(panel.content);
    });
  }

  /** When the processes of kernels began, as far as this page has seen it. */
  private readonly _since = new Map<string, string>();
}
