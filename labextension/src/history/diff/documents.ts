/**
 * Two versions of a notebook, cell by cell, with what the cells show.
 *
 * Cells are told apart by their ids; where a notebook has none (before nbformat 4.5), by their text. The order is that of the
 * later version, and what is gone from it stands where it was.
 */
import type { CellView, Change, Diff } from '../../wire';

/** One side of a cell. */
export interface ISide {
  readonly id: string;
  readonly type: string;
  readonly source: string;
  readonly number: number | null;
  /** As the document has them. */
  readonly outputs: readonly unknown[];
}

/** A cell that differs. */
export interface ICellPair {
  readonly change: Change;
  readonly before: ISide | null;
  readonly after: ISide | null;
  /** Whether its text differs, and what it shows. */
  readonly source: boolean;
  readonly outputs: boolean;
}

/** What is read of a notebook. */
export type Document = { readonly cells?: unknown };

/** The cells of two versions that differ. */
export function compareDocuments(
  before: Document,
  after: Document
): ICellPair[] {
  const was = sidesOf(before);
  const is = sidesOf(after);
  const olds = new Map(was.map(side => [side.id, side]));
  const kept = new Set(is.map(side => side.id));
  // Where in the later version a cell goes that only the earlier one has: behind the last one before it that stayed.
  const gone = new Map<string, ISide[]>();
  let behind = '';
  for (const side of was) {
    if (kept.has(side.id)) {
      behind = side.id;
    } else {
      gone.set(behind, [...(gone.get(behind) ?? []), side]);
    }
  }
  const pairs: (ICellPair | null)[] = [];
  const takeGone = (at: string) =>
    gone.get(at)?.forEach(side => pairs.push(pairOf(side, null)));
  takeGone('');
  for (const side of is) {
    pairs.push(pairOf(olds.get(side.id) ?? null, side));
    takeGone(side.id);
  }
  return pairs.filter((pair): pair is ICellPair => pair !== null);
}

/** The same of what the server found, which has no outputs. */
export function pairsOf(cells: NonNullable<Diff['cells']>): ICellPair[] {
  return [
    ...cells.changed.map(it => pairOf(side(it.before), side(it.after))),
    ...cells.added.map(it => pairOf(null, side(it))),
    ...cells.removed.map(it => pairOf(side(it), null))
  ].filter((pair): pair is ICellPair => pair !== null);
}

function side(view: CellView): ISide {
  return {
    id: view.id ?? '',
    type: view.cell_type ?? 'code',
    source: view.source,
    number: view.number ?? null,
    outputs: []
  };
}

/** `null` if there is nothing to show: both are the same, or an empty cell came or went. */
function pairOf(before: ISide | null, after: ISide | null): ICellPair | null {
  const source =
    before?.source !== after?.source || before?.type !== after?.type;
  const outputs =
    essence(before?.outputs ?? []) !== essence(after?.outputs ?? []);
  if (!source && !outputs) {
    return null;
  }
  const only = before && after ? null : (before ?? after);
  if (only && !only.source.trim() && only.outputs.length === 0) {
    return null;
  }
  const change = !before ? 'added' : !after ? 'removed' : 'changed';
  return { change, before, after, source, outputs };
}

/**
 * What an output shows; its number says only when it was made. A file has keys in another order than the page, and texts as
 * lists of lines.
 */
function essence(outputs: readonly unknown[]): string {
  return JSON.stringify(outputs, (key, value: unknown) => {
    if (key === 'execution_count' || key === 'metadata') {
      return undefined;
    }
    if (Array.isArray(value)) {
      return value.length && value.every(line => typeof line === 'string')
        ? value.join('')
        : value;
    }
    return value && typeof value === 'object'
      ? Object.fromEntries(
          Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
        )
      : value;
  });
}

function sidesOf(content: Document): ISide[] {
  const cells: unknown[] = Array.isArray(content.cells) ? content.cells : [];
  const seen = new Map<string, number>();
  return cells
    .filter(
      (cell): cell is Record<string, unknown> =>
        typeof cell === 'object' && cell !== null
    )
    .map(cell => {
      const source = Array.isArray(cell.source)
        ? cell.source.join('')
        : String(cell.source ?? '');
      const count = (seen.get(source) ?? 0) + 1;
      seen.set(source, count);
      return {
        id: typeof cell.id === 'string' ? cell.id : `text ${count} ${source}`,
        type: String(cell.cell_type ?? 'code'),
        source,
        number:
          typeof cell.execution_count === 'number'
            ? cell.execution_count
            : null,
        outputs: Array.isArray(cell.outputs) ? cell.outputs : []
      };
    });
}
