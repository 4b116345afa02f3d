/**
 * Cells that differ, before on the left and after on the right: their text line by line, and what they show below it.
 */
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { nameOf } from '../../format';
import type { CommitView, Diff } from '../../wire';
import { compareDocuments, pairsOf } from './documents';
import type { Document, ICellPair, ISide } from './documents';
import { lineDiff, sideBySide, type Line } from './lines';
import { ChangeMark, Nothing, Section } from './parts';

/** Draws the outputs of a cell, as the notebook itself would. */
export type DrawOutputs = (outputs: readonly unknown[]) => React.ReactNode;

/** The notebooks of both snapshots; `null` where one was not kept. */
export type Documents = { before: Document; after: Document } | null;

function SourceLine(props: { line: Line | null }): JSX.Element {
  const { line } = props;
  const text = line?.text || '\u00a0';
  return (
    <div className={line ? `jp-mod-${line.change}` : 'jp-mod-none'}>
      {line?.change === 'added' ? (
        <ins>{text}</ins>
      ) : line?.change === 'removed' ? (
        <del>{text}</del>
      ) : (
        text
      )}
    </div>
  );
}

function Sources(props: {
  pair: ICellPair;
  trans: TranslationBundle;
}): JSX.Element {
  const { pair, trans } = props;
  const before = pair.before?.source ?? '';
  const after = pair.after?.source ?? '';
  const rows = React.useMemo(
    () => sideBySide(lineDiff(before, after)),
    [before, after]
  );
  // One grid for both: lines that belong together are as high as the longer one.
  return (
    <div
      className="jp-InfinijupDiff-pair jp-InfinijupDiff-source"
      role="group"
      tabIndex={0}
      aria-label={trans.__('Code before and after')}
    >
      {rows.map((row, index) => (
        <React.Fragment key={index}>
          <SourceLine line={row.left} />
          <SourceLine line={row.right} />
        </React.Fragment>
      ))}
    </div>
  );
}

function Outputs(props: {
  side: ISide | null;
  label: string;
  draw: DrawOutputs;
  trans: TranslationBundle;
}): JSX.Element {
  const { side, draw, trans } = props;
  if (!side) {
    return <div />;
  }
  return (
    <div
      className="jp-InfinijupDiff-outputs"
      role="group"
      aria-label={props.label}
    >
      {side.outputs.length ? (
        draw(side.outputs)
      ) : (
        <Nothing>{trans.__('No output.')}</Nothing>
      )}
    </div>
  );
}

function Pair(props: {
  pair: ICellPair;
  draw: DrawOutputs;
  trans: TranslationBundle;
}): JSX.Element {
  const { pair, draw, trans } = props;
  const { before, after } = pair;
  const number = after?.number ?? before?.number;
  const has = !!before?.outputs.length || !!after?.outputs.length;
  return (
    <div
      className="jp-InfinijupDiff-cell"
      data-infinijup-cell={after?.id ?? before?.id ?? ''}
      data-infinijup-change={pair.change}
    >
      <p className="jp-InfinijupDiff-heading">
        <ChangeMark change={pair.change} trans={trans} />
        {typeof number === 'number' && <code>[{number}]</code>}
        {pair.change === 'changed' && !pair.source && (
          <span>{trans.__('same code, other output')}</span>
        )}
      </p>
      <Sources pair={pair} trans={trans} />
      {has && (
        <div className="jp-InfinijupDiff-pair">
          <Outputs
            side={before}
            label={trans.__('Output before')}
            draw={draw}
            trans={trans}
          />
          <Outputs
            side={after}
            label={trans.__('Output after')}
            draw={draw}
            trans={trans}
          />
        </div>
      )}
    </div>
  );
}

export function Cells(props: {
  diff: Diff;
  documents: Documents;
  draw: DrawOutputs;
  a: CommitView;
  b: CommitView;
  trans: TranslationBundle;
}): JSX.Element {
  const { diff, documents, draw, trans } = props;
  const title = trans.__('Cells and outputs');
  const pairs = React.useMemo(
    () =>
      documents
        ? compareDocuments(documents.before, documents.after)
        : diff.cells
          ? pairsOf(diff.cells)
          : null,
    [documents, diff.cells]
  );
  if (!pairs) {
    const without = [props.a, props.b].filter(it => it.has_notebook === false);
    return (
      <Section title={title}>
        <Nothing>
          {without.length === 1
            ? trans.__(
                'The notebook was not saved with %1, so its cells cannot be compared.',
                nameOf(without[0])
              )
            : trans.__(
                'The notebook was not saved with these snapshots, so their cells cannot be compared.'
              )}
        </Nothing>
      </Section>
    );
  }
  return (
    <Section title={title} count={pairs.length}>
      {pairs.length === 0 && (
        <Nothing>{trans.__('All cells and outputs are the same.')}</Nothing>
      )}
      {pairs.map((pair, index) => (
        <Pair key={index} pair={pair} draw={draw} trans={trans} />
      ))}
    </Section>
  );
}
