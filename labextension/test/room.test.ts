import type { TranslationBundle } from '@jupyterlab/translation';
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { roomWords } from '../src/room';
import type { CommitView } from '../src/wire';

const fill = (text: string, values: unknown[]) =>
  text.replace(/%(\d)/g, (_, at: string) => String(values[Number(at) - 1]));
const trans = {
  __: (text: string, ...values: unknown[]) => fill(text, values),
  _n: (one: string, many: string, count: number, ...values: unknown[]) =>
    fill(count === 1 ? one : many, [count, ...values])
} as unknown as TranslationBundle;
const commit = (automatic: boolean, bytes: number) =>
  ({ automatic, new_bytes: bytes }) as CommitView;

describe('the room that the history takes', () => {
  it('is said in words, with what is free', () => {
    const lines = roomWords(
      trans,
      { used_bytes: 1_200_000_000, allowed_bytes: 4_600_000_000, remote: null },
      [commit(true, 3e6), commit(false, 1e9), commit(true, 2e6)]
    );
    assert.match(lines[0], /^History takes .*; .* are free for it\.$/);
    assert.match(lines[1], /^The 2 automatic snapshots .* have added/);
    assert.match(lines[2], /store_budget/);
  });

  it('says so if it is used up, or cannot be told', () => {
    const full = { used_bytes: 5, allowed_bytes: 5, remote: null };
    assert.match(roomWords(trans, full, [])[0], /all that it may take/);
    const unknown = { used_bytes: null, allowed_bytes: null, remote: null };
    assert.match(roomWords(trans, unknown, [])[0], /cannot be told/);
  });

  it('says what is only in a remote, and how the last push went', () => {
    const said = (failed: string | null, last_push: string | null) =>
      roomWords(
        trans,
        {
          used_bytes: 5,
          allowed_bytes: 9,
          remote: { name: 'origin', last_push, failed }
        },
        [{ elsewhere: 'origin' } as CommitView, commit(false, 1)],
        'en-GB'
      ).join('\n');
    const time = '2026-11-18T08:12:00Z';
    assert.match(said(null, time), /1 snapshot .* is only in origin and/);
    assert.match(said(null, time), /Last pushed to origin at .*2026/);
    assert.match(said('no answer', time), /push to origin at .* failed: no a/);
    assert.match(said(null, null), /Nothing was pushed to origin yet/);
  });
});
