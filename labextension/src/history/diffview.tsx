/**
 * What lies between two snapshots: cells, variables, files, memory. A section without content says why it has none.
 */
import React from 'react';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CellView, Change, CommitView, Diff, Variable } from '../wire';
import { fullTime, plain, shortId, size } from './format';
import { lineDiff } from './linediff';

/** So many rows of a table are shown at first. */
const SHOWN = 100;

function changeText(change: Change, trans: TranslationBundle): string {
  switch (change) {
    case 'added':
      return trans.__('added');
    case 'removed':
      return trans.__('removed');
    case 'changed':
      return trans.__('changed');
  }
}

function ChangeMark(props: {
  change: Change;
  trans: TranslationBundle;
}): JSX.Element {
  return (
    <span className={`jp-InfinijupDiff-change jp-mod-${props.change}`}>
      {changeText(props.change, props.trans)}
    </span>
  );
}

function Section(props: {
  title: string;
  count?: number;
  children: React.ReactNode;
}): JSX.Element {
  return (
    <section className="jp-InfinijupDiff-section" aria-label={props.title}>
      <h2>
        {props.title}
        {props.count !== undefined && (
          <span className="jp-InfinijupDiff-count">{props.count}</span>
        )}
      </h2>
      {props.children}
    </section>
  );
}

function Nothing(props: { children: string }): JSX.Element {
  return <p className="jp-InfinijupDiff-nothing">{props.children}</p>;
}

