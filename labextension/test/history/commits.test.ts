import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  backTo,
  isAutomatic,
  kindOf,
  takeBearings
} from '../../src/history/commits';
import { auto, commit, rollback, thread } from './make';

describe('bearings', () => {
  it('take the newest snapshot of a thread as its head, whatever was known before', () => {
    const commits = [
      commit('y1', ['b'], { thread: 'y' }),
      commit('c', ['b']),
      commit('b', ['a']),
      commit('a')
    ];
    const old = [thread('main', 'b'), thread('y', 'b'), thread('new', 'a')];
    const bearings = takeBearings(commits, old, { head: 'b', thread: 'main' });
    assert.equal(bearings.head, 'c');
    assert.deepEqual(
      [...bearings.heads].map(([id, threads]) => [id, threads[0].name]),
      [
        ['c', 'main'],
        ['y1', 'y'],
        // A branch that has no snapshot of its own yet.
        ['a', 'new']
      ]
    );
  });

  it('know what a rollback left behind', () => {
    const commits = [
      commit('d', ['r']),
      rollback('r', 'c', 'a'),
      auto('c', ['b'], { reason: 'before-rollback' }),
      commit('b', ['a']),
      commit('a')
    ];
    const { live, forks } = takeBearings(commits, [], {
      head: 'd',
      thread: 'main'
    });
    assert.deepEqual([...live].sort(), ['a', 'd', 'r']);
    assert.deepEqual([...forks], ['a']);
  });

  it('do not mind parents that are gone, nor an empty history', () => {
    const { live } = takeBearings([commit('b', ['gone'])], [], {
      head: 'b',
      thread: 'main'
    });
    assert.ok(live.has('b'));
    assert.equal(takeBearings([], [], null).head, null);
  });
});

describe('kinds', () => {
  it('are told by the reason where older servers say no more', () => {
    const old = commit('a', [], { reason: 'idle', automatic: undefined });
    assert.equal(isAutomatic(old), true);
    assert.equal(kindOf(old), 'automatic');
    assert.equal(kindOf(commit('a')), 'manual');
    const unknown = commit('a', [], {
      reason: 'eclipse',
      automatic: undefined
    });
    assert.equal(isAutomatic(unknown), false);
  });

  it('know the target of a rollback by its second parent too', () => {
    const old = commit('r', ['b', 'a'], { reason: 'rollback' });
    assert.equal(backTo(old), 'a');
    assert.equal(backTo(commit('m', ['b', 'a'])), null);
  });
});
