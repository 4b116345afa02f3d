/** The questions that are asked before something is done. */
import {
  Clipboard,
  Dialog,
  ReactWidget,
  showDialog
} from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import type { ApiError } from './api';
import type { ICellChanges } from './changes';
import { isEmpty } from './changes';
import { cut, nameOf, time } from './format';
import { plain, size } from './history/format';
import { looseLines } from './loose';
import type { CommitView, FileNote, SnapshotFiles, Text } from './wire';

/** What is brought back. */
export type RestoreMode = 'both' | 'kernel';

/** So many lines of a list are shown. */
const LINES = 6;

/** The body of a dialog, marked so that styles and tests find it. */
abstract class Body extends ReactWidget {
  constructor(name: string) {
    super();
    this.addClass('jp-Infinijup-dialog');
    this.node.dataset.infinijupDialog = name;
  }
}

/** A list that says how much of it is left out. */
function Lines(props: {
  trans: TranslationBundle;
  lines: readonly string[];
}): JSX.Element {
  const { trans, lines } = props;
  const left = lines.length - LINES;
  return (
    <ul>
      {lines.slice(0, LINES).map((line, index) => (
        <li key={index}>
          <code>{cut(line, 80)}</code>
        </li>
      ))}
      {left > 0 && <li>{trans._n('and %1 more', 'and %1 more', left)}</li>}
    </ul>
  );
}

/** What a restore dialog needs to know. */
export interface IRestoreQuestion {
  commit: CommitView;
  /** How the page's cells differ; `null` if the snapshot has no notebook or the page none. */
  changes: ICellChanges | null;
  busy: boolean;
}

class RestoreBody extends Body implements Dialog.IBodyWidget<RestoreMode> {
  constructor(
    private readonly _trans: TranslationBundle,
    private readonly _question: IRestoreQuestion
  ) {
    super('restore');
    this._mode = _question.changes ? 'both' : 'kernel';
  }

  getValue(): RestoreMode {
    return this._mode;
  }

  protected render(): JSX.Element {
    const trans = this._trans;
    const { commit, changes, busy } = this._question;
    const choose = (mode: RestoreMode) => {
      this._mode = mode;
      this.update();
    };
    return (
      <>
        <p>
          {trans.__(
            'The kernel and the files it has open go back to how they were at %1. What ran since then is undone.',
            time(commit.time, new Date())
          )}
        </p>
        {busy && <p>{trans.__('The cell that runs now is stopped.')}</p>}
        <fieldset>
          <legend>{trans.__('Bring back')}</legend>
          <label>
            <input
              type="radio"
              name="infinijup-restore"
              value="both"
              checked={this._mode === 'both'}
              disabled={!changes}
              onChange={() => choose('both')}
            />
            {trans.__('Kernel and notebook')}
          </label>
          <label>
            <input
              type="radio"
              name="infinijup-restore"
              value="kernel"
              checked={this._mode === 'kernel'}
              onChange={() => choose('kernel')}
            />
            {trans.__('Kernel alone; the notebook stays as it is')}
          </label>
        </fieldset>
        {!changes && (
          <p className="jp-Infinijup-quiet">
            {trans.__(
              'The notebook was not saved with this snapshot, so only the kernel goes back.'
            )}
          </p>
        )}
        {changes && this._mode === 'both' && this._lost(changes)}
        <p className="jp-Infinijup-quiet">
          {trans.__('The current state is saved first, so you can undo this.')}
        </p>
      </>
    );
  }

  private _lost(changes: ICellChanges): JSX.Element {
    const trans = this._trans;
    if (isEmpty(changes)) {
      return <p>{trans.__('No cell was edited since.')}</p>;
    }
    const parts: [string, string[]][] = [
      [
        trans._n(
          '%1 cell added since then goes away:',
          '%1 cells added since then go away:',
          changes.added.length
        ),
        changes.added
      ],
      [
        trans._n(
          '%1 cell edited since then goes back:',
          '%1 cells edited since then go back:',
          changes.edited.length
        ),
        changes.edited
      ],
      [
        trans._n(
          '%1 cell removed since then comes back:',
          '%1 cells removed since then come back:',
          changes.removed.length
        ),
        changes.removed
      ]
    ];
    return (
      <>
        {parts
          .filter(([, lines]) => lines.length > 0)
          .map(([title, lines]) => (
            <div key={title}>
              {title}
              <Lines trans={trans} lines={lines} />
            </div>
          ))}
      </>
    );
  }

