/**
 * The commands, their arguments and when they can be used.
 *
 * A command means the current notebook, or the kernel that its arguments name. Each is enabled by what is known of that
 * kernel; `Notebooks.changed` makes JupyterLab ask again, without which buttons would keep the state of their first
 * drawing.
 */
import { Clipboard, InputDialog } from '@jupyterlab/apputils';
import type { LabIcon } from '@jupyterlab/ui-components';
import {
  copyIcon,
  historyIcon,
  runIcon,
  undoIcon
} from '@jupyterlab/ui-components';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { CellUndo } from './actions/cells';
import type { IDeps } from './actions/deps';
import type { Restorer } from './actions/restore';
import { branch, resume, suspend } from './actions/session';
import {
  remove,
  snapshot,
  snapshotLabelled,
  tag,
  untag
} from './actions/snapshot';
import { showDiskUse } from './disk';
import { showDoctor } from './doctor';
import { cut, distinct, nameOf, time } from './format';
import { codeLine, firstLine } from './history/format';
import {
  branchIcon,
  resumeIcon,
  snapshotIcon,
  suspendIcon,
  undoCellIcon
} from './icons';
import type { IKernelState } from './model';
import { asApiError } from './model';
import type { ITarget } from './notebooks';
import { showError } from './notify';
import { CommandIDs, PANEL_ID } from './tokens';
import type { CommitView } from './wire';

/** So many snapshots are offered where one is to be chosen from a list. */
const OFFERED = 50;

type Args = ReadonlyPartialJSONObject;

/** What a command says about itself. */
interface ICommand {
  id: string;
  label: string;
  /** What it is called where a snapshot is given. */
  short?: string;
  caption: string;
  icon?: LabIcon;
  /** The arguments beside `kernel_id`, by name and description. */
  args?: Record<string, { type: string; description: string; items?: object }>;
  /** When it can be used, by the kernel's state; always, if there is none. */
  when?: (state: IKernelState) => boolean;
  run: (target: ITarget, args: Args) => Promise<unknown>;
}

/** When a kernel can be asked for something new. */
export function isFree(state: IKernelState): boolean {
  return !!state.session && !state.job && !state.session.operation;
}

/** When a kernel has processes that can be snapshotted. */
export function isRunning(state: IKernelState): boolean {
  return isFree(state) && state.session?.state === 'running';
}

/** When a kernel sleeps, or was lost and can come back. */
export function isAsleep(state: IKernelState): boolean {
  return (
    isFree(state) &&
    (state.session?.state === 'suspended' || state.session?.state === 'failed')
  );
}

