import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { IKernelState } from '../src/model';
import { placeOfBranch, rootOf, widest } from '../src/places';
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
    assert.match(text, /^GPU 512 MB · Last snapshot .*\d/);
  });

  it('says what is under way, and that the daemon is not there', () => {
    const job = { id: 'j', kind: 'rollback', state: 'running' as const };
    assert.match(line({ ...kernel, job })!.text, /Restoring…/);
    assert.equal(line(kernel, true)!.state, 'away');
  });
});

describe('branches', () => {
  const open = (id: string, path: string) => ({ id, context: { path } });
  const original = open('o', 'work/day.ipynb');
  const first = open('a', 'work/day (branch).ipynb');

  it('open beside the original, and then as tabs there', () => {
    assert.deepEqual(placeOfBranch(original, [original]), {
      ref: 'o',
      mode: 'split-right'
    });
    const other = open('x', 'work/night (branch).ipynb');
    const second = open('b', 'work/day (branch 2).ipynb');
    assert.deepEqual(placeOfBranch(original, [original, other, first]), {
      ref: 'a',
      mode: 'tab-after'
    });
    assert.equal(placeOfBranch(original, [original, first, second]).ref, 'b');
  });

  it('of a branch stay with it', () => {
    assert.deepEqual(placeOfBranch(first, [original, first]), {
      ref: 'a',
      mode: 'tab-after'
    });
  });

  it('are told by the name that the server gives', () => {
    assert.equal(rootOf('a/day (branch 12).ipynb'), 'a/day.ipynb');
    assert.equal(rootOf('a (branch)/day.ipynb'), 'a (branch)/day.ipynb');
  });
});

describe('a comparison', () => {
  it('opens in the widest place that can be seen', () => {
    const make = (name: string, offsetWidth: number) => ({
      name,
      node: { offsetWidth }
    });
    const found = widest([make('a', 300), make('hidden', 0), make('b', 700)]);
    assert.equal(found?.name, 'b');
    assert.equal(widest([]), null);
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
