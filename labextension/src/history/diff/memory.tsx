/**
 * Memory that differs.
 */
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import type { Diff } from '../../wire';
import { plain, size } from '../format';
import { ChangeMark, Table } from './parts';

export function Memory(props: {
  diff: Diff;
  trans: TranslationBundle;
}): JSX.Element {
  const { diff, trans } = props;
  const { memory, totals, processes } = diff;
  return (
    <details className="jp-InfinijupDiff-section">
      <summary>
        <h2>{trans.__('Memory')}</h2>
      </summary>
      <p>
        {totals.memory_bytes === 0 && memory.length === 0
          ? trans.__('The memory is the same.')
          : trans.__('%1 of memory differ.', size(totals.memory_bytes))}
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
          first={20}
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
              <td className="jp-InfinijupDiff-number">
                {size(it.end - it.start)}
              </td>
              <td className="jp-InfinijupDiff-number">
                {size(it.changed_bytes)}
              </td>
              <td>
                <ChangeMark change={it.change} trans={trans} />
              </td>
            </tr>
          )}
        />
      )}
    </details>
  );
}
