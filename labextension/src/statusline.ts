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
      text: trans.__('Snapshots: off'),
      title: trans.__('The infinijup daemon cannot be reached.')
    };
  }
  const session = kernel.session!;
  const states: Record<string, string> = {
    starting: trans.__('starting'),
    running: trans.__('running'),
    suspended: trans.__('suspended'),
    ended: trans.__('ended'),
    failed: trans.__('lost')
  };
  const jobs: Record<string, string> = {
    snapshot: trans.__('snapshot…'),
    rollback: trans.__('restoring…'),
    branch: trans.__('branching…'),
    suspend: trans.__('suspending…'),
    resume: trans.__('resuming…'),
    restart: trans.__('restarting…')
  };
  const job = kernel.job?.kind ?? session.operation;
  const state = job
    ? (jobs[job] ?? trans.__('busy…'))
    : (states[session.state] ?? session.state);
  const parts = [trans.__('Session: %1', state)];
  if (session.vram_bytes) {
    parts.push(trans.__('GPU %1', size(session.vram_bytes)));
  }
  if (kernel.last) {
    parts.push(trans.__('snapshot %1', time(kernel.last.time, now)));
  }
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
