/**
 * Which rows of a long list are in the document.
 *
 * The height of a row follows from its kind alone, so the place of every row is known without drawing any. The only
 * height that is measured is that of the details of the one card that is open.
 */
import type { Row } from './rows';

/** Heights in pixels; the style sheet has the same. */
export const HEIGHTS: Readonly<Record<Row['kind'], number>> = {
  day: 26,
  fold: 28,
  commit: 46
};

/** How many pixels of rows there are above and below what can be seen. */
const MARGIN = 300;

/** Where each row begins; the last entry is where the list ends. */
export function offsets(
  rows: readonly Row[],
  openKey: string | null,
  details: number
): Float64Array {
  const starts = new Float64Array(rows.length + 1);
  rows.forEach((row, index) => {
    const extra = row.key === openKey ? details : 0;
    starts[index + 1] = starts[index] + HEIGHTS[row.kind] + extra;
  });
  return starts;
}

/** The row at a height; the first or the last one beyond the ends. */
export function rowAt(starts: Float64Array, y: number): number {
  let low = 0;
  let high = Math.max(0, starts.length - 2);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle] <= y) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/** The rows to draw, the second number not among them. */
export function visibleRange(
  starts: Float64Array,
  scrollTop: number,
  height: number
): [number, number] {
  if (starts.length < 2) {
    return [0, 0];
  }
  return [
    rowAt(starts, scrollTop - MARGIN),
    rowAt(starts, scrollTop + height + MARGIN) + 1
  ];
}

/** How far to scroll so that a row can be seen whole, as little as possible. */
export function scrollTo(
  starts: Float64Array,
  index: number,
  scrollTop: number,
  height: number
): number {
  const top = starts[index];
  const bottom = starts[index + 1];
  if (top < scrollTop || bottom - top > height) {
    return top;
  }
  return bottom > scrollTop + height ? bottom - height : scrollTop;
}
