/**
 * What the panel says about snapshots, in words.
 */
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommitView, JobNews, ThreadView } from '../wire';
import { type IBearings, backTo } from './commits';
import {
  baseName,
  duration,
  firstLine,
  fullTime,
  relativeTime,
  shortId,
  size
} from './format';

/** Why a snapshot was taken. */
export function reasonText(reason: string, trans: TranslationBundle): string {
  switch (reason) {
    case 'manual':
      return trans.__('Snapshot');
    case 'before-cell':
      return trans.__('Before cell');
    case 'after-cell':
      return trans.__('After cell');
    case 'interval':
      return trans.__('Timed');
    case 'idle':
      return trans.__('Idle');
    case 'before-rollback':
      return trans.__('Before restore');
    case 'rollback':
      return trans.__('Restored');
    case 'before-restart':
      return trans.__('Before restart');
    case 'before-shutdown':
      return trans.__('Before shutdown');
    case 'suspend':
      return trans.__('Suspended');
    case 'branch':
      return trans.__('Branched');
    default:
      return reason;
  }
}

/** What a card is called: the label, else the message, else why it was taken. */
export function titleOf(
  commit: CommitView,
  bearings: IBearings,
  trans: TranslationBundle
): string {
  if (commit.label) {
    return firstLine(commit.label);
  }
  const target = backTo(commit);
  if (target) {
    const to = bearings.byId.get(target);
    const name = to && (to.label || to.tags[0] || to.message || cellText(to));
    return trans.__(
      'Restored to %1',
      name ? firstLine(name, 60) : shortId(target)
    );
  }
  return firstLine(commit.message) || reasonText(commit.reason, trans);
}

/** The cell of a snapshot: `[5] train(model)`; empty if there is none. */
export function cellText(commit: CommitView): string {
  const { cell } = commit;
  if (!cell) {
    return '';
  }
  const number = typeof cell.number === 'number' ? `[${cell.number}] ` : '';
  return `${number}${firstLine(cell.source ?? '')}`.trim();
}

/** What it takes: new and whole size, GPU memory, pause. */
export function figures(
  commit: CommitView,
  trans: TranslationBundle
): string[] {
  const texts: string[] = [];
  const { new_bytes: added, vram_bytes: vram, frozen_us: pause } = commit;
  // A rollback adds nothing: it is the snapshot that it went back to.
  if (added) {
    texts.push(trans.__('+%1 / %2', size(added), size(commit.bytes)));
  } else if (commit.bytes > 0) {
    texts.push(size(commit.bytes));
  }
  if (vram) {
    texts.push(trans.__('VRAM %1', size(vram)));
  }
  if (typeof pause === 'number') {
    texts.push(trans.__('paused %1', duration(pause)));
  }
  return texts;
}

/** What a thread is called: the notebook that goes on with it, else its own name. */
export function threadTitle(thread: ThreadView): string {
  return thread.path ? baseName(thread.path) : thread.name;
}

/** A card, read out. */
export function cardSentence(
  commit: CommitView,
  bearings: IBearings,
  now: Date,
  trans: TranslationBundle,
  locale?: string
): string {
  const time = relativeTime(new Date(commit.time), now, locale);
  const parts = [`${titleOf(commit, bearings, trans)}, ${time}`];
  if (commit.id === bearings.head) {
    parts.push(trans.__('current snapshot of this kernel'));
  }
  if (commit.label || commit.message) {
    parts.push(reasonText(commit.reason, trans));
  }
  const cell = cellText(commit);
  if (cell) {
    parts.push(trans.__('cell %1', cell));
  }
  if (commit.tags.length) {
    parts.push(trans.__('tagged %1', commit.tags.join(', ')));
  }
  if (bearings.thread !== null && commit.thread !== bearings.thread) {
    const thread = bearings.threads.get(commit.thread);
    parts.push(trans.__('of %1', thread ? threadTitle(thread) : commit.thread));
  }
  if (!bearings.live.has(commit.id)) {
    parts.push(trans.__('left behind by a restore'));
  }
  parts.push(...figures(commit, trans));
  return `${parts.join('; ')}.`;
}

/** A fold, read out. */
export function foldText(count: number, trans: TranslationBundle): string {
  return trans._n(
    '%1 automatic snapshot',
    '%1 automatic snapshots',
    count,
    count
  );
}

/** What is under way. */
export function jobText(job: JobNews, trans: TranslationBundle): string {
  switch (job.kind) {
    case 'snapshot':
      return trans.__('Taking a snapshot …');
    case 'rollback':
      return trans.__('Restoring …');
    case 'branch':
      return trans.__('Branching …');
    case 'suspend':
      return trans.__('Suspending …');
    case 'resume':
      return trans.__('Resuming …');
    case 'restart':
      return trans.__('Restarting …');
    case 'start':
      return trans.__('Starting …');
    case 'stop':
      return trans.__('Stopping …');
    case 'forget':
      return trans.__('Deleting …');
    case 'gc':
      return trans.__('Cleaning up …');
    default:
      return trans.__('Working …');
  }
}

/** Rows of the details: a name and a value. */
export function facts(
  commit: CommitView,
  bearings: IBearings,
  trans: TranslationBundle,
  locale?: string
): [string, string][] {
  const thread = bearings.threads.get(commit.thread);
  const rows: [string, string | null][] = [
    [trans.__('Taken'), fullTime(new Date(commit.time), locale)],
    [trans.__('Why'), reasonText(commit.reason, trans)],
    [trans.__('Message'), commit.message || null],
    [trans.__('Thread'), thread?.path ? null : commit.thread],
    [
      trans.__('Size'),
      typeof commit.new_bytes === 'number'
        ? trans.__('%1 (%2 new)', size(commit.bytes), size(commit.new_bytes))
        : size(commit.bytes)
    ],
    [
      trans.__('Memory'),
      typeof commit.memory_bytes === 'number' ? size(commit.memory_bytes) : null
    ],
    [trans.__('VRAM'), commit.vram_bytes ? size(commit.vram_bytes) : null],
    [
      trans.__('Paused'),
      typeof commit.frozen_us === 'number' ? duration(commit.frozen_us) : null
    ],
    [
      trans.__('GPU paused'),
      commit.gpu_paused_us ? duration(commit.gpu_paused_us) : null
    ],
    [trans.__('Id'), shortId(commit.id)]
  ];
  return rows.filter((row): row is [string, string] => row[1] !== null);
}
