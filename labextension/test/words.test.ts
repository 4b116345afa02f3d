import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { cellChanges, isEmpty, outputsOf } from '../src/changes';
import { cut, distinct, nameOf, time } from '../src/format';
import { policyOf } from '../src/policy';
import { asSentence, fitting } from '../src/words';

describe('words for people', () => {
  it('names a snapshot by the name it was given, its label, or its time and its cell', () => {
    const commit = {
      id: '3f2a99887766',
      parents: [],
      thread: 'main',
      tags: ['good'],
      time: new Date(2026, 10, 9, 12, 17).toISOString(),
      reason: 'manual',
      message: '',
      bytes: 0
    };
    assert.equal(nameOf({ ...commit, label: 'first epoch' }), 'good');
    const plain = { ...commit, tags: [] };
    assert.equal(nameOf({ ...plain, label: '<b>bold</b>' }), '<b>bold</b>');
    const then = new Date(2026, 10, 9, 18, 0);
    const cell = { source: '# best of\nscores = fit(x)' };
    assert.match(
      nameOf({ ...plain, cell }, then),
      /^12:17( PM)? · scores = fit\(x\)$/
    );
    assert.match(nameOf(plain, then), /^12:17( PM)?$/);
    assert.match(nameOf(plain, new Date(2026, 10, 10)), /Nov 9|9 Nov/);
  });

  it('tells lines apart that are the same', () => {
    assert.deepEqual(distinct(['a', 'b', 'a']), ['a', 'b', 'a (2)']);
  });

  it('shows whole sentences only', () => {
    const long = `It is ${'very '.repeat(30)}long.`;
    assert.deepEqual(fitting('Kept: 12.3 MB. All well.'), {
      shown: 'Kept: 12.3 MB. All well.',
      rest: false
    });
    assert.deepEqual(fitting(`Kept: 12.3 MB. ${long}`), {
      shown: 'Kept: 12.3 MB.',
      rest: true
    });
    assert.deepEqual(fitting(long), { shown: '', rest: true });
    assert.equal(asSentence('no room is left'), 'No room is left.');
    assert.equal(
      asSentence('the restore of 1e92064c3771 failed'),
      'The restore of this snapshot failed.'
    );
  });

  it('says the day of what was not today', () => {
    const now = new Date(2026, 10, 15, 12, 0);
    assert.match(time(new Date(2026, 10, 15, 9, 5).toISOString(), now), /^0?9/);
    assert.match(time(new Date(2026, 10, 9, 9, 5).toISOString(), now), /Nov/);
    assert.equal(time('never', now), 'never');
  });

  it('cuts between characters', () => {
    assert.equal(cut('🙂🙂🙂🙂', 3), '🙂🙂…');
  });
});

describe('what a restore takes from the page', () => {
  const cell = (id: string | undefined, source: string | string[]) => ({
    ...(id ? { id } : {}),
    cell_type: 'code',
    source
  });

  it('tells cells apart by their ids', () => {
    const then = { cells: [cell('a', 'x = 1'), cell('b', ['y = 2\n', 'y'])] };
    const now = {
      cells: [cell('a', 'x = 10'), cell('c', 'z = 3'), cell('d', '')]
    };
    assert.deepEqual(cellChanges(now, then), {
      added: ['z = 3'],
      removed: ['y = 2'],
      edited: ['x = 10']
    });
  });

  it('takes a source in lines and in one piece as the same', () => {
    const then = { cells: [cell('b', ['y = 2\n', 'y'])] };
    const now = { cells: [cell('b', 'y = 2\ny')] };
    assert.ok(isEmpty(cellChanges(now, then)));
  });

  it('knows old notebooks without ids by their sources', () => {
    const then = { cells: [cell(undefined, 'a'), cell(undefined, 'a')] };
    const now = { cells: [cell(undefined, 'a'), cell(undefined, 'b')] };
    assert.deepEqual(cellChanges(now, then), {
      added: ['b'],
      removed: ['a'],
      edited: []
    });
  });

  it('reads nothing from what is not a notebook', () => {
    assert.ok(isEmpty(cellChanges({ cells: 7 }, {})));
    assert.equal(outputsOf({ cells: [cell('a', '')] }, 'a'), null);
    assert.deepEqual(
      outputsOf({ cells: [{ id: 'a', outputs: [1] }] }, 'a'),
      [1]
    );
  });
});

describe('the settings', () => {
  it('become a policy, and 0 minutes mean never', () => {
    assert.deepEqual(
      policyOf({
        snapshotEveryMinutes: 10,
        snapshotAfterIdleMinutes: 0,
        suspendAfterIdleMinutes: 0.05,
        keepLast: 5,
        keepHourly: 0,
        keepDaily: 2.7,
        culling: 'shutdown',
        snapshotBeforeCell: true
      }),
      {
        snapshot_every_s: 600,
        snapshot_after_idle_s: null,
        suspend_after_idle_s: 3,
        suspend_only_gpu: true,
        keep: { last: 5, hourly: 0, daily: 2 },
        before_cell: true,
        after_cell: true,
        pause_ms: 100,
        before_restart: true,
        cull: 'shutdown'
      }
    );
  });

  it('have snapshots after cells unless somebody does not want them', () => {
    const off = policyOf({ snapshotAfterCell: false });
    assert.equal(off.after_cell, false);
    assert.equal(policyOf({ snapshotPauseMilliseconds: 40 }).pause_ms, 40);
  });

  it('keep everything where nothing is to be kept', () => {
    assert.equal(policyOf({ keepLast: 0 }).keep, null);
  });
});
