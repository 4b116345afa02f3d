/**
 * What JupyterLab itself says of a kernel that is suspended.
 *
 * To Jupyter a suspended kernel is one that has nothing to do: the ring in the notebook's toolbar is hollow, and the status bar
 * says "Idle". Both ask the session context what to call the state, so the answer is changed there, to none, for as long as
 * the kernel sleeps; the style sheet draws a moon instead of the ring.
 */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Signal } from '@lumino/signaling';
import type { Notebooks } from './notebooks';

const ASLEEP = 'jp-mod-infinijupAsleep';

/** Marks the notebooks whose kernels sleep. */
export function markAsleep(
  notebooks: Notebooks,
  trans: TranslationBundle
): void {
  const asleep = new WeakSet<NotebookPanel>();
  const look = (panel: NotebookPanel) => {
    const isAsleep =
      notebooks.target(panel)?.state.session?.state === 'suspended';
    if (isAsleep === asleep.has(panel)) {
      return;
    }
    if (isAsleep) {
      asleep.add(panel);
    } else {
      asleep.delete(panel);
    }
    panel.toggleClass(ASLEEP, isAsleep);
    // The words beside the moon, for the style sheet.
    panel.node.style.setProperty(
      '--jp-infinijup-asleep',
      JSON.stringify(trans.__('suspended'))
    );
    callAsleep(panel.sessionContext, isAsleep);
  };
  notebooks.changed.connect(() =>
    notebooks.tracker.forEach(panel => {
      if (!panel.isDisposed) {
        look(panel);
      }
    })
  );
}

/** Has the session context call the kernel's state nothing, or what it is again, and tells those who show it. */
function callAsleep(context: ISessionContext, isAsleep: boolean): void {
  if (isAsleep) {
    Object.defineProperty(context, 'kernelDisplayStatus', {
      configurable: true,
      get: () => ''
    });
  } else {
    delete (context as { kernelDisplayStatus?: unknown }).kernelDisplayStatus;
  }
  const status = context.session?.kernel?.status;
  if (status) {
    (context.statusChanged as Signal<ISessionContext, typeof status>).emit(
      status
    );
  }
}
