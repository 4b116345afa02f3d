import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Recorder, Rejoined } from '../src/rejoin';

/** A kernel that says what the test says. */
function fakeKernel() {
  const owner = {};
  const anyMessage = new Signal<object, unknown>(owner);
  const kernel = {
    status: 'busy',
    anyMessage,
    statusChanged: new Signal<object, string>(owner),
    disposed: new Signal<object, void>(owner)
  };
  const says = (parent: string, msg_type: string, content: object) =>
    anyMessage.emit({
      direction: 'recv',
      msg: { header: { msg_type }, parent_header: { msg_id: parent }, content }
    });
  return {
    kernel: kernel as unknown as Kernel.IKernelConnection,
    setStatus: (status: string) => {
      kernel.status = status;
      kernel.statusChanged.emit(status);
    },
    says
  };
}

/** A notebook with one code cell. */
function fakePanel(id: string, waitsFor?: string) {
  const outputs: unknown[] = [];
  const cell = {
    isDisposed: false,
    disposed: new Signal<object, void>({}),
    model: {
      id,
      type: 'code',
      executionState: 'idle',
      executionCount: null as number | null
    },
    outputArea: {
      future: waitsFor
        ? { isDisposed: false, msg: { header: { msg_id: waitsFor } } }
        : null,
      model: {
        add: (output: unknown) => outputs.push(output),
        clear: () => outputs.splice(0),
        fromJSON: (all: unknown[]) => outputs.splice(0, Infinity, ...all)
      }
    }
  };
  const panel = { content: { widgets: [cell] } } as unknown as NotebookPanel;
  return { panel, cell, outputs };
}

const running = { cell_id: 'c', msg_id: 'm' };
const stdout = (text: string) => ({ name: 'stdout', text });

describe('a cell that a restored kernel goes on with', () => {
  it('is busy, shows what comes, and ends with both the reply and the status', () => {
    const { kernel, says } = fakeKernel();
    const { panel, cell, outputs } = fakePanel('c');
    const rejoined = new Rejoined(kernel, running);
    says('m', 'stream', stdout('early'));
    says('other', 'stream', stdout('of another cell'));

    assert.ok(rejoined.attach(panel, [{ output_type: 'stream', text: 'old' }]));
    assert.equal(cell.model.executionState, 'running');
    says('m', 'display_data', { data: {}, metadata: {}, transient: { a: 1 } });
    assert.deepEqual(outputs, [
      { output_type: 'stream', text: 'old' },
      { output_type: 'stream', name: 'stdout', text: 'early' },
      { output_type: 'display_data', data: {}, metadata: {} }
    ]);

    says('m', 'status', { execution_state: 'idle' });
    assert.equal(cell.model.executionState, 'idle');
    says('m', 'execute_reply', { status: 'ok', execution_count: 7 });
    assert.equal(cell.model.executionCount, 7);
    assert.ok(rejoined.isDisposed);
  });

  it('shows nothing twice where the cell still listens, and ends', () => {
    const { kernel, says } = fakeKernel();
    const { panel, cell, outputs } = fakePanel('c', 'm');
    const rejoined = new Rejoined(kernel, running);
    says('m', 'stream', stdout('before it was attached'));
    assert.ok(rejoined.attach(panel, null));
    says('m', 'stream', stdout('after'));
    assert.deepEqual(outputs, []);
    assert.equal(cell.model.executionState, 'running');
    says('m', 'execute_reply', { status: 'ok', execution_count: 2 });
    says('m', 'status', { execution_state: 'idle' });
    assert.equal(cell.model.executionState, 'idle');
    assert.ok(rejoined.isDisposed);
  });

  it('has the outputs of the snapshot and what came since, once', () => {
    const { kernel, says } = fakeKernel();
    const { panel, outputs } = fakePanel('c', 'm');
    const rejoined = new Rejoined(kernel, running);
    says('m', 'stream', stdout('since'));
    rejoined.attach(panel, ['of the snapshot']);
    assert.deepEqual(outputs, [
      'of the snapshot',
      { output_type: 'stream', name: 'stdout', text: 'since' }
    ]);
  });

  it('may not be in the notebook any more', () => {
    const { kernel } = fakeKernel();
    const { panel } = fakePanel('another');
    const rejoined = new Rejoined(kernel, running);
    assert.ok(!rejoined.attach(panel, null));
    assert.ok(rejoined.isDisposed);
  });

  it('does not run in a kernel that is idle', async () => {
    const { kernel, setStatus } = fakeKernel();
    const { panel, cell } = fakePanel('c');
    const rejoined = new Rejoined(kernel, running, [], 0);
    setStatus('busy');
    rejoined.attach(panel, null);
    await new Promise(resolve => setTimeout(resolve, 5));
    assert.equal(cell.model.executionState, 'running');
    setStatus('idle');
    await new Promise(resolve => setTimeout(resolve, 5));
    assert.ok(rejoined.isDisposed);
    assert.equal(cell.model.executionState, 'idle');
  });

  it('is given up with the kernel', () => {
    const { kernel, setStatus } = fakeKernel();
    const { panel, cell } = fakePanel('c');
    const rejoined = new Rejoined(kernel, running);
    rejoined.attach(panel, null);
    setStatus('autorestarting');
    assert.ok(rejoined.isDisposed);
    assert.equal(cell.model.executionState, 'idle');
  });
});

describe('what is said while a restore is under way', () => {
  it('is kept for requests that the page had done with', () => {
    const { kernel, says } = fakeKernel();
    const { panel, cell } = fakePanel('c', 'awaited');
    cell.model.executionState = 'running';
    const recorder = new Recorder(kernel, panel);
    says('m', 'stream', stdout('kept'));
    says('awaited', 'stream', stdout('heard by its cell'));
    assert.equal(recorder.of('m').length, 1);
    assert.equal(recorder.of('awaited').length, 0);
    recorder.dispose();
    says('m', 'stream', stdout('later'));
    assert.equal(recorder.of('m').length, 0);
  });
});
