/**
 * The History side panel.
 */
import { ReactWidget, UseSignal, historyIcon } from '@jupyterlab/ui-components';
import {
  ITranslator,
  nullTranslator,
  type TranslationBundle
} from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import { Menu, type Widget } from '@lumino/widgets';
import React from 'react';
import type { CommitView } from '../wire';
import { actionsOf, COMMANDS, type IActions } from './actions';
import { choicesFor } from './details';
import type { IMenuPlace, IScene } from './scene';
import type { IHistorySource } from './source';
import { ColourMemory, HistoryView } from './view';

export namespace HistoryPanel {
  export interface IOptions {
    source: IHistorySource;
    commands: CommandRegistry;
    translator?: ITranslator;
  }
}

/** The panel: it draws what the source has and asks for nothing while nobody looks. */
export class HistoryPanel extends ReactWidget {
  constructor(options: HistoryPanel.IOptions) {
    super();
    this._source = options.source;
    this._commands = options.commands;
    this._actions = actionsOf(options.commands);
    this._trans = (options.translator ?? nullTranslator).load('infinijup');
    this.id = 'infinijup-history';
    this.addClass('jp-InfinijupHistory');
    this.node.dataset.infinijupPanel = '';
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', this._trans.__('Kernel history'));
    this.title.icon = historyIcon;
    this.title.caption = this._trans.__('Kernel history');
    // Which commands can be used depends on more than the history.
    this._commands.commandChanged.connect(this._onCommandChanged, this);
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._commands.commandChanged.disconnect(this._onCommandChanged, this);
      this._menu?.dispose();
      super.dispose();
    }
  }

  protected override onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this._source.setVisible(true);
    this._keepClear();
    this.update();
  }

  protected override onResize(msg: Widget.ResizeMessage): void {
    super.onResize(msg);
    this._keepClear();
  }

  protected override onAfterHide(msg: Message): void {
    super.onAfterHide(msg);
    this._source.setVisible(false);
    this._keepClear();
    this.update();
  }

  protected override onActivateRequest(_msg: Message): void {
    this.node
      .querySelector<HTMLElement>('[role="treeitem"][tabindex="0"], button')
      ?.focus();
  }

  protected override render(): JSX.Element {
    return (
      <UseSignal signal={this._source.changed}>
        {() => (
          <HistoryView
            state={this._source.state}
            actions={this._actions}
            trans={this._trans}
            locale={document.documentElement.lang || undefined}
            colours={this._colours}
            visible={this.isVisible}
            onRefresh={this._onRefresh}
            onMenu={this._onMenu}
          />
        )}
      </UseSignal>
    );
  }

  /** Notifications open in the corner where this panel is: says how much of the window they shall leave free. */
  private _keepClear(): void {
    const { body } = document;
    const { left, width } = this.node.getBoundingClientRect();
    const taken = window.innerWidth - left;
    if (this.isVisible && width > 0 && taken < window.innerWidth / 2) {
      body.dataset.infinijupBeside = '';
      body.style.setProperty('--jp-infinijup-beside', `${taken}px`);
    } else {
      delete body.dataset.infinijupBeside;
    }
  }

  private _onRefresh = (): void => {
    void this._source.refresh();
  };

  private _onMenu = (
    commit: CommitView,
    paired: CommitView | null,
    scene: IScene,
    place: IMenuPlace
  ): void => {
    this._menu?.dispose();
    const menu = new Menu({ commands: this._commands });
    this._menu = menu;
    menu.addClass('jp-InfinijupHistory-menu');
    for (const choice of choicesFor(commit, paired, scene)) {
      if (choice.enabled && !(place.rest && choice.button)) {
        menu.addItem({ command: COMMANDS[choice.action], args: choice.args });
      }
    }
    menu.aboutToClose.connect(() => place.from?.focus());
    menu.open(place.x, place.y);
    if (place.rest) {
      menu.activateNextItem();
    }
  };

  private _onCommandChanged(
    _: CommandRegistry,
    change: CommandRegistry.ICommandChangedArgs
  ): void {
    if (!change.id || change.id.startsWith('infinijup:')) {
      // Another object, so that every button asks again whether it can be used.
      this._actions = actionsOf(this._commands);
      this.update();
    }
  }

  private readonly _source: IHistorySource;
  private readonly _commands: CommandRegistry;
  private _actions: IActions;
  private readonly _trans: TranslationBundle;
  private readonly _colours = new ColourMemory();
  private _menu: Menu | null = null;
}
