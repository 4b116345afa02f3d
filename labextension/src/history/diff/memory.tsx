/**
 * Files and memory that differ.
 */
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import type { Diff } from '../../wire';
import { plain, size } from '../format';
import { ChangeMark, Nothing, Section, Table } from './parts';

function bytes(value: number | null | undefined): string {
  return typeof value === 'number' ? size(value) : '–';
}

export function Files(props: {
  diff: Diff;
  trans: TranslationBundle;
}): JSX.Element {
  const { diff, trans } = props;
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
                <td className="jp-InfinijupDiff-number">
                  {bytes(file.before_bytes)}
                </td>
                <td className="jp-InfinijupDiff-number">
                  {bytes(file.after_bytes)}
                </td>
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
