/** What the status bar says about a kernel. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { time } from './format';
import { size } from './history/format';
import type { IKernelState } from './model';

/** What the item says. */
export interface IStatusLine {
  /** `none`, `away` or the session's state, for styles and tests. */
  state: string;
  text: string;
  title: string;
}

/** The line for a kernel; `null` if nothing is to be shown. */
export function statusLine(
  trans: TranslationBundle,
  kernel: IKernelState | null,
  away: boolean,
  now: Date
): IStatusLine | null {
  if (!kernel || (!kernel.session && !away)) {
    return null;
  }
  if (away) {
    return {
      state: 'away',
      text: trans.__('Snapshots off'),
      title: trans.__(
        'The snapshot service does not answer. Start it with `infinijup daemon start`.'
      )
    };
  }
  const session = kernel.session!;
  // That a kernel runs, JupyterLab says itself.
  const states: Record<string, string> = {
    starting: trans.__('Kernel starting'),
    suspended: trans.__('Kernel suspended'),
    ended: trans.__('Kernel ended'),
    failed: trans.__('Kernel lost')
  };
  const jobs: Record<string, string> = {
    snapshot: trans.__('Saving now…'),
    rollback: trans.__('Restoring…'),
    branch: trans.__('Branching…'),
    suspend: trans.__('Suspending…'),
    resume: trans.__('Waking the kernel…'),
    restart: trans.__('Restarting…')
  };
  const job = kernel.job?.kind ?? session.operation;
  const parts: string[] = [];
  if (job) {
    parts.push(jobs[job] ?? trans.__('Working…'));
  } else if (states[session.state]) {
    parts.push(states[session.state]);
  }
  if (session.vram_bytes) {
    parts.push(trans.__('GPU %1', size(session.vram_bytes)));
  }
  parts.push(
    kernel.last
      ? trans.__('Last snapshot %1', time(kernel.last.time, now))
      : trans.__('No snapshot yet')
  );
  return {
    state: session.state,
    text: parts.join(' · '),
    title: [
      trans.__('Show the history of this kernel'),
      session.gpu_trouble ?? ''
    ]
      .filter(line => line)
      .join('\n')
  };
}
