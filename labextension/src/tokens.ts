import { Token } from '@lumino/coreutils';
import type { Model } from './model';
import type { Notebooks } from './notebooks';
import type { HistorySource } from './source';

/** What other plugins can use of this one. */
export interface IInfinijup {
  readonly model: Model;
  readonly notebooks: Notebooks;
  /** The history of the current notebook. */
  readonly source: HistorySource;
}

export const IInfinijup = new Token<IInfinijup>(
  'infinijup:IInfinijup',
  'What the page knows about kernels that are sessions of infinijup, and their histories.'
);

/** The commands. Other extensions may run them; their arguments are described by `describedBy`. */
export namespace CommandIDs {
  export const snapshot = 'infinijup:snapshot';
  export const snapshotLabelled = 'infinijup:snapshot-labelled';
  export const branch = 'infinijup:branch';
  export const suspend = 'infinijup:suspend';
  export const resume = 'infinijup:resume';
  export const restore = 'infinijup:restore';
  export const restoreLast = 'infinijup:restore-last';
  export const undoCell = 'infinijup:undo-cell';
  export const beforeCell = 'infinijup:before-cell';
  export const runFromCell = 'infinijup:run-from-cell';
  export const tag = 'infinijup:tag';
  export const untag = 'infinijup:untag';
  export const compare = 'infinijup:compare';
  export const remove = 'infinijup:delete';
  export const copyId = 'infinijup:copy-id';
  export const copyFiles = 'infinijup:copy-files';
  export const openHistory = 'infinijup:open-history';
  export const openNotebook = 'infinijup:open-notebook';
  export const doctor = 'infinijup:doctor';
  export const diskUse = 'infinijup:disk-use';
}

/** The id of the History panel in the shell. */
export const PANEL_ID = 'infinijup-history';
