/**
 * What all parts of the panel need, handed down once.
 */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IActions } from './actions';
import type { IBearings } from './commits';

export interface IScene {
  readonly bearings: IBearings;
  readonly actions: IActions;
  readonly trans: TranslationBundle;
  /** The language of the page. */
  readonly locale: string | undefined;
  /** What relative times are relative to; it goes on by half minutes. */
  readonly now: Date;
}
