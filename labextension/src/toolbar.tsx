/**
 * The buttons in a notebook's toolbar.
 *
 * They are widgets of their own, not the commands' plain buttons: two notebooks stand side by side after a branch, and
 * each shows the state of its own kernel whichever was clicked last. A notebook whose kernel is not a session shows none.
 */
import type { IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { ReactWidget } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { LabIcon } from '@jupyterlab/ui-components';
import {
  addToolbarButtonClass,
  ToolbarButtonComponent
} from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import React from 'react';
import { isAsleep, isFree, isRunning } from './commands';
import {
  branchIcon,
  resumeIcon,
  snapshotIcon,
  suspendIcon,
  undoCellIcon
} from './icons';
import type { IKernelState } from './model';
import type { Notebooks } from './notebooks';
import { CommandIDs } from './tokens';

/** What a button is for a kernel in this state. */
interface IFace {
  command: string;
  icon: LabIcon;
  enabled: boolean;
}

type Look = (state: IKernelState) => IFace;

const BUTTONS: Record<string, Look> = {
  'infinijup-snapshot': state => ({
    command: CommandIDs.snapshot,
    icon: snapshotIcon,
    enabled: isRunning(state)
  }),
  'infinijup-undo-cell': state => ({
    command: CommandIDs.undoCell,
    icon: undoCellIcon,
    enabled: isRunning(state) && !!(state.session?.head || state.last)
  }),
  'infinijup-branch': state => ({
    command: CommandIDs.branch,
    icon: branchIcon,
    enabled: isFree(state)
  }),
  'infinijup-suspend': state => {
    const asleep = state.session?.state === 'suspended';
    return {
      command: asleep ? CommandIDs.resume : CommandIDs.suspend,
      icon: asleep ? resumeIcon : suspendIcon,
      enabled: asleep ? isAsleep(state) : isRunning(state)
    };
  }
};

/** One button of one notebook. */
class Button extends ReactWidget {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _notebooks: Notebooks,
    private readonly _commands: CommandRegistry,
    private readonly _look: Look
  ) {
    super();
    addToolbarButtonClass(this);
    _notebooks.changed.connect(this._onChanged, this);
    this._onChanged();
  }

  override dispose(): void {
    this._notebooks.changed.disconnect(this._onChanged, this);
    super.dispose();
  }

  protected render(): JSX.Element | null {
    const target = this._panel.isDisposed
      ? null
      : this._notebooks.target(this._panel);
    if (!target) {
      return null;
    }
    const face = this._look(target.state);
    const args = { kernel_id: target.kernelId };
    return (
      <ToolbarButtonComponent
        icon={face.icon}
        tooltip={`${this._commands.label(face.command)}: ${this._commands.caption(face.command)}`}
        enabled={face.enabled && !this._notebooks.model.away}
        onClick={() => void this._commands.execute(face.command, args)}
      />
    );
  }

  private _onChanged(): void {
    const target = this._panel.isDisposed
      ? null
      : this._notebooks.target(this._panel);
    this.setHidden(!target?.state.session);
    this.update();
  }
}

/** Offers the buttons to the toolbars of notebooks; the settings say where they stand. */
export function addToolbarButtons(
  registry: IToolbarWidgetRegistry,
  notebooks: Notebooks,
  commands: CommandRegistry
): void {
  for (const [name, look] of Object.entries(BUTTONS)) {
    registry.addFactory<NotebookPanel>(
      'Notebook',
      name,
      panel => new Button(panel, notebooks, commands, look)
    );
  }
}
