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
      { used_bytes: 1_200_000_000, allowed_bytes: 4_600_000_000 },
      [commit(true, 3e6), commit(false, 1e9), commit(true, 2e6)]
    );
    assert.match(lines[0], /^History takes .*; .* are free for it\.$/);
    assert.match(lines[1], /^The 2 automatic snapshots .* have added/);
    assert.match(lines[2], /store_budget/);
  });

  it('says so if it is used up, or cannot be told', () => {
    const full = { used_bytes: 5, allowed_bytes: 5 };
    assert.match(roomWords(trans, full, [])[0], /all that it may take/);
    const unknown = { used_bytes: null, allowed_bytes: null };
    assert.match(roomWords(trans, unknown, [])[0], /cannot be told/);
  });
});
