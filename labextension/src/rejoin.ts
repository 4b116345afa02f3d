/**
 * A restored kernel that goes on with a cell.
 *
 * A snapshot that was taken while a cell ran holds the middle of that cell. After a restore the kernel goes on with it
 * and answers the request of long ago. The page has forgotten that request, or thinks it done; so the messages that name
 * it as their parent are read here and put into the cell as JupyterLab itself would have done.
 *
 * Messages may come before the document is back in place. They are kept from the moment the restore is known, and put
 * into the cell when it is there. Not done: updates of displays (`update_display_data`), and questions (`input()`), which
 * a restore ends.
 */
import type { CodeCell } from '@jupyterlab/cells';
import type { IOutput } from '@jupyterlab/nbformat';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import type { RunningCell } from './wire';

/** How long a kernel may be idle before it is believed, in milliseconds. */
const GRACE = 2000;

/**
 * What a kernel says while a restore is under way, about requests that the page had done with.
 *
 * The page learns which cell the kernel goes on with only when the restore is over, and the kernel may have spoken by
 * then. Requests that the page still waits for are left out: what listens to them hears it.
 */
export class Recorder implements IDisposable {
  constructor(
    private readonly _kernel: Kernel.IKernelConnection,
    panel: NotebookPanel
  ) {
    for (const { model, outputArea } of panel.content.widgets as CodeCell[]) {
      if (
        model.type === 'code' &&
        model.executionState === 'running' &&
        outputArea.future
      ) {
        this._awaited.add(outputArea.future.msg.header.msg_id);
      }
    }
    _kernel.anyMessage.connect(this._onMessage, this);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** What was said about one request. */
  of(msgId: string): KernelMessage.IMessage[] {
    return this._messages.filter(message => parentOf(message) === msgId);
  }

  dispose(): void {
    this._isDisposed = true;
    this._kernel.anyMessage.disconnect(this._onMessage, this);
    this._messages = [];
  }

  private _onMessage(_: unknown, args: Kernel.IAnyMessageArgs): void {
    const parent = parentOf(args.msg);
    if (args.direction === 'recv' && parent && !this._awaited.has(parent)) {
      this._messages.push(args.msg);
    }
  }

  private readonly _awaited = new Set<string>();
  private _messages: KernelMessage.IMessage[] = [];
  private _isDisposed = false;
}

/** The messages of one request, and the cell that they belong to. */
export class Rejoined implements IDisposable {
  constructor(
    private readonly _kernel: Kernel.IKernelConnection,
    readonly running: RunningCell,
    private _kept: KernelMessage.IMessage[] = [],
    private readonly _grace = GRACE
  ) {
    _kernel.anyMessage.connect(this._onMessage, this);
    _kernel.statusChanged.connect(this._onStatus, this);
    _kernel.disposed.connect(this.dispose, this);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    clearTimeout(this._timer);
    this._kernel.anyMessage.disconnect(this._onMessage, this);
    this._kernel.statusChanged.disconnect(this._onStatus, this);
    this._kernel.disposed.disconnect(this.dispose, this);
    if (this._cell && !this._cell.isDisposed) {
      this._cell.model.executionState = 'idle';
    }
    this._kept = [];
  }

  /**
   * Shows the cell as busy and lets its output go on in it; says whether the notebook has the cell.
   *
   * `outputs` are those of the snapshot: what the page has beyond them will come again.
   */
  attach(panel: NotebookPanel, outputs: unknown[] | null): boolean {
    const cell = panel.content.widgets.find(
      widget =>
        widget.model.type === 'code' && widget.model.id === this.running.cell_id
    ) as CodeCell | undefined;
    if (!cell) {
      this.dispose();
      return false;
    }
    if (outputs) {
      cell.outputArea.model.fromJSON(outputs as IOutput[]);
    }
    // A cell listens to its request for as long as it shows what came of it: its outputs come by themselves, also after
    // the answer. What it does not do a second time is to take note of the end.
    const { future } = cell.outputArea;
    this._listens =
      future?.isDisposed === false &&
      future.msg.header.msg_id === this.running.msg_id;
    this._cell = cell;
    cell.model.executionState = 'running';
    cell.disposed.connect(this.dispose, this);
    const kept = this._kept;
    this._kept = [];
    const shown = this._listens && !outputs;
    kept.forEach(message => this._show(cell, message, shown));
    if (!this._isDisposed) {
      this._doubt();
    }
    return true;
  }

  private _onMessage(_: unknown, args: Kernel.IAnyMessageArgs): void {
    const { msg, direction } = args;
    if (direction !== 'recv' || parentOf(msg) !== this.running.msg_id) {
      return;
    }
    if (this._cell) {
      this._show(this._cell, msg, this._listens);
    } else {
      this._kept.push(msg);
    }
  }

  private _onStatus(_: unknown, status: Kernel.Status): void {
    if (status === 'dead' || status.endsWith('restarting')) {
      this.dispose();
    } else if (this._cell) {
      this._doubt();
    }
  }

  /** An idle kernel runs no cell, whatever was said of it. */
  private _doubt(): void {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => {
      if (this._kernel.status === 'idle') {
        this.dispose();
      }
    }, this._grace);
  }

  /** Does what a message asks for; `shown` says that its output, if it is one, is in the cell already. */
  private _show(
    cell: CodeCell,
    message: KernelMessage.IMessage,
    shown: boolean
  ): void {
    const outputs = cell.outputArea.model;
    const content = message.content as Record<string, unknown>;
    switch (message.header.msg_type) {
      case 'stream':
      case 'error':
      case 'display_data':
      case 'execute_result': {
        const output: Record<string, unknown> = {
          ...content,
          output_type: message.header.msg_type
        };
        delete output.transient;
        if (!shown) {
          outputs.add(output as IOutput);
        }
        break;
      }
      case 'clear_output':
        if (!shown) {
          outputs.clear(content.wait === true);
        }
        break;
      case 'execute_reply':
        if (typeof content.execution_count === 'number') {
          cell.model.executionCount = content.execution_count;
        }
        this._hasEnded('reply');
        break;
      case 'status':
        if (content.execution_state === 'idle') {
          cell.model.executionState = 'idle';
          this._hasEnded('idle');
        }
        break;
      default:
        break;
    }
  }

  /** The reply and the last status come on two channels, in either order. */
  private _hasEnded(part: 'reply' | 'idle'): void {
    this._ended.add(part);
    if (this._ended.size === 2) {
      this.dispose();
    }
  }

  private readonly _ended = new Set<'reply' | 'idle'>();
  private _cell: CodeCell | null = null;
  private _listens = false;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _isDisposed = false;
}

function parentOf(message: KernelMessage.IMessage): string | undefined {
  // Some kernels send `null` where the protocol has an empty object.
  return (message.parent_header as { msg_id?: string } | null)?.msg_id;
}
