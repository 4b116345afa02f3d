/** Files of a snapshot, copied beside the notebook. Nothing there is overwritten: a name that is taken gets a number. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { askCopy, showMessage } from './dialogs';
import { asApiError } from './model';
import { showError } from './notify';
import type { IInfinijup } from './tokens';
import { CommandIDs } from './tokens';
import { asSentence } from './words';

/** Adds the command. */
export function addCopyFiles(
  app: JupyterFrontEnd,
  { model, notebooks }: IInfinijup,
  trans: TranslationBundle
): void {
  app.commands.addCommand(CommandIDs.copyFiles, {
    label: trans.__('Copy Files…'),
    caption: trans.__('Copy files of a snapshot beside the notebook'),
    describedBy: {
      args: {
        type: 'object',
        properties: {
          commit: {
            type: 'string',
            description: trans.__('The id of a snapshot')
          }
        },
        required: ['commit']
      }
    },
    isEnabled: () => !!notebooks.current?.panel && !model.away,
    execute: async args => {
      const path = notebooks.current?.panel?.context.path;
      if (path === undefined) {
        return;
      }
      const commit = String(args.commit);
      const folder = PathExt.dirname(
        app.serviceManager.contents.localPath(path)
      );
      try {
        const files = await model.api.filesOf(commit);
        if (!(await askCopy(trans, files))) {
          return;
        }
        const { written, skipped } = await model.api.copyFiles(commit, folder);
        const line = trans._n(
          '%1 file was copied beside the notebook.',
          '%1 files were copied beside the notebook.',
          written.length
        );
        Notification.emit(line, skipped.length ? 'warning' : 'success', {
          autoClose: 8000,
          actions: [
            {
              label: trans.__('Which'),
              caption: trans.__('Show the names of the copies'),
              displayType: 'link',
              callback: () =>
                void showMessage(
                  trans,
                  line,
                  [
                    written.join(', '),
                    ...skipped.map(one =>
                      asSentence(`${one.path}: ${one.reason}`)
                    )
                  ].join(' ')
                )
            }
          ]
        });
      } catch (error) {
        showError(trans, asApiError(error));
      }
    }
  });
}
