import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { before, lineOf } from '../src/cells/line';
import { executed, shownThen } from '../src/cells/past';
import type { IRun, IShown } from '../src/cells/shown';
import type { CommitView } from '../src/wire';

let clock = 0;

function commit(
  id: string,
  parents: string[],
  number: number | null,
  more: Partial<CommitView> = {}
): CommitView {
  clock += 1;
  return {
    id,
    parents,
    thread: 'main',
    tags: [],
    time: `2026-01-01T00:00:${String(clock % 60).padStart(2, '0')}Z`,
    reason: 'after-cell',
    message: '',
    bytes: 1,
    cell: { id: `c${number}`, number, source: '' },
    ...more
  };
}

/** Snapshots after [1], [2] and so on, newest first. */
function chain(...numbers: number[]): CommitView[] {
  clock = 0;
  return numbers
    .map((number, at) => commit(`s${at}`, at > 0 ? [`s${at - 1}`] : [], number))
    .reverse();
}

const numbers = (commits: CommitView[], head: string, since?: string) =>
  lineOf(commits, head, since).map(state => state.number);

describe('the way to now', () => {
  it('goes from the newest snapshot to the oldest', () => {
    const commits = chain(1, 2, 4);
    assert.deepEqual(numbers(commits, 's2'), [4, 2, 1]);
    const line = lineOf(commits, 's2');
    assert.equal(before(line, 4)?.commit.id, 's1');
    assert.equal(before(line, 4)?.number, 2, 'not right before it');
    assert.equal(before(line, 5)?.commit.id, 's2');
    assert.equal(before(line, 1), null);
    assert.deepEqual(lineOf(commits, null), []);
    assert.deepEqual(lineOf(commits, 'gone'), []);
  });

  it('goes on from what a restore went back to, and not from what was left', () => {
    const commits = [
      commit('new', ['back'], 3),
      commit('back', ['left', 's1'], 2, { reason: 'rollback', back_to: 's1' }),
      commit('left', ['s2'], null, { reason: 'before-rollback', cell: null }),
      ...chain(1, 2, 9)
    ];
    assert.deepEqual(numbers(commits, 'new'), [3, 2, 1]);
    assert.deepEqual(numbers(commits, 'back'), [2, 1]);
  });

  it('ends where the kernel was restarted', () => {
    assert.deepEqual(numbers(chain(1, 2, 7, 1, 2), 's4'), [2, 1]);
    const told = chain(1, 2, 5);
    told[1] = { ...told[1], reason: 'before-restart' };
    assert.deepEqual(numbers(told, 's2'), [5]);
    const seen = chain(1, 2, 5);
    assert.deepEqual(numbers(seen, 's2', seen[0].time), [5]);
  });

  it('does not mind snapshots that say nothing of cells, nor one that is taken twice', () => {
    const commits = [
      commit('b', ['a'], 2, { reason: 'manual' }),
      commit('a', ['x'], 2),
      commit('x', ['s0'], null, { reason: 'idle', cell: null }),
      ...chain(1)
    ];
    assert.deepEqual(numbers(commits, 'b'), [2, 2, 1]);
  });
});

const nothing: IShown = { outputs: [], count: null };
const text = (text: string, count: number | null = null) => ({
  outputs: [{ output_type: 'stream', name: 'stdout', text }],
  count
});

function run(cellId: string, number: number, shown = nothing): IRun {
  return { cellId, number, before: shown };
}

describe('cells that have run', () => {
  it('are those that the page saw or a snapshot was taken after', () => {
    const line = lineOf(chain(1, 2), 's1');
    const cells = [
      { id: 'c2', count: 2 },
      { id: 'c1', count: 1 },
      { id: 'page', count: 3 },
      { id: 'yesterday', count: 7 },
      { id: 'never', count: null }
    ];
    const found = executed(cells, [run('page', 3)], line);
    assert.deepEqual(
      found.map(({ cellId, before }) => [cellId, before?.number ?? null]),
      [
        ['c1', null],
        ['c2', 1],
        ['page', 2]
      ]
    );
  });

  it('show again what they showed, as the page knows it or as it was saved', () => {
    const undone = ['a', 'b', 'c', 'd'].map((cellId, at) => ({
      cellId,
      number: 5 + at,
      before: null
    }));
    const runs = [
      run('a', 3),
      run('a', 5, text('of [3]', 3)),
      run('a', 6, text('of [5]', 5))
    ];
    const saved = {
      cells: [
        { id: 'b', outputs: text('saved').outputs, execution_count: 2 },
        { id: 'c', outputs: text('later').outputs, execution_count: 7 }
      ]
    };
    const then = shownThen(undone, runs, 4, saved);
    assert.deepEqual(then.get('a'), text('of [3]', 3));
    assert.deepEqual(then.get('b'), text('saved', 2));
    assert.deepEqual(then.get('c'), nothing);
    assert.deepEqual(then.get('d'), nothing);
  });
});