/** Adds the commands that mean a kernel. */
export function addCommands(
  deps: IDeps,
  restorer: Restorer,
  undo: CellUndo
): void {
  const { app, model, notebooks, trans } = deps;
  const commit = {
    commit: { type: 'string', description: trans.__('The id of a snapshot') }
  };
  const cell = {
    cell_id: {
      type: 'string',
      description: trans.__('The id of a cell; the active one')
    }
  };
  const hasHistory = (state: IKernelState) =>
    isFree(state) && (!!state.session?.head || !!state.last);

  const commands: ICommand[] = [
    {
      id: CommandIDs.snapshot,
      label: trans.__('Snapshot'),
      caption: trans.__('Take a snapshot of the kernel and the notebook'),
      icon: snapshotIcon,
      args: {
        label: { type: 'string', description: trans.__('A label for it') },
        message: { type: 'string', description: trans.__('A message for it') }
      },
      when: isRunning,
      run: (target, args) =>
        snapshot(deps, target, {
          ...(text(args.label) ? { label: text(args.label) } : {}),
          ...(text(args.message) ? { message: text(args.message) } : {})
        })
    },
    {
      id: CommandIDs.snapshotLabelled,
      label: trans.__('Snapshot with a Label…'),
      caption: trans.__('Take a snapshot and give it a label'),
      icon: snapshotIcon,
      when: isRunning,
      run: target => snapshotLabelled(deps, target)
    },
    {
      id: CommandIDs.branch,
      label: trans.__('Branch'),
      caption: trans.__(
        'Open a copy of the notebook on a copy of the kernel, beside the original'
      ),
      icon: branchIcon,
      args: commit,
      when: isFree,
      run: (target, args) => branch(deps, target, text(args.commit))
    },
    {
      id: CommandIDs.suspend,
      label: trans.__('Suspend'),
      caption: trans.__(
        'Put the kernel to sleep and free its memory, that of the GPU too'
      ),
      icon: suspendIcon,
      when: isRunning,
      run: target => suspend(deps, target)
    },
    {
      id: CommandIDs.resume,
      label: trans.__('Resume'),
      caption: trans.__('Bring the suspended kernel back'),
      icon: resumeIcon,
      when: isAsleep,
      run: target => resume(deps, target)
    },
    {
      id: CommandIDs.restore,
      label: trans.__('Restore…'),
      caption: trans.__('Bring the kernel back to a snapshot'),
      icon: historyIcon,
      args: {
        ...commit,
        mode: {
          type: 'string',
          description: trans.__('"both" or "kernel"; asked if not given')
        }
      },
      when: hasHistory,
      run: async (target, args) => {
        const to = await chosen(
          target,
          args.commit,
          trans.__('Restore a snapshot')
        );
        const mode =
          args.mode === 'both' || args.mode === 'kernel'
            ? args.mode
            : undefined;
        return to && restorer.restore(target, to, mode);
      }
    },
    {
      id: CommandIDs.restoreLast,
      label: trans.__('Restore the Last Snapshot…'),
      caption: trans.__('Bring the kernel back to its newest snapshot'),
      icon: undoIcon,
      when: hasHistory,
      run: async target => {
        await model.loadHistory(target.kernelId);
        const { last } = model.state(target.kernelId);
        return last && restorer.restore(target, last);
      }
    },
    {
      id: CommandIDs.undoCell,
      label: trans.__('Undo the Last Cell'),
      caption: trans.__(
        'Take kernel, files and outputs back to before the cell that ran last'
      ),
      icon: undoCellIcon,
      when: isRunning,
      run: target => undo.undoLast(target)
    },
    {
      id: CommandIDs.beforeCell,
      label: trans.__('Go Back to Before This Cell'),
      caption: trans.__(
        'Take kernel, files and outputs back to before this cell ran'
      ),
      icon: undoCellIcon,
      args: cell,
      when: isRunning,
      run: (target, args) => undo.goBack(target, cellOf(target, args))
    },
    {
      id: CommandIDs.runFromCell,
      label: trans.__('Run from Here Again'),
      caption: trans.__(
        'Go back to before this cell, then run it and all cells below'
      ),
      icon: runIcon,
      args: cell,
      when: isRunning,
      run: (target, args) => undo.runFrom(target, cellOf(target, args))
    },
    {
      id: CommandIDs.tag,
      label: trans.__('Name a Snapshot…'),
      short: trans.__('Name…'),
      caption: trans.__('Give a snapshot a name; it is kept then'),
      args: {
        ...commit,
        name: { type: 'string', description: trans.__('The name') }
      },
      when: hasHistory,
      run: async (target, args) => {
        const to = await chosen(
          target,
          args.commit,
          trans.__('Name a snapshot')
        );
        return to && tag(deps, to.id, text(args.name));
      }
    },
    {
      id: CommandIDs.remove,
      label: trans.__('Delete Snapshots…'),
      short: trans.__('Delete…'),
      caption: trans.__('Delete snapshots from the history'),
      args: {
        commits: {
          type: 'array',
          items: { type: 'string' },
          description: trans.__('The ids of the snapshots')
        }
      },
      when: hasHistory,
      run: async (target, args) => {
        const ids = Array.isArray(args.commits)
          ? args.commits.filter(id => typeof id === 'string')
          : [];
        if (ids.length === 0) {
          const one = await chosen(
            target,
            undefined,
            trans.__('Delete a snapshot')
          );
          ids.push(...(one ? [one.id] : []));
        }
        await remove(deps, target.kernelId, ids as string[]);
      }
    }
  ];

  /** The snapshot that is named, or one that is chosen now. */
  async function chosen(
    target: ITarget,
    named: unknown,
    title: string
  ): Promise<CommitView | null> {
    if (typeof named === 'string') {
      return restorer.byId(named);
    }
    await model.loadHistory(target.kernelId);
    const { history } = model.state(target.kernelId);
    const commits = (history?.commits ?? []).slice(0, OFFERED);
    const lines = distinct(commits.map(lineOf));
    const result = await InputDialog.getItem({ title, items: lines });
    const at = result.button.accept ? lines.indexOf(result.value ?? '') : -1;
    return commits[at] ?? null;
  }

  for (const command of commands) {
    const target = (args: Args) => notebooks.meant(args);
    app.commands.addCommand(command.id, {
      label: args =>
        args.commit || args.commits
          ? (command.short ?? command.label)
          : command.label,
      caption: command.caption,
      icon: command.icon,
      describedBy: {
        args: {
          type: 'object',
          properties: {
            kernel_id: {
              type: 'string',
              description: trans.__('The kernel; that of the current notebook')
            },
            ...command.args
          }
        }
      },
      isEnabled: args => {
        if (typeof args.kernel_id === 'string') {
          return true; // whoever names a kernel knows it; the server says if not
        }
        const meant = target(args);
        return (
          !!meant &&
          !model.away &&
          (command.when ? command.when(meant.state) : true)
        );
      },
      execute: async args => {
        const meant = target(args);
        try {
          return meant ? await command.run(meant, args) : null;
        } catch (error) {
          showError(trans, asApiError(error));
          return null;
        }
      }
    });
  }

  const ids = commands.map(command => command.id);
  notebooks.changed.connect(() => {
    ids.forEach(id => app.commands.notifyCommandChanged(id));
  });
  addOthers(deps);
}

