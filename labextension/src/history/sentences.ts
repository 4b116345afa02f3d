/**
 * What the panel says about snapshots, in words.
 */
import type { TranslationBundle } from '@jupyterlab/translation';
import { nameOf } from '../format';
import type { CommitView, ThreadView } from '../wire';
import { type IBearings, backTo } from './commits';
import {
  baseName,
  codeLine,
  duration,
  firstLine,
  fullTime,
  relativeTime,
  size
} from './format';

/** Why a snapshot was taken. */
export function reasonText(reason: string, trans: TranslationBundle): string {
  switch (reason) {
    case 'manual':
      return trans.__('Taken by hand');
    case 'before-cell':
      return trans.__('Before a cell ran');
    case 'after-cell':
      return trans.__('After a cell ran');
    case 'interval':
      return trans.__('Taken on a timer');
    case 'idle':
      return trans.__('Taken when the kernel had nothing to do');
    case 'before-rollback':
      return trans.__('Before a restore');
    case 'rollback':
      return trans.__('Restored');
    case 'before-restart':
      return trans.__('Before a restart');
    case 'before-shutdown':
      return trans.__('Before a shutdown');
    case 'suspend':
      return trans.__('Suspended');
    case 'branch':
      return trans.__('Branched');
    case 'files':
      return trans.__('Files of a branch that was deleted');
    default:
      return reason;
  }
}

/** What a card is called, and whether that is code. */
export interface ITitle {
  readonly text: string;
  readonly code: boolean;
}

/** What a card is called: what somebody called it, else where a restore went, else the code of its cell, else why it is there. */
export function titleOf(
  commit: CommitView,
  bearings: IBearings,
  trans: TranslationBundle
): ITitle {
  const given = commit.tags[0] || commit.label;
  if (given) {
    return { text: firstLine(given), code: false };
  }
  const target = backTo(commit);
  if (target) {
    const to = bearings.byId.get(target);
    const text = to
      ? trans.__('Back to %1', nameOf(to))
      : trans.__('Back to a snapshot that is gone');
    return { text, code: false };
  }
  const message = firstLine(commit.message);
  if (message) {
    return { text: message, code: false };
  }
  const line = codeLine(commit.cell?.source ?? '');
  return line
    ? { text: line, code: true }
    : { text: reasonText(commit.reason, trans), code: false };
}

/** The cell of a snapshot: `[5] train(model)`; empty if there is none. */
export function cellText(commit: CommitView): string {
  const { cell } = commit;
  if (!cell) {
    return '';
  }
  const number = typeof cell.number === 'number' ? `[${cell.number}] ` : '';
  return `${number}${codeLine(cell.source ?? '')}`.trim();
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
  const title = titleOf(commit, bearings, trans);
  const reason = reasonText(commit.reason, trans);
  const parts = [`${title.text}, ${time}`];
  if (commit.id === bearings.head) {
    parts.push(trans.__('current snapshot of this kernel'));
  }
  if (title.text !== reason) {
    parts.push(reason);
  }
  const cell = title.code ? '' : cellText(commit);
  if (cell) {
    parts.push(trans.__('cell %1', cell));
  }
  if (commit.tags.length > 1) {
    parts.push(trans.__('also called %1', commit.tags.slice(1).join(', ')));
  }
  if (bearings.thread !== null && commit.thread !== bearings.thread) {
    const thread = bearings.threads.get(commit.thread);
    parts.push(trans.__('of %1', thread ? threadTitle(thread) : commit.thread));
  }
  if (!bearings.live.has(commit.id)) {
    parts.push(trans.__('left behind by a restore'));
  }
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

/** Rows of the details: a name and a value. Ids are not among them: nobody looks for those. */
export function facts(
  commit: CommitView,
  trans: TranslationBundle,
  locale?: string
): [string, string][] {
  const number = commit.cell?.number;
  const rows: [string, string | null][] = [
    [trans.__('Taken'), fullTime(new Date(commit.time), locale)],
    [trans.__('Why'), reasonText(commit.reason, trans)],
    [
      trans.__('Label'),
      commit.tags.length && commit.label ? commit.label : null
    ],
    [trans.__('Message'), commit.message || null],
    [trans.__('Cell'), typeof number === 'number' ? `[${number}]` : null],
    [
      trans.__('Size'),
      typeof commit.new_bytes === 'number'
        ? trans.__('%1 (%2 new)', size(commit.bytes), size(commit.new_bytes))
        : size(commit.bytes)
    ],
    [
      trans.__('Kept'),
      commit.elsewhere
        ? trans.__(
            'only in %1; restoring it reads it from there',
            commit.elsewhere
          )
        : null
    ],
    [
      trans.__('Memory'),
      typeof commit.memory_bytes === 'number' ? size(commit.memory_bytes) : null
    ],
    [
      trans.__('GPU memory'),
      commit.vram_bytes ? size(commit.vram_bytes) : null
    ],
    [
      trans.__('Kernel paused'),
      typeof commit.frozen_us === 'number' ? duration(commit.frozen_us) : null
    ],
    [
      trans.__('GPU paused'),
      commit.gpu_paused_us ? duration(commit.gpu_paused_us) : null
    ]
  ];
  return rows.filter((row): row is [string, string] => row[1] !== null);
}
