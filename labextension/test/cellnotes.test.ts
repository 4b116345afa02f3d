import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isRunning, lastByCount, noteOf } from '../src/cellnotes';
import { strangers } from '../src/views';

const cell = (id: string, executionCount: number | null, type = 'code') => ({
  id,
  type,
  executionCount,
  sharedModel: { getSource: () => `${id}()` }
});

describe('the cell of a snapshot', () => {
  it('is the one with the highest count where nothing was seen to run', () => {
    const cells = [cell('import', 1), cell('text', null, 'markdown')];
    const late = [...cells, cell('train', 9), cell('plot', 4), cell('n', null)];
    assert.equal(lastByCount(late)?.id, 'train');
    assert.equal(lastByCount(late)?.number, 9);
    assert.equal(lastByCount([cell('n', null)]), undefined);
  });

  it('has no number if it is text', () => {
    assert.equal(noteOf(cell('text', 3, 'markdown')).number, null);
    const running = { ...cell('a', null), executionState: 'running' };
    assert.ok(isRunning(running));
    assert.ok(!isRunning({ ...running, type: 'markdown' }));
  });
});

describe('widgets after a restore', () => {
  const view = (id: string) => ({
    output_type: 'display_data',
    data: { 'application/vnd.jupyter.widget-view+json': { model_id: id } }
  });

  it('are strange to a kernel that never made them', () => {
    const outputs = [view('a'), { output_type: 'stream', text: '' }, view('b')];
    assert.deepEqual(strangers(outputs, new Set(['a'])), ['b']);
    assert.deepEqual(strangers(outputs, new Set(['a', 'b'])), []);
  });
});
