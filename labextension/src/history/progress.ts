/**
 * How far the daemon is with something, in plain words.
 *
 * The daemon tells its own steps, each with figures that begin at nothing. People know three things: a snapshot is being
 * loaded, now is being saved, the kernel is being brought back. So each step has its part of one scale, which the figures of
 * that step move along; the parts follow each other as the steps do, and the share never goes back.
 */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { JobNews } from '../wire';

/** What people are told. */
type Phase = 'saving' | 'loading' | 'restoring';

/** The step of the daemon, what it is for people, and where its part of the phase begins and ends. */
const STEPS: Record<string, [Phase, number, number]> = {
  preflight: ['saving', 0, 0.02],
  'lock the GPU': ['saving', 0.02, 0.04],
  'checkpoint the GPU': ['saving', 0.04, 0.1],
  'freeze and dump': ['saving', 0.1, 0.2],
  'store memory': ['saving', 0.2, 0.9],
  'store files': ['saving', 0.9, 0.97],
  commit: ['saving', 0.97, 1],
  'lay out images': ['loading', 0, 0.95],
  'check images': ['loading', 0.95, 1],
  'check memory': ['loading', 1, 1],
  'check files': ['loading', 1, 1],
  'copy files': ['loading', 0.95, 1],
  'put files back': ['restoring', 0, 0.2],
  restore: ['restoring', 0.2, 0.8],
  'restore the GPU': ['restoring', 0.8, 0.95],
  'unlock the GPU': ['restoring', 0.95, 1]
};

/** The phases that work of a kind has, each with the part of the whole that it begins at. */
const PHASES: Record<string, Partial<Record<Phase, number>>> = {
  snapshot: { saving: 0 },
  suspend: { saving: 0 },
  // What it goes back to is loaded while the kernel still runs.
  rollback: { loading: 0, saving: 0.4, restoring: 0.85 },
  branch: { saving: 0, loading: 0.45, restoring: 0.85 },
  resume: { loading: 0, restoring: 0.75 }
};

/** What is under way, and how much of it is done, from 0 to 1; `null` if that cannot be told. */
export interface IProgress {
  readonly words: string;
  readonly share: number | null;
}

/** What the news of a job say. */
export function progressOf(job: JobNews, trans: TranslationBundle): IProgress {
  const step = STEPS[job.step ?? ''];
  const phases = PHASES[job.kind ?? ''];
  const begin = step && phases?.[step[0]];
  if (!step || !phases || begin === undefined) {
    return { words: jobText(job.kind, trans), share: null };
  }
  const [phase, from, to] = step;
  const own =
    typeof job.done === 'number' && job.total
      ? Math.min(1, job.done / job.total)
      : 0;
  const end = Math.min(
    1,
    ...Object.values(phases).filter(other => other > begin)
  );
  return {
    words: phaseText(phase, job.kind, trans),
    share: begin + (end - begin) * (from + (to - from) * own)
  };
}

/** Follows jobs: the same words as `progressOf`, and a share that only grows for as long as it is the same job. */
export class Course {
  follow(job: JobNews, trans: TranslationBundle): IProgress {
    if (job.id !== this._job) {
      this._job = job.id;
      this._furthest = null;
    }
    const { words, share } = progressOf(job, trans);
    if (share !== null) {
      this._furthest = Math.max(share, this._furthest ?? 0);
    }
    return { words, share: this._furthest };
  }

  private _job = '';
  private _furthest: number | null = null;
}

function phaseText(
  phase: Phase,
  kind: string | null | undefined,
  trans: TranslationBundle
): string {
  switch (phase) {
    case 'saving':
      return trans.__('Saving now');
    case 'loading':
      return trans.__('Loading');
    case 'restoring':
      return kind === 'resume'
        ? trans.__('Waking the kernel')
        : trans.__('Restoring');
  }
}

/** What is under way where no step says more. */
function jobText(
  kind: string | null | undefined,
  trans: TranslationBundle
): string {
  switch (kind) {
    case 'snapshot':
      return trans.__('Saving now');
    case 'rollback':
      return trans.__('Restoring');
    case 'branch':
      return trans.__('Branching');
    case 'suspend':
      return trans.__('Suspending');
    case 'resume':
      return trans.__('Waking the kernel');
    case 'restart':
      return trans.__('Restarting');
    case 'start':
      return trans.__('Starting');
    case 'stop':
      return trans.__('Stopping');
    case 'forget':
      return trans.__('Deleting');
    case 'gc':
      return trans.__('Cleaning up');
    default:
      return trans.__('Working');
  }
}
