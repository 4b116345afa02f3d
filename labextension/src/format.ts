/** How a snapshot is spoken of in a sentence. The rest is in `history/format`. */
import { clock, shortId } from './history/format';
import type { CommitView } from './wire';

/** What a snapshot is called: its label, a tag, or its id. */
export function nameOf(commit: CommitView | string): string {
  if (typeof commit === 'string') {
    return shortId(commit);
  }
  return commit.label || commit.tags[0] || shortId(commit.id);
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
