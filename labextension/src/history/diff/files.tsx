/**
 * Files that differ. Each opens to the lines that changed, which are asked for only then.
 */
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { asSentence } from '../../words';
import type { CommitView, Diff, FileDiff, FileText } from '../../wire';
import { plain, size } from '../format';
import { lineDiff, unified } from './lines';
import { ChangeMark, Nothing, Section, Table } from './parts';

/** Reads a file of a snapshot. */
export type ReadFile = (commit: string, path: string) => Promise<FileText>;

/** A file before and after; `null` on the side where it is not. */
type Both = { before: FileText | null; after: FileText | null };

function bytes(value: number | null | undefined): string {
  return typeof value === 'number' ? size(value) : '–';
}

/** The lines that changed, with a few around them. */
export function FileLines(props: {
  both: Both;
  trans: TranslationBundle;
}): JSX.Element {
  const { before, after } = props.both;
  const { trans } = props;
  const unreadable = [before, after].find(it => it && it.text === null);
  const parts = React.useMemo(() => {
    const lines = lineDiff(before?.text ?? '', after?.text ?? '');
    const last = lines[lines.length - 1];
    // After the end of the last line there is nothing.
    return unified(
      last?.change === 'same' && last.text === '' ? lines.slice(0, -1) : lines
    );
  }, [before, after]);
  if (unreadable) {
    return (
      <Nothing>
        {trans.__('Binary or too long to show, %1.', size(unreadable.bytes))}
      </Nothing>
    );
  }
  return (
    <div className="jp-InfinijupDiff-source jp-InfinijupDiff-file">
      {parts.map((part, index) =>
        'left' in part ? (
          <div key={index} className="jp-mod-none jp-InfinijupDiff-quiet">
            {trans._n(
              '… %1 line is the same',
              '… %1 lines are the same',
              part.left
            )}
          </div>
        ) : (
          <div key={index} className={`jp-mod-${part.change}`}>
            {part.change === 'added' ? (
              <ins>+ {part.text}</ins>
            ) : part.change === 'removed' ? (
              <del>- {part.text}</del>
            ) : (
              `  ${part.text}`
            )}
          </div>
        )
      )}
    </div>
  );
}

function Opened(props: {
  file: FileDiff;
  a: CommitView;
  b: CommitView;
  read: ReadFile;
  trans: TranslationBundle;
}): JSX.Element {
  const { file, a, b, read, trans } = props;
  const [both, setBoth] = React.useState<Both | null>(null);
  const [error, setError] = React.useState<string | null>(null);
  React.useEffect(() => {
    let wanted = true;
    const path = plain(file.path);
    const side = (commit: CommitView, length: number | null | undefined) =>
      typeof length === 'number' ? read(commit.id, path) : null;
    Promise.all([side(a, file.before_bytes), side(b, file.after_bytes)]).then(
      ([before, after]) => wanted && setBoth({ before, after }),
      (reason: unknown) =>
        wanted &&
        setError(reason instanceof Error ? reason.message : String(reason))
    );
    return () => {
      wanted = false;
    };
  }, [file, a, b, read]);
  if (both) {
    return <FileLines both={both} trans={trans} />;
  }
  return (
    <Nothing>
      {error === null ? trans.__('Reading the file …') : asSentence(error)}
    </Nothing>
  );
}

function Row(props: {
  file: FileDiff;
  a: CommitView;
  b: CommitView;
  read: ReadFile;
  trans: TranslationBundle;
}): JSX.Element {
  const { file, trans } = props;
  const [open, setOpen] = React.useState(false);
  const path = plain(file.path);
  return (
    <>
      <tr data-infinijup-file={path} data-infinijup-change={file.change}>
        <th scope="row">
          <button
            type="button"
            className="jp-InfinijupDiff-fold"
            aria-expanded={open}
            title={trans.__('Show what changed in this file')}
            onClick={() => setOpen(!open)}
          >
            <span aria-hidden="true">{open ? '▾' : '▸'}</span>{' '}
            <code>{path}</code>
          </button>
        </th>
        <td className="jp-InfinijupDiff-number">{bytes(file.before_bytes)}</td>
        <td className="jp-InfinijupDiff-number">{bytes(file.after_bytes)}</td>
        <td>
          <ChangeMark change={file.change} trans={trans} />
        </td>
      </tr>
      {open && (
        <tr data-infinijup-text={path}>
          <td colSpan={4}>
            <Opened {...props} />
          </td>
        </tr>
      )}
    </>
  );
}

export function Files(props: {
  diff: Diff;
  a: CommitView;
  b: CommitView;
  read: ReadFile;
  trans: TranslationBundle;
}): JSX.Element {
  const { diff, a, b, read, trans } = props;
  return (
    <Section title={trans.__('Files')} count={diff.files.length}>
      {diff.files.length === 0 ? (
        <Nothing>
          {trans.__(
            'No file differs of those that were saved with both snapshots. Files that no cell had open may not be among them.'
          )}
        </Nothing>
      ) : (
        <Table
          trans={trans}
          items={diff.files}
          columns={[
            trans.__('Path'),
            trans.__('Before'),
            trans.__('After'),
            trans.__('Change')
          ]}
          row={file => (
            <Row
              key={plain(file.path)}
              file={file}
              a={a}
              b={b}
              read={read}
              trans={trans}
            />
          )}
        />
      )}
    </Section>
  );
}
