/** What cells show: taken down, put back, and read from a notebook that was kept. Sources are never touched. */
import type { ICodeCellModel } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Cells } from '../changes';

/** What a cell shows. */
export interface IShown {
  outputs: IOutput[];
  count: number | null;
}

/** One run of a cell. */
export interface IRun {
  cellId: string;
  /** `[7]`; `null` while it runs. */
  number: number | null;
  before: IShown;
}

/** What a cell shows now. */
export function shown(model: ICodeCellModel): IShown {
  return { outputs: model.outputs.toJSON(), count: model.executionCount };
}

/** Puts back what a cell showed. Its source is not touched. */
export function show(model: ICodeCellModel, what: IShown): void {
  model.sharedModel.transact(() => {
    model.outputs.fromJSON(what.outputs);
    model.executionCount = what.count;
  }, false);
}

/** Puts back what cells showed, those that are still there. */
export function putShown(
  panel: NotebookPanel,
  then: ReadonlyMap<string, IShown>
): void {
  for (const cell of panel.content.widgets) {
    const what = then.get(cell.model.id);
    if (what && cell.model.type === 'code') {
      show(cell.model as ICodeCellModel, what);
    }
  }
}

/** What these cells show in a notebook that was kept. */
export function shownIn(
  content: Cells,
  ids: readonly string[]
): Map<string, IShown> {
  const then = new Map<string, IShown>();
  const cells = Array.isArray(content.cells) ? content.cells : [];
  for (const { id, outputs, execution_count: count } of cells) {
    if (ids.includes(id) && Array.isArray(outputs)) {
      then.set(id, {
        outputs,
        count: typeof count === 'number' ? count : null
      });
    }
  }
  return then;
}
