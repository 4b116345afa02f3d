import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import type { IActions } from '../../src/history/actions';
import { Banners, Instead, Progress } from '../../src/history/banners';
import { takeBearings } from '../../src/history/commits';
import { DiffView } from '../../src/history/diff/view';
import { cardSentence, titleOf } from '../../src/history/sentences';
import type { IHistoryState } from '../../src/history/source';
import { ColourMemory, HistoryView } from '../../src/history/view';
import type { CommitView, Diff } from '../../src/wire';
import { auto, commit, longHistory, rollback, session, thread } from './make';

const EVIL = '<img src=x onerror="alert(1)">&amp;';

/** English, as gettext would give it. */
const trans = {
  __: (text: string, ...values: unknown[]) =>
    text.replace(/%(\d)/g, (_, index) => String(values[Number(index) - 1])),
  _n: (one: string, many: string, count: number, ...values: unknown[]) =>
    (count === 1 ? one : many).replace(/%1/g, String(values[0]))
} as unknown as TranslationBundle;

const actions: IActions = { can: () => true, run: () => undefined };

function state(more: Partial<IHistoryState>): IHistoryState {
  return {
    status: 'ready',
    kernelId: 'k',
    path: 'a.ipynb',
    session: session(),
    whyNot: null,
    commits: [],
    threads: [],
    job: null,
    away: false,
    error: null,
    ...more
  };
}

function draw(more: Partial<IHistoryState>): string {
  return renderToStaticMarkup(
    <HistoryView
      state={state(more)}
      actions={actions}
      trans={trans}
      locale="en"
      colours={new ColourMemory()}
      visible={true}
      onRefresh={() => undefined}
      onMenu={() => undefined}
    />
  );
}

describe('the panel', () => {
  it('shows labels, messages, tags, cells and names as text', () => {
    const drawn = draw({
      session: session({ head: 'c' }),
      commits: [
        commit('c', ['b'], { label: EVIL, tags: [EVIL] }),
        commit('b', ['a'], {
          message: EVIL,
          thread: 'y',
          cell: { number: 1, source: EVIL }
        }),
        commit('a')
      ],
      threads: [thread('y', 'b', { path: EVIL }), thread('main', 'c')]
    });
    assert.ok(drawn.includes('&lt;img src=x'));
    assert.ok(!drawn.includes('<img'));
  });

  it('has few rows of many in the document', () => {
    const { commits, threads } = longHistory(2000, 6);
    const drawn = draw({ commits, threads });
    const rows = drawn.match(/role="treeitem"/g)?.length ?? 0;
    assert.ok(rows > 5 && rows < 40, `${rows} rows`);
    assert.equal(drawn.match(/role="treeitem" tabindex="0"/g)?.length, 1);
  });

  it('says why there is nothing, and the way out', () => {
    const text = (more: Partial<IHistoryState>): string =>
      draw(more).replace(/<[^>]*>/g, ' ');
    assert.match(text({}), /A snapshot keeps the whole kernel/);
    assert.match(
      text({ status: 'none', path: null, session: null }),
      /Open a notebook/
    );
    assert.match(
      text({ status: 'none', session: null, whyNot: 'start infinijupd.' }),
      /no history: start infinijupd\..*Try again/
    );
    assert.match(
      text({ status: 'error', error: { message: 'No.', hint: 'Wait.' } }),
      /cannot be read: No\. Wait\./
    );
  });
});

describe('banners', () => {
  const banner = (more: Partial<IHistoryState>): string =>
    renderToStaticMarkup(
      <Banners state={state(more)} actions={actions} trans={trans} />
    );

  it('offer to resume what is suspended', () => {
    assert.match(
      banner({ session: session({ state: 'suspended' }) }),
      /data-infinijup-action="resume"/
    );
    assert.equal(banner({}), '');
  });

  it('tell of a daemon that is away first', () => {
    const drawn = banner({
      away: true,
      session: session({ state: 'suspended' })
    });
    assert.match(drawn, /does not answer/);
    assert.doesNotMatch(drawn, /suspended/);
  });

  it('show how far the work is', () => {
    const drawn = renderToStaticMarkup(
      <Progress
        job={{
          id: '1',
          kind: 'snapshot',
          state: 'running',
          step: 'store',
          done: 30,
          total: 120
        }}
        trans={trans}
      />
    );
    assert.match(drawn, /Taking a snapshot/);
    assert.match(drawn, /aria-valuenow="25"/);
  });

  it('are nothing where there is a list', () => {
    const nothing = renderToStaticMarkup(
      <>
        {Instead({
          state: state({ commits: [commit('a')] }),
          hidden: false,
          actions,
          trans,
          onRefresh: () => undefined,
          onClear: () => undefined
        })}
      </>
    );
    assert.equal(nothing, '');
  });
});

