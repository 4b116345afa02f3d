/**
 * Variables that have another type, size or summary.
 */
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import type { CommitView, Diff, Variable } from '../../wire';
import { nameOf } from '../../format';
import { size } from '../format';
import { ChangeMark, Nothing, Section, Table } from './parts';

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

/** Why there are no variables to compare. */
function whyNone(
  a: CommitView,
  b: CommitView,
  trans: TranslationBundle
): string {
  const without = [a, b].filter(it => it.has_variables === false);
  const one = without.length === 1 ? without[0] : null;
  if (without.some(it => it.reason === 'after-cell')) {
    return one
      ? trans.__(
          '%1 was taken by itself after a cell. Such a snapshot does not list variables, so that the next cell need not wait; one that you take does.',
          nameOf(one)
        )
      : trans.__(
          'Snapshots that are taken by themselves after a cell do not list variables, so that the next cell need not wait; those that you take do.'
        );
  }
  return one
    ? trans.__(
        'Variables were not recorded with %1: the kernel was busy then, or it is not a Python kernel.',
        nameOf(one)
      )
    : trans.__(
        'Variables were not recorded: the kernel was busy then, or it is not a Python kernel.'
      );
}

export function Variables(props: {
  diff: Diff;
  a: CommitView;
  b: CommitView;
  trans: TranslationBundle;
}): JSX.Element {
  const { diff, trans } = props;
  const title = trans.__('Variables');
  const { variables } = diff;
  if (!variables) {
    return (
      <Section title={title}>
        <Nothing>{whyNone(props.a, props.b, trans)}</Nothing>
      </Section>
    );
  }
  return (
    <Section title={title} count={variables.length}>
      {variables.length === 0 ? (
        <Nothing>
          {trans.__('No variable differs in its type, size or preview.')}
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
