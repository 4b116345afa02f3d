/**
 * What lies between two snapshots, in the order in which people look for it: cells with their outputs, variables, files, and
 * memory, folded away. A section without content says why it has none.
 */
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { nameOf } from '../../format';
import type { CommitView, Diff } from '../../wire';
import { fullTime } from '../format';
import { Cells, type Documents, type DrawOutputs } from './cells';
import { Files, type ReadFile } from './files';
import { Memory } from './memory';
import { Variables } from './variables';

function Side(props: {
  commit: CommitView;
  name: string;
  locale?: string;
}): JSX.Element {
  const { commit } = props;
  return (
    <div className="jp-InfinijupDiff-side">
      <span>{props.name}</span>
      <strong>{nameOf(commit)}</strong>
      <span>{fullTime(new Date(commit.time), props.locale)}</span>
    </div>
  );
}

/** The comparison. */
export function DiffView(props: {
  diff: Diff;
  documents: Documents;
  draw: DrawOutputs;
  read: ReadFile;
  a: CommitView;
  b: CommitView;
  trans: TranslationBundle;
  locale?: string;
}): JSX.Element {
  const { diff, documents, draw, read, a, b, trans, locale } = props;
  return (
    <div className="jp-InfinijupDiff-view">
      <div className="jp-InfinijupDiff-pair jp-mod-sides">
        <Side commit={a} name={trans.__('Before')} locale={locale} />
        <Side commit={b} name={trans.__('After')} locale={locale} />
      </div>
      <Cells
        diff={diff}
        documents={documents}
        draw={draw}
        a={a}
        b={b}
        trans={trans}
      />
      <Variables diff={diff} a={a} b={b} trans={trans} />
      <Files diff={diff} a={a} b={b} read={read} trans={trans} />
      <Memory diff={diff} trans={trans} />
    </div>
  );
}
