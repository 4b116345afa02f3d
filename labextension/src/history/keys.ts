/**
 * What the keyboard does in the list, as the pattern for trees of the ARIA Authoring Practices has it.
 */
import type { Row } from './rows';
import { rowAt } from './windowing';

/** What a key asks for. */
export type Wish =
  | { move: number }
  | { do: 'toggle' | 'open' | 'close' | 'pair' | 'delete' | 'name' };

/** The next row in a direction that can have the focus; the same if there is none. */
export function step(
  rows: readonly Row[],
  from: number,
  direction: 1 | -1
): number {
  for (let i = from + direction; i >= 0 && i < rows.length; i += direction) {
    if (rows[i].kind !== 'day') {
      return i;
    }
  }
  return from;
}

/** Reads a key. `null` if it means nothing here. */
export function readKey(
  event: { key: string; ctrlKey: boolean; metaKey: boolean; altKey: boolean },
  rows: readonly Row[],
  at: number,
  starts: Float64Array,
  page: number
): Wish | null {
  if (event.altKey || rows.length === 0) {
    return null;
  }
  const row = rows[at];
  const paired = event.ctrlKey || event.metaKey;
  if (paired && event.key !== 'Enter' && event.key !== ' ') {
    return null;
  }
  const land = (y: number, direction: 1 | -1): Wish => {
    const found = rowAt(starts, y);
    return {
      move: rows[found].kind === 'day' ? step(rows, found, direction) : found
    };
  };
  switch (event.key) {
    case 'ArrowDown':
      return { move: step(rows, at, 1) };
    case 'ArrowUp':
      return { move: step(rows, at, -1) };
    case 'Home':
      return { move: step(rows, -1, 1) };
    case 'End':
      return { move: step(rows, rows.length, -1) };
    case 'PageDown':
      return land(starts[at] + page, -1);
    case 'PageUp':
      return land(starts[at] - page, 1);
    case 'Enter':
    case ' ':
      return { do: paired && row?.kind === 'commit' ? 'pair' : 'toggle' };
    case 'ArrowRight':
      return { do: 'open' };
    case 'ArrowLeft':
    case 'Escape':
      return { do: 'close' };
    case 'Delete':
      return row?.kind === 'commit' ? { do: 'delete' } : null;
    case 'F2':
      return row?.kind === 'commit' ? { do: 'name' } : null;
    default:
      return null;
  }
}
