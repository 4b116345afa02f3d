/**
 * Widgets after a restore.
 *
 * A widget has two halves. The kernel's goes back with the kernel; the page's stays as it is, so a slider would show 7 where the
 * kernel has 3. So the page asks the kernel for the state of every widget that it has, and each answer comes to the
 * page's half as any change does. A widget that the restored kernel does not know, because its cell ran later, cannot be
 * used any more: its cell says so, and can be run again.
 */
import type { CodeCell } from '@jupyterlab/cells';
import { NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import { KernelMessage, type Kernel } from '@jupyterlab/services';
import type { IDeps } from './actions/deps';
import { strangers } from './views';

const TARGET = 'jupyter.widget';
const NOTE = 'jp-Infinijup-stale';

/** Follows all restores. */
export function refreshWidgets({ model, notebooks, trans }: IDeps): void {
  model.restored.connect((_, { kernelId }) => {
    const panel = notebooks.find(kernelId);
    const kernel = panel?.sessionContext.session?.kernel;
    if (panel && kernel) {
      refresh(panel, kernel).catch(error =>
        console.warn('infinijup: widgets were not refreshed', error)
      );
    }
  });

  async function refresh(
    panel: NotebookPanel,
    kernel: Kernel.IKernelConnection
  ): Promise<void> {
    const { content } = await kernel.requestCommInfo({ target_name: TARGET });
    if (panel.isDisposed || content.status !== 'ok') {
      return;
    }
    const known = new Set(Object.keys(content.comms));
    known.forEach(id => askForState(kernel, id));
    for (const cell of panel.content.widgets as CodeCell[]) {
      if (cell.model.type !== 'code') {
        continue;
      }
      const outputs = cell.model.outputs.toJSON();
      mark(panel, cell, strangers(outputs, known).length > 0);
    }
  }

  /** Says below a cell's output that its widget is not the kernel's, or no longer. */
  function mark(panel: NotebookPanel, cell: CodeCell, stale: boolean): void {
    cell.node.querySelector(`.${NOTE}`)?.remove();
    if (!stale) {
      return;
    }
    const note = document.createElement('div');
    note.className = NOTE;
    note.setAttribute('role', 'status');
    const words = document.createElement('span');
    words.textContent = trans.__(
      'The restored kernel does not have this widget.'
    );
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'jp-InfinijupHistory-button';
    button.textContent = trans.__('Run cell again');
    button.addEventListener('click', () => {
      note.remove();
      panel.content.activeCellIndex = panel.content.widgets.indexOf(cell);
      panel.content.deselectAll();
      void NotebookActions.run(panel.content, panel.sessionContext);
    });
    note.append(words, button);
    cell.outputArea.node.after(note);
    const gone = () => note.remove();
    cell.model.outputs.changed.connect(function once(outputs, { type }) {
      if (type !== 'set') {
        gone();
        outputs.changed.disconnect(once);
      }
    });
  }
}

/** Asks the kernel's half of a widget to send its state, as the page's half does when it is made. */
function askForState(kernel: Kernel.IKernelConnection, id: string): void {
  const message = KernelMessage.createMessage({
    msgType: 'comm_msg',
    channel: 'shell',
    username: kernel.username,
    session: kernel.clientId,
    content: {
      comm_id: id,
      data: { method: 'request_state' }
    }
  });
  kernel.sendShellMessage(message, false, true);
}
