/**
 * The states that lie on the way to what a kernel is now, and which of them is before a cell.
 *
 * A snapshot that is taken between cells says after which cell it was: `[7]`. Going back through the history from the
 * newest one, numbers only ever fall; a restore is a snapshot of its own, and its state is the one that was gone back to.
 * Where a number rises again the kernel was restarted, and what lies behind that belongs to another process.
 */
import type { CommitView } from '../wire';

/** A snapshot that was taken after the cell with this number. */
export interface IState {
  commit: CommitView;
  number: number;
}

/** What there is before a cell. */
export interface IBefore {
  commit: CommitView;
  /** The number of the cell that it is after. */
  number: number;
}

/** The states on the way to the newest snapshot `head`, that one first. What is older than `since` is another process. */
export function lineOf(
  commits: readonly CommitView[],
  head: string | null | undefined,
  since = ''
): IState[] {
  const known = new Map(commits.map(commit => [commit.id, commit]));
  const line: IState[] = [];
  const seen = new Set<string>();
  let at = head ? known.get(head) : undefined;
  while (at && !seen.has(at.id)) {
    seen.add(at.id);
    if (at.reason === 'rollback' && at.back_to) {
      // When it was taken does not matter: the process that goes on is the one of then.
      since = '';
      at = known.get(at.back_to);
      continue;
    }
    if (at.reason === 'before-restart' || at.time < since) {
      break;
    }
    const number = at.cell?.number ?? null;
    if (number !== null && at.reason !== 'before-cell') {
      const last = line[line.length - 1]?.number ?? number;
      if (number > last) {
        break;
      }
      line.push({ commit: at, number });
    }
    at = known.get(at.parents[0]);
  }
  return line;
}

/** The newest state before the cell with this number; `null` if there is none. */
export function before(
  line: readonly IState[],
  number: number
): IBefore | null {
  return line.find(state => state.number < number) ?? null;
}
