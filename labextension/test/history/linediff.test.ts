import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { sideBySide, lineDiff, unified } from '../../src/history/diff/lines';

function short(before: string, after: string): string {
  const marks = { same: ' ', added: '+', removed: '-' };
  return lineDiff(before, after)
    .map(line => marks[line.change] + line.text)
    .join('\n');
}

describe('lines that differ', () => {
  it('are found between those that do not', () => {
    assert.equal(short('a\nb\nc', 'a\nx\nc'), ' a\n-b\n+x\n c');
    assert.equal(short('a\nb\nc\nd', 'b\nc\ne\nd'), '-a\n b\n c\n+e\n d');
  });

  it('may be all or none', () => {
    assert.equal(short('', 'a\nb'), '+a\n+b');
    assert.equal(short('a', ''), '-a');
    assert.equal(short('a', 'a'), ' a');
    assert.equal(short('', ''), '');
  });

  it('give both texts back', () => {
    const before = Array.from({ length: 60 }, (_, i) => `l${(i * 7) % 13}`);
    const after = Array.from({ length: 50 }, (_, i) => `l${(i * 5) % 11}`);
    const lines = lineDiff(before.join('\n'), after.join('\n'));
    const side = (skip: string): string[] =>
      lines.filter(it => it.change !== skip).map(it => it.text);
    assert.deepEqual(side('added'), before);
    assert.deepEqual(side('removed'), after);
  });

  it('do not take for ever', () => {
    const text = (seed: number): string =>
      Array.from({ length: 20_000 }, (_, i) => `${i * seed}`).join('\n');
    assert.ok(lineDiff(text(2), text(3)).length >= 20_000);
  });
});

describe('two columns', () => {
  it('have what was taken away beside what came for it', () => {
    const rows = sideBySide(lineDiff('a\nb\nc', 'a\nx\ny\nc'));
    assert.deepEqual(
      rows.map(({ left, right }) => [left?.text ?? null, right?.text ?? null]),
      [
        ['a', 'a'],
        ['b', 'x'],
        [null, 'y'],
        ['c', 'c']
      ]
    );
  });

  it('leaves out what is far from a change, and says how much', () => {
    const lines = (middle: string): string =>
      [...'abcdefgh', middle, ...'ijklmnop'].join('\n');
    const parts = unified(lineDiff(lines('1'), lines('2')));
    assert.deepEqual(
      parts.map(part => ('left' in part ? part.left : part.text)),
      [5, 'f', 'g', 'h', '1', '2', 'i', 'j', 'k', 5]
    );
    assert.deepEqual(unified(lineDiff('', 'new')), [
      { change: 'added', text: 'new' }
    ]);
  });
});
