/** What is said of the room that the history takes. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { size } from './history/format';
import type { CommitView, StoreAnswer } from './wire';

/** A sentence each. `commits` are those of the current notebook. */
export function roomWords(
  trans: TranslationBundle,
  { used_bytes: used, allowed_bytes: allowed }: StoreAnswer,
  commits: readonly CommitView[]
): string[] {
  if (used === null || allowed === null) {
    return [trans.__('How much the history takes cannot be told now.')];
  }
  const free = Math.max(0, allowed - used);
  const lines = [
    free > 0
      ? trans.__(
          'History takes %1; %2 are free for it.',
          size(used),
          size(free)
        )
      : trans.__(
          'History takes %1, which is all that it may take: no snapshots are taken until some are deleted.',
          size(used)
        )
  ];
  const automatic = commits.filter(commit => commit.automatic);
  const added = automatic.reduce(
    (sum, commit) => sum + (commit.new_bytes ?? 0),
    0
  );
  if (automatic.length > 0) {
    lines.push(
      trans._n(
        'The %1 automatic snapshot of this notebook has added %2 to it.',
        'The %1 automatic snapshots of this notebook have added %2 to it.',
        automatic.length,
        size(added)
      )
    );
  }
  lines.push(
    trans.__(
      '`store_budget` in the settings of the daemon says how much it may take; `infinijup daemon status` says where they are.'
    )
  );
  return lines;
}
