/** How sizes, times and ids are written for people. */
import type { CommitView, Text } from './wire';

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

/** `12 MB`: decimal, as disks and JupyterLab's own file browser count. */
export function bytes(count: number): string {
  let value = count;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit > 0 && value < 9.95 ? 1 : 0;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

/** `80 ms`, `1.2 s`, `3 min`. */
export function micros(count: number): string {
  if (count < 1000) {
    return `${Math.round(count)} µs`;
  }
  const ms = count / 1000;
  if (ms < 999.5) {
    return `${ms < 9.95 ? ms.toFixed(1) : Math.round(ms)} ms`;
  }
  const seconds = ms / 1000;
  if (seconds < 99.5) {
    return `${seconds < 9.95 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  }
  return `${Math.round(seconds / 60)} min`;
}

/** The first digits of an id, as people write it. */
export function shortId(id: string): string {
  return id.slice(0, 8);
}

/** What a snapshot is called in a sentence: its label, a tag, or its id. */
export function nameOf(commit: CommitView | string): string {
  if (typeof commit === 'string') {
    return shortId(commit);
  }
  return commit.label || commit.tags[0] || shortId(commit.id);
}

/** A path as it can be shown. */
export function text(value: Text): string {
  if (typeof value === 'string') {
    return value;
  }
  const pairs = value.hex.match(/../g) ?? [];
  return new TextDecoder().decode(
    Uint8Array.from(pairs.map(pair => parseInt(pair, 16)))
  );
}

/** The last part of a path. */
export function baseName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** At most so many characters, with a mark where something is left out. */
export function cut(line: string, most: number): string {
  const characters = Array.from(line);
  return characters.length <= most
    ? line
    : characters.slice(0, most - 1).join('') + '…';
}

/** The time of the day for today, day and time otherwise, in the reader's language. */
export function time(iso: string, now: Date): string {
  const when = new Date(iso);
  if (Number.isNaN(when.getTime())) {
    return iso;
  }
  const today = when.toDateString() === now.toDateString();
  return when.toLocaleString(undefined, {
    ...(today ? {} : { month: 'short', day: 'numeric' }),
    hour: '2-digit',
    minute: '2-digit'
  });
}
