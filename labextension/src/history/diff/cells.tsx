/**
 * Cells that differ, line by line.
 */
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import type { CellView, Change, CommitView, Diff } from '../../wire';
import { shortId } from '../format';
import { lineDiff } from './lines';
import { ChangeMark, Nothing, Section } from './parts';

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

export function Cells(props: {
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
            {before?.source || after?.source ? (
              <Source
                before={before?.source ?? ''}
                after={after?.source ?? ''}
              />
            ) : (
              <Nothing>{trans.__('An empty cell.')}</Nothing>
            )}
          </div>
        );
      })}
    </Section>
  );
}
