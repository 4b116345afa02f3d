/**
 * What opening a notebook offers.
 *
 * After a crash of the kernel, the server or the machine, a notebook's session is still there with its snapshots, but
 * without processes. Opening the notebook then asks the server once whether there is something to come back to; so does
 * a kernel that crashes under an open notebook.
 */
import { Notification } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDeps } from './actions/deps';
import type { Restorer } from './actions/restore';
import { nameOf, time } from './format';
import type { IRestored, Model } from './model';
import { asApiError } from './model';
import { kernelOf } from './notebooks';
import { showError } from './notify';
import { CommandIDs } from './tokens';
import type { Offer } from './wire';

/** Asks for each notebook that is opened. */
export function makeOffers(deps: IDeps, restorer: Restorer): void {
  const { tracker } = deps.notebooks;
  const opened = (panel: NotebookPanel) => {
    // A kernel that crashes while its notebook is open is started anew by Jupyter, in the same session.
    let crashed = false;
    panel.sessionContext.statusChanged.connect((_, status) => {
      if (status === 'autorestarting') {
        crashed = true;
      } else if (status === 'idle' && crashed) {
        crashed = false;
        void ask(deps, restorer, panel);
      }
    });
    void panel.sessionContext.ready
      .then(() => ask(deps, restorer, panel))
      .catch(() => undefined); // a notebook that was closed at once, or has no kernel
  };
  tracker.forEach(opened);
  tracker.widgetAdded.connect((_, panel) => opened(panel));
}

async function ask(
  deps: IDeps,
  restorer: Restorer,
  panel: NotebookPanel
): Promise<void> {
  const { model, trans } = deps;
  const path = deps.documents.services.contents.localPath(panel.context.path);
  let offer: Offer | null;
  try {
    offer = await model.api.offer(path);
  } catch {
    return; // without the daemon there is nothing to offer; the panel says why
  }
  if (!offer || panel.isDisposed) {
    return;
  }
  const { commit, reason } = offer;
  const id = Notification.emit(
    sentence(trans, offer),
    reason === 'crash' ? 'warning' : 'info',
    {
      autoClose: reason === 'suspended' ? 8000 : false,
      actions: [
        {
          label:
            reason === 'suspended' ? trans.__('Resume') : trans.__('Restore'),
          caption: trans.__('Bring the kernel back with its variables'),
          displayType: 'accent',
          callback: () => void accept()
        },
        {
          label: trans.__('Not now'),
          caption: trans.__('The snapshot stays in the history'),
          displayType: 'link',
          callback: () =>
            void model.api.dismissOffer(path).catch(() => undefined)
        }
      ]
    }
  );
  const withdraw = () => {
    Notification.dismiss(id);
    model.restored.disconnect(onRestored);
    model.changed.disconnect(onChanged);
  };
  // Somebody was faster: another page, the magic, a cell that woke it.
  const onRestored = (_: Model, { kernelId }: IRestored) => {
    if (kernelId === kernelOf(panel)) {
      withdraw();
    }
  };
  const onChanged = (_: Model, kernelId: string) => {
    if (
      reason === 'suspended' &&
      kernelId === kernelOf(panel) &&
      model.state(kernelId).session?.state === 'running'
    ) {
      withdraw();
    }
  };
  model.restored.connect(onRestored);
  model.changed.connect(onChanged);
  panel.disposed.connect(withdraw);

  async function accept(): Promise<void> {
    const target = panel.isDisposed ? null : deps.notebooks.target(panel);
    if (!target) {
      return;
    }
    try {
      if (reason === 'suspended') {
        await deps.app.commands.execute(CommandIDs.resume, {
          kernel_id: target.kernelId
        });
      } else {
        await restorer.restore(target, commit);
      }
    } catch (error) {
      showError(trans, asApiError(error));
    }
  }
}

function sentence(trans: TranslationBundle, { commit, reason }: Offer): string {
  const when = time(commit.time, new Date());
  const name = nameOf(commit);
  const which = name.startsWith(when) ? name : `${name}, ${when}`;
  switch (reason) {
    case 'crash':
      return trans.__(
        'The kernel crashed. You can restore its last snapshot (%1).',
        which
      );
    case 'reboot':
      return trans.__(
        'The machine was restarted. You can restore the last snapshot (%1).',
        which
      );
    case 'suspended':
      return trans.__(
        'This kernel has been suspended since %1. Run a cell to wake it.',
        when
      );
    default:
      return trans.__(
        'The kernel has ended. You can restore its last snapshot (%1).',
        which
      );
  }
}
