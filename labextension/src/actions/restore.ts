/**
 * Bringing a kernel back, with its notebook or alone.
 *
 * The daemon takes an automatic snapshot of now before it overwrites anything, so a restore can always be undone; the
 * question beforehand says what goes away all the same. A restore that somebody else did (another tab, the magic, the
 * command line) reaches this page as an event: the page then only lets a running cell go on and offers to put the
 * notebook back, as it cannot know whether that is wanted.
 */
import { Notification } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { ReadonlyJSONObject } from '@lumino/coreutils';
import { JSONExt } from '@lumino/coreutils';
import type { ApiError } from '../api';
import { putShown, shownIn } from '../cells/shown';
import { cellChanges, outputsOf } from '../changes';
import type { FilesChoice, RestoreMode } from '../dialogs';
import { askForce, askRestore } from '../dialogs';
import { contentOf, keep, putBack } from '../document';
import { nameOf } from '../format';
import type { IRestored, Model } from '../model';
import { asApiError } from '../model';
import type { ITarget } from '../notebooks';
import { asSentence, follow, showError } from '../notify';
import { endQuestions } from '../questions';
import { Recorder, Rejoined } from '../rejoin';
import type { CommitView, RollbackOutcome } from '../wire';
import type { IDeps } from './deps';

/** A restore after which some cells show what they showed then, and nothing else of the notebook changes. */
export interface ICellsBack {
  /** What is under way, and what was done. */
  begin: string;
  end: string;
  cells: readonly string[];
  put: (panel: NotebookPanel) => void;
}

/** How long the event that names the running cell may come after the answer, in milliseconds. */
const EVENT_LATER = 1500;

/** Restores, and follows those of others. */
export class Restorer {
  constructor(private readonly _deps: IDeps) {
    _deps.model.restored.connect(this._onRestored, this);
  }

  /** Brings a kernel back to a snapshot. Without `mode` it asks. */
  async restore(
    target: ITarget,
    commit: CommitView,
    mode?: RestoreMode
  ): Promise<RollbackOutcome | null> {
    const { trans } = this._deps;
    const { panel } = target;
    let content: ReadonlyJSONObject | null = null;
    try {
      content = panel ? await this._notebookOf(commit) : null;
    } catch (error) {
      showError(trans, asApiError(error));
      return null;
    }
    const chosen =
      mode ??
      (await askRestore(trans, {
        commit,
        changes:
          panel && content ? cellChanges(contentOf(panel), content) : null,
        busy:
          (panel?.sessionContext.session?.kernel?.status ??
            target.state.session?.activity?.state) === 'busy'
      }));
    if (!chosen) {
      return null;
    }
    return this._restore(target, commit, content, chosen, null);
  }

  /** Brings a kernel back, and with it what some cells show. Their sources stay as they are. */
  restoreCells(
    target: ITarget,
    commit: CommitView,
    cells: ICellsBack
  ): Promise<RollbackOutcome | null> {
    return this._restore(target, commit, null, 'kernel', null, cells);
  }

  private async _restore(
    target: ITarget,
    commit: CommitView,
    content: ReadonlyJSONObject | null,
    mode: RestoreMode,
    files: FilesChoice | null,
    cells?: ICellsBack
  ): Promise<RollbackOutcome | null> {
    const { model, trans } = this._deps;
    const { kernelId, panel } = target;
    const wait = this._expect(target);
    let changed: ApiError | null = null;
    const outcome = await follow(model, trans, {
      kernelId,
      kinds: ['rollback', 'resume'],
      begin: cells?.begin ?? trans.__('Restoring %1', nameOf(commit)),
      work: async () => {
        const answer = await model.api.restore({
          kernel_id: kernelId,
          to: commit.id,
          ...(files === 'overwrite' ? { force: true } : {}),
          ...(files === 'keep' ? { files: false } : {}),
          ...(panel ? { notebook: contentOf(panel) } : {})
        });
        if (panel && !panel.isDisposed) {
          // The kernel is back whatever happens to the document.
          const wanted = mode === 'both' ? content : null;
          await this._document(panel, wanted, cells).catch(error => {
            answer.warnings = [
              ...(answer.warnings ?? []),
              trans.__(
                'The notebook could not be saved: %1',
                asSentence(asApiError(error).message)
              )
            ];
          });
        }
        return answer;
      },
      end: answer => ({
        message: this._said(
          commit,
          answer,
          mode === 'both' && !!content,
          cells
        ),
        type: answer.warnings?.length ? 'warning' : 'success',
        actions: answer.automatic
          ? [this._undo(target, answer.automatic, mode, cells)]
          : []
      }),
      handled: error => {
        if (isOthers(error) && !files) {
          changed = error;
        }
        return !!changed;
      }
    });
    const others = changed as ApiError | null;
    if (others) {
      wait.give();
      const choice = await askForce(trans, others.files);
      return choice
        ? this._restore(target, commit, content, mode, choice, cells)
        : null;
    }
    if (outcome) {
      void wait.event(EVENT_LATER).then(event => {
        if (event && panel && !panel.isDisposed) {
          void this._goOn(panel, event, content);
        }
      });
    } else {
      wait.give();
    }
    return outcome;
  }

