/** Taking snapshots, naming them, deleting them. */
import type { Notification } from '@jupyterlab/apputils';
import { askDelete, askMove, askText } from '../dialogs';
import { contentOf, saveIfDirty } from '../document';
import { nameOf } from '../format';
import { duration, size } from '../history/format';
import { asApiError } from '../model';
import { isTagName } from '../names';
import type { ITarget } from '../notebooks';
import { asSentence, follow, showError } from '../notify';
import { CommandIDs } from '../tokens';
import type { CellNote, SnapshotOutcome } from '../wire';
import type { IDeps } from './deps';

/** Takes a snapshot of a kernel and its notebook. */
export async function snapshot(
  deps: IDeps,
  { kernelId, panel }: ITarget,
  options: { label?: string; message?: string; tag?: string } = {}
): Promise<SnapshotOutcome | null> {
  const { model, trans } = deps;
  if (panel) {
    await saveIfDirty(panel);
  }
  const cell = panel ? deps.lastCells.of(panel) : undefined;
  return follow(model, trans, {
    kernelId,
    kinds: ['snapshot'],
    begin: trans.__('Saving now'),
    work: () =>
      model.api.snapshot({
        kernel_id: kernelId,
        ...options,
        ...(panel ? { notebook: contentOf(panel), cell } : {})
      }),
    end: outcome => ({
      message: taken(deps, outcome, options.label, cell),
      type: outcome.warnings.length > 0 ? 'warning' : 'success',
      actions: afterwards(deps, kernelId, outcome.commit)
    })
  });
}

/** `Snapshot “12:17 · scores = …” taken: 12 MB new, kernel paused 80 ms.` */
function taken(
  { trans }: IDeps,
  outcome: SnapshotOutcome,
  label?: string,
  cell?: CellNote
): string {
  const name = nameOf({
    id: outcome.commit,
    parents: [],
    thread: '',
    tags: [],
    time: new Date().toISOString(),
    reason: 'manual',
    message: '',
    bytes: 0,
    label,
    cell
  });
  const stored = size(outcome.new_bytes);
  const pause = duration(outcome.frozen_us);
  const line = outcome.gpu_paused_us
    ? trans.__(
        'Snapshot “%1” taken: %2 new, kernel paused %3, GPU %4.',
        name,
        stored,
        pause,
        duration(outcome.gpu_paused_us)
      )
    : trans.__(
        'Snapshot “%1” taken: %2 new, kernel paused %3.',
        name,
        stored,
        pause
      );
  return [line, ...outcome.warnings.map(asSentence)].join(' ');
}

function afterwards(
  { app, trans }: IDeps,
  kernelId: string,
  commit: string
): Notification.IAction[] {
  const run = (command: string) =>
    void app.commands.execute(command, { kernel_id: kernelId, commit });
  return [
    {
      label: trans.__('Name…'),
      caption: trans.__('Give this snapshot a name; it is kept then'),
      displayType: 'link',
      callback: () => run(CommandIDs.tag)
    },
    {
      label: trans.__('Restore'),
      caption: trans.__('Bring the kernel back to this snapshot'),
      displayType: 'link',
      callback: () => run(CommandIDs.restore)
    }
  ];
}

/** Asks for a label, then takes a snapshot with it. */
export async function snapshotLabelled(
  deps: IDeps,
  target: ITarget
): Promise<SnapshotOutcome | null> {
  const { trans } = deps;
  const label = await askText(
    trans,
    'label',
    trans.__('Snapshot with a label'),
    trans.__('Label'),
    trans.__('Take Snapshot')
  );
  return label ? snapshot(deps, target, { label }) : null;
}

/** What the daemon says of a name that another snapshot has. */
const TAKEN = 'IJ-S030';

/**
 * Gives a snapshot a name, in place of the one that it goes by. A name is a tag: it leads to one snapshot of the whole store.
 */
export async function tag(
  { model, trans }: IDeps,
  commit: string,
  given?: string
): Promise<void> {
  const known = model.commit(commit);
  const before = given === undefined ? (known?.tags[0] ?? '') : '';
  const name =
    given ??
    (await askText(
      trans,
      'tag',
      known
        ? trans.__('Name “%1”', nameOf(known))
        : trans.__('Name this snapshot'),
      trans.__('Name'),
      trans.__('Name'),
      trans.__('Snapshots with a name are kept until you delete them.'),
      {
        holds: isTagName,
        words: trans.__(
          'This cannot be a name. It may not begin with - or a dot, nor have two dots or one of ~ ^ : ? * [ \\ in it.'
        )
      },
      before
    ));
  if (!name || name === before) {
    return;
  }
  try {
    const isGiven = await model.api.tag(commit, name).then(
      () => true,
      async thrown => {
        const error = asApiError(thrown);
        if (error.code !== TAKEN) {
          throw error;
        }
        const moved = await askMove(trans, name);
        if (moved) {
          await model.api.tag(commit, name, true);
        }
        return moved;
      }
    );
    if (isGiven && before) {
      await model.api.untag(before);
    }
  } catch (error) {
    showError(trans, asApiError(error));
  }
}

/** Takes a tag away; the snapshot stays. */
export async function untag(
  { model, trans }: IDeps,
  name: string
): Promise<void> {
  await model.api
    .untag(name)
    .catch(error => showError(trans, asApiError(error)));
}

/** Deletes snapshots after a question. */
export async function remove(
  { model, trans }: IDeps,
  kernelId: string,
  ids: string[]
): Promise<void> {
  const commits = ids.map(id => model.commit(id));
  if (ids.length === 0 || !(await askDelete(trans, commits))) {
    return;
  }
  await follow(model, trans, {
    kernelId,
    kinds: ['forget'],
    begin: trans._n(
      'Deleting %1 snapshot',
      'Deleting %1 snapshots',
      ids.length
    ),
    work: () => model.api.forget(ids, true),
    end: ({ forgotten, kept }) => {
      const gone = trans._n(
        '%1 snapshot deleted.',
        '%1 snapshots deleted.',
        forgotten.length
      );
      return kept.length === 0
        ? { message: gone }
        : {
            message: trans.__(
              '%1 Kept: %2 (%3).',
              gone,
              kept
                .map(one => model.commit(one.commit))
                .map(one => (one ? nameOf(one) : trans.__('a snapshot')))
                .join(', '),
              kept[0].reason
            ),
            type: 'warning'
          };
    }
  });
}
