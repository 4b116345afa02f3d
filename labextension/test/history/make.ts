/** Histories for tests. */
import type { CommitView, SessionView, ThreadView } from '../../src/wire';

/** A snapshot with as little as possible. */
export function commit(
  id: string,
  parents: string[] = [],
  more: Partial<CommitView> = {}
): CommitView {
  return {
    id,
    parents,
    thread: 'main',
    tags: [],
    time: '2026-11-15T12:00:00Z',
    reason: 'manual',
    message: '',
    bytes: 1000,
    automatic: false,
    ...more
  };
}

/** One that came by itself. */
export function auto(
  id: string,
  parents: string[] = [],
  more: Partial<CommitView> = {}
): CommitView {
  return commit(id, parents, {
    reason: 'interval',
    automatic: true,
    ...more
  });
}

/** A rollback from its first parent to its second. */
export function rollback(
  id: string,
  left: string,
  to: string,
  more: Partial<CommitView> = {}
): CommitView {
  return commit(id, [left, to], { reason: 'rollback', back_to: to, ...more });
}

export function session(more: Partial<SessionView> = {}): SessionView {
  return {
    id: 's1',
    name: 'quiet-fox',
    state: 'running',
    command: ['python3'],
    cwd: '/home/ada',
    network: 'private',
    files: { type: 'open' },
    thread: 'main',
    head: null,
    created: '2026-11-15T11:00:00Z',
    ...more
  };
}

export function thread(
  name: string,
  head: string,
  more: Partial<ThreadView> = {}
): ThreadView {
  return { name, head, session: null, ...more };
}

/** A long history: threads that branch off each other, rollbacks, and automatic snapshots most of the time. */
export function longHistory(
  length: number,
  threads: number,
  rollbackEvery = 37
): { commits: CommitView[]; threads: ThreadView[] } {
  const oldestFirst: CommitView[] = [];
  const heads = new Map<string, string>();
  const own = new Map<string, string[]>();
  // Not Math.random: a test that fails must fail again.
  let seed = 42;
  const random = (below: number): number => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return Math.floor((seed / 2147483648) * below);
  };
  const begin = Date.UTC(2026, 10, 1);
  for (let i = 0; i < length; i++) {
    const opened = 1 + Math.floor((i * threads) / length);
    const name = `t${random(opened)}`;
    const id = `c${i}`;
    const time = new Date(begin + i * 600_000).toISOString();
    const there = own.get(name) ?? [];
    const more = { thread: name, time };
    const left = heads.get(name);
    if (left === undefined) {
      const from = i ? [`c${random(i)}`] : [];
      oldestFirst.push(commit(id, from, { ...more, reason: 'branch' }));
    } else if (i % rollbackEvery === 0 && there.length > 3) {
      const to = there[random(there.length - 1)];
      oldestFirst.push(rollback(id, left, to, more));
    } else if (i % 11 === 0) {
      oldestFirst.push(commit(id, [left], { ...more, label: `label ${i}` }));
    } else {
      oldestFirst.push(auto(id, [left], more));
    }
    heads.set(name, id);
    own.set(name, [...there.slice(-200), id]);
  }
  return {
    commits: oldestFirst.reverse(),
    threads: [...heads].map(([name, head]) => thread(name, head))
  };
}
