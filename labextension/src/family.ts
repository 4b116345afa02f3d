/**
 * A history that is kept, and how news change it.
 *
 * A history holds the whole family of a notebook: the commits of its session, of the sessions it was branched off and of
 * all their branches. A new snapshot of any of them is put in front without asking the server again; what cannot be told
 * from the event alone (a tag, a forgotten commit, a new thread) makes the kept history stale.
 */
import type { CommitView, HistoryAnswer, SessionView } from './wire';

/** What became of a history. */
export type Outcome = 'same' | 'changed' | 'stale';

/** The history with a new commit in front. */
export function withCommit(
  history: HistoryAnswer,
  commit: CommitView
): { history: HistoryAnswer; outcome: Outcome } {
  const at = history.commits.findIndex(known => known.id === commit.id);
  if (at >= 0) {
    const commits = history.commits.slice();
    commits[at] = commit;
    return { history: { ...history, commits }, outcome: 'changed' };
  }
  const ours = history.threads.some(thread => thread.name === commit.thread);
  const child =
    commit.parents.length > 0 &&
    history.commits.some(known => commit.parents.includes(known.id));
  if (!ours && !child) {
    return { history, outcome: 'same' };
  }
  return {
    history: {
      ...history,
      commits: [commit, ...history.commits],
      threads: history.threads.map(thread =>
        thread.name === commit.thread ? { ...thread, head: commit.id } : thread
      )
    },
    outcome: ours ? 'changed' : 'stale'
  };
}

/** The history after its own or a relative's session changed. */
export function withSession(
  history: HistoryAnswer,
  session: SessionView
): { history: HistoryAnswer; outcome: Outcome } {
  const own = history.session?.id === session.id;
  const at = history.threads.findIndex(thread => thread.session === session.id);
  if (!own && at < 0) {
    return { history, outcome: 'same' };
  }
  const threads = history.threads.slice();
  if (at >= 0) {
    threads[at] = {
      ...threads[at],
      name: session.thread,
      head: session.head ?? threads[at].head,
      state: session.state
    };
  }
  const known =
    !session.head || history.commits.some(commit => commit.id === session.head);
  return {
    history: {
      ...history,
      threads,
      session: own ? session : history.session
    },
    outcome: known ? 'changed' : 'stale'
  };
}
