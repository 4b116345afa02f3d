/**
 * What the History panel shows, and nothing of where it comes from.
 *
 * The panel asks for nothing by itself: it draws `state`, draws again when `changed` is emitted, and sends the user's
 * wishes as commands. So an open panel that nobody touches costs no request.
 */
import type { ISignal } from '@lumino/signaling';
import type { CommitView, JobNews, SessionView, ThreadView } from '../wire';

/** A server that the kernel runs. */
export interface IServerLink {
  /** As the kernel sees it. */
  readonly port: number;
  /** Where this page finds it; `null` if it cannot. */
  readonly url: string | null;
}

/** The history of the notebook in front. */
export interface IHistoryState {
  /** `none`: no notebook is in front, or its kernel has no history; `error` says why a history could not be read. */
  readonly status: 'none' | 'loading' | 'ready' | 'error';
  readonly kernelId: string | null;
  /** The notebook. */
  readonly path: string | null;
  readonly session: SessionView | null;
  /** Why this kernel has no history, with the way out. */
  readonly whyNot: string | null;
  /** Newest first; a snapshot never comes before one that was made from it. */
  readonly commits: readonly CommitView[];
  readonly threads: readonly ThreadView[];
  readonly servers: readonly IServerLink[];
  /** What is under way for this kernel. */
  readonly job: JobNews | null;
  /** Whether the daemon cannot be reached. */
  readonly away: boolean;
  readonly error: {
    readonly message: string;
    readonly hint: string | null;
  } | null;
}

/** Whoever knows the history of the notebook in front. */
export interface IHistorySource {
  /** Emitted when `state` is another. */
  readonly changed: ISignal<unknown, void>;
  readonly state: IHistoryState;
  /** Reads the history again, because the user asked for it. */
  refresh(): Promise<void>;
  /** Says whether anybody looks: what nobody looks at need not be read. */
  setVisible(visible: boolean): void;
}
