/**
 * One row of the list: a day, a fold or a card, with its part of the graph.
 */
import React from 'react';
import type { CommitView } from '../wire';
import { Card } from './card';
import { dayName } from './format';
import { RowGraph, type IGrid } from './graph';
import { Icon } from './icons';
import type { ILaneRow } from './drawing';
import type { Row } from './rows';
import type { IScene } from './scene';
import { cardSentence, foldText } from './sentences';
import { HEIGHTS } from './windowing';

interface IRowProps {
  row: Row;
  lanes: ILaneRow;
  grid: IGrid;
  top: number;
  height: number;
  position: number;
  total: number;
  active: boolean;
  open: boolean;
  /** Chosen as the second one of a comparison. */
  paired: boolean;
  /** The second one, if this is the first. */
  other: CommitView | null;
  scene: IScene;
  onMeasure: (height: number) => void;
  onFocus: (key: string) => void;
  onToggle: (row: Row) => void;
  onPair: (row: Row) => void;
  onMenu: (commit: CommitView, x: number, y: number) => void;
}

/** It is drawn again when it looks different, not whenever the list is. */
export const RowView = React.memo(function RowView(
  props: IRowProps
): JSX.Element {
  const { row, lanes, grid, scene, top, height } = props;
  const { bearings, trans, now, locale } = scene;
  const graph = (
    <RowGraph
      row={lanes}
      grid={grid}
      middle={HEIGHTS[row.kind] / 2}
      height={height}
      current={row.kind === 'commit' && row.commit.id === bearings.head}
      live={row.kind !== 'commit' || bearings.live.has(row.commit.id)}
      trans={trans}
    />
  );
  const style = { top, height };
  if (row.kind === 'day') {
    return (
      <div
        className="jp-InfinijupHistory-row jp-mod-day"
        role="presentation"
        style={style}
      >
        {graph}
        <span>{dayName(row.time, now, locale)}</span>
      </div>
    );
  }
  const item = {
    role: 'treeitem',
    tabIndex: props.active ? 0 : -1,
    'aria-level': row.kind === 'commit' && row.folded ? 2 : 1,
    'aria-posinset': props.position,
    'aria-setsize': props.total,
    style,
    onFocus: () => props.onFocus(row.key)
  };
  if (row.kind === 'fold') {
    return (
      <div
        {...item}
        className="jp-InfinijupHistory-row jp-mod-fold"
        data-infinijup-fold={row.commits.length}
        aria-expanded={row.open}
        aria-label={foldText(row.commits.length, trans)}
        onClick={() => props.onToggle(row)}
      >
        {graph}
        <Icon name={row.open ? 'open' : 'closed'} />
        <span>{trans.__('%1 automatic', row.commits.length)}</span>
      </div>
    );
  }
  const { commit } = row;
  const current = commit.id === bearings.head;
  return (
    <div
      {...item}
      className={`jp-InfinijupHistory-row jp-mod-commit${
        row.folded ? ' jp-mod-folded' : ''
      }${
        props.open ? ' jp-mod-open' : ''
      }${props.paired ? ' jp-mod-paired' : ''}${
        current ? ' jp-mod-current' : ''
      }`}
      data-infinijup-commit={commit.id}
      data-infinijup-thread={commit.thread}
      data-infinijup-label={commit.label ?? undefined}
      data-infinijup-current={current ? 'true' : undefined}
      aria-expanded={props.open}
      aria-selected={props.open || props.paired}
      aria-current={current ? 'true' : undefined}
      aria-label={cardSentence(commit, bearings, now, trans, locale)}
      onClick={event => {
        if (event.ctrlKey || event.metaKey) {
          props.onPair(row);
        } else {
          props.onToggle(row);
        }
      }}
      onContextMenu={event => {
        event.preventDefault();
        event.stopPropagation();
        const box = event.currentTarget.getBoundingClientRect();
        // The key for menus has no place of its own.
        const byKey = event.clientX === 0 && event.clientY === 0;
        props.onMenu(
          commit,
          byKey ? box.left + 40 : event.clientX,
          byKey ? box.top + 24 : event.clientY
        );
      }}
    >
      {graph}
      <Card
        commit={commit}
        scene={scene}
        open={props.open}
        paired={props.other}
        onMeasure={props.onMeasure}
      />
    </div>
  );
});
