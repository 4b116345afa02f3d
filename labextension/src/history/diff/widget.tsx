/**
 * The comparison of two snapshots, as the content of a tab in the main area.
 */
import {
  ITranslator,
  nullTranslator,
  type TranslationBundle
} from '@jupyterlab/translation';
import { ReactWidget, historyIcon } from '@jupyterlab/ui-components';
import React from 'react';
import type { CommitView, Diff } from '../../wire';
import { nameOf } from '../../format';
import { asSentence } from '../../words';
import type { Documents } from './cells';
import type { ReadFile } from './files';
import { OutputsOf, type Renderers } from './outputs';
import { DiffView } from './view';

export namespace CompareWidget {
  export interface IOptions {
    diff: Promise<Diff>;
    documents: Promise<Documents>;
    renderers: Renderers;
    read: ReadFile;
    /** The older one. */
    a: CommitView;
    b: CommitView;
    translator?: ITranslator;
  }
}

/** What lies between two snapshots; it says that it is still reading, and why it could not. */
export class CompareWidget extends ReactWidget {
  constructor(options: CompareWidget.IOptions) {
    super();
    this._options = options;
    this._trans = (options.translator ?? nullTranslator).load('infinijup');
    const { a, b } = options;
    this.id = `infinijup-compare-${a.id}-${b.id}`;
    this.addClass('jp-InfinijupDiff');
    this.node.dataset.infinijupCompare = '';
    this.title.icon = historyIcon;
    this.title.closable = true;
    const names = [nameOf(a), nameOf(b)] as const;
    this.title.label = this._trans.__('%1 ↔ %2', ...names);
    this.title.caption = this._trans.__('Compare %1 with %2', ...names);
    Promise.all([options.diff, options.documents]).then(
      ([diff, documents]) => {
        this._diff = diff;
        this._documents = documents;
        this.update();
      },
      (error: unknown) => {
        this._error = error instanceof Error ? error.message : String(error);
        this.update();
      }
    );
  }

  protected override render(): JSX.Element {
    const { a, b } = this._options;
    const trans = this._trans;
    if (this._diff) {
      return (
        <DiffView
          diff={this._diff}
          documents={this._documents}
          draw={this._draw}
          read={this._options.read}
          a={a}
          b={b}
          trans={trans}
          locale={document.documentElement.lang || undefined}
        />
      );
    }
    return (
      <p className="jp-InfinijupDiff-nothing" role="status">
        {this._error === null
          ? trans.__('Comparing the snapshots …')
          : trans.__(
              'The snapshots cannot be compared: %1',
              asSentence(this._error)
            )}
      </p>
    );
  }

  private readonly _draw = (outputs: readonly unknown[]): JSX.Element => (
    <OutputsOf outputs={outputs} renderers={this._options.renderers} />
  );

  private readonly _options: CompareWidget.IOptions;
  private readonly _trans: TranslationBundle;
  private _diff: Diff | null = null;
  private _documents: Documents = null;
  private _error: string | null = null;
}
