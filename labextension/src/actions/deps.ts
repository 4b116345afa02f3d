import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { IDocumentManager } from '@jupyterlab/docmanager';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { LastCells } from '../lastcells';
import type { Model } from '../model';
import type { Notebooks } from '../notebooks';

/** What the actions work with. */
export interface IDeps {
  readonly app: JupyterFrontEnd;
  readonly documents: IDocumentManager;
  readonly model: Model;
  readonly notebooks: Notebooks;
  readonly lastCells: LastCells;
  readonly trans: TranslationBundle;
}
