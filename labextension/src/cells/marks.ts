/**
 * The marks beside cells: each leads to the kernel as it was before its cell.
 *
 * A mark is a small button below the prompt of a cell that has run. It says in words where it leads, and opens a menu. JupyterLab makes the
 * parts of a cell when it comes into sight and writes the prompt anew with each run, so a mark stands beside the prompt and
 * not in it, and is looked after whenever something has changed.
 */
import type { CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Debouncer } from '@lumino/polling';
import { Menu } from '@lumino/widgets';
import type { CellUndo } from '../actions/cells';
import type { IDeps } from '../actions/deps';
import { time } from '../format';
import { undoCellIcon } from '../icons';
import { CommandIDs } from '../tokens';
import type { Journal } from './journal';
import type { IExecuted } from './past';

const CLASS = 'infinijup-CellMark';

/** So long is waited for what else changes, in milliseconds: several events tell of one snapshot. */
const TOGETHER = 100;

/** Marks the cells of all open notebooks. */
export function markCells(deps: IDeps, undo: CellUndo, journal: Journal): void {
  const { notebooks } = deps;
  const follow = (panel: NotebookPanel) =>
    new Marks(deps, undo, journal, panel);
  notebooks.tracker.forEach(follow);
  notebooks.tracker.widgetAdded.connect((_, panel) => void follow(panel));
}

/** The marks of one notebook. */
class Marks {
  constructor(
    private readonly _deps: IDeps,
    private readonly _undo: CellUndo,
    journal: Journal,
    private readonly _panel: NotebookPanel
  ) {
    const { notebooks, model } = _deps;
    const later = new Debouncer(() => void this._draw(), TOGETHER);
    const changed = () => void later.invoke();
    const ofKernel = (_: unknown, kernelId: string) => {
      if (notebooks.target(_panel)?.kernelId === kernelId) {
        changed();
      }
    };
    const ofNotebook = (_: unknown, notebook: object) => {
      if (notebook === _panel.content) {
        changed();
      }
    };
    model.changed.connect(ofKernel);
    journal.changed.connect(ofNotebook);
    _panel.content.modelContentChanged.connect(changed);
    _panel.content.cellInViewportChanged?.connect(changed);
    _panel.disposed.connect(() => {
      model.changed.disconnect(ofKernel);
      journal.changed.disconnect(ofNotebook);
      later.dispose();
    });
    changed();
  }

  private async _draw(): Promise<void> {
    const { notebooks, model } = this._deps;
    const target = this._panel.isDisposed
      ? null
      : notebooks.target(this._panel);
    const { state, kernelId } = target ?? {};
    if (kernelId && state?.session && (!state.history || state.stale)) {
      // The state changes when it is there, and this is called again.
      await model.loadHistory(kernelId).catch(() => undefined);
    }
    if (this._panel.isDisposed) {
      return;
    }
    const fresh = notebooks.target(this._panel);
    const cells = new Map(
      (fresh?.state.session ? this._undo.executed(fresh) : []).map(cell => [
        cell.cellId,
        cell
      ])
    );
    for (const widget of this._panel.content.widgets) {
      if (widget.model.type === 'code' && widget.inputArea) {
        this._mark(widget as CodeCell, cells.get(widget.model.id) ?? null);
      }
    }
  }

  private _mark(widget: CodeCell, cell: IExecuted | null): void {
    const area = widget.inputArea!.node;
    let mark = area.querySelector<HTMLButtonElement>(`:scope > .${CLASS}`);
    if (!cell) {
      mark?.remove();
      return;
    }
    if (!mark) {
      mark = document.createElement('button');
      mark.className = CLASS;
      mark.type = 'button';
      mark.setAttribute('aria-haspopup', 'menu');
      undoCellIcon.element({ container: mark, tag: 'span', width: '14px' });
      mark.addEventListener('click', event => {
        event.stopPropagation();
        this._open(mark!, widget.model.id);
      });
      area.append(mark);
    }
    const words = wordsOf(this._deps.trans, cell, new Date());
    mark.title = words;
    mark.setAttribute('aria-label', words);
    mark.dataset.infinijupCell = String(cell.number);
    mark.dataset.infinijupBefore = cell.before?.commit.id ?? '';
  }

  private _open(mark: HTMLElement, cellId: string): void {
    const target = this._deps.notebooks.target(this._panel);
    if (!target) {
      return;
    }
    const args = { kernel_id: target.kernelId, cell_id: cellId };
    const menu = new Menu({ commands: this._deps.app.commands });
    menu.addItem({ command: CommandIDs.beforeCell, args });
    menu.addItem({ command: CommandIDs.runFromCell, args });
    menu.addItem({ type: 'separator' });
    const commit = this._undo
      .executed(target)
      .find(one => one.cellId === cellId)?.before?.commit.id;
    menu.addItem({
      command: CommandIDs.openHistory,
      args: commit ? { commit } : {}
    });
    menu.disposed.connect(() => mark.focus());
    menu.aboutToClose.connect(() => {
      // What was chosen runs first.
      requestAnimationFrame(() => menu.dispose());
    });
    const { left, bottom } = mark.getBoundingClientRect();
    menu.open(left, bottom);
  }
}

/** Where a mark leads, in words. */
export function wordsOf(
  trans: TranslationBundle,
  { number, before }: IExecuted,
  now: Date
): string {
  if (!before) {
    return trans.__('[%1]: there is no snapshot before this cell', number);
  }
  const when = time(before.commit.time, now);
  return before.number === number - 1
    ? trans.__('Go back to before [%1] (%2)…', number, when)
    : trans.__(
        'Go back to after [%1] (%2), the nearest snapshot before [%3]…',
        before.number,
        when,
        number
      );
}