  private _mode: RestoreMode;
}

/** Asks before a restore; `null` if it is not wanted. */
export async function askRestore(
  trans: TranslationBundle,
  question: IRestoreQuestion
): Promise<RestoreMode | null> {
  const result = await showDialog<RestoreMode>({
    title: trans.__('Restore %1?', nameOf(question.commit)),
    body: new RestoreBody(trans, question),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: trans.__('Restore') })
    ],
    defaultButton: 1,
    focusNodeSelector: 'button.jp-mod-accept'
  });
  return result.button.accept ? (result.value ?? 'kernel') : null;
}

class ListBody extends Body {
  constructor(
    name: string,
    private readonly _trans: TranslationBundle,
    private readonly _before: string,
    private readonly _lines: readonly string[],
    private readonly _after: string
  ) {
    super(name);
  }

  protected render(): JSX.Element {
    return (
      <>
        <p>{this._before}</p>
        <Lines trans={this._trans} lines={this._lines} />
        <p className="jp-Infinijup-quiet">{this._after}</p>
      </>
    );
  }
}

/** What becomes of files that a restore would overwrite. */
export type FilesChoice = 'keep' | 'overwrite';

/** Asks what shall become of files that are in no snapshot; `null` if nothing is to be done. */
export async function askForce(
  trans: TranslationBundle,
  files: readonly Text[]
): Promise<FilesChoice | null> {
  const keep = trans.__('Keep These Files');
  const result = await showDialog({
    title: trans.__('Keep these files?'),
    body: new ListBody(
      'force',
      trans,
      trans._n(
        '%1 file would be overwritten, and no snapshot has it as it is now:',
        '%1 files would be overwritten, and no snapshot has them as they are now:',
        files.length
      ),
      files.map(plain),
      trans.__(
        'Keep: the kernel goes back and all files stay as they are; this fails if the kernel had one of them open. Overwrite: the files go back too.'
      )
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.createButton({ label: keep, accept: true }),
      Dialog.warnButton({ label: trans.__('Overwrite') })
    ],
    defaultButton: 1
  });
  if (!result.button.accept) {
    return null;
  }
  return result.button.label === keep ? 'keep' : 'overwrite';
}

/** Asks before snapshots are deleted. */
export async function askDelete(
  trans: TranslationBundle,
  commits: readonly (CommitView | null)[]
): Promise<boolean> {
  const tagged = commits.some(commit => !!commit?.tags.length);
  const after = trans.__('This cannot be undone.');
  const result = await showDialog({
    title: trans._n(
      'Delete %1 snapshot?',
      'Delete %1 snapshots?',
      commits.length
    ),
    body: new ListBody(
      'delete',
      trans,
      trans._n(
        'This snapshot will be deleted:',
        'These snapshots will be deleted:',
        commits.length
      ),
      commits.map(commit =>
        commit ? nameOf(commit) : trans.__('a snapshot that is not shown here')
      ),
      tagged ? `${after} ${trans.__('The tags go too.')}` : after
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.warnButton({ label: trans.__('Delete') })
    ],
    defaultButton: 0
  });
  return result.button.accept;
}

/** Asks before the files of a snapshot are copied; where it has none, says so. */
export async function askCopy(
  trans: TranslationBundle,
  { files, count, bytes }: SnapshotFiles
): Promise<boolean> {
  if (count === 0) {
    await showMessage(
      trans,
      trans.__('This snapshot has no files'),
      trans.__(
        'Snapshots have the files that the kernel has open, unless its settings say more.'
      )
    );
    return false;
  }
  const result = await showDialog({
    title: trans._n('Copy %1 file?', 'Copy %1 files?', count),
    body: new ListBody(
      'copy-files',
      trans,
      trans.__(
        'These files as they were at the snapshot, %1 in all:',
        size(bytes)
      ),
      files.map(file => plain(file.path)),
      trans.__(
        'They are copied into the folder of the notebook. Nothing is overwritten: where a name is taken, the copy gets a number.'
      )
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: trans.__('Copy') })
    ]
  });
  return result.button.accept;
}

