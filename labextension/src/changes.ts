/**
 * What would be lost in the document: how the cells of the page differ from those of a snapshot.
 *
 * Cells are told apart by their ids; where a notebook has none (before nbformat 4.5), by their source. Only the source
 * counts: outputs belong to the kernel's past and come back with it.
 */

/** What is read of a notebook; anything else in it does not matter here. */
export type Cells = { cells?: unknown };

/** The first lines of cells, by what happens to them. */
export interface ICellChanges {
  /** In the page now, not in the snapshot. */
  added: string[];
  /** In the snapshot, not in the page now. */
  removed: string[];
  /** In both, edited since; the first line as it is now. */
  edited: string[];
}

type Cell = { id: string; source: string };

/** How the page (`now`) differs from the snapshot (`then`). */
export function cellChanges(now: Cells, then: Cells): ICellChanges {
  const present = read(now);
  const past = new Map(read(then).map(cell => [cell.id, cell]));
  const changes: ICellChanges = { added: [], removed: [], edited: [] };
  for (const cell of present) {
    const before = past.get(cell.id);
    if (!before) {
      if (cell.source.trim()) {
        changes.added.push(firstLine(cell.source));
      }
    } else if (before.source !== cell.source) {
      changes.edited.push(firstLine(cell.source || before.source));
    }
    past.delete(cell.id);
  }
  for (const cell of past.values()) {
    if (cell.source.trim()) {
      changes.removed.push(firstLine(cell.source));
    }
  }
  return changes;
}

/** Whether nothing would be lost. */
export function isEmpty(changes: ICellChanges): boolean {
  return !(
    changes.added.length ||
    changes.removed.length ||
    changes.edited.length
  );
}

/** The outputs of one cell of a notebook; `null` if it has no such cell. */
export function outputsOf(content: Cells, cellId: string): unknown[] | null {
  for (const cell of cellsOf(content)) {
    if (cell.id === cellId && Array.isArray(cell.outputs)) {
      return cell.outputs;
    }
  }
  return null;
}

function read(content: Cells): Cell[] {
  const seen = new Map<string, number>();
  return cellsOf(content).map(cell => {
    const source = Array.isArray(cell.source)
      ? cell.source.join('')
      : String(cell.source ?? '');
    const count = (seen.get(source) ?? 0) + 1;
    seen.set(source, count);
    const id =
      typeof cell.id === 'string' ? cell.id : `source ${count} ${source}`;
    return { id, source };
  });
}

function cellsOf(content: Cells): Record<string, unknown>[] {
  return Array.isArray(content.cells) ? content.cells : [];
}

function firstLine(source: string): string {
  return source.trim().split('\n', 1)[0];
}
