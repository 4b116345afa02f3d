/**
 * Notifications: what is under way, what happened, what went wrong.
 *
 * An operation has one notification from its beginning to its end. The daemon's job events move it; the answer of the
 * request ends it. An error is one sentence, followed by the hint where it fits; the rest can be copied.
 */
import {
  Clipboard,
  Dialog,
  Notification,
  showDialog
} from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Throttler } from '@lumino/polling';
import type { ApiError } from './api';
import { cut } from './format';
import type { IJobChange, Model } from './model';
import { asApiError } from './model';
import type { JobNews } from './wire';

/** JupyterLab cuts longer messages. */
const LONGEST = 140;

/** The least time between two steps of a notification, in milliseconds: steps that are over sooner are not worth a look. */
const STEP = 250;

/** How long a message that needs nothing from anyone stays. */
const SHOWN = 8000;

/** What an operation ends in. */
export interface IEnd {
  message: string;
  type?: 'success' | 'warning' | 'info';
  actions?: Notification.IAction[];
}

/** An operation that a notification follows. */
export interface IOperation<T> {
  kernelId: string;
  /** The kinds of the daemon's jobs that belong to it. */
  kinds: readonly string[];
  /** What is under way. */
  begin: string;
  work: () => Promise<T>;
  end: (result: T) => IEnd;
  /** Says whether an error was dealt with; the notification goes away then. */
  handled?: (error: ApiError) => boolean;
}

/** Shows what is under way and what came of it; `null` if it failed. */
export async function follow<T>(
  model: Model,
  trans: TranslationBundle,
  operation: IOperation<T>
): Promise<T | null> {
  const id = Notification.emit(operation.begin, 'in-progress', {
    autoClose: false
  });
  let last: JobNews | null = null;
  const moved = new Throttler(
    () => {
      if (last) {
        const share = progressOf(last);
        Notification.update({
          id,
          message: cut(stepLine(operation.begin, last), LONGEST),
          ...(share === null ? {} : { progress: share })
        });
      }
    },
    { limit: STEP, edge: 'trailing' }
  );
  const onJob = (_: Model, { kernelId, job }: IJobChange) => {
    if (
      kernelId === operation.kernelId &&
      job.state === 'running' &&
      operation.kinds.includes(job.kind ?? '')
    ) {
      last = job;
      void moved.invoke();
    }
  };
  model.jobChanged.connect(onJob);
  try {
    const result = await operation.work().finally(() => moved.dispose());
    const end = operation.end(result);
    Notification.update({
      id,
      message: cut(end.message, LONGEST),
      type: end.type ?? 'success',
      autoClose: end.type === 'warning' ? false : SHOWN,
      actions: end.actions ?? []
    });
    return result;
  } catch (thrown) {
    const error = asApiError(thrown);
    Notification.dismiss(id);
    if (!operation.handled?.(error)) {
      showError(trans, error);
    }
    return null;
  } finally {
    model.jobChanged.disconnect(onJob);
  }
}

/** Shows an error with the way out. */
export function showError(
  trans: TranslationBundle,
  error: ApiError,
  what?: string
): void {
  const sentence = sentenceOf(trans, error, what);
  const hint = error.hint ? asSentence(error.hint) : '';
  const both = hint ? `${sentence} ${hint}` : sentence;
  const actions: Notification.IAction[] = [];
  if (both.length > LONGEST) {
    actions.push({
      label: trans.__('What to do…'),
      caption: trans.__('Show the whole message and the way out'),
      displayType: 'accent',
      callback: () => void explain(trans, error, sentence, hint)
    });
  }
  actions.push({
    label: trans.__('Copy details'),
    caption: trans.__('Copy what is known about this error'),
    displayType: 'link',
    callback: event => {
      event.preventDefault();
      Clipboard.copyToSystem(error.details);
    }
  });
  Notification.error(both.length > LONGEST ? cut(sentence, LONGEST) : both, {
    autoClose: false,
    actions
  });
}

/** The daemon's sentence, or ours where nobody answered. */
function sentenceOf(
  trans: TranslationBundle,
  error: ApiError,
  what?: string
): string {
  if (error.code === 'server-away') {
    return trans.__('The Jupyter server did not answer.');
  }
  if (error.status === 403) {
    return trans.__('You are not allowed to do this on this server.');
  }
  const sentence = asSentence(error.message);
  return what ? `${what}: ${sentence}` : sentence;
}

/** The daemon's messages are in lower case without a full stop; people get a sentence. */
export function asSentence(message: string): string {
  const line = message.trim();
  if (!line) {
    return line;
  }
  const first = line[0].toUpperCase() + line.slice(1);
  return /[.!?…]$/.test(first) ? first : `${first}.`;
}

async function explain(
  trans: TranslationBundle,
  error: ApiError,
  sentence: string,
  hint: string
): Promise<void> {
  const result = await showDialog({
    title: trans.__('infinijup: %1', error.code),
    body: hint ? `${sentence}\n\n${hint}` : sentence,
    buttons: [
      Dialog.createButton({ label: trans.__('Copy Details') }),
      Dialog.okButton({ label: trans.__('Close') })
    ],
    defaultButton: 1
  });
  if (result.button.label === trans.__('Copy Details')) {
    Clipboard.copyToSystem(error.details);
  }
}

function progressOf(job: JobNews): number | null {
  return typeof job.done === 'number' && job.total
    ? Math.min(1, job.done / job.total)
    : null;
}

function stepLine(begin: string, job: JobNews): string {
  const share = progressOf(job);
  const percent = share === null ? '' : ` ${Math.floor(share * 100)}\u00a0%`;
  return job.step ? `${begin} (${job.step}${percent})` : begin + percent;
}
