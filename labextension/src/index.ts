import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Api } from './api';
import { EventStream } from './events';
import { Model } from './model';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'infinijup:plugin',
  description: 'Snapshots, branches and restores the kernels of notebooks.',
  autoStart: true,
  activate: (app: JupyterFrontEnd) => {
    const api = new Api(app.serviceManager.serverSettings);
    const stream = new EventStream({
      open: () => api.openEvents(),
      poll: since => api.events(since)
    });
    new Model(api, stream);
    stream.start();
  }
};

export default plugin;
