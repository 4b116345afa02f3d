import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { takeBearings } from '../../src/history/commits';
import { readKey, step } from '../../src/history/keys';
import { makeRows } from '../../src/history/rows';
import {
  HEIGHTS,
  offsets,
  rowAt,
  scrollTo,
  visibleRange
} from '../../src/history/windowing';
import { commit } from './make';

const COMMITS = Array.from({ length: 1000 }, (_, i) => {
  const day = 28 - Math.floor(i / 40);
  return commit(`c${i}`, [`c${i + 1}`], {
    time: new Date(2026, 9, day, 12).toISOString()
  });
});
const ROWS = makeRows(COMMITS, takeBearings(COMMITS, [], null), {
  flat: false,
  open: new Set()
});

describe('windowing', () => {
  const starts = offsets(ROWS, null, 0);

  it('knows where every row is', () => {
    assert.equal(starts.length, ROWS.length + 1);
    assert.equal(starts[1], HEIGHTS.day);
    assert.equal(starts[2], HEIGHTS.day + HEIGHTS.commit);
    for (const index of [0, 1, 2, 500, ROWS.length - 1]) {
      assert.equal(rowAt(starts, starts[index]), index);
      assert.equal(rowAt(starts, starts[index + 1] - 1), index);
    }
    assert.equal(rowAt(starts, -100), 0);
    assert.equal(rowAt(starts, 1e9), ROWS.length - 1);
  });

  it('gives the open card its height', () => {
    const open = offsets(ROWS, 'c0', 150);
    assert.equal(open[2], starts[2] + 150);
    assert.equal(open[ROWS.length], starts[ROWS.length] + 150);
  });

  it('draws what can be seen and little more', () => {
    for (const top of [0, 777, 20000, starts[ROWS.length]]) {
      const [first, last] = visibleRange(starts, top, 600);
      assert.ok(starts[first] <= Math.max(0, top));
      assert.ok(starts[last] >= Math.min(top + 600, starts[ROWS.length]));
      assert.ok(last - first < 30, `${last - first} rows`);
    }
    assert.deepEqual(visibleRange(offsets([], null, 0), 0, 600), [0, 0]);
  });

  it('scrolls as little as possible', () => {
    const index = 100;
    const seen = starts[index] - 50;
    assert.equal(scrollTo(starts, index, seen, 600), seen);
    assert.equal(scrollTo(starts, index, 0, 600), starts[index + 1] - 600);
    assert.equal(scrollTo(starts, index, 1e6, 600), starts[index]);
  });
});

describe('keys', () => {
  const starts = offsets(ROWS, null, 0);
  const press = (
    key: string,
    at: number,
    more: { ctrlKey?: boolean; altKey?: boolean } = {}
  ): ReturnType<typeof readKey> =>
    readKey(
      { key, ctrlKey: false, metaKey: false, altKey: false, ...more },
      ROWS,
      at,
      starts,
      600
    );

  it('move over snapshots and folds, not days', () => {
    assert.equal(ROWS[0].kind, 'day');
    assert.deepEqual(press('Home', 50), { move: 1 });
    assert.deepEqual(press('ArrowUp', 1), { move: 1 });
    assert.deepEqual(press('End', 1), { move: ROWS.length - 1 });
    assert.deepEqual(press('ArrowDown', ROWS.length - 1), {
      move: ROWS.length - 1
    });
    const beforeDay = ROWS.findIndex((row, i) => i > 0 && row.kind === 'day');
    assert.equal(step(ROWS, beforeDay - 1, 1), beforeDay + 1);
  });

  it('move by pages that never stand still', () => {
    let at = 1;
    for (let i = 0; i < 5; i++) {
      const wish = press('PageDown', at);
      assert.ok(wish && 'move' in wish && wish.move > at);
      at = wish.move;
      assert.notEqual(ROWS[at].kind, 'day');
    }
    for (let i = 0; i < 9; i++) {
      const wish = press('PageUp', at);
      assert.ok(wish && 'move' in wish && wish.move <= at);
      at = wish.move;
    }
    assert.equal(at, 1);
  });

  it('open, close, pair and delete', () => {
    assert.deepEqual(press('Enter', 1), { do: 'toggle' });
    assert.deepEqual(press('Enter', 1, { ctrlKey: true }), { do: 'pair' });
    assert.deepEqual(press('Delete', 1), { do: 'delete' });
    assert.deepEqual(press('Escape', 1), { do: 'close' });
  });

  it('leave shortcuts alone', () => {
    assert.equal(press('ArrowDown', 1, { altKey: true }), null);
    assert.equal(press('End', 1, { ctrlKey: true }), null);
    assert.equal(press('a', 1), null);
  });
});
