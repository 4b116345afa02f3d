/**
 * The rows of the list: days, snapshots, and folds that stand for runs of automatic snapshots.
 *
 * A fold takes the automatic snapshots that follow each other in the list and that nothing hangs on. It has no identity
 * of its own: what is remembered is which *snapshots* were unfolded, and a run is open if any of its own is. So it stays
 * open when a refresh adds to it, takes from it, or splits it.
 */
import type { CommitView } from '../wire';
import { type IBearings, isInteresting } from './commits';
import { dayKey } from './format';

/** A row; `key` is the same from one refresh to the next. */
export type Row =
  | { kind: 'day'; key: string; time: Date }
  | {
      kind: 'fold';
      key: string;
      /** Newest first. */
      commits: readonly CommitView[];
      open: boolean;
    }
  | { kind: 'commit'; key: string; commit: CommitView; folded: boolean };

/** A single one is as small as the fold that would hide it. */
const SHORTEST_FOLD = 2;

export interface IRowOptions {
  /** No folds, as in the result of a search. */
  readonly flat: boolean;
  /** Ids of snapshots that were unfolded. */
  readonly open: ReadonlySet<string>;
}

/** Makes the rows of what is shown, newest first. */
export function makeRows(
  commits: readonly CommitView[],
  bearings: IBearings,
  options: IRowOptions
): Row[] {
  const rows: Row[] = [];
  let run: CommitView[] = [];
  let day = Infinity;

  const push = (commit: CommitView, folded: boolean): void => {
    rows.push({ kind: 'commit', key: commit.id, commit, folded });
  };
  const flush = (): void => {
    if (run.length >= SHORTEST_FOLD) {
      const open = run.some(commit => options.open.has(commit.id));
      // The oldest one is the last to change when snapshots are added at the top.
      const key = `fold ${run[run.length - 1].id}`;
      rows.push({ kind: 'fold', key, commits: run, open });
      if (open) {
        run.forEach(commit => push(commit, true));
      }
    } else {
      run.forEach(commit => push(commit, false));
    }
    run = [];
  };

  for (const commit of commits) {
    const time = new Date(commit.time);
    const key = dayKey(time);
    // The order is that of ancestry; a clock that was set back does not bring a later day back below an earlier one.
    if (key < day) {
      flush();
      day = key;
      rows.push({ kind: 'day', key: `day ${key}`, time });
    }
    if (options.flat || isInteresting(commit, bearings)) {
      flush();
      push(commit, false);
    } else {
      run.push(commit);
    }
  }
  flush();
  return rows;
}

/** The unfolded snapshots after a fold was opened or closed. */
export function toggleFold(
  open: ReadonlySet<string>,
  fold: Extract<Row, { kind: 'fold' }>
): Set<string> {
  const next = new Set(open);
  for (const commit of fold.commits) {
    if (fold.open) {
      next.delete(commit.id);
    } else {
      next.add(commit.id);
    }
  }
  return next;
}
