/**
 * What the sections of a comparison are made of.
 */
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import type { Change } from '../../wire';

/** So many rows of a table are shown at first, if nothing else is said. */
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

export function ChangeMark(props: {
  change: Change;
  trans: TranslationBundle;
}): JSX.Element {
  return (
    <span className={`jp-InfinijupDiff-change jp-mod-${props.change}`}>
      {changeText(props.change, props.trans)}
    </span>
  );
}

export function Section(props: {
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

export function Nothing(props: { children: string }): JSX.Element {
  return <p className="jp-InfinijupDiff-nothing">{props.children}</p>;
}

/** A table that begins with its first rows. */
export function Table<T>(props: {
  columns: string[];
  items: readonly T[];
  /** How many rows are shown at first. */
  first?: number;
  row: (item: T) => JSX.Element;
  trans: TranslationBundle;
}): JSX.Element {
  const { items, trans } = props;
  const [all, setAll] = React.useState(false);
  const shown = all ? items : items.slice(0, props.first ?? SHOWN);
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
