import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { takeBearings } from '../../src/history/commits';
import { makeRows, toggleFold, type Row } from '../../src/history/rows';
import type { CommitView, ThreadView } from '../../src/wire';
import { auto, commit, rollback, session, thread } from './make';

function rowsOf(
  commits: CommitView[],
  open: ReadonlySet<string> = new Set(),
  threads: ThreadView[] = [],
  flat = false
): Row[] {
  const head = commits[0]?.id ?? null;
  const bearings = takeBearings(commits, threads, session({ head }));
  return makeRows(commits, bearings, { open, flat });
}

/** `d`ay, `f`old with its size, or the id of a snapshot. */
function short(rows: Row[]): string {
  return rows
    .map(row => {
      switch (row.kind) {
        case 'day':
          return 'd';
        case 'fold':
          return `f${row.commits.length}${row.open ? '+' : ''}`;
        case 'commit':
          return row.commit.id;
      }
    })
    .join(' ');
}

/** h a5 … a1 m : a head, five automatic ones, a first one by hand. */
const RUN = [
  auto('h', ['a5']),
  auto('a5', ['a4']),
  auto('a4', ['a3']),
  auto('a3', ['a2']),
  auto('a2', ['a1']),
  auto('a1', ['m']),
  commit('m')
];

function change(id: string, more: Partial<CommitView>): CommitView[] {
  return RUN.map(it => (it.id === id ? { ...it, ...more } : it));
}

describe('folds', () => {
  it('take runs of automatic snapshots, but not the head', () => {
    assert.equal(short(rowsOf(RUN)), 'd h f5 m');
  });

  it('leave a single one alone', () => {
    assert.equal(
      short(rowsOf([commit('b', ['a']), auto('a', ['m']), commit('m')])),
      'd b a m'
    );
  });

  it('leave tags, labels and the heads of other threads in sight', () => {
    assert.equal(
      short(rowsOf(change('a3', { tags: ['best'] }))),
      'd h f2 a3 f2 m'
    );
    assert.equal(short(rowsOf(change('a3', { label: 'x' }))), 'd h f2 a3 f2 m');
    assert.equal(
      short(rowsOf(RUN, new Set(), [thread('other', 'a3')])),
      'd h f2 a3 f2 m'
    );
  });

  it('leave where a branch goes off and where a rollback went', () => {
    const branch = commit('b', ['a3'], { thread: 'other' });
    assert.equal(short(rowsOf([branch, ...RUN])), 'd b h f2 a3 f2 m');
    const back = rollback('r', 'h', 'a2');
    assert.equal(short(rowsOf([back, ...RUN])), 'd r f4 a2 a1 m');
  });

  it('do not reach over midnight', () => {
    const early = { time: '2026-11-13T12:00:00Z' };
    const runs = RUN.map((it, i) => (i >= 4 ? { ...it, ...early } : it));
    assert.equal(short(rowsOf(runs)), 'd h f3 d f2 m');
  });

  it('are not made in the results of a search', () => {
    assert.equal(
      short(rowsOf(RUN, new Set(), [], true)),
      'd h a5 a4 a3 a2 a1 m'
    );
  });

  it('open, close, and stay open when the history changes', () => {
    const fold = (rows: Row[]): Extract<Row, { kind: 'fold' }> => {
      const found = rows.find(row => row.kind === 'fold');
      assert.ok(found?.kind === 'fold');
      return found;
    };
    const closed = rowsOf(RUN);
    const open = toggleFold(new Set(), fold(closed));
    assert.equal(short(rowsOf(RUN, open)), 'd h f5+ a5 a4 a3 a2 a1 m');
    // A new head: the old one joins the run, which is the same fold as before.
    const grown = rowsOf([auto('n', ['h']), ...RUN], open);
    assert.equal(short(grown), 'd n f6+ h a5 a4 a3 a2 a1 m');
    assert.equal(fold(grown).key, fold(closed).key);
    // Retention took the oldest ones.
    const shrunk = RUN.filter(it => it.id !== 'a1' && it.id !== 'a2');
    assert.equal(short(rowsOf(shrunk, open)), 'd h f3+ a5 a4 a3 m');
    const again = toggleFold(open, fold(rowsOf(RUN, open)));
    assert.equal(short(rowsOf(RUN, again)), 'd h f5 m');
  });
});

describe('days', () => {
  it('do not come twice when a clock was set back', () => {
    const commits = [
      commit('c', ['b'], { time: '2026-11-15T12:00:00Z' }),
      commit('b', ['a'], { time: '2026-11-13T12:00:00Z' }),
      commit('a', [], { time: '2026-11-15T11:00:00Z' })
    ];
    const rows = rowsOf(commits);
    assert.equal(short(rows), 'd c d b a');
    assert.equal(new Set(rows.map(row => row.key)).size, rows.length);
  });
});
