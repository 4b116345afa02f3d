/**
 * The plugins.
 *
 * `infinijup:plugin` has the model, the commands and the settings, and needs nothing that only JupyterLab has, so that
 * Notebook 7 works too. The others add what an application may or may not have: a side area, a status bar, a panel of
 * running sessions.
 */
import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ILabShell, ILayoutRestorer } from '@jupyterlab/application';
import {
  ICommandPalette,
  IToolbarWidgetRegistry,
  Notification
} from '@jupyterlab/apputils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRunningSessionManagers } from '@jupyterlab/running';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { CellUndo } from './actions/cells';
import type { IDeps } from './actions/deps';
import { Restorer } from './actions/restore';
import { Api } from './api';
import { markAsleep } from './asleep';
import { Journal } from './cells/journal';
import { markCells } from './cells/marks';
import { addCommands } from './commands';
import { LastCells } from './lastcells';
import { EventStream } from './events';
import { asApiError, Model } from './model';
import { Notebooks } from './notebooks';
import { asSentence, showError, withdrawWhenBack } from './notify';
import { makeOffers } from './offers';
import { addPanel } from './panel';
import { policyOf } from './policy';
import { SuspendedKernels } from './running';
import { HistorySource } from './source';
import { StatusItem } from './status';
import { CommandIDs, IInfinijup } from './tokens';
import { addToolbarButtons } from './toolbar';
import { endUnheardCells } from './unheard';
import { refreshWidgets } from './widgets';

export { IInfinijup } from './tokens';

const plugin: JupyterFrontEndPlugin<IInfinijup> = {
  id: 'infinijup:plugin',
  description: 'Snapshots, branches and restores the kernels of notebooks.',
  autoStart: true,
  provides: IInfinijup,
  requires: [INotebookTracker, IDocumentManager],
  optional: [
    ITranslator,
    ICommandPalette,
    IToolbarWidgetRegistry,
    ISettingRegistry
  ],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    documents: IDocumentManager,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    toolbars: IToolbarWidgetRegistry | null,
    settings: ISettingRegistry | null
  ): IInfinijup => {
    const trans = (translator ?? nullTranslator).load('infinijup');
    const api = new Api(app.serviceManager.serverSettings);
    const stream = new EventStream({
      open: () => api.openEvents(),
      poll: since => api.events(since)
    });
    const model = new Model(api, stream);
    const notebooks = new Notebooks(tracker, model);
    const deps: IDeps = {
      app,
      documents,
      model,
      notebooks,
      trans,
      lastCells: new LastCells(tracker, model)
    };
    const restorer = new Restorer(deps);
    const journal = new Journal();
    const undo = new CellUndo(deps, restorer, journal);
    addCommands(deps, restorer, undo);
    markCells(deps, undo, journal);
    if (toolbars) {
      addToolbarButtons(toolbars, notebooks, app.commands);
    }
    if (palette) {
      const category = trans.__('Kernel History');
      for (const command of [
        CommandIDs.snapshot,
        CommandIDs.snapshotLabelled,
        CommandIDs.branch,
        CommandIDs.suspend,
        CommandIDs.resume,
        CommandIDs.restore,
        CommandIDs.restoreLast,
        CommandIDs.undoCell,
        CommandIDs.beforeCell,
        CommandIDs.runFromCell,
        CommandIDs.tag,
        CommandIDs.remove,
        CommandIDs.openHistory,
        CommandIDs.doctor,
        CommandIDs.diskUse
      ]) {
        palette.addItem({ command, category });
      }
    }
    model.warned.connect((_, { error }) => {
      Notification.warning(asSentence(error.message), { autoClose: 8000 });
    });
    makeOffers(deps, restorer);
    endUnheardCells(deps);
    markAsleep(notebooks, trans);
    refreshWidgets(deps);
    withdrawWhenBack(model);

    const source = new HistorySource(model);
    const aim = () => {
      const panel = tracker.currentWidget;
      source.setTarget(
        notebooks.current?.kernelId ?? null,
        panel ? app.serviceManager.contents.localPath(panel.context.path) : null
      );
    };
    notebooks.changed.connect(aim);
    aim();

    if (settings) {
      void settings
        .load(plugin.id)
        .then(loaded => {
          const put = () => {
            void api.putPolicy(policyOf(loaded.composite)).catch(error => {
              // Without the server extension there is nothing that could follow the settings.
              const reason = asApiError(error);
              if (reason.status !== 404 && reason.status !== 503) {
                showError(trans, reason, trans.__('Settings'));
              }
            });
          };
          loaded.changed.connect(put);
          put();
        })
        .catch(error => console.error('infinijup: settings', error));
    }
    stream.start();
    return { model, notebooks, source };
  }
};

const history: JupyterFrontEndPlugin<void> = {
  id: 'infinijup:history',
  description: 'The History panel: snapshots of a notebook as a graph.',
  autoStart: true,
  requires: [IInfinijup],
  optional: [ITranslator, ICommandPalette, ILabShell, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    infinijup: IInfinijup,
    translator: ITranslator | null,
    palette: ICommandPalette | null,
    shell: ILabShell | null,
    restorer: ILayoutRestorer | null
  ) => {
    const words = translator ?? nullTranslator;
    addPanel(app, infinijup, words, shell, restorer);
    palette?.addItem({
      command: CommandIDs.compare,
      category: words.load('infinijup').__('Kernel History')
    });
  }
};

const status: JupyterFrontEndPlugin<void> = {
  id: 'infinijup:status',
  description: 'State, GPU memory and last snapshot in the status bar.',
  autoStart: true,
  requires: [IInfinijup],
  optional: [IStatusBar, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    { notebooks }: IInfinijup,
    bar: IStatusBar | null,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('infinijup');
    bar?.registerStatusItem('infinijup:status', {
      item: new StatusItem(trans, notebooks, app.commands),
      align: 'left',
      rank: 3,
      isActive: () => {
        const { current, model } = notebooks;
        return !!current && (!!current.state.session || model.away);
      },
      activeStateChanged: notebooks.changed
    });
  }
};

const running: JupyterFrontEndPlugin<void> = {
  id: 'infinijup:running',
  description: 'Suspended kernels in the panel of running sessions.',
  autoStart: true,
  requires: [IInfinijup, IDocumentManager],
  optional: [IRunningSessionManagers, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    { model }: IInfinijup,
    documents: IDocumentManager,
    managers: IRunningSessionManagers | null,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load('infinijup');
    managers?.add(new SuspendedKernels({ app, documents, model, trans }));
  }
};

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  plugin,
  history,
  status,
  running
];

export default plugins;
