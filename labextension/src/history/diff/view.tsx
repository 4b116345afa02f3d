/**
 * What lies between two snapshots: cells, variables, files, memory. A section without content says why it has none.
 */
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import type { CommitView, Diff } from '../../wire';
import { fullTime, shortId } from '../format';
import { Cells } from './cells';
import { Files, Memory } from './memory';
import { Variables } from './variables';

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
      <div className="jp-InfinijupDiff-sides">
        <Side commit={a} name={trans.__('Before')} locale={locale} />
        <Side commit={b} name={trans.__('After')} locale={locale} />
      </div>
      <Cells diff={diff} a={a} b={b} trans={trans} />
      <Variables diff={diff} a={a} b={b} trans={trans} />
      <Files diff={diff} trans={trans} />
      <Memory diff={diff} trans={trans} />
    </div>
  );
}
