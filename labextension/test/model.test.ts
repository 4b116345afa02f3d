import { Signal } from '@lumino/signaling';
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Api } from '../src/api';
import { readError } from '../src/api';
import type { EventStream } from '../src/events';
import { Model } from '../src/model';
import { HistorySource } from '../src/source';
import type { CommitView, HistoryAnswer, StreamEvent } from '../src/wire';
import * as make from './history/make';

const session = make.session({ name: 'a', head: 'c1' });

function commit(
  id: string,
  parent: string | null,
  thread = 'main'
): CommitView {
  return {
    id,
    parents: parent ? [parent] : [],
    thread,
    tags: [],
    time: '2026-01-01T00:00:00Z',
    reason: 'manual',
    message: '',
    bytes: 1
  };
}

class FakeStream {
  event = new Signal<this, StreamEvent>(this);
  resync = new Signal<this, void>(this);
}

function setUp() {
  const stream = new FakeStream();
  const asked: string[] = [];
  const history: HistoryAnswer = {
    session,
    kernel_id: 'k',
    commits: [commit('c1', null)],
    threads: [{ name: 'main', head: 'c1', session: 's1' }]
  };
  const api = {
    kernel: async (id: string) => {
      asked.push(`kernel ${id}`);
      return { kernel_id: id, session, why_not: null, path: 'a.ipynb' };
    },
    history: async (_: unknown, limit?: number) => {
      asked.push(limit ? 'last' : 'history');
      return history;
    }
  } as unknown as Api;
  const model = new Model(api, stream as unknown as EventStream);
  return { model, asked, stream, history };
}

async function until(what: () => boolean): Promise<void> {
  for (let i = 0; i < 400; i++) {
    if (what()) {
      return;
    }
    await new Promise(resolve => setTimeout(resolve, 5));
  }
  assert.fail('it did not happen');
}

describe('the model', () => {
  it('asks once for a kernel that several watch, and forgets it with the last', async () => {
    const { model, asked } = setUp();
    const first = model.watch('k');
    const second = model.watch('k');
    await until(() => model.state('k').known);
    await until(() => model.state('k').last?.id === 'c1');
    assert.deepEqual(asked, ['kernel k', 'last']);
    first.dispose();
    assert.equal(model.state('k').session?.id, 's1');
    second.dispose();
    assert.equal(model.state('k').session, null);
  });

  it('puts a new snapshot in front without asking', async () => {
    const { model, asked, stream } = setUp();
    model.watch('k');
    await model.loadHistory('k');
    stream.event.emit({
      type: 'snapshot',
      kernel_id: 'k',
      commit: commit('c2', 'c1')
    });
    const state = model.state('k');
    assert.deepEqual(
      state.history?.commits.map(c => c.id),
      ['c2', 'c1']
    );
    assert.equal(state.history?.threads[0].head, 'c2');
    assert.equal(state.stale, false);
    assert.equal(state.last?.id, 'c2');
    assert.equal(asked.filter(what => what === 'history').length, 1);
  });

  it('knows that a branch it has not heard of makes its history stale', async () => {
    const { model, stream } = setUp();
    model.watch('k');
    await model.loadHistory('k');
    stream.event.emit({
      type: 'snapshot',
      kernel_id: 'other',
      commit: commit('c2', 'c1', 'branch')
    });
    assert.equal(model.state('k').stale, true);
    stream.event.emit({
      type: 'snapshot',
      kernel_id: 'other',
      commit: commit('x2', 'x1', 'elsewhere')
    });
    assert.equal(model.state('k').history?.commits.length, 2);
  });

  it('learns of a snapshot that only the session tells, as that of an automatic suspend', async () => {
    const { model, asked, stream, history } = setUp();
    model.watch('k');
    await until(() => model.state('k').last?.id === 'c1');
    const later = { ...commit('c2', 'c1'), time: '2026-01-01T00:10:00Z' };
    history.commits.unshift(later);
    const asleep = { ...session, head: 'c2', state: 'suspended' as const };
    stream.event.emit({ type: 'session', kernel_id: 'k', session: asleep });
    await until(() => model.state('k').last?.id === 'c2');
    // An old view of the session does not bring the old time back.
    stream.event.emit({ type: 'session', kernel_id: 'k', session });
    await until(() => asked.filter(what => what === 'last').length === 3);
    await new Promise(resolve => setTimeout(resolve, 20));
    assert.equal(model.state('k').last?.id, 'c2');
  });

  it('keeps the job only while it runs', async () => {
    const { model, stream } = setUp();
    model.watch('k');
    const job = { id: 'j', kind: 'snapshot', state: 'running' as const };
    stream.event.emit({ type: 'job', kernel_id: 'k', job });
    assert.equal(model.state('k').job?.kind, 'snapshot');
    const step = { ...job, step: 'dump' };
    stream.event.emit({ type: 'job', kernel_id: 'k', job: step });
    assert.equal(model.state('k').job?.kind, 'snapshot');
    assert.equal(model.state('k').job?.step, 'dump');
    stream.event.emit({
      type: 'job',
      kernel_id: 'k',
      job: { ...job, state: 'done' }
    });
    assert.equal(model.state('k').job, null);
  });
});

describe('the source of the panel', () => {
  it('asks only while it is looked at, and again only when something changed', async () => {
    const { model, asked, stream } = setUp();
    model.watch('k');
    const source = new HistorySource(model);
    source.setTarget('k', 'a.ipynb');
    await until(() => !!model.state('k').last);
    assert.deepEqual(asked, ['kernel k', 'last']);

    source.setVisible(true);
    await until(() => source.state.status === 'ready');
    assert.deepEqual(asked, ['kernel k', 'last', 'history']);

    stream.event.emit({ type: 'history', kernel_id: 'k' });
    await until(() => asked.length === 4);
    await until(() => !model.state('k').stale);
    source.dispose();
  });
});

describe('a refusal', () => {
  it('keeps the code, the sentence and the way out', () => {
    const body = {
      code: 'IJ-L021',
      message: 'files were changed',
      hint: 'force it',
      causes: ['a.csv'],
      files: ['a.csv']
    };
    const error = readError(409, 'Conflict', JSON.stringify(body));
    assert.equal(error.code, 'IJ-L021');
    assert.equal(error.hint, 'force it');
    assert.deepEqual(error.files, ['a.csv']);
    assert.match(error.details, /caused by: a\.csv/);
  });

  it('can be a page of HTML', () => {
    const error = readError(502, 'Bad Gateway', '<html>');
    assert.equal(error.message, 'Bad Gateway');
    assert.equal(error.code, 'HTTP 502');
  });

  it('can be a server that does not know us', () => {
    const body = '{"message": "Not Found", "reason": null}';
    const error = readError(404, 'Not Found', body);
    assert.equal(error.code, 'no-extension');
    assert.ok(error.hint);
  });
});
