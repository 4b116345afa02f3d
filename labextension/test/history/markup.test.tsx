import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import type { IActions } from '../../src/history/actions';
import { Banners, Instead, Progress } from '../../src/history/banners';
import { takeBearings } from '../../src/history/commits';
import { choicesFor, Details } from '../../src/history/details';
import type { Documents } from '../../src/history/diff/cells';
import { FileLines } from '../../src/history/diff/files';
import { DiffView } from '../../src/history/diff/view';
import type { IScene } from '../../src/history/scene';
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
    servers: [],
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
    assert.match(text({}), /A snapshot saves the whole kernel/);
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

describe('a card', () => {
  const draw_ = (commits: CommitView[], more: Partial<IHistoryState> = {}) =>
    draw({ session: session({ head: commits[0].id }), commits, ...more });

  it('has two lines: code, and when; the reason is an icon with a name', () => {
    const drawn = draw_([
      auto('a', [], {
        cell: { number: 3, source: 'scores = fit(x)' },
        frozen_us: 42_000,
        new_bytes: 1024
      })
    ]);
    assert.match(
      drawn,
      /<code class="[^"]*title[^"]*"[^>]*>scores = fit\(x\)</
    );
    assert.match(drawn, /role="img" aria-label="Taken on a timer"/);
    assert.match(drawn, /<time [^>]*title="[^"]*2026[^"]*"/);
    assert.doesNotMatch(drawn, /paused|42 ms/);
  });

  it('has a moon where a kernel sleeps', () => {
    const threads = [thread('main', 'a', { state: 'suspended' })];
    assert.match(draw_([commit('a')], { threads }), /kernel is suspended/);
    assert.doesNotMatch(draw_([commit('a')]), /kernel is suspended/);
  });
});

describe('an open card', () => {
  const scene: IScene = {
    bearings: takeBearings([commit('b', ['a']), commit('a')], [], {
      head: 'b',
      thread: 'main'
    }),
    actions,
    trans,
    locale: 'en',
    now: new Date(),
    openMenu: () => undefined
  };
  const open = (
    paired: CommitView | null = null,
    more: Partial<CommitView> = {}
  ) =>
    renderToStaticMarkup(
      <Details
        commit={commit('a', [], {
          id: 'a'.repeat(40),
          frozen_us: 42_000,
          ...more
        })}
        scene={scene}
        paired={paired}
        onMeasure={() => undefined}
      />
    );

  it('has two buttons and a menu, and its id folded away', () => {
    const drawn = open();
    const buttons = drawn.match(/data-infinijup-action="[^"]*"/g);
    assert.deepEqual(
      buttons?.map(one => one.split('"')[1]),
      ['restore', 'branch', 'more']
    );
    assert.match(drawn, /42 ms/);
    assert.match(drawn, /<details [^>]*><summary>Details<\/summary>.*a{40}/);
    assert.doesNotMatch(drawn.split('<details')[0], /a{10}/);
  });

  it('says where it is kept if it is not here', () => {
    assert.match(open(null, { elsewhere: 'origin' }), /only in origin;/);
    assert.doesNotMatch(open(), /Kept/);
  });

  it('has no kernel to go back to if it has files alone', () => {
    const files = commit('f', [], { reason: 'files' });
    const can = choicesFor(files, null, scene).filter(one => one.enabled);
    assert.deepEqual(
      can.filter(one => one.button).map(one => one.action),
      ['files']
    );
  });

  it('has the comparison as a button once there are two', () => {
    assert.match(open(commit('b')), /data-infinijup-action="compare"/);
  });

  it('offers the rest in the menu', () => {
    const rest = choicesFor(commit('a'), null, scene)
      .filter(choice => choice.enabled && !choice.button)
      .map(choice => choice.action);
    assert.deepEqual(rest, ['compare', 'tag', 'files', 'copy', 'delete']);
  });
});