  /** Puts the notebook back or keeps it, whatever happened to the file. */
  private async _document(
    panel: NotebookPanel,
    content: ReadonlyJSONObject | null,
    cells?: ICellsBack
  ): Promise<void> {
    const { contents } = this._deps.app.serviceManager;
    if (cells) {
      await keep(panel, contents);
      cells.put(panel);
      await panel.context.save();
      return;
    }
    if (!content || JSONExt.deepEqual(content, contentOf(panel))) {
      await keep(panel, contents);
      return;
    }
    const active = panel.content.activeCell?.model.id;
    await putBack(panel, contents, content);
    const at = panel.content.widgets.findIndex(
      cell => cell.model.id === active
    );
    if (at >= 0) {
      panel.content.activeCellIndex = at;
    }
  }

  private _said(
    commit: CommitView,
    outcome: RollbackOutcome,
    both: boolean,
    cells?: ICellsBack
  ): string {
    const { trans } = this._deps;
    const name = nameOf(commit);
    const line = both
      ? trans.__('Kernel and notebook are back at %1.', name)
      : trans.__('The kernel is back at %1.', name);
    const spared = outcome.spared?.length ?? 0;
    return [
      cells?.end ?? line,
      ...(spared
        ? [
            trans._n(
              '%1 file that someone else changed was left as it is.',
              '%1 files that someone else changed were left as they are.',
              spared
            )
          ]
        : []),
      ...(outcome.warnings ?? []).map(asSentence)
    ].join(' ');
  }

  private _undo(
    target: ITarget,
    automatic: string,
    mode: RestoreMode,
    cells?: ICellsBack
  ): Notification.IAction {
    const { trans } = this._deps;
    return {
      label: trans.__('Undo'),
      caption: trans.__('Go back to how it was before this restore'),
      displayType: 'accent',
      callback: () =>
        void this.byId(automatic).then<unknown>(commit =>
          cells
            ? this._cellsAgain(target, commit, cells)
            : this.restore(target, commit, mode)
        )
    };
  }

  /** Takes back that cells were taken back: they show again what they showed before. */
  private async _cellsAgain(
    target: ITarget,
    commit: CommitView,
    { cells }: ICellsBack
  ): Promise<void> {
    const { trans } = this._deps;
    try {
      const content = await this._notebookOf(commit);
      const then = content ? shownIn(content, cells) : new Map();
      await this.restoreCells(target, commit, {
        begin: trans.__('Going back'),
        end: trans.__('Kernel and outputs are as they were.'),
        cells,
        put: panel => putShown(panel, then)
      });
    } catch (error) {
      showError(trans, asApiError(error));
    }
  }

  /** A commit by its id, whether a history that is kept has it or not. */
  async byId(id: string): Promise<CommitView> {
    return (
      this._deps.model.commit(id) ?? {
        id,
        parents: [],
        thread: '',
        tags: [],
        time: new Date().toISOString(),
        reason: '',
        message: '',
        bytes: 0,
        has_notebook: true
      }
    );
  }

  private async _notebookOf(
    commit: CommitView
  ): Promise<ReadonlyJSONObject | null> {
    if (commit.has_notebook === false) {
      return null;
    }
    try {
      return await this._deps.model.api.notebook(commit.id);
    } catch (error) {
      if (asApiError(error).status === 404) {
        return null;
      }
      throw error;
    }
  }

