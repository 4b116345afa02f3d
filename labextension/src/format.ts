/** How a snapshot is spoken of in a sentence. The rest is in `history/format`. */
import { clock, codeLine, firstLine } from './history/format';
import type { CommitView } from './wire';

/** Longer pieces of a name make a sentence hard to read. */
const LONGEST = 40;

/** What a snapshot is called: the name it was given, its label, or when it was taken and after which cell, `12:17 · scores = …`. */
export function nameOf(commit: CommitView, now = new Date()): string {
  const given = commit.tags[0] || commit.label;
  if (given) {
    return firstLine(given, LONGEST);
  }
  const what =
    codeLine(commit.cell?.source ?? '', LONGEST) ||
    firstLine(commit.message, LONGEST);
  return [time(commit.time, now), what].filter(part => part).join(' · ');
}

/** Lines that can be told apart: one that was there before gets its number. */
export function distinct(lines: readonly string[]): string[] {
  const seen = new Map<string, number>();
  return lines.map(line => {
    const count = (seen.get(line) ?? 0) + 1;
    seen.set(line, count);
    return count === 1 ? line : `${line} (${count})`;
  });
}

/** At most so many characters, with a mark where something is left out. */
export function cut(line: string, most: number): string {
  const characters = Array.from(line);
  return characters.length <= most
    ? line
    : characters.slice(0, most - 1).join('') + '…';
}

/** The time of the day for today, day and time otherwise, in the page's language. */
export function time(iso: string, now: Date): string {
  const when = new Date(iso);
  if (Number.isNaN(when.getTime())) {
    return iso;
  }
  const language = pageLanguage();
  if (when.toDateString() === now.toDateString()) {
    return clock(when, language);
  }
  const day = when.toLocaleDateString(language, {
    month: 'short',
    day: 'numeric'
  });
  return `${day}, ${clock(when, language)}`;
}

function pageLanguage(): string | undefined {
  return typeof document === 'undefined'
    ? undefined
    : document.documentElement.lang || undefined;
}
