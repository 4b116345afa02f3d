/**
 * Cells that ended while nobody listened.
 *
 * A kernel outlives the server. What it says while the server is away reaches nobody, the end of a cell neither, and the
 * page would show that cell at `[*]` for ever. So when the connection is back and cells still wait, the kernel is asked
 * for something harmless. It answers in order: with that answer, everything before it is over, and what the page has
 * not heard of it will not come any more. Requests that came by the old connection may be answered after it; then the
 * kernel says something about them meanwhile, and is asked once more. (The server's own `ledger` has the same rule.)
 *
 * For a kernel that is suspended or being exchanged the server answers, which proves nothing: it is asked when it runs.
 */
import type { CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDeps } from './actions/deps';
import type { Model } from './model';

/** Watches over the cells of all notebooks. */
export function endUnheardCells({ notebooks, model, trans }: IDeps): void {
  const opened = (panel: NotebookPanel) =>
    void new UnheardCells(panel, model, trans);
  notebooks.tracker.forEach(opened);
  notebooks.tracker.widgetAdded.connect((_, panel) => opened(panel));
}

/** The cells of one notebook. */
export class UnheardCells {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _model: Pick<Model, 'refresh' | 'changed'>,
    private readonly _trans: TranslationBundle
  ) {
    _panel.sessionContext.connectionStatusChanged.connect((_, status) => {
      this._turn++;
      this._waits = false;
      if (status === 'connected') {
        void this.check();
      }
    });
    _model.changed.connect(this._onChanged, this);
    _panel.disposed.connect(() => {
      this._turn++;
      _model.changed.disconnect(this._onChanged, this);
    });
  }

  /** Ends the cells whose end will not be heard of any more. */
  async check(): Promise<void> {
    const kernel = this._panel.sessionContext.session?.kernel;
    const cells = waitingCells(this._panel);
    if (!kernel || cells.length === 0) {
      return;
    }
    const turn = ++this._turn;
    this._waits = false;
    let isOver = false;
    while (await this._runs(kernel, turn)) {
      const left = cells.filter(cell => cell.isOpen && !cell.cell.isDisposed);
      if (isOver || left.length === 0) {
        left.forEach(cell => this._end(cell));
        return;
      }
      try {
        isOver = await isPassed(kernel, left);
      } catch {
        return; // the kernel was restarted, which ends its cells
      }
    }
  }

  /** Whether it is the kernel itself that answers, as far as the server knows. */
  private async _runs(
    kernel: Kernel.IKernelConnection,
    turn: number
  ): Promise<boolean> {
    if (turn !== this._turn || kernel.isDisposed) {
      return false;
    }
    const { session, error } = await this._model.refresh(kernel.id);
    if (turn !== this._turn || kernel.isDisposed) {
      return false;
    }
    const runs =
      !error &&
      (!session || (session.state === 'running' && !session.operation));
    this._waits = !runs;
    return runs;
  }

  private _onChanged(_: unknown, kernelId: string): void {
    if (
      this._waits &&
      this._panel.sessionContext.session?.kernel?.id === kernelId
    ) {
      void this.check();
    }
  }

  private _end({ cell, future }: IWaiting): void {
    cell.outputArea.model.add({
      output_type: 'stream',
      name: 'stderr',
      text: `${this._trans.__(
        'The connection to the kernel was lost while this cell ran. It has ended, but some of its output is missing. Run it again to see all of it.'
      )}\n`
    });
    // As JupyterLab itself does for the cells of a kernel that is restarted.
    future.dispose();
  }

  private _turn = 0;
  private _waits = false;
}

interface IWaiting {
  cell: CodeCell;
  future: NonNullable<CodeCell['outputArea']['future']>;
  isOpen: boolean;
}

function waitingCells(panel: NotebookPanel): IWaiting[] {
  const found: IWaiting[] = [];
  for (const cell of panel.content.widgets as CodeCell[]) {
    const future = cell.model.type === 'code' ? cell.outputArea.future : null;
    if (future && !future.isDisposed && cell.model.executionState !== 'idle') {
      // A cell keeps its future after the end, and only the promise says that it is over.
      const waiting = { cell, future, isOpen: true };
      const close = () => {
        waiting.isOpen = false;
      };
      future.done.then(close, close);
      found.push(waiting);
    }
  }
  return found;
}

/** Asks the kernel; whether nothing was said about those that wait until it answered. */
async function isPassed(
  kernel: Kernel.IKernelConnection,
  waiting: IWaiting[]
): Promise<boolean> {
  const ids = new Set(waiting.map(({ future }) => future.msg.header.msg_id));
  let moved = false;
  const listen = (_: unknown, { msg, direction }: Kernel.IAnyMessageArgs) => {
    const parent = (msg.parent_header as { msg_id?: string } | null)?.msg_id;
    moved ||= direction === 'recv' && !!parent && ids.has(parent);
  };
  kernel.anyMessage.connect(listen);
  try {
    await kernel.requestKernelInfo();
    return !moved;
  } finally {
    kernel.anyMessage.disconnect(listen);
  }
}