describe('sentences', () => {
  const commits: CommitView[] = [
    rollback('r', 'b', 'a', { message: 'back to a' }),
    auto('b', ['a'], {
      frozen_us: 42_000,
      new_bytes: 1024,
      vram_bytes: 2 ** 30
    }),
    commit('a', [], {
      label: 'Epoch 3',
      tags: ['best'],
      cell: { number: 5, source: 'train(model)\n' }
    })
  ];
  const bearings = takeBearings(commits, [], { head: 'r', thread: 'main' });
  const now = new Date('2026-11-15T12:05:00Z');
  const say = (index: number): string =>
    cardSentence(commits[index], bearings, now, trans, 'en');

  it('name a rollback by where it went', () => {
    assert.equal(titleOf(commits[0], bearings, trans), 'Restored to Epoch 3');
    const cell = { number: 1, source: 'x = 1' };
    const plain = takeBearings(
      [commits[0], commit('a', [], { cell })],
      [],
      null
    );
    assert.equal(titleOf(commits[0], plain, trans), 'Restored to [1] x = 1');
    const alone = takeBearings([commits[0]], [], null);
    assert.equal(titleOf(commits[0], alone, trans), 'Restored to a');
  });

  it('read a card out', () => {
    assert.equal(
      say(2),
      'Epoch 3, 5 min. ago; Snapshot; cell [5] train(model); tagged best; 1000 B.'
    );
    assert.match(say(0), /current snapshot of this kernel/);
    assert.equal(
      say(1),
      'Timed, 5 min. ago; left behind by a restore; +1 KB / 1000 B; VRAM 1 GB; paused 42 ms.'
    );
  });
});

describe('the comparison', () => {
  const diff: Diff = {
    a: 'a',
    b: 'b',
    processes: [],
    memory: [
      {
        pid: 1,
        start: 4096,
        end: 12288,
        name: '[heap]',
        change: 'changed',
        changed_bytes: 4096
      }
    ],
    files: [{ path: EVIL, change: 'added', after_bytes: 5 }],
    totals: { memory_bytes: 4096, files: 1, processes: 0 },
    variables: [
      {
        name: 'x',
        change: 'changed',
        before: { name: 'x', type: 'int', size: 28, summary: '1' },
        after: { name: 'x', type: 'str', size: 50, summary: EVIL }
      }
    ],
    cells: {
      added: [{ source: EVIL }],
      removed: [],
      changed: [{ before: { source: 'x = 1' }, after: { source: 'x = 2' } }]
    }
  };
  const show = (
    more: Partial<Diff>,
    a = commit('a'),
    b = commit('b')
  ): string =>
    renderToStaticMarkup(
      <DiffView
        diff={{ ...diff, ...more }}
        a={a}
        b={b}
        trans={trans}
        locale="en"
      />
    );

  it('shows what it has, as text', () => {
    const drawn = show({});
    assert.ok(!drawn.includes('<img'));
    assert.match(drawn, /data-infinijup-variable="x"/);
    assert.match(drawn, /int → str/);
    assert.match(drawn, /<del>x = 1<\/del>/);
    assert.match(drawn, /<ins>x = 2<\/ins>/);
    assert.match(drawn, /4 KB of memory differ/);
  });

  it('says why it has nothing', () => {
    const busy = commit('b', [], { has_variables: false, has_notebook: false });
    const drawn = show({ variables: null, cells: null }, commit('a'), busy);
    assert.match(drawn, /Variables were not recorded with b: the kernel was/);
    assert.match(drawn, /The notebook was not kept with b/);
    assert.match(
      show({ variables: [], files: [] }),
      /No variable has another type/
    );
  });
});
