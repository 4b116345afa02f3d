/**
 * What all parts of the panel need, handed down once.
 */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommitView } from '../wire';
import type { IActions } from './actions';
import type { IBearings } from './commits';

/** Where a menu opens, and what it has. */
export interface IMenuPlace {
  readonly x: number;
  readonly y: number;
  /** Only what is not a button of the open card. */
  readonly rest?: boolean;
  /** What gets the focus back. */
  readonly from?: HTMLElement;
}

export interface IScene {
  readonly bearings: IBearings;
  readonly actions: IActions;
  readonly trans: TranslationBundle;
  /** The language of the page. */
  readonly locale: string | undefined;
  /** What relative times are relative to; it goes on by half minutes. */
  readonly now: Date;
  /** Opens the menu of a snapshot; `paired` is the second one of a comparison. */
  readonly openMenu: (
    commit: CommitView,
    paired: CommitView | null,
    place: IMenuPlace
  ) => void;
}
