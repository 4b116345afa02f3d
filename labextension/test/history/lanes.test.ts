import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { takeBearings } from '../../src/history/commits';
import type { Piece } from '../../src/history/drawing';
import {
  assignColours,
  layOut,
  MAX_TRACK_LANE,
  type ILanes
} from '../../src/history/lanes';
import { makeRows, type Row } from '../../src/history/rows';
import { search } from '../../src/history/search';
import type { CommitView, ThreadView } from '../../src/wire';
import { auto, commit, longHistory, rollback, thread } from './make';

function lay(
  commits: readonly CommitView[],
  threads: ThreadView[] = [],
  options: { flat?: boolean; shown?: readonly CommitView[] } = {}
): { rows: Row[]; lanes: ILanes } {
  const bearings = takeBearings(commits, threads, null);
  const rows = makeRows(options.shown ?? commits, bearings, {
    flat: options.flat ?? true,
    open: new Set()
  });
  const colours = assignColours(commits);
  return { rows, lanes: layOut(commits, rows, bearings, colours) };
}

/** Lines that come to the bottom of a row and those that leave the top of the next must be the same. */
function checkContinuous({ rows, lanes }: ReturnType<typeof lay>): void {
  const at = (piece: Piece, edge: 'top' | 'bottom'): string | null => {
    switch (piece.kind) {
      case 'line':
        return piece.part === 'full' || piece.part === edge
          ? `${piece.lane} ${piece.dashed}`
          : null;
      case 'in':
        return edge === 'top' ? `${piece.lane} ${piece.dashed}` : null;
      case 'out':
        return edge === 'bottom' ? `${piece.to} ${piece.dashed}` : null;
      case 'stub':
        return null;
    }
  };
  const edge = (row: number, which: 'top' | 'bottom'): string[] =>
    [
      ...new Set(
        (lanes.rows[row]?.pieces ?? [])
          .map(piece => at(piece, which))
          .filter((it): it is string => it !== null)
      )
    ].sort();
  assert.deepEqual(edge(0, 'top'), []);
  assert.deepEqual(edge(rows.length - 1, 'bottom'), []);
  for (let row = 0; row + 1 < rows.length; row++) {
    assert.deepEqual(edge(row, 'bottom'), edge(row + 1, 'top'), `row ${row}`);
  }
}

/** No lane has two lines in one row. */
function checkApart({ lanes }: ReturnType<typeof lay>): void {
  lanes.rows.forEach((row, index) => {
    const full = row.pieces
      .filter(piece => piece.kind === 'line' && piece.part === 'full')
      .map(piece => piece.lane);
    assert.equal(new Set(full).size, full.length, `row ${index}`);
  });
}

