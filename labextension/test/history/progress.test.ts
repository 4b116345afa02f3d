import type { TranslationBundle } from '@jupyterlab/translation';
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Course, progressOf } from '../../src/history/progress';
import type { JobNews } from '../../src/wire';

const trans = { __: (text: string) => text } as TranslationBundle;

const job = (kind: string, step: string, done?: number): JobNews => ({
  id: 'j',
  kind,
  state: 'running',
  step,
  ...(done === undefined ? {} : { done, total: 100 })
});

/** A rollback as the daemon tells it: the figures of its steps begin anew twice. */
const ROLLBACK = [
  job('rollback', 'lay out images', 0),
  job('rollback', 'lay out images', 100),
  job('rollback', 'check images'),
  job('rollback', 'preflight'),
  job('rollback', 'freeze and dump'),
  job('rollback', 'store memory', 0),
  job('rollback', 'store memory', 100),
  job('rollback', 'store files', 0),
  job('rollback', 'store files', 100),
  job('rollback', 'commit'),
  job('rollback', 'end the old processes'),
  job('rollback', 'put files back'),
  job('rollback', 'restore')
];

describe('progress', () => {
  it('goes from the beginning to the end once', () => {
    const course = new Course();
    const shares = ROLLBACK.map(news => course.follow(news, trans).share ?? 0);
    assert.deepEqual(
      shares,
      shares.slice().sort((a, b) => a - b)
    );
    assert.ok(shares[0] < 0.05 && shares[shares.length - 1] > 0.85);
    assert.ok(shares.every(share => share <= 1));
  });

  it('has three words for a restore, none of them of the daemon', () => {
    const words = ROLLBACK.map(news => progressOf(news, trans).words);
    assert.deepEqual(
      [...new Set(words)],
      ['Loading', 'Saving now', 'Restoring']
    );
  });

  it('begins anew with another job', () => {
    const course = new Course();
    course.follow(job('snapshot', 'store memory', 100), trans);
    const next = { ...job('snapshot', 'store memory', 0), id: 'k' };
    assert.ok((course.follow(next, trans).share ?? 1) < 0.3);
  });

  it('says what is done where nobody can say how much', () => {
    assert.deepEqual(progressOf(job('gc', 'sweep'), trans), {
      words: 'Cleaning up',
      share: null
    });
  });
});
