/**
 * Which snapshots are looked for: every word must occur in what a card or its details show.
 */
import type { CommitView } from '../wire';

/** Which snapshots the panel shows. */
export type Filter = 'all' | 'mine' | 'tagged';

// The text of a snapshot that can be searched. A refresh brings new objects, and the old ones go with their text.
const texts = new WeakMap<CommitView, string>();

function textOf(commit: CommitView): string {
  let text = texts.get(commit);
  if (text === undefined) {
    text = [
      commit.label,
      commit.message,
      ...commit.tags,
      commit.cell?.source,
      typeof commit.cell?.number === 'number' ? `[${commit.cell.number}]` : '',
      commit.thread,
      commit.id
    ]
      .filter(Boolean)
      .join('\n')
      .toLowerCase();
    texts.set(commit, text);
  }
  return text;
}

/** The words of a query, as they are compared. */
export function words(query: string): string[] {
  return query.toLowerCase().split(/\s+/).filter(Boolean);
}

/** The snapshots that the filter lets through and that have all words of the query. */
export function search(
  commits: readonly CommitView[],
  query: string,
  filter: Filter,
  thread: string | null
): readonly CommitView[] {
  const wanted = words(query);
  if (!wanted.length && filter === 'all') {
    return commits;
  }
  return commits.filter(
    commit =>
      (filter !== 'mine' || commit.thread === thread) &&
      (filter !== 'tagged' || commit.tags.length > 0) &&
      wanted.every(word => textOf(commit).includes(word))
  );
}
