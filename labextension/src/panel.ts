/** The History panel and the comparison of two snapshots, in whatever application this is. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ILabShell, ILayoutRestorer } from '@jupyterlab/application';
import { Dialog, MainAreaWidget, showDialog } from '@jupyterlab/apputils';
import type { ITranslator } from '@jupyterlab/translation';
import { addCopyFiles } from './files';
import { CompareWidget, HistoryPanel } from './history';
import { asApiError } from './model';
import { showError } from './notify';
import { widest } from './places';
import type { IInfinijup } from './tokens';
import { CommandIDs, PANEL_ID } from './tokens';
import type { CommitView } from './wire';

/** Adds the panel to the right side, and the commands that open it and compare. */
export function addPanel(
  app: JupyterFrontEnd,
  infinijup: IInfinijup,
  translator: ITranslator,
  shell: ILabShell | null,
  restorer: ILayoutRestorer | null
): void {
  const { model, notebooks, source } = infinijup;
  const trans = translator.load('infinijup');
  addCopyFiles(app, infinijup, trans);
  const panel = new HistoryPanel({
    source,
    commands: app.commands,
    translator
  });
  panel.id = PANEL_ID;
  app.shell.add(panel, 'right', { rank: 600, type: 'Kernel History' });
  restorer?.add(panel, panel.id);

  const compare = async (a: CommitView, b: CommitView): Promise<void> => {
    const [older, newer] = a.time <= b.time ? [a, b] : [b, a];
    const renderers = notebooks.tracker.currentWidget?.content.rendermime;
    if (!renderers) {
      return; // the command needs a notebook
    }
    const content = new CompareWidget({
      diff: model.api.diff(older.id, newer.id),
      // Without the notebooks, there is what the server found: cells without their outputs.
      documents: Promise.all([
        model.api.notebook(older.id),
        model.api.notebook(newer.id)
      ]).then(
        ([before, after]) => ({ before, after }),
        () => null
      ),
      renderers: renderers.clone(),
      read: (commit, path) => model.api.fileText(commit, path),
      a: older,
      b: newer,
      translator
    });
    if (!shell) {
      await showDialog({
        title: content.title.label,
        body: content,
        buttons: [Dialog.okButton({ label: trans.__('Close') })]
      });
      return;
    }
    const widget = new MainAreaWidget({ content });
    widget.id = `${content.id}-tab`;
    widget.title.label = content.title.label;
    widget.title.caption = content.title.caption;
    widget.title.icon = content.title.icon;
    widget.title.closable = true;
    const open = [...shell.widgets('main')].find(one => one.id === widget.id);
    if (open) {
      widget.dispose();
    } else {
      shell.add(widget, 'main', {
        ref: widest(shell.widgets('main'))?.id,
        mode: 'tab-after',
        type: 'Comparison'
      });
    }
    shell.activateById(widget.id);
  };

  const isEnabled = () => !!notebooks.current?.state.session;
  app.commands.addCommand(CommandIDs.compare, {
    label: args =>
      args.a ? trans.__('Compare') : trans.__('Compare the Last Snapshots'),
    caption: trans.__(
      'Show what changed between two snapshots: cells, outputs, variables, files'
    ),
    describedBy: {
      args: {
        type: 'object',
        properties: {
          a: { type: 'string', description: trans.__('The id of a snapshot') },
          b: {
            type: 'string',
            description: trans.__('Another; the newest of this kernel')
          }
        }
      }
    },
    isEnabled,
    execute: async args => {
      const kernelId = notebooks.current?.kernelId;
      try {
        if (kernelId && !model.state(kernelId).history) {
          await model.loadHistory(kernelId);
        }
        const history = kernelId ? model.state(kernelId).history : null;
        const find = (id: unknown) =>
          typeof id === 'string' ? model.commit(id) : null;
        const b = find(args.b) ?? find(history?.session?.head);
        const a = find(args.a) ?? find(b?.parents[0]);
        if (a && b && a.id !== b.id) {
          await compare(a, b);
        }
      } catch (error) {
        showError(trans, asApiError(error));
      }
    }
  });
  notebooks.changed.connect(() =>
    [CommandIDs.compare, CommandIDs.copyFiles].forEach(id =>
      app.commands.notifyCommandChanged(id)
    )
  );
}
