import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { search, type Filter } from '../../src/history/search';
import { commit } from './make';

const COMMITS = [
  commit('e5', [], { thread: 'other', tags: ['Best'] }),
  commit('d4', [], { cell: { number: 5, source: 'x = 1\ntrain(model)' } }),
  commit('c3', [], { message: 'before the big merge' }),
  commit('b2', [], { label: 'Epoch 3' }),
  commit('a1', [], { label: '<b>bold</b>' })
];

function found(query: string, filter: Filter = 'all'): string {
  return search(COMMITS, query, filter, 'main')
    .map(it => it.id)
    .join(' ');
}

describe('search', () => {
  it('looks at labels, messages, tags, cells and ids, in any case', () => {
    assert.equal(found('epoch'), 'b2');
    assert.equal(found('BIG'), 'c3');
    assert.equal(found('best'), 'e5');
    assert.equal(found('train('), 'd4');
    assert.equal(found('[5]'), 'd4');
    assert.equal(found('a1'), 'a1');
    assert.equal(found('<b>'), 'a1');
  });

  it('wants all words', () => {
    assert.equal(found('merge before'), 'c3');
    assert.equal(found('merge epoch'), '');
    assert.equal(found('  '), 'e5 d4 c3 b2 a1');
  });

  it('goes together with the filter', () => {
    assert.equal(found('', 'mine'), 'd4 c3 b2 a1');
    assert.equal(found('', 'tagged'), 'e5');
    assert.equal(found('epoch', 'tagged'), '');
  });

  it('gives back the very list if nothing is asked', () => {
    assert.equal(search(COMMITS, '', 'all', null), COMMITS);
  });
});
