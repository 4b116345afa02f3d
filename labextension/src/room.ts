/** What is said of the room that the history takes. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { fullTime, size } from './history/format';
import type { CommitView, RemoteView, StoreAnswer } from './wire';

/** A sentence each. `commits` are those of the current notebook. */
export function roomWords(
  trans: TranslationBundle,
  { used_bytes: used, allowed_bytes: allowed, remote }: StoreAnswer,
  commits: readonly CommitView[],
  locale?: string
): string[] {
  const pushed = pushWords(trans, remote, commits, locale);
  if (used === null || allowed === null) {
    return [
      trans.__('How much the history takes cannot be told now.'),
      ...pushed
    ];
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
  lines.push(...pushed);
  lines.push(
    trans.__(
      '`store_budget` in the settings of the daemon says how much it may take; `infinijup daemon status` says where they are.'
    )
  );
  return lines;
}

/** What was pushed, and what is not here any more. */
function pushWords(
  trans: TranslationBundle,
  remote: RemoteView | null,
  commits: readonly CommitView[],
  locale?: string
): string[] {
  const lines = [];
  const away = commits.filter(commit => commit.elsewhere);
  if (away.length > 0) {
    lines.push(
      trans._n(
        '%1 snapshot of this notebook is only in %2 and is read from there when it is restored.',
        '%1 snapshots of this notebook are only in %2 and are read from there when they are restored.',
        away.length,
        [...new Set(away.map(commit => commit.elsewhere))].join(', ')
      )
    );
  }
  if (remote?.last_push) {
    const time = fullTime(new Date(remote.last_push), locale);
    lines.push(
      remote.failed
        ? trans.__(
            'The push to %1 at %2 failed: %3',
            remote.name,
            time,
            remote.failed
          )
        : trans.__('Last pushed to %1 at %2.', remote.name, time)
    );
  } else if (remote) {
    lines.push(trans.__('Nothing was pushed to %1 yet.', remote.name));
  }
  return lines;
}