  /** From now on, the restore of this kernel is this page's own. */
  private _expect({ kernelId, panel }: ITarget): Expected {
    const kernel = panel?.sessionContext.session?.kernel;
    const recorder = kernel && panel ? new Recorder(kernel, panel) : null;
    this._own.set(kernelId, recorder);
    return new Expected(this._deps.model, kernelId, () => {
      this._own.delete(kernelId);
      recorder?.dispose();
    });
  }

  private _onRestored(_: Model, event: IRestored): void {
    const { notebooks, trans } = this._deps;
    const panel = notebooks.find(event.kernelId);
    if (!panel) {
      return;
    }
    const kernel = panel.sessionContext.session?.kernel;
    endQuestions(panel, event.runningCell?.cell_id ?? null);
    this._rejoined.get(event.kernelId)?.dispose();
    this._rejoined.delete(event.kernelId);
    if (event.runningCell && kernel) {
      this._rejoined.set(
        event.kernelId,
        new Rejoined(
          kernel,
          event.runningCell,
          this._own.get(event.kernelId)?.of(event.runningCell.msg_id)
        )
      );
    }
    if (this._own.has(event.kernelId)) {
      return; // `_restore` goes on with it once the document is in place
    }
    void this._goOn(panel, event);
    const commit = this._deps.model.commit(event.commit);
    const line = commit
      ? trans.__('The kernel was brought back to %1.', nameOf(commit))
      : trans.__('The kernel was brought back to an earlier snapshot.');
    Notification.info(line, {
      autoClose: event.notebook ? false : 8000,
      actions: event.notebook
        ? [
            {
              label: trans.__('Put the notebook back too'),
              caption: trans.__(
                'Replace the cells of this page by those of the snapshot'
              ),
              displayType: 'accent',
              callback: () => void this._putBackToo(panel, event)
            }
          ]
        : []
    });
  }

  private async _putBackToo(
    panel: NotebookPanel,
    event: IRestored
  ): Promise<void> {
    try {
      const content = await this._deps.model.api.notebook(event.commit);
      if (!panel.isDisposed) {
        await this._document(panel, content);
      }
    } catch (error) {
      showError(this._deps.trans, asApiError(error));
    }
  }

  /** Lets the cell that the kernel goes on with go on in the page. */
  private async _goOn(
    panel: NotebookPanel,
    event: IRestored,
    known: ReadonlyJSONObject | null = null
  ): Promise<void> {
    const rejoined = this._rejoined.get(event.kernelId);
    if (!rejoined) {
      return;
    }
    let outputs: unknown[] | null = null;
    const cellId = rejoined.running.cell_id;
    if (cellId && event.notebook) {
      try {
        outputs = outputsOf(
          known ?? (await this._deps.model.api.notebook(event.commit)),
          cellId
        );
      } catch {
        // Then what the cell shows stays, and some of it comes again.
      }
    }
    if (panel.isDisposed || rejoined.isDisposed) {
      return;
    }
    if (!rejoined.attach(panel, outputs)) {
      Notification.info(
        this._deps.trans.__(
          'The kernel goes on with a cell that is not in this notebook; its output cannot be shown.'
        ),
        { autoClose: 8000 }
      );
    }
  }

  private readonly _own = new Map<string, Recorder | null>();
  private readonly _rejoined = new Map<string, Rejoined>();
}

/** Whether a restore was refused because others changed files; `files` has them. */
function isOthers(error: ApiError): boolean {
  return error.code === 'IJ-L030';
}

/** The event of a restore that this page asked for. */
class Expected {
  constructor(
    private readonly _model: Model,
    private readonly _kernelId: string,
    private readonly _end: () => void
  ) {
    _model.restored.connect(this._on, this);
    this._came = new Promise(resolve => {
      this._resolve = resolve;
    });
  }

  /** The event; `null` if it does not come in time. */
  async event(ms: number): Promise<IRestored | null> {
    const timer = setTimeout(() => this._resolve(null), ms);
    const event = await this._came;
    clearTimeout(timer);
    this.give();
    return event;
  }

  /** Does not wait any longer. */
  give(): void {
    this._model.restored.disconnect(this._on, this);
    this._end();
  }

  private _on(_: Model, event: IRestored): void {
    if (event.kernelId === this._kernelId) {
      this._resolve(event);
    }
  }

  private readonly _came: Promise<IRestored | null>;
  private _resolve: (event: IRestored | null) => void = () => undefined;
}
