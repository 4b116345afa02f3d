/**
 * What changed in a text, line by line: the longest common subsequence, as `diff` finds it.
 */

export type Line = { change: 'same' | 'added' | 'removed'; text: string };

/** The table of the search has this many entries at most; what is larger is shown as replaced whole. */
const LIMIT = 250_000;

/** The lines of both texts in one order. */
export function lineDiff(before: string, after: string): Line[] {
  const a = before === '' ? [] : before.split('\n');
  const b = after === '' ? [] : after.split('\n');
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) {
    head++;
  }
  let tail = 0;
  while (
    tail < a.length - head &&
    tail < b.length - head &&
    a[a.length - 1 - tail] === b[b.length - 1 - tail]
  ) {
    tail++;
  }
  const same = (text: string): Line => ({ change: 'same', text });
  return [
    ...a.slice(0, head).map(same),
    ...middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...a.slice(a.length - tail).map(same)
  ];
}

function middle(a: string[], b: string[]): Line[] {
  const removed = (text: string): Line => ({ change: 'removed', text });
  const added = (text: string): Line => ({ change: 'added', text });
  if (a.length * b.length > LIMIT) {
    return [...a.map(removed), ...b.map(added)];
  }
  // length[i][j]: of the longest common subsequence of a[i..] and b[j..].
  const width = b.length + 1;
  const length = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      length[i * width + j] =
        a[i] === b[j]
          ? length[(i + 1) * width + j + 1] + 1
          : Math.max(length[(i + 1) * width + j], length[i * width + j + 1]);
    }
  }
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      lines.push({ change: 'same', text: a[i] });
      i++;
      j++;
    } else if (length[(i + 1) * width + j] >= length[i * width + j + 1]) {
      lines.push(removed(a[i++]));
    } else {
      lines.push(added(b[j++]));
    }
  }
  return [...lines, ...a.slice(i).map(removed), ...b.slice(j).map(added)];
}

/** A line on each side; `null` where the other side has one more. */
export type Row = { left: Line | null; right: Line | null };

/** The lines of a comparison in two columns: what was taken away stands beside what came in its place. */
export function sideBySide(lines: readonly Line[]): Row[] {
  const rows: Row[] = [];
  let removed: Line[] = [];
  let added: Line[] = [];
  const flush = (): void => {
    for (let i = 0; i < Math.max(removed.length, added.length); i++) {
      rows.push({ left: removed[i] ?? null, right: added[i] ?? null });
    }
    removed = [];
    added = [];
  };
  for (const line of lines) {
    if (line.change === 'removed') {
      removed.push(line);
    } else if (line.change === 'added') {
      added.push(line);
    } else {
      flush();
      rows.push({ left: line, right: line });
    }
  }
  flush();
  return rows;
}

/** Lines that are left out, because nothing changed near them. */
export type Gap = { left: number };

/** What changed, with so many lines around it, as `diff -u` shows it. */
export function unified(lines: readonly Line[], around = 3): (Line | Gap)[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, index) => {
    if (line.change !== 'same') {
      near.fill(1, Math.max(0, index - around), index + around + 1);
    }
  });
  const parts: (Line | Gap)[] = [];
  lines.forEach((line, index) => {
    const last = parts[parts.length - 1];
    if (near[index]) {
      parts.push(line);
    } else if (last && 'left' in last) {
      last.left += 1;
    } else {
      parts.push({ left: 1 });
    }
  });
  return parts;
}
