import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { TranslationBundle } from '@jupyterlab/translation';
import { looseLines, looseSentence } from '../src/loose';

const trans = {
  _n: (one: string, many: string, count: number) =>
    (count === 1 ? one : many).replace('%1', String(count))
} as unknown as TranslationBundle;
const file = (path: string, bytes: number) => ({ path, bytes });

describe('files that no snapshot has', () => {
  it('have a name and a size', () => {
    assert.deepEqual(looseLines([file('/home/a/work/results.csv', 9)]), [
      'results.csv (9 B)'
    ]);
    assert.deepEqual(looseLines([]), []);
  });

  it('are named up to three, and the others counted', () => {
    const files = ['a', 'b', 'c'].map(name => file(`/w/${name}`, 2048));
    assert.equal(looseSentence(trans, files), 'a (2 KB), b (2 KB), c (2 KB)');
    const more = [...files, file('/w/d', 1), file('/w/e', 1)];
    assert.equal(
      looseSentence(trans, more),
      'a (2 KB), b (2 KB), c (2 KB) and 2 more'
    );
  });
});
