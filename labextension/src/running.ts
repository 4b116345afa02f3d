/**
 * The section "Suspended kernels" of the Running panel.
 *
 * It lists sessions without processes that can be brought back. The list is asked for when the page has opened its stream
 * of events, and again when an event says that a session was suspended or is not any longer; not on a timer.
 */
import { Notification } from '@jupyterlab/apputils';
import type { IRunningSessions } from '@jupyterlab/running';
import type { TranslationBundle } from '@jupyterlab/translation';
import { deleteIcon } from '@jupyterlab/ui-components';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type { IDeps } from './actions/deps';
import { askForget } from './dialogs';
import { baseName } from './history/format';
import { suspendIcon } from './icons';
import { looseSentence } from './loose';
import type { Model } from './model';
import { asApiError } from './model';
import { showError } from './notify';
import { CommandIDs } from './tokens';
import type { FileNote, ListedSession, SessionView } from './wire';

/** How long news are gathered before the list is asked for again, in milliseconds. */
const GATHER = 300;

/** The section. */
export class SuspendedKernels implements IRunningSessions.IManager {
  readonly name: string;
  readonly shutdownLabel: string;
  readonly shutdownAllLabel: string;
  readonly shutdownItemIcon = deleteIcon;

  constructor(
    private readonly _deps: Pick<IDeps, 'app' | 'documents' | 'model' | 'trans'>
  ) {
    const trans = _deps.trans;
    this.name = trans.__('Suspended kernels');
    this.shutdownLabel = trans.__('Delete this kernel');
    this.shutdownAllLabel = trans.__('Delete All');
    _deps.model.sessionChanged.connect(this._onChanged, this);
  }

  get runningChanged(): ISignal<this, void> {
    return this._runningChanged;
  }

  /** Jupyter asks by itself before all are deleted, and does not wait: so it is told of the files that were found when the list was loaded. */
  shutdownAllConfirmationText = (): string => {
    const trans = this._deps.trans;
    const question = trans.__(
      'Delete all suspended kernels? Their variables are lost; notebooks and snapshots stay.'
    );
    const files = this._sessions.flatMap(one => this._loose.get(one.id) ?? []);
    return files.length
      ? `${question} ${trans.__(
          'Files that no snapshot has are saved in a last one: %1.',
          looseSentence(trans, files)
        )}`
      : question;
  };

  running(): IRunningSessions.IRunningItem[] {
    return this._sessions.map(session => this._item(session));
  }

  refreshRunning(): void {
    void this._load();
  }

  shutdownAll(): void {
    void Promise.all(this._sessions.map(session => this._remove(session)));
  }

  private _item(session: ListedSession): IRunningSessions.IRunningItem {
    const { app, documents } = this._deps;
    const trans: TranslationBundle = this._deps.trans;
    const path = session.path ?? session.name;
    return {
      className: 'jp-Infinijup-suspended',
      context: session.id,
      icon: () => suspendIcon,
      label: () => baseName(path),
      labelTitle: () =>
        trans.__('%1\nClick to resume the kernel and open the notebook.', path),
      detail: () => session.kernel?.kernel_name ?? '',
      open: () => {
        if (session.kernel_id) {
          void app.commands.execute(CommandIDs.resume, {
            kernel_id: session.kernel_id
          });
        }
        if (session.path) {
          documents.openOrReveal(session.path);
        }
      },
      shutdown: () => void this._ask(session)
    };
  }

  private async _ask(session: ListedSession): Promise<void> {
    const name = baseName(session.path ?? session.name);
    const files = await this._looseOf(session);
    if (await askForget(this._deps.trans, name, files)) {
      await this._remove(session);
    }
  }

  private async _remove(session: ListedSession): Promise<void> {
    try {
      const { kept_files: kept } =
        (await this._deps.model.api.removeSession(session.id)) ?? {};
      if (kept) {
        Notification.info(
          this._deps.trans._n(
            '%1 file of the branch was saved in a last snapshot.',
            '%1 files of the branch were saved in a last snapshot.',
            kept.files.length
          ),
          { autoClose: 8000 }
        );
      }
    } catch (error) {
      showError(this._deps.trans, asApiError(error));
    }
    await this._load();
  }

  private _onChanged(_: Model, session: SessionView | null): void {
    const listed = this._sessions.some(one => one.id === session?.id);
    if (session && listed === (session.state === 'suspended')) {
      return;
    }
    if (this._timer === undefined) {
      this._timer = setTimeout(() => {
        this._timer = undefined;
        void this._load();
      }, GATHER);
    }
  }

  private async _load(): Promise<void> {
    try {
      const sessions = await this._deps.model.api.sessions();
      this._sessions = sessions.filter(one => one.state === 'suspended');
    } catch {
      this._sessions = []; // no daemon; the panel of the history says why
    }
    this._runningChanged.emit();
    const listed = this._sessions;
    const loose = await Promise.all(
      listed.map(async one => [one.id, await this._looseOf(one)] as const)
    );
    this._loose = new Map(loose);
  }

  /** The files of a branch that no snapshot has. Any other session works in a directory that stays. */
  private async _looseOf(session: ListedSession): Promise<FileNote[]> {
    if (!session.parent) {
      return [];
    }
    try {
      return (await this._deps.model.api.sessionFiles(session.id)).loose;
    } catch {
      return []; // they are saved all the same
    }
  }

  private readonly _runningChanged = new Signal<this, void>(this);
  private _sessions: ListedSession[] = [];
  private _loose = new Map<string, FileNote[]>();
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