/** Adds the commands that mean no kernel. */
function addOthers(deps: IDeps): void {
  const { app, documents, trans } = deps;
  const one = (name: string, description: string) => ({
    args: {
      type: 'object' as const,
      properties: { [name]: { type: 'string' as const, description } },
      required: [name]
    }
  });
  app.commands.addCommand(CommandIDs.untag, {
    label: trans.__('Remove a Name'),
    caption: trans.__('Take a name away; the snapshot stays'),
    describedBy: one('name', trans.__('The name')),
    execute: args => untag(deps, String(args.name))
  });
  app.commands.addCommand(CommandIDs.copyId, {
    label: trans.__('Copy Id'),
    caption: trans.__('Copy the id for the command line or the magic'),
    icon: copyIcon,
    describedBy: one('commit', trans.__('The id of a snapshot')),
    execute: args => Clipboard.copyToSystem(String(args.commit))
  });
  app.commands.addCommand(CommandIDs.openNotebook, {
    label: trans.__('Open a Notebook of the History'),
    describedBy: one('path', trans.__('The path of the notebook')),
    execute: args => documents.openOrReveal(String(args.path))
  });
  app.commands.addCommand(CommandIDs.openHistory, {
    label: trans.__('Show Kernel History'),
    caption: trans.__('Show the snapshots of this notebook'),
    icon: historyIcon,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => app.shell.activateById(PANEL_ID)
  });
  app.commands.addCommand(CommandIDs.doctor, {
    label: trans.__('Check Whether Snapshots Work'),
    caption: trans.__('Ask the daemon what works on this machine'),
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => showDoctor(deps)
  });
  app.commands.addCommand(CommandIDs.diskUse, {
    label: trans.__('Room That the History Takes…'),
    caption: trans.__('How much of the disk snapshots take, and may take'),
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => showDiskUse(deps)
  });
}

function lineOf(commit: CommitView): string {
  const name = nameOf(commit);
  const when = time(commit.time, new Date());
  const what = codeLine(commit.cell?.source ?? '') || firstLine(commit.message);
  return cut(
    name.startsWith(when)
      ? name
      : [when, name, what].filter(part => part).join(' · '),
    90
  );
}

/** The cell that is named, or the active one. */
function cellOf({ panel }: ITarget, args: Args): string {
  return text(args.cell_id) ?? panel?.content.activeCell?.model.id ?? '';
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value ? value : undefined;
}
