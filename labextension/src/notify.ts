/**
 * Notifications: what is under way, what happened, what went wrong.
 *
 * An operation has one notification from its beginning to its end. The daemon's job events move it; the answer of the
 * request ends it. JupyterLab shows 140 characters of a message, so what is shown are whole sentences that fit, and the
 * rest is one click away. There is one of a kind at a time. What is no longer so is withdrawn: an error once the same kernel can be worked with again or
 * the service is back, an offer once somebody has taken it.
 */
import { Clipboard, Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Throttler } from '@lumino/polling';
import type { ApiError } from './api';
import { showMessage } from './dialogs';
import { Course } from './history/progress';
import type { IJobChange, IKernelState, Model } from './model';
import { asApiError } from './model';
import type { JobNews, SessionView } from './wire';
import { asSentence, fitting } from './words';

export { asSentence };

/** The least time between two steps of a notification, in milliseconds: steps that are over sooner are not worth a look. */
const STEP = 250;

/** How long a message that needs nothing from anyone stays. */
const SHOWN = 8000;

/** What an operation ends in. */
export interface IEnd {
  message: string;
  type?: 'success' | 'warning' | 'info';
  actions?: Notification.IAction[];
  /** For as long as this is so of the kernel, the message is right; it goes when it is not so any longer. */
  while?: (state: IKernelState) => boolean;
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

/** What ended last of each kind: the next one takes its place, so that they do not pile up over the page. */
const endedOf = new Map<string, string>();

function standAlone(kind: string, id: string | null): void {
  const before = endedOf.get(kind);
  if (before && before !== id) {
    Notification.dismiss(before);
  }
  if (id) {
    endedOf.set(kind, id);
  } else {
    endedOf.delete(kind);
  }
}

/** Errors that are on the screen, by the kernel that they are about. */
const errorsOf = new Map<string, string[]>();

/** Errors that say that somebody did not answer. */
const unanswered = new Set<string>();

/** Shows what is under way and what came of it; `null` if it failed. */
export async function follow<T>(
  model: Model,
  trans: TranslationBundle,
  operation: IOperation<T>
): Promise<T | null> {
  const { kernelId, begin } = operation;
  standAlone(operation.kinds[0], null);
  const id = Notification.emit(trans.__('%1 …', begin), 'in-progress', {
    autoClose: false
  });
  const course = new Course();
  let last: JobNews | null = null;
  const moved = new Throttler(
    () => {
      if (last) {
        const { words } = course.follow(last, trans);
        const line = begin.startsWith(words) ? begin : `${begin}: ${words}`;
        Notification.update({ id, message: trans.__('%1 …', line) });
      }
    },
    { limit: STEP, edge: 'trailing' }
  );
  const onJob = (_: Model, { kernelId: of, job }: IJobChange) => {
    if (
      of === kernelId &&
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
    const { shown, rest } = fitting(end.message);
    Notification.update({
      id,
      message: shown || trans.__('Done.'),
      type: end.type ?? 'success',
      autoClose: end.type === 'warning' ? false : SHOWN,
      actions: [
        ...(rest ? [readAll(trans, end.message)] : []),
        ...(end.actions ?? [])
      ]
    });
    standAlone(operation.kinds[0], id);
    errorsOf.get(kernelId)?.forEach(error => Notification.dismiss(error));
    errorsOf.delete(kernelId);
    if (end.while) {
      withdrawWhen(model, kernelId, id, end.while);
    }
    return result;
  } catch (thrown) {
    const error = asApiError(thrown);
    Notification.dismiss(id);
    if (!operation.handled?.(error)) {
      const shown = showError(trans, error);
      errorsOf.set(kernelId, [...(errorsOf.get(kernelId) ?? []), shown]);
    }
    return null;
  } finally {
    model.jobChanged.disconnect(onJob);
  }
}

/** Takes a notification away once what it says was so and is not so any longer. */
function withdrawWhen(
  model: Model,
  kernelId: string,
  id: string,
  holds: (state: IKernelState) => boolean
): void {
  // The event may come after the answer.
  let wasSo = false;
  const look = () => {
    const isSo = holds(model.state(kernelId));
    if (wasSo && !isSo) {
      Notification.dismiss(id);
      model.changed.disconnect(look);
    }
    wasSo ||= isSo;
  };
  model.changed.connect(look);
  look();
}

/** Errors of a service that did not answer go when it answers again. */
export function withdrawWhenBack(model: Model): void {
  const withdraw = () => {
    unanswered.forEach(id => Notification.dismiss(id));
    unanswered.clear();
  };
  model.awayChanged.connect((_, away) => {
    if (!away) {
      withdraw();
    }
  });
  // The stream of events was opened anew: the Jupyter server is back.
  model.sessionChanged.connect((_, session: SessionView | null) => {
    if (!session && !model.away) {
      withdraw();
    }
  });
}

/** Shows an error with the way out; the id of its notification. */
export function showError(
  trans: TranslationBundle,
  error: ApiError,
  what?: string
): string {
  const sentence = sentenceOf(trans, error, what);
  const whole = error.hint ? `${sentence} ${asSentence(error.hint)}` : sentence;
  const { shown, rest } = fitting(whole);
  const actions: Notification.IAction[] = [];
  if (rest) {
    actions.push({
      label: trans.__('What to do…'),
      caption: trans.__('Show the whole message and the way out'),
      displayType: 'accent',
      callback: () =>
        void showMessage(trans, trans.__('This did not work'), whole, error)
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
  const id = Notification.error(shown || trans.__('This did not work.'), {
    autoClose: false,
    actions
  });
  standAlone(`error ${whole}`, id);
  if (['daemon-away', 'server-away'].includes(error.code)) {
    unanswered.add(id);
  }
  return id;
}

function readAll(
  trans: TranslationBundle,
  message: string
): Notification.IAction {
  return {
    label: trans.__('Read all'),
    caption: trans.__('Show the whole message'),
    displayType: 'link',
    callback: () => void showMessage(trans, trans.__('What happened'), message)
  };
}

/** The daemon's sentence, or ours where nobody answered. */
function sentenceOf(
  trans: TranslationBundle,
  error: ApiError,
  what?: string
): string {
  if (error.code === 'server-away') {
    return trans.__(
      'The Jupyter server did not answer. Check that it runs, then try again.'
    );
  }
  if (error.status === 403) {
    return trans.__('You are not allowed to do this on this server.');
  }
  if (error.code === 'daemon-away') {
    return trans.__(
      'The snapshot service does not answer. Your kernels run on.'
    );
  }
  const sentence = asSentence(error.message);
  return what ? `${what}: ${sentence}` : sentence;
}
