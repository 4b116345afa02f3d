/** What a snapshot notes of the cell that ran last. */
import type { CellNote } from './wire';

/** The server keeps no more of a cell's source. */
const LONGEST_SOURCE = 2000;

/** What is read of a cell; cells of text have no count and no state. */
export interface ICellLike {
  readonly id: string;
  readonly type: string;
  readonly sharedModel: { getSource(): string };
  readonly executionCount?: number | null;
  readonly executionState?: string;
}

/** Whether a cell runs now. */
export function isRunning(cell: ICellLike): boolean {
  return cell.type === 'code' && cell.executionState === 'running';
}

/** The note of a cell. */
export function noteOf(cell: ICellLike): CellNote {
  return {
    id: cell.id,
    number: cell.type === 'code' ? (cell.executionCount ?? null) : null,
    source: cell.sharedModel.getSource().slice(0, LONGEST_SOURCE)
  };
}

/** The cell with the highest count, which ran last of those that the document remembers. */
export function lastByCount(cells: readonly ICellLike[]): CellNote | undefined {
  let last: ICellLike | undefined;
  for (const cell of cells) {
    const count = cell.type === 'code' ? cell.executionCount : null;
    if (count && count >= (last?.executionCount ?? 1)) {
      last = cell;
    }
  }
  return last && noteOf(last);
}
