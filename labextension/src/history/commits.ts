/**
 * What snapshots mean: which were taken by themselves, which line a session stands on, which ones others depend on.
 */
import type { CommitView, ThreadView } from '../wire';

/** What a card's icon says. */
export type Kind = 'manual' | 'automatic' | 'suspend' | 'branch' | 'rollback';

/** Reasons that somebody had. Everything else that is known came by itself; what is not known is kept in sight. */
const AUTOMATIC = new Set([
  'before-cell',
  'after-cell',
  'interval',
  'idle',
  'before-rollback',
  'before-restart',
  'before-shutdown'
]);

/** Whether nobody asked for it. */
export function isAutomatic(commit: CommitView): boolean {
  return commit.automatic ?? AUTOMATIC.has(commit.reason);
}

/** Which kind of snapshot it is. */
export function kindOf(commit: CommitView): Kind {
  switch (commit.reason) {
    case 'suspend':
    case 'branch':
    case 'rollback':
      return commit.reason;
    default:
      return isAutomatic(commit) ? 'automatic' : 'manual';
  }
}

/** What a rollback went back to. */
export function backTo(commit: CommitView): string | null {
  if (commit.reason !== 'rollback') {
    return null;
  }
  return commit.back_to ?? commit.parents[1] ?? null;
}

/** The snapshot whose state this one goes on from: for a rollback where it went, for all others their first parent. */
export function cameFrom(commit: CommitView): string | null {
  return backTo(commit) ?? commit.parents[0] ?? null;
}

/** What is known of a history as a whole. */
export interface IBearings {
  readonly byId: ReadonlyMap<string, CommitView>;
  /** The newest snapshot of this notebook's session. */
  readonly head: string | null;
  /** The thread of this notebook's session. */
  readonly thread: string | null;
  /** Threads by the snapshot that is their newest. */
  readonly heads: ReadonlyMap<string, readonly ThreadView[]>;
  readonly threads: ReadonlyMap<string, ThreadView>;
  /** Snapshots that others hang on: where a branch leaves, where a rollback went. */
  readonly forks: ReadonlySet<string>;
  /** Snapshots that lie on the way to what some session is now; the others were left by a rollback. */
  readonly live: ReadonlySet<string>;
}

/** Looks once over a history. `here` is the session of this notebook, as far as it matters. */
export function takeBearings(
  commits: readonly CommitView[],
  threads: readonly ThreadView[],
  here: { head?: string | null; thread?: string | null } | null
): IBearings {
  const byId = new Map(commits.map(commit => [commit.id, commit]));
  // A snapshot is news before sessions and threads say that it is their newest; the list knows better.
  const newest = new Map<string, string>();
  for (const { thread, id } of commits) {
    if (!newest.has(thread)) {
      newest.set(thread, id);
    }
  }
  const heads = new Map<string, ThreadView[]>();
  for (const thread of threads) {
    const head = newest.get(thread.name) ?? thread.head;
    if (head) {
      const there = heads.get(head);
      if (there) {
        there.push(thread);
      } else {
        heads.set(head, [thread]);
      }
    }
  }
  const forks = new Set<string>();
  for (const commit of commits) {
    const target = backTo(commit);
    if (target) {
      forks.add(target);
    }
    const parent = byId.get(commit.parents[0] ?? '');
    if (parent && parent.thread !== commit.thread) {
      forks.add(parent.id);
    }
  }
  const head = newest.get(here?.thread ?? '') ?? here?.head ?? null;
  const live = new Set<string>();
  for (const start of [...heads.keys(), ...(head ? [head] : [])]) {
    let at: string | null = start;
    while (at && !live.has(at)) {
      live.add(at);
      const commit = byId.get(at);
      at = commit ? cameFrom(commit) : null;
    }
  }
  return {
    byId,
    head,
    thread: here?.thread ?? null,
    heads,
    threads: new Map(threads.map(thread => [thread.name, thread])),
    forks,
    live
  };
}

/** Whether a snapshot stays in sight although it came by itself. */
export function isInteresting(
  commit: CommitView,
  bearings: IBearings
): boolean {
  return (
    !isAutomatic(commit) ||
    commit.tags.length > 0 ||
    !!commit.label ||
    commit.id === bearings.head ||
    bearings.heads.has(commit.id) ||
    bearings.forks.has(commit.id)
  );
}
