import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  baseName,
  cardTime,
  codeLine,
  dayName,
  duration,
  firstLine,
  plain,
  relativeTime,
  size
} from '../../src/history/format';

describe('sizes', () => {
  it('are those of the file browser', () => {
    assert.equal(size(0), '0 B');
    assert.equal(size(1023), '1023 B');
    assert.equal(size(1024), '1 KB');
    assert.equal(size(12.34 * 1024 * 1024), '12.3 MB');
    assert.equal(size(512 * 1024 ** 2), '512 MB');
    assert.equal(size(24 * 1024 ** 3), '24 GB');
  });

  it('never show 1024 of a unit', () => {
    assert.equal(size(1024 ** 2 - 1), '1 MB');
    for (let exponent = 10; exponent < 50; exponent++) {
      for (const near of [-2, -1, 0, 1]) {
        const text = size(2 ** exponent + near);
        assert.ok(!text.startsWith('1024'), text);
      }
    }
  });
});

describe('durations', () => {
  it('go from microseconds to minutes', () => {
    assert.equal(duration(12), '12 µs');
    assert.equal(duration(42_400), '42 ms');
    assert.equal(duration(999_700), '1 s');
    assert.equal(duration(1_340_000), '1.3 s');
    assert.equal(duration(59_990_000), '1 min');
    assert.equal(duration(125_000_000), '2 min 5 s');
  });
});

describe('times', () => {
  const now = new Date(2026, 10, 15, 12, 0, 0);
  const ago = (seconds: number): string =>
    relativeTime(new Date(now.getTime() - seconds * 1000), now, 'en');

  it('are relative, in the language of the page', () => {
    assert.equal(ago(20), 'now');
    assert.equal(ago(-90), 'now');
    assert.equal(ago(300), '5 minutes ago');
    assert.equal(ago(7200), '2 hours ago');
    assert.equal(ago(86400), 'yesterday');
    assert.equal(
      relativeTime(new Date(now.getTime() - 300_000), now, 'de'),
      'vor 5 Minuten'
    );
  });

  it('on cards are words for a day, then the clock', () => {
    const card = (seconds: number): string =>
      cardTime(new Date(now.getTime() - seconds * 1000), now, 'en-GB');
    assert.equal(card(20), 'now');
    assert.equal(card(300), '5 minutes ago');
    assert.equal(card(7200), '2 hours ago');
    assert.equal(card(2 * 86400), '12:00');
  });

  it('have days with names', () => {
    const at = (...date: [number, number, number]): string =>
      dayName(new Date(...date), now, 'en-GB');
    assert.equal(at(2026, 10, 15), 'Today');
    assert.equal(at(2026, 10, 14), 'Yesterday');
    assert.match(at(2026, 10, 9), /^Mon,? 9 Nov$/);
    assert.match(at(2025, 10, 9), /2025$/);
  });

  it('know that 23:59 was yesterday one minute later', () => {
    const midnight = new Date(2026, 10, 15, 0, 0, 30);
    assert.equal(
      dayName(new Date(2026, 10, 14, 23, 59, 50), midnight, 'en'),
      'Yesterday'
    );
  });
});

describe('texts', () => {
  it('are cut to their first line that says something', () => {
    assert.equal(firstLine('\n\n  train(model)  \nmore'), 'train(model)');
    assert.equal(firstLine(''), '');
    assert.equal(firstLine('x'.repeat(500), 10), `${'x'.repeat(9)}…`);
    assert.equal(firstLine('👩‍🔬'.repeat(2), 200), '👩‍🔬'.repeat(2));
  });

  it('of a cell is its first line of code', () => {
    assert.equal(codeLine('# load\n%%time\n\ndf = load()\ndf'), 'df = load()');
    assert.equal(codeLine('%matplotlib inline\nplot()'), '%matplotlib inline');
    assert.equal(codeLine('# only a thought\n'), '# only a thought');
    assert.equal(codeLine(' \n'), '');
  });

  it('show bytes that are no text', () => {
    assert.equal(plain('a/b'), 'a/b');
    assert.equal(plain({ hex: '636166e9' }), 'caf\ufffd');
  });

  it('have a last part', () => {
    assert.equal(baseName('a/b.ipynb'), 'b.ipynb');
    assert.equal(baseName('b.ipynb'), 'b.ipynb');
  });
});
