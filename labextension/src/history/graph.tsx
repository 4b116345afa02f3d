/**
 * The graph of one row, as SVG.
 */
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import type { Dot, ILaneRow, Piece } from './drawing';
import { colourClass } from './palette';

/** The distance of two lanes where there is room for it. */
const GAP = 14;
/** From the edge to the first lane, and from the last one to the card. */
const EDGE = 11;
/** The graph takes no more of the panel than this; many lanes are drawn closer together. */
const SHARE = 0.26;
const WIDEST = 120;

/** Where the lanes are. */
export interface IGrid {
  readonly gap: number;
  readonly width: number;
}

/** The grid for a number of lanes in a panel of some width. */
export function gridFor(lanes: number, panel: number): IGrid {
  const gaps = Math.max(0, lanes - 1);
  const widest = Math.min(WIDEST, SHARE * panel);
  // A panel that is not laid out yet has no width.
  const room = Math.max(0, widest - 2 * EDGE);
  const gap = Math.min(GAP, room / Math.max(1, gaps));
  return { gap, width: 2 * EDGE + gaps * gap };
}

function pathOf(
  piece: Piece,
  x: (lane: number) => number,
  middle: number,
  height: number
): string {
  const at = x(piece.lane);
  switch (piece.kind) {
    case 'line': {
      const from = piece.part === 'bottom' ? middle : 0;
      const to = piece.part === 'top' ? middle : height;
      return `M${at} ${from}V${to}`;
    }
    case 'in':
      return `M${at} 0C${at} ${middle} ${at} ${middle} ${x(piece.to)} ${middle}`;
    case 'out': {
      const to = x(piece.to);
      const bend = Math.min(height, 2 * middle);
      return `M${at} ${middle}C${to} ${middle} ${to} ${middle} ${to} ${bend}V${height}`;
    }
    case 'stub':
      return piece.end === 'from'
        ? `M${at} ${middle}l7 7`
        : `M${at + 7} ${middle - 7}L${at} ${middle}`;
  }
}

/** What a dot says by its shape. */
export interface IDotLook {
  /** This kernel stands here: a ring around it. */
  readonly current: boolean;
  /** On the way to what some kernel is now: filled. */
  readonly live: boolean;
  readonly trans: TranslationBundle;
}

function DotMark(props: {
  dot: Dot;
  look: IDotLook;
  x: number;
  y: number;
  gap: number;
}): JSX.Element {
  const { dot, look, x, y, gap } = props;
  if (dot.fold) {
    // Not over the lines of its neighbours.
    const wide = Math.min(6, gap);
    return (
      <g className={colourClass(dot.colour)}>
        <rect
          className="jp-mod-gap"
          x={x - wide / 2}
          y={y - 9}
          width={wide}
          height={18}
        />
        {[-5, 0, 5].map(shift => (
          <circle
            key={shift}
            className="jp-mod-live"
            cx={x}
            cy={y + shift}
            r={1.8}
          />
        ))}
      </g>
    );
  }
  return (
    <g className={colourClass(dot.colour)}>
      {!look.live && <title>{look.trans.__('Left behind by a restore')}</title>}
      {look.current && <circle className="jp-mod-ring" cx={x} cy={y} r={8} />}
      <circle
        className={look.live ? 'jp-mod-live' : 'jp-mod-left'}
        cx={x}
        cy={y}
        r={4.5}
      />
    </g>
  );
}

/** The lines and dots of a row. `middle` is the height of the dot, `height` that of the whole row. */
export const RowGraph = React.memo(function RowGraph(props: {
  row: ILaneRow;
  grid: IGrid;
  middle: number;
  height: number;
  current: boolean;
  live: boolean;
  trans: TranslationBundle;
}): JSX.Element {
  const { row, grid, middle, height, current, live, trans } = props;
  const x = (lane: number): number => EDGE + lane * grid.gap;
  return (
    <svg
      className="jp-InfinijupHistory-graph"
      width={grid.width}
      height={height}
      aria-hidden="true"
      focusable="false"
    >
      {row.pieces.map((piece, index) => (
        <path
          key={index}
          className={`${colourClass(piece.colour)}${
            piece.kind === 'stub' || piece.dashed ? ' jp-mod-dashed' : ''
          }`}
          d={pathOf(piece, x, middle, height)}
        />
      ))}
      {row.dots.map(dot => (
        <DotMark
          key={dot.lane}
          dot={dot}
          look={{ current, live, trans }}
          x={x(dot.lane)}
          y={middle}
          gap={grid.gap}
        />
      ))}
    </svg>
  );
});
