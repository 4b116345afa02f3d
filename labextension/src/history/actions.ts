/**
 * What the panel asks others to do. All of it goes through JupyterLab's commands, so a click, a key, the palette and a
 * menu do the same thing.
 */
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyJSONObject } from '@lumino/coreutils';

/** The commands, by what they do to a history. */
export const COMMANDS = {
  snapshot: 'infinijup:snapshot',
  restore: 'infinijup:restore',
  branch: 'infinijup:branch',
  tag: 'infinijup:tag',
  untag: 'infinijup:untag',
  compare: 'infinijup:compare',
  delete: 'infinijup:delete',
  copy: 'infinijup:copy-id',
  files: 'infinijup:copy-files',
  resume: 'infinijup:resume',
  doctor: 'infinijup:doctor',
  open: 'docmanager:open'
} as const;

export type Action = keyof typeof COMMANDS;

/** Where wishes go. */
export interface IActions {
  /** Whether the command is there and can be used now. */
  can(action: Action, args?: ReadonlyJSONObject): boolean;
  run(action: Action, args?: ReadonlyJSONObject): void;
}

/** Wishes as commands. A command tells the user itself what went wrong, so a failure ends here. */
export function actionsOf(commands: CommandRegistry): IActions {
  return {
    can: (action, args = {}) =>
      commands.hasCommand(COMMANDS[action]) &&
      commands.isEnabled(COMMANDS[action], args),
    run: (action, args = {}) => {
      if (commands.hasCommand(COMMANDS[action])) {
        commands.execute(COMMANDS[action], args).catch((error: unknown) => {
          console.warn(`${COMMANDS[action]} failed`, error);
        });
      }
    }
  };
}
