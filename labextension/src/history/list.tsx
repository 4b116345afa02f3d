/**
 * The list of rows, of which only those in sight are in the document.
 *
 * It is a tree for assistive technology (cards have controls inside them, which options of a list box must not have), with
 * one row at a time in the order of the Tab key. The row that has the focus stays in the document wherever the list is
 * scrolled to: a focus that vanishes would send the reader back to the top of the page.
 */
import React from 'react';
import type { CommitView } from '../wire';
import { gridFor } from './graph';
import { readKey } from './keys';
import type { ILanes } from './lanes';
import { RowView } from './row';
import type { Row } from './rows';
import type { IScene } from './scene';
import { offsets, scrollTo, visibleRange } from './windowing';

/** What the list does not decide itself. */
export interface IListEvents {
  /** A card is opened or closed. */
  onSelect(commit: CommitView | null): void;
  /** A second card is chosen for a comparison, or no longer. */
  onPair(commit: CommitView | null): void;
  onToggleFold(fold: Extract<Row, { kind: 'fold' }>): void;
  onMenu(commit: CommitView, x: number, y: number): void;
}

export interface IListProps extends IListEvents {
  rows: readonly Row[];
  lanes: ILanes;
  scene: IScene;
  selected: CommitView | null;
  paired: CommitView | null;
}