describe('banners', () => {
  const banner = (more: Partial<IHistoryState>): string =>
    renderToStaticMarkup(
      <Banners state={state(more)} actions={actions} trans={trans} />
    );

  it('lead to the servers of the kernel', () => {
    const drawn = draw({
      servers: [
        { port: 8050, url: '/lab/proxy/40123/' },
        { port: 8051, url: null }
      ]
    });
    assert.match(
      drawn,
      /<a href="\/lab\/proxy\/40123\/" target="_blank" rel="noopener noreferrer">Server on port 8050<\/a>/
    );
    assert.match(drawn, /Server on port 8051 \(needs jupyter-server-proxy/);
    assert.doesNotMatch(draw({}), /Server/);
  });

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

  it('show how far the work is, in plain words', () => {
    const drawn = renderToStaticMarkup(
      <Progress
        job={{
          id: '1',
          kind: 'snapshot',
          state: 'running',
          step: 'store memory',
          done: 30,
          total: 120
        }}
        trans={trans}
      />
    );
    assert.match(drawn, /Saving now …/);
    assert.doesNotMatch(drawn, /store/);
    assert.match(drawn, /aria-valuenow="38"/);
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
    const title = (of: CommitView, where: typeof bearings) =>
      titleOf(of, where, trans).text;
    assert.equal(title(commits[0], bearings), 'Back to best');
    const cell = { number: 1, source: 'x = 1' };
    const plain = takeBearings(
      [commits[0], commit('a', [], { cell })],
      [],
      null
    );
    assert.match(title(commits[0], plain), /^Back to .*\d.* · x = 1$/);
    const alone = takeBearings([commits[0]], [], null);
    assert.equal(title(commits[0], alone), 'Back to a snapshot that is gone');
  });

  it('read a card out', () => {
    assert.equal(
      say(2),
      'best, 5 minutes ago; Taken by hand; cell [5] train(model).'
    );
    assert.match(say(0), /current snapshot of this kernel/);
    assert.equal(
      say(1),
      'Taken on a timer, 5 minutes ago; left behind by a restore.'
    );
  });

  it('call a card by the code of its cell', () => {
    const source = '# the model\ntrain(model)\n';
    const card = commit('x', [], { cell: { number: 5, source } });
    assert.deepEqual(titleOf(card, bearings, trans), {
      text: 'train(model)',
      code: true
    });
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
    b = commit('b'),
    documents: Documents = null
  ): string =>
    renderToStaticMarkup(
      <DiffView
        diff={{ ...diff, ...more }}
        documents={documents}
        draw={outputs => <i>{JSON.stringify(outputs)}</i>}
        read={() => Promise.reject(new Error('nobody asks'))}
        a={a}
        b={b}
        trans={trans}
        locale="en"
      />
    );

  it('shows the lines of a file as text, and of what is none its size', () => {
    const file = (text: string | null) => ({ path: 'f', bytes: 2048, text });
    const lines = (before: string | null, after: string | null): string =>
      renderToStaticMarkup(
        <FileLines
          both={{ before: file(before), after: file(after) }}
          trans={trans}
        />
      );
    const drawn = lines('one\ntwo', `one\n${EVIL}`);
    assert.ok(!drawn.includes('<img'));
    assert.match(drawn, /<del>- two<\/del>/);
    assert.match(drawn, /<ins>\+ &lt;img/);
    assert.match(lines('one', null), /2 KB/);
  });

  it('shows what it has, as text', () => {
    const drawn = show({});
    assert.ok(!drawn.includes('<img'));
    assert.match(drawn, /data-infinijup-variable="x"/);
    assert.match(drawn, /int → str/);
    assert.match(drawn, /<del>x = 1<\/del>/);
    assert.match(drawn, /<ins>x = 2<\/ins>/);
    assert.match(
      drawn,
      /<details [^>]*><summary>.*Memory.*4 KB of memory differ/
    );
  });

  it('has outputs on both sides', () => {
    const cell = (text: string) => ({
      cells: [
        {
          id: 'c',
          cell_type: 'code',
          source: 'plot()',
          outputs: [{ output_type: 'stream', text }]
        }
      ]
    });
    const drawn = show({}, commit('a'), commit('b'), {
      before: cell('first'),
      after: cell('second')
    });
    assert.match(drawn, /same code, other output/);
    assert.match(drawn, /Output before.*first.*Output after.*second/);
  });

  it('says why it has nothing', () => {
    const busy = commit('b', [], { has_variables: false, has_notebook: false });
    busy.label = 'busy';
    const drawn = show({ variables: null, cells: null }, commit('a'), busy);
    assert.match(drawn, /Variables were not recorded with busy: the kernel/);
    const byItself = { ...busy, reason: 'after-cell', label: 'auto' };
    assert.match(
      show({ variables: null }, commit('a'), byItself),
      /auto was taken by itself after a cell/
    );
    assert.match(drawn, /The notebook was not saved with busy/);
    assert.match(show({ variables: [], files: [] }), /No variable differs/);
  });
});
