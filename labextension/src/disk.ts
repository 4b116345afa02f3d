/** How much of the disk the history takes, in words. */
import { Dialog, showDialog } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';
import type { IDeps } from './actions/deps';
import { asApiError } from './model';
import { showError } from './notify';
import { roomWords } from './room';

/** Says it. */
export async function showDiskUse({
  model,
  notebooks,
  trans
}: IDeps): Promise<void> {
  try {
    const { current } = notebooks;
    if (current?.state.session) {
      await model.loadHistory(current.kernelId);
    }
    const commits = notebooks.current?.state.history?.commits ?? [];
    const body = new Widget();
    for (const line of roomWords(trans, await model.api.store(), commits)) {
      const paragraph = document.createElement('p');
      paragraph.textContent = line;
      body.node.append(paragraph);
    }
    await showDialog({
      title: trans.__('Room that the history takes'),
      body,
      buttons: [Dialog.okButton({ label: trans.__('Close') })]
    });
  } catch (error) {
    showError(trans, asApiError(error));
  }
}