/** A table that begins with its first rows. */
function Table<T>(props: {
  columns: string[];
  items: readonly T[];
  row: (item: T) => JSX.Element;
  trans: TranslationBundle;
}): JSX.Element {
  const { items, trans } = props;
  const [all, setAll] = React.useState(false);
  const shown = all ? items : items.slice(0, SHOWN);
  return (
    <>
      <table className="jp-InfinijupDiff-table">
        <thead>
          <tr>
            {props.columns.map(name => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{shown.map(props.row)}</tbody>
      </table>
      {shown.length < items.length && (
        <button
          type="button"
          className="jp-InfinijupHistory-button"
          onClick={() => setAll(true)}
        >
          {trans.__('Show all %1', items.length)}
        </button>
      )}
    </>
  );
}

function Source(props: { before: string; after: string }): JSX.Element {
  const lines = React.useMemo(
    () => lineDiff(props.before, props.after),
    [props.before, props.after]
  );
  return (
    <pre className="jp-InfinijupDiff-source" tabIndex={0}>
      {lines.map((line, index) => (
        <div key={index} className={`jp-mod-${line.change}`}>
          <span aria-hidden="true">
            {line.change === 'added'
              ? '+'
              : line.change === 'removed'
                ? '−'
                : ' '}
          </span>
          {line.change === 'added' ? (
            <ins>{line.text}</ins>
          ) : line.change === 'removed' ? (
            <del>{line.text}</del>
          ) : (
            line.text
          )}
        </div>
      ))}
    </pre>
  );
}

function Cells(props: {
  diff: Diff;
  a: CommitView;
  b: CommitView;
  trans: TranslationBundle;
}): JSX.Element {
  const { diff, trans } = props;
  const title = trans.__('Cells');
  if (!diff.cells) {
    const without = [props.a, props.b].filter(it => it.has_notebook === false);
    return (
      <Section title={title}>
        <Nothing>
          {without.length === 1
            ? trans.__(
                'The notebook was not kept with %1, so its cells cannot be compared.',
                shortId(without[0].id)
              )
            : trans.__(
                'The notebook was not kept with these snapshots, so their cells cannot be compared.'
              )}
        </Nothing>
      </Section>
    );
  }
  const { added, removed, changed } = diff.cells;
  const items: { change: Change; before?: CellView; after?: CellView }[] = [
    ...changed.map(it => ({ change: 'changed' as const, ...it })),
    ...added.map(after => ({ change: 'added' as const, after })),
    ...removed.map(before => ({ change: 'removed' as const, before }))
  ];
  return (
    <Section title={title} count={items.length}>
      {items.length === 0 && (
        <Nothing>{trans.__('All cells are the same.')}</Nothing>
      )}
      {items.map(({ change, before, after }, index) => {
        const number = after?.number ?? before?.number;
        return (
          <div
            key={index}
            className="jp-InfinijupDiff-cell"
            data-infinijup-cell={after?.id ?? before?.id ?? ''}
            data-infinijup-change={change}
          >
            <ChangeMark change={change} trans={trans} />
            {typeof number === 'number' && <code>[{number}]</code>}
            <Source before={before?.source ?? ''} after={after?.source ?? ''} />
          </div>
        );
      })}
    </Section>
  );
}

function VariableValue(props: { variable?: Variable | null }): JSX.Element {
  const { variable } = props;
  return variable ? (
    <td>
      <span className="jp-InfinijupDiff-summary">{variable.summary}</span>
      {typeof variable.size === 'number' && (
        <span className="jp-InfinijupDiff-size"> {size(variable.size)}</span>
      )}
    </td>
  ) : (
    <td>–</td>
  );
}

function Variables(props: {
  diff: Diff;
  a: CommitView;
  b: CommitView;
  trans: TranslationBundle;
}): JSX.Element {
  const { diff, trans } = props;
  const title = trans.__('Variables');
  const { variables } = diff;
  if (!variables) {
    const without = [props.a, props.b].filter(it => it.has_variables === false);
    return (
      <Section title={title}>
        <Nothing>
          {without.length === 1
            ? trans.__(
                'Variables were not recorded with %1: the kernel was busy then, or it is not a Python kernel.',
                shortId(without[0].id)
              )
            : trans.__(
                'Variables were not recorded: the kernel was busy then, or it is not a Python kernel.'
              )}
        </Nothing>
      </Section>
    );
  }
  return (
    <Section title={title} count={variables.length}>
      {variables.length === 0 ? (
        <Nothing>
          {trans.__('No variable has another type, size or summary.')}
        </Nothing>
      ) : (
        <Table
          trans={trans}
          items={variables}
          columns={[
            trans.__('Name'),
            trans.__('Type'),
            trans.__('Before'),
            trans.__('After'),
            trans.__('Change')
          ]}
          row={({ name, change, before, after }) => {
            const types = [before?.type, after?.type].filter(
              (type, index, both) => type && type !== both[1 - index]
            );
            return (
              <tr
                key={name}
                data-infinijup-variable={name}
                data-infinijup-change={change}
              >
                <th scope="row">
                  <code>{name}</code>
                </th>
                <td>
                  <code>
                    {types.length ? types.join(' → ') : (after?.type ?? '')}
                  </code>
                </td>
                <VariableValue variable={before} />
                <VariableValue variable={after} />
                <td>
                  <ChangeMark change={change} trans={trans} />
                </td>
              </tr>
            );
          }}
        />
      )}
    </Section>
  );
}

function bytes(value: number | null | undefined): string {
  return typeof value === 'number' ? size(value) : '–';
}

function Files(props: { diff: Diff; trans: TranslationBundle }): JSX.Element {
  const { diff, trans } = props;
  return (
    <Section title={trans.__('Files')} count={diff.files.length}>
      {diff.files.length === 0 ? (
        <Nothing>
          {trans.__('The files that were kept with both are the same.')}
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
          row={file => {
            const path = plain(file.path);
            return (
              <tr
                key={path}
                data-infinijup-file={path}
                data-infinijup-change={file.change}
              >
                <th scope="row">
                  <code>{path}</code>
                </th>
                <td>{bytes(file.before_bytes)}</td>
                <td>{bytes(file.after_bytes)}</td>
                <td>
                  <ChangeMark change={file.change} trans={trans} />
                </td>
              </tr>
            );
          }}
        />
      )}
    </Section>
  );
}

function Memory(props: { diff: Diff; trans: TranslationBundle }): JSX.Element {
  const { diff, trans } = props;
  const { memory, totals, processes } = diff;
  return (
    <Section title={trans.__('Memory')}>
      <p>
        {totals.memory_bytes === 0 && memory.length === 0
          ? trans.__('No page of memory differs.')
          : trans.__(
              '%1 of memory differ, counted in whole pages.',
              size(totals.memory_bytes)
            )}
      </p>
      {processes.length > 0 && (
        <ul className="jp-InfinijupDiff-processes">
          {processes.map(it => (
            <li key={it.pid}>
              {trans.__('Process %1 (%2)', it.pid, it.name)}{' '}
              <ChangeMark change={it.change} trans={trans} />
            </li>
          ))}
        </ul>
      )}
      {memory.length > 0 && (
        <Table
          trans={trans}
          items={memory}
          columns={[
            trans.__('Mapping'),
            trans.__('Process'),
            trans.__('Size'),
            trans.__('Differs'),
            trans.__('Change')
          ]}
          row={it => (
            <tr key={`${it.pid} ${it.start}`} data-infinijup-change={it.change}>
              <th scope="row" title={`0x${it.start.toString(16)}`}>
                <code>{plain(it.name)}</code>
              </th>
              <td>{it.pid}</td>
              <td>{size(it.end - it.start)}</td>
              <td>{size(it.changed_bytes)}</td>
              <td>
                <ChangeMark change={it.change} trans={trans} />
              </td>
            </tr>
          )}
        />
      )}
    </Section>
  );
}

function Side(props: {
  commit: CommitView;
  name: string;
  locale?: string;
}): JSX.Element {
  const { commit } = props;
  const title = commit.label || commit.message || commit.tags[0];
  return (
    <div className="jp-InfinijupDiff-side">
      <span>{props.name}</span>
      <strong>{title || shortId(commit.id)}</strong>
      <span>
        {fullTime(new Date(commit.time), props.locale)} ·{' '}
        <code>{shortId(commit.id)}</code>
      </span>
    </div>
  );
}

/** The comparison. */
export function DiffView(props: {
  diff: Diff;
  a: CommitView;
  b: CommitView;
  trans: TranslationBundle;
  locale?: string;
}): JSX.Element {
  const { diff, a, b, trans, locale } = props;
  return (
    <div className="jp-InfinijupDiff-view">
      <header>
        <Side commit={a} name={trans.__('Before')} locale={locale} />
        <Side commit={b} name={trans.__('After')} locale={locale} />
      </header>
      <Cells diff={diff} a={a} b={b} trans={trans} />
      <Variables diff={diff} a={a} b={b} trans={trans} />
      <Files diff={diff} trans={trans} />
      <Memory diff={diff} trans={trans} />
    </div>
  );
}