describe('lanes', () => {
  it('is one line for one thread', () => {
    const drawn = lay([commit('c', ['b']), commit('b', ['a']), commit('a')]);
    assert.equal(drawn.lanes.width, 1);
    checkContinuous(drawn);
    // day, c, b, a
    assert.deepEqual(
      drawn.lanes.rows.map(row => row.pieces.length),
      [0, 1, 1, 1]
    );
  });

  it('gives a branch a lane beside what it was branched off', () => {
    const drawn = lay([
      commit('y2', ['y1'], { thread: 'y' }),
      commit('m3', ['m2']),
      commit('y1', ['m2'], { thread: 'y' }),
      commit('m2', ['m1']),
      commit('m1')
    ]);
    assert.equal(drawn.lanes.laneOf.get('main'), 0);
    assert.equal(drawn.lanes.laneOf.get('y'), 1);
    checkContinuous(drawn);
    const at = drawn.lanes.rows[4].pieces;
    assert.ok(
      at.some(
        piece => piece.kind === 'in' && piece.lane === 1 && piece.to === 0
      )
    );
  });

  it('keeps lanes and colours when the history grows', () => {
    const threads = [
      thread('main', 'm3', { session: 's1' }),
      thread('y', 'y1', { session: 's2' }),
      thread('z', 'z1', { session: 's3' })
    ];
    const before = [
      commit('z1', ['m3'], { thread: 'z' }),
      commit('m3', ['m2']),
      commit('y1', ['m1'], { thread: 'y' }),
      commit('m2', ['m1']),
      commit('m1')
    ];
    const after = [commit('y2', ['y1'], { thread: 'y' }), ...before];
    const colours = assignColours(before);
    assert.deepEqual(
      [...lay(before, threads).lanes.laneOf].sort(),
      [...lay(after, threads).lanes.laneOf].sort()
    );
    assert.deepEqual(assignColours(after, colours), colours);
    // The oldest snapshots are gone, and with them the thread that was the first.
    const pruned = before.filter(it => it.thread !== 'main');
    assert.equal(assignColours(pruned, colours).get('z'), colours.get('z'));
  });

  it('gives the lane of a thread that nobody goes on with to another', () => {
    const drawn = lay([
      commit('z1', ['m3'], { thread: 'z' }),
      commit('m3', ['m2']),
      commit('y1', ['m1'], { thread: 'y' }),
      commit('m2', ['m1']),
      commit('m1')
    ]);
    assert.equal(drawn.lanes.laneOf.get('y'), 1);
    assert.equal(drawn.lanes.laneOf.get('z'), 1);
    checkContinuous(drawn);
  });

  it('draws where a rollback went, one line for one target', () => {
    const drawn = lay([
      rollback('r2', 'c', 'a'),
      commit('c', ['r1']),
      rollback('r1', 'b', 'a'),
      commit('b', ['a']),
      commit('a')
    ]);
    assert.equal(drawn.lanes.width, 2);
    checkContinuous(drawn);
    const pieces = drawn.lanes.rows.flatMap(row => row.pieces);
    const of = (kind: Piece['kind']): number =>
      pieces.filter(piece => piece.kind === kind).length;
    assert.deepEqual([of('out'), of('in'), of('stub')], [2, 1, 0]);
  });

  it('draws ends where there are more rollbacks than lanes', () => {
    const count = 30;
    const commits: CommitView[] = [];
    for (let i = 0; i < count; i++) {
      commits.push(commit(`a${i}`, i ? [`a${i - 1}`] : []));
    }
    for (let i = 0; i < count; i++) {
      const left = i ? `r${i - 1}` : `a${count - 1}`;
      commits.push(rollback(`r${i}`, left, `a${i}`));
    }
    const drawn = lay(commits.reverse());
    assert.equal(drawn.lanes.width, MAX_TRACK_LANE + 1);
    checkContinuous(drawn);
    checkApart(drawn);
    assert.ok(
      drawn.lanes.rows.some(row => row.pieces.some(it => it.kind === 'stub'))
    );
  });

  it('lets a fold stand for what is in it', () => {
    const drawn = lay(
      [
        commit('h', ['a3']),
        auto('a3', ['a2']),
        auto('y2', ['y1'], { thread: 'y' }),
        auto('a2', ['a1']),
        auto('y1', ['m'], { thread: 'y' }),
        auto('a1', ['m']),
        commit('m')
      ],
      [],
      { flat: false }
    );
    assert.deepEqual(
      drawn.rows.map(row => row.kind),
      ['day', 'commit', 'fold', 'commit']
    );
    assert.equal(drawn.lanes.rows[2].dots.length, 2);
    checkContinuous(drawn);
  });

  it('bridges what a search does not show', () => {
    const { commits, threads } = longHistory(400, 5);
    const shown = search(commits, 'label', 'all', null);
    assert.ok(shown.length > 10 && shown.length < 60);
    const drawn = lay(commits, threads, { shown });
    checkContinuous(drawn);
    checkApart(drawn);
  });

  it('takes a parent that is not there as the end', () => {
    const drawn = lay([
      commit('b', ['a'], { thread: 'y' }),
      commit('a', ['gone'])
    ]);
    checkContinuous(drawn);
    checkContinuous(lay([rollback('r', 'left', 'gone')]));
    assert.deepEqual(lay([]).lanes.rows, []);
  });

  it('is right for long histories, folded or not', () => {
    for (const count of [1, 4, 20]) {
      const { commits, threads } = longHistory(3000, count);
      for (const flat of [true, false]) {
        const drawn = lay(commits, threads, { flat });
        checkContinuous(drawn);
        checkApart(drawn);
      }
    }
  });

  it('lays 10,000 snapshots out in less than 50 ms', () => {
    const { commits, threads } = longHistory(10_000, 12);
    let best = Infinity;
    // Time of the processor, and the shortest of some: other programs must not make it fail.
    for (let i = 0; i < 20 && best >= 50; i++) {
      const bearings = takeBearings(commits, threads, null);
      const rows = makeRows(commits, bearings, { flat: true, open: new Set() });
      const colours = assignColours(commits);
      const began = process.cpuUsage();
      layOut(commits, rows, bearings, colours);
      const { user, system } = process.cpuUsage(began);
      best = Math.min(best, (user + system) / 1000);
    }
    assert.ok(best < 50, `${best} ms`);
  });
});