/** Asks before a session without processes is deleted; `files` are those that no snapshot has. */
export async function askForget(
  trans: TranslationBundle,
  name: string,
  files: readonly FileNote[]
): Promise<boolean> {
  const lost = trans.__(
    'The variables of %1 are lost. The notebook and the snapshots stay.',
    name
  );
  const result = await showDialog({
    title: trans.__('Delete this suspended kernel?'),
    body: new ListBody(
      'forget',
      trans,
      files.length
        ? `${lost} ${trans._n(
            '%1 file is in no snapshot:',
            '%1 files are in no snapshot:',
            files.length
          )}`
        : lost,
      looseLines(files),
      files.length
        ? trans._n(
            'It is saved in a last snapshot, from which it can be copied.',
            'They are saved in a last snapshot, from which they can be copied.',
            files.length
          )
        : trans.__('This cannot be undone.')
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.warnButton({ label: trans.__('Delete') })
    ],
    defaultButton: 0
  });
  return result.button.accept;
}

/** What a line of text must be. */
export interface ITextRule {
  holds: (text: string) => boolean;
  /** What is said where it does not hold. */
  words: string;
}

class TextBody extends Body implements Dialog.IBodyWidget<string> {
  constructor(
    name: string,
    private readonly _label: string,
    private readonly _hint: string,
    private readonly _rule: ITextRule | null,
    private _value: string
  ) {
    super(name);
  }

  getValue(): string {
    return this._value.trim();
  }

  protected render(): JSX.Element {
    return (
      <label className="jp-Infinijup-text">
        {this._label}
        <input
          type="text"
          className="jp-mod-styled"
          maxLength={200}
          defaultValue={this._value}
          onChange={event => {
            this._value = event.target.value;
            this.update();
          }}
        />
        <span className="jp-Infinijup-quiet" aria-live="polite">
          {this._isBroken() ? this._rule?.words : this._hint}
        </span>
      </label>
    );
  }

  private _isBroken(): boolean {
    const text = this.getValue();
    return text !== '' && this._rule !== null && !this._rule.holds(text);
  }
}

/** Asks for a line of text; `null` if none was given. */
export async function askText(
  trans: TranslationBundle,
  name: string,
  title: string,
  label: string,
  accept: string,
  hint = '',
  rule: ITextRule | null = null,
  value = ''
): Promise<string | null> {
  const result = await showDialog<string>({
    title,
    body: new TextBody(name, label, hint, rule, value),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: accept })
    ],
    focusNodeSelector: 'input[type=text]'
  });
  return result.button.accept ? result.value || null : null;
}

/** Asks whether a name goes from the snapshot that has it to another. */
export async function askMove(
  trans: TranslationBundle,
  name: string
): Promise<boolean> {
  const result = await showDialog({
    title: trans.__('“%1” is the name of another snapshot', name),
    body: trans.__('It can be given to this one instead. The other stays.'),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: trans.__('Move the Name Here') })
    ]
  });
  return result.button.accept;
}

class MessageBody extends Body {
  constructor(
    private readonly _message: string,
    private readonly _code: string | null
  ) {
    super('message');
  }

  protected render(): JSX.Element {
    return (
      <>
        <p>{this._message}</p>
        {this._code && <p className="jp-Infinijup-quiet">{this._code}</p>}
      </>
    );
  }
}

/** A message that is too long for a notification; of an error, everything can be copied. */
export async function showMessage(
  trans: TranslationBundle,
  title: string,
  message: string,
  error?: ApiError
): Promise<void> {
  const copy = trans.__('Copy Details');
  const close = Dialog.okButton({ label: trans.__('Close') });
  const result = await showDialog({
    title,
    body: new MessageBody(message, error?.code ?? null),
    buttons: error ? [Dialog.createButton({ label: copy }), close] : [close],
    defaultButton: error ? 1 : 0
  });
  if (error && result.button.label === copy) {
    Clipboard.copyToSystem(error.details);
  }
}
