/** The item in the status bar: state, GPU memory, last snapshot. */
import { ReactWidget } from '@jupyterlab/apputils';
import { TextItem } from '@jupyterlab/statusbar';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import React from 'react';
import { suspendIcon } from './icons';
import type { Notebooks } from './notebooks';
import type { IStatusLine } from './statusline';
import { statusLine } from './statusline';
import { CommandIDs } from './tokens';

/** The item. */
export class StatusItem extends ReactWidget {
  constructor(
    private readonly _trans: TranslationBundle,
    private readonly _notebooks: Notebooks,
    private readonly _commands: CommandRegistry
  ) {
    super();
    this.addClass('jp-mod-highlighted');
    this.addClass('jp-Infinijup-status');
    _notebooks.changed.connect(this._onChanged, this);
    this._onChanged();
  }

  override dispose(): void {
    this._notebooks.changed.disconnect(this._onChanged, this);
    super.dispose();
  }

  protected render(): JSX.Element | null {
    const line = this._line();
    if (!line) {
      return null;
    }
    const open = () => void this._commands.execute(CommandIDs.openHistory);
    return (
      <>
        {line.state === 'suspended' && (
          <suspendIcon.react
            tag="span"
            className="jp-Infinijup-moon"
            height="16px"
            width="16px"
          />
        )}
        <TextItem
          source={line.text}
          title={line.title}
          role="button"
          tabIndex={0}
          onClick={open}
          onKeyDown={event => {
            if (event.key === 'Enter' || event.key === ' ') {
              event.preventDefault();
              open();
            }
          }}
        />
      </>
    );
  }

  private _line(): IStatusLine | null {
    const { current, model } = this._notebooks;
    return statusLine(
      this._trans,
      current?.state ?? null,
      model.away,
      new Date()
    );
  }

  private _onChanged(): void {
    this.node.dataset.infinijupStatus = this._line()?.state ?? 'none';
    this.update();
  }
}
