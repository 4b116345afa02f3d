/**
 * The bar above the list: take a snapshot, look for one, show fewer, read again.
 */
import React from 'react';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IActions } from './actions';
import { Icon } from './icons';
import type { Filter } from './search';

export function HistoryToolbar(props: {
  query: string;
  filter: Filter;
  actions: IActions;
  trans: TranslationBundle;
  onQuery: (query: string) => void;
  onFilter: (filter: Filter) => void;
  onRefresh: () => void;
}): JSX.Element {
  const { query, filter, actions, trans } = props;
  return (
    <div
      className="jp-InfinijupHistory-toolbar"
      role="group"
      aria-label={trans.__('History')}
    >
      <button
        type="button"
        className="jp-InfinijupHistory-button jp-mod-icon"
        data-infinijup-action="snapshot"
        title={trans.__('Take a snapshot of the kernel')}
        disabled={!actions.can('snapshot')}
        onClick={() => actions.run('snapshot')}
      >
        <Icon name="manual" />
        <span>{trans.__('Snapshot')}</span>
      </button>
      <select
        className="jp-InfinijupHistory-filter"
        value={filter}
        aria-label={trans.__('Which snapshots are shown')}
        onChange={event => props.onFilter(event.target.value as Filter)}
      >
        <option value="all">{trans.__('All')}</option>
        <option value="mine">{trans.__('This notebook')}</option>
        <option value="tagged">{trans.__('With a name')}</option>
      </select>
      <button
        type="button"
        className="jp-InfinijupHistory-button jp-mod-icon jp-mod-bare"
        data-infinijup-action="refresh"
        title={trans.__('Read the history again')}
        aria-label={trans.__('Read the history again')}
        onClick={props.onRefresh}
      >
        <Icon name="refresh" />
      </button>
      <div className="jp-InfinijupHistory-search">
        <Icon name="search" />
        <input
          type="search"
          value={query}
          placeholder={trans.__('Name, label or cell')}
          aria-label={trans.__('Search the snapshots')}
          onChange={event => props.onQuery(event.target.value)}
          onKeyDown={event => {
            if (event.key === 'Escape' && query) {
              event.stopPropagation();
              props.onQuery('');
            }
          }}
        />
      </div>
    </div>
  );
}
