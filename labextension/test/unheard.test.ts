import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import { PromiseDelegate } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { UnheardCells } from '../src/unheard';

/** A notebook with a cell for each request, and a kernel that answers when the test says so. */
function scene(...requests: string[]) {
  const owner = {};
  const asked: PromiseDelegate<unknown>[] = [];
  const anyMessage = new Signal<object, unknown>(owner);
  const kernel = {
    id: 'k',
    isDisposed: false,
    anyMessage,
    requestKernelInfo: () => {
      asked.push(new PromiseDelegate<unknown>());
      return asked[asked.length - 1].promise;
    }
  };
  const cells = requests.map(request => {
    const done = new PromiseDelegate<void>();
    const outputs: { text: string }[] = [];
    const future = {
      isDisposed: false,
      done: done.promise,
      msg: { header: { msg_id: request } },
      dispose: () => {
        future.isDisposed = true;
        done.reject(new Error('Canceled'));
      }
    };
    return {
      outputs,
      future,
      done,
      isDisposed: false,
      model: { type: 'code', executionState: 'running' },
      outputArea: {
        future,
        model: { add: (output: { text: string }) => outputs.push(output) }
      }
    };
  });
  const connection = new Signal<object, string>(owner);
  const panel = {
    content: { widgets: cells },
    disposed: new Signal<object, void>(owner),
    sessionContext: {
      session: { kernel },
      connectionStatusChanged: connection
    }
  };
  const changed = new Signal<object, string>(owner);
  const state = {
    error: null,
    session: { state: 'running', operation: null as string | null }
  };
  const model = { changed, refresh: () => Promise.resolve(state) };
  new UnheardCells(
    panel as unknown as NotebookPanel,
    model as unknown as ConstructorParameters<typeof UnheardCells>[1],
    { __: (text: string) => text } as unknown as TranslationBundle
  );
  return {
    asked,
    cells,
    session: state.session,
    connect: async () => {
      connection.emit('connecting');
      connection.emit('connected');
      await settle();
    },
    change: async () => {
      changed.emit('k');
      await settle();
    },
    answer: async () => {
      asked[asked.length - 1].resolve({});
      await settle();
    },
    says: (parent: string) =>
      anyMessage.emit({
        direction: 'recv',
        msg: { parent_header: { msg_id: parent } }
      })
  };
}

const settle = () => new Promise(resolve => setTimeout(resolve, 0));

describe('a cell whose end was not heard', () => {
  it('ends once the kernel has answered what was asked after it', async () => {
    const { cells, asked, connect, answer } = scene('m');
    await connect();
    assert.equal(asked.length, 1);
    assert.ok(!cells[0].future.isDisposed);
    await answer();
    assert.ok(cells[0].future.isDisposed);
    assert.equal(cells[0].outputs.length, 1);
    assert.match(cells[0].outputs[0].text, /lost/);
  });

  it('is left alone if it ends by itself', async () => {
    const { cells, connect, answer, says } = scene('m');
    await connect();
    says('m');
    cells[0].done.resolve();
    await answer();
    assert.ok(!cells[0].future.isDisposed);
    assert.equal(cells[0].outputs.length, 0);
  });

  it('is asked for again as long as something is said about one that waits', async () => {
    const { cells, asked, connect, answer, says } = scene('m', 'n');
    await connect();
    says('m');
    cells[0].done.resolve();
    await answer();
    assert.equal(asked.length, 2);
    assert.ok(!cells[1].future.isDisposed);
    await answer();
    assert.deepEqual(
      cells.map(({ future }) => future.isDisposed),
      [false, true]
    );
  });

  it('waits for a kernel that is suspended or exchanged', async () => {
    const { cells, asked, session, connect, change, answer } = scene('m');
    session.state = 'suspended';
    await connect();
    assert.equal(asked.length, 0);
    session.state = 'running';
    session.operation = 'rollback';
    await change();
    assert.equal(asked.length, 0);
    session.operation = null;
    await change();
    await answer();
    assert.ok(cells[0].future.isDisposed);
  });

  it('is not ended by an answer from before the connection went once more', async () => {
    const { cells, asked, connect } = scene('m');
    await connect();
    await connect();
    asked[0].resolve({});
    await settle();
    assert.ok(!cells[0].future.isDisposed);
    asked[1].resolve({});
    await settle();
    assert.ok(cells[0].future.isDisposed);
  });

  it('is not asked for where no cell waits', async () => {
    const { asked, connect } = scene();
    await connect();
    assert.equal(asked.length, 0);
  });
});