/** The list. */
export function HistoryList(props: IListProps): JSX.Element {
  const { rows, lanes, scene, selected, paired } = props;
  const { trans } = scene;
  const scroller = React.useRef<HTMLDivElement>(null);
  const [details, setDetails] = React.useState(0);
  const [view, setView] = React.useState({ top: 0, height: 600, width: 240 });
  const [activeKey, setActiveKey] = React.useState<string | null>(null);
  const wantsFocus = React.useRef(false);

  const openKey = selected?.id ?? null;
  const starts = React.useMemo(
    () => offsets(rows, openKey, details),
    [rows, openKey, details]
  );
  const grid = React.useMemo(
    () => gridFor(lanes.width, view.width),
    [lanes.width, view.width]
  );
  const [first, last] = visibleRange(starts, view.top, view.height);

  // Days are no items of the tree.
  const positions = React.useMemo(() => {
    let count = 0;
    return rows.map(row => (row.kind === 'day' ? count : ++count));
  }, [rows]);
  let active = rows.findIndex(row => row.key === activeKey);
  if (active < 0) {
    active = rows.findIndex(row => row.kind !== 'day');
  }

  React.useLayoutEffect(() => {
    const node = scroller.current;
    if (!node) {
      return;
    }
    const look = (): void => {
      const { scrollTop: top, clientHeight: height, clientWidth: width } = node;
      setView(was =>
        was.height === height && was.top === top && was.width === width
          ? was
          : { top, height, width }
      );
    };
    look();
    const observer = new ResizeObserver(look);
    observer.observe(node);
    node.addEventListener('scroll', look, { passive: true });
    return () => {
      observer.disconnect();
      node.removeEventListener('scroll', look);
    };
  }, []);

  // What is read stays where it is when snapshots are added above it.
  const anchor = React.useRef<{ key: string; shift: number } | null>(null);
  const before = React.useRef(starts);
  React.useLayoutEffect(() => {
    const node = scroller.current;
    if (node && anchor.current && before.current !== starts && node.scrollTop) {
      const { key, shift } = anchor.current;
      const index = rows.findIndex(row => row.key === key);
      if (index >= 0 && starts[index] + shift !== node.scrollTop) {
        node.scrollTop = starts[index] + shift;
      }
    }
    before.current = starts;
  }, [rows, starts]);
  React.useLayoutEffect(() => {
    const index = rows.findIndex(
      (row, i) => row.kind !== 'day' && starts[i + 1] > view.top
    );
    anchor.current =
      index < 0
        ? null
        : { key: rows[index].key, shift: view.top - starts[index] };
  }, [rows, starts, view.top]);

  // An open card is shown whole, once its height is known.
  const revealed = React.useRef<string | null>(null);
  React.useLayoutEffect(() => {
    const node = scroller.current;
    if (node && openKey !== revealed.current && (details > 0 || !openKey)) {
      revealed.current = openKey;
      const index = rows.findIndex(row => row.key === openKey);
      if (index >= 0) {
        const { scrollTop: top, clientHeight: height } = node;
        node.scrollTop = scrollTo(starts, index, top, height);
      }
    }
  }, [openKey, details, rows, starts]);

  React.useLayoutEffect(() => {
    if (wantsFocus.current && activeKey !== null) {
      wantsFocus.current = false;
      scroller.current
        ?.querySelector<HTMLElement>('[role="treeitem"][tabindex="0"]')
        ?.focus({ preventScroll: true });
    }
  });

  const moveTo = (index: number): void => {
    const node = scroller.current;
    wantsFocus.current = true;
    setActiveKey(rows[index].key);
    if (node) {
      const { scrollTop: top, clientHeight: height } = node;
      node.scrollTop = scrollTo(starts, index, top, height);
      setView(was => ({ ...was, top: node.scrollTop }));
    }
  };

  const toggle = (row: Row, force?: boolean): void => {
    if (row.kind === 'fold') {
      if (force === undefined || force !== row.open) {
        props.onToggleFold(row);
      }
    } else if (row.kind === 'commit') {
      const isOpen = row.commit.id === openKey;
      if (force === undefined || force !== isOpen) {
        props.onSelect(isOpen ? null : row.commit);
      }
    }
  };

  const pair = (row: Row): void => {
    if (row.kind === 'commit') {
      if (!selected || selected.id === row.commit.id) {
        props.onSelect(row.commit);
      } else {
        props.onPair(paired?.id === row.commit.id ? null : row.commit);
      }
    }
  };

  // Rows are drawn again when they look different, not because a handler is a new function.
  const latest = React.useRef({ toggle, pair });
  React.useLayoutEffect(() => {
    latest.current = { toggle, pair };
  });
  const onToggle = React.useCallback((row: Row) => {
    latest.current.toggle(row);
  }, []);
  const onPair = React.useCallback((row: Row) => latest.current.pair(row), []);

  const onKeyDown = (event: React.KeyboardEvent): void => {
    const wish = readKey(event, rows, active, starts, view.height);
    const row = rows[active];
    if (!wish || !row) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    if ('move' in wish) {
      moveTo(wish.move);
      return;
    }
    switch (wish.do) {
      case 'toggle':
        wantsFocus.current = true;
        toggle(row);
        break;
      case 'open':
      case 'close':
        wantsFocus.current = true;
        toggle(row, wish.do === 'open');
        break;
      case 'pair':
        pair(row);
        break;
      case 'delete':
        if (row.kind === 'commit') {
          const args = { commits: [row.commit.id] };
          if (
            !scene.bearings.heads.has(row.commit.id) &&
            scene.actions.can('delete', args)
          ) {
            scene.actions.run('delete', args);
          }
        }
        break;
      case 'name':
        if (row.kind === 'commit') {
          const args = { commit: row.commit.id };
          if (scene.actions.can('tag', args)) {
            scene.actions.run('tag', args);
          }
        }
        break;
    }
  };

  const drawn: number[] = [];
  for (let index = first; index < last; index++) {
    drawn.push(index);
  }
  if (active >= 0 && (active < first || active >= last)) {
    drawn.push(active);
  }

  return (
    <div
      ref={scroller}
      className="jp-InfinijupHistory-scroll"
      data-infinijup-scroll=""
    >
      <div
        className="jp-InfinijupHistory-list"
        role="tree"
        aria-label={trans.__('Snapshots, newest first')}
        aria-multiselectable="true"
        style={{ height: starts[rows.length] }}
        onKeyDown={onKeyDown}
      >
        {drawn.map(index => (
          <RowView
            key={rows[index].key}
            row={rows[index]}
            lanes={lanes.rows[index]}
            grid={grid}
            top={starts[index]}
            height={starts[index + 1] - starts[index]}
            position={positions[index]}
            total={positions[rows.length - 1]}
            active={index === active}
            open={rows[index].key === openKey}
            paired={rows[index].key === paired?.id}
            other={rows[index].key === openKey ? paired : null}
            scene={scene}
            onMeasure={setDetails}
            onFocus={setActiveKey}
            onToggle={onToggle}
            onPair={onPair}
            onMenu={props.onMenu}
          />
        ))}
      </div>
    </div>
  );
}
