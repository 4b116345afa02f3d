/**
 * Which cells of a notebook have run in its kernel as it is now, and what there is before each.
 *
 * A number beside a cell says little by itself: it may be of yesterday's kernel. A cell has run in this one if the page saw it
 * run, or if a snapshot on the way to now was taken after it.
 */
import type { ICodeCellModel } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { IKernelState } from '../model';
import type { Cells } from '../changes';
import type { IBefore, IState } from './line';
import { before, lineOf } from './line';
import type { IRun, IShown } from './shown';
import { shownIn } from './shown';

/** A cell that has run. */
export interface IExecuted {
  cellId: string;
  number: number;
  /** The newest snapshot of a state before it. */
  before: IBefore | null;
}

/** A code cell, as far as it matters here. */
export interface ICell {
  id: string;
  count: number | null;
}

/** The cells that have run in the kernel as it is now, in the order in which they did. */
export function executed(
  cells: readonly ICell[],
  runs: readonly IRun[],
  line: readonly IState[]
): IExecuted[] {
  const ran = new Set([
    ...runs.map(run => key(run.cellId, run.number)),
    ...line.map(({ commit, number }) => key(commit.cell?.id, number))
  ]);
  const found: IExecuted[] = [];
  for (const { id, count } of cells) {
    if (count !== null && ran.has(key(id, count))) {
      found.push({ cellId: id, number: count, before: before(line, count) });
    }
  }
  return found.sort((one, other) => one.number - other.number);
}

/** What the cells showed when the one with this number had just run: those that ran later, as the page or the snapshot knows them. */
export function shownThen(
  undone: readonly IExecuted[],
  runs: readonly IRun[],
  number: number,
  saved: Cells | null
): Map<string, IShown> {
  const then = new Map<string, IShown>();
  for (const { cellId } of undone) {
    const run = runs.find(
      one => one.cellId === cellId && (one.number ?? 0) > number
    );
    then.set(cellId, run?.before ?? savedOf(saved, cellId, number));
  }
  return then;
}

/** The code cells of an open notebook. */
export function cellsOf(panel: NotebookPanel): ICell[] {
  return panel.content.widgets
    .filter(cell => cell.model.type === 'code')
    .map(cell => ({
      id: cell.model.id,
      count: (cell.model as ICodeCellModel).executionCount
    }));
}

/** The states on the way to what a kernel is now. `since` is when its process began, if that is known. */
export function lineOfKernel(state: IKernelState, since = ''): IState[] {
  return lineOf(
    state.history?.commits ?? [],
    state.session?.head ?? state.history?.session?.head,
    since
  );
}

function key(id: string | null | undefined, number: number | null): string {
  return `${number} ${id}`;
}

function savedOf(saved: Cells | null, cellId: string, number: number): IShown {
  const shown = saved ? shownIn(saved, [cellId]).get(cellId) : undefined;
  // What was saved with a later number is of another time.
  return shown && (shown.count ?? 0) <= number
    ? shown
    : { outputs: [], count: null };
}
