import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { IKernelState } from '../src/model';
import { endQuestions } from '../src/questions';
import { statusLine } from '../src/statusline';
import * as make from './history/make';

/** No translation: the words as they are in the sources. */
const trans = {
  __: (words: string, ...values: unknown[]) =>
    values.reduce<string>(
      (line, value, index) => line.replace(`%${index + 1}`, String(value)),
      words
    )
} as TranslationBundle;

const kernel: IKernelState = {
  kernelId: 'k',
  known: true,
  session: make.session({ vram_bytes: 512 * 1024 * 1024 }),
  whyNot: null,
  error: null,
  job: null,
  last: null,
  history: null,
  stale: false
};

describe('the status bar', () => {
  const now = new Date();
  const line = (state: IKernelState | null, away = false) =>
    statusLine(trans, state, away, now);

  it('says nothing where there is no session', () => {
    assert.equal(line(null), null);
    assert.equal(line({ ...kernel, session: null }), null);
  });

  it('says state, GPU memory and the last snapshot', () => {
    const last = {
      id: 'c',
      parents: [],
      thread: 'main',
      tags: [],
      time: now.toISOString(),
      reason: 'manual',
      message: '',
      bytes: 0
    };
    const { state, text } = line({ ...kernel, last })!;
    assert.equal(state, 'running');
    assert.match(text, /^Session: running · GPU 512 MB · snapshot .*\d/);
  });

  it('says what is under way, and that the daemon is not there', () => {
    const job = { id: 'j', kind: 'rollback', state: 'running' as const };
    assert.match(line({ ...kernel, job })!.text, /restoring…/);
    assert.equal(line(kernel, true)!.state, 'away');
  });
});

describe('questions after a restore', () => {
  const box = () => {
    const made = {
      gone: false,
      hasClass: (name: string) => name === 'jp-OutputArea-stdin-item',
      dispose: () => {
        made.gone = true;
      }
    };
    return made;
  };
  const setUp = () => {
    const boxes = { a: [box(), box()], b: [box()] };
    const output = { hasClass: () => false, dispose: () => assert.fail() };
    const cell = (id: 'a' | 'b') => ({
      model: { id, type: 'code' },
      outputArea: { widgets: [output, ...boxes[id]] }
    });
    let freed = false;
    const removeInputGuard = () => {
      freed = true;
    };
    const panel = {
      content: {
        widgets: [
          cell('a'),
          { model: { id: 'm', type: 'markdown' } },
          cell('b')
        ]
      },
      sessionContext: { session: { kernel: { removeInputGuard } } }
    } as unknown as NotebookPanel;
    return { panel, boxes, isFree: () => freed };
  };

  it('go, and cells can be run again', () => {
    const { panel, boxes, isFree } = setUp();
    endQuestions(panel, null);
    assert.ok([...boxes.a, ...boxes.b].every(one => one.gone));
    assert.ok(isFree());
  });

  it('stay where the kernel goes on in the middle of one', () => {
    const { panel, boxes, isFree } = setUp();
    endQuestions(panel, 'a');
    assert.deepEqual(
      [...boxes.a, ...boxes.b].map(one => one.gone),
      [true, false, true]
    );
    assert.ok(!isFree());
  });
});
