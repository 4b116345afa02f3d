/**
 * What is drawn in each row of the graph, once every thread and every track has its lane (`lanes.ts`).
 */
import type { CommitView } from '../wire';
import type { Row } from './rows';

/** A piece of the drawing of one row. `colour` is the index of a thread's colour. */
export type Piece =
  /** Straight down: through the whole row, from the top to the dot, or from the dot to the bottom. */
  | {
      kind: 'line';
      lane: number;
      colour: number;
      part: 'full' | 'top' | 'bottom';
      dashed: boolean;
    }
  /** From the top of a lane into the dot of another: a branch leaves here, or a rollback arrives. */
  | {
      kind: 'in';
      lane: number;
      to: number;
      colour: number;
      dashed: boolean;
    }
  /** From the dot to the bottom of another lane: a rollback goes off. */
  | { kind: 'out'; lane: number; to: number; colour: number; dashed: boolean }
  /** A rollback that found no track: a short end at the dot. */
  | { kind: 'stub'; lane: number; colour: number; end: 'from' | 'to' };

/** A dot, or the mark of a fold on each lane that it has snapshots of. */
export type Dot = { lane: number; colour: number; fold: boolean };

/** The drawing of one row. */
export interface ILaneRow {
  readonly pieces: Piece[];
  readonly dots: Dot[];
}

/** Rows that are taken in a lane, both ends among them. */
export interface ISpan {
  top: number;
  bottom: number;
}

/** A thread, from its newest snapshot to where it was branched off. */
export interface IThreadSpan extends ISpan {
  /** The row and the thread that the line goes over to at its end. */
  from: { row: number; thread: string } | null;
  /** Up to which row the lane is kept. */
  kept: number;
  lane: number;
}

/** All rollbacks to one target. */
export interface ITrack {
  target: number;
  /** The rows of the rollbacks, from the top. */
  starts: number[];
  /** -1 if there was no place. */
  lane: number;
}

/** The snapshots that a row shows. */
export function shownIn(row: Row): readonly CommitView[] {
  switch (row.kind) {
    case 'commit':
      return [row.commit];
    case 'fold':
      return row.open ? [] : row.commits;
    case 'day':
      return [];
  }
}

/** Puts lines and dots into the rows. */
export class Pen {
  constructor(
    private _rows: readonly Row[],
    private _spans: ReadonlyMap<string, IThreadSpan>,
    private _colours: ReadonlyMap<string, number>,
    private _drawing: ILaneRow[]
  ) {}

  thread(name: string, span: IThreadSpan): void {
    const { lane, top, bottom, from } = span;
    const colour = this._colour(name);
    const end = from ? from.row - 1 : bottom - 1;
    const line = { kind: 'line', lane, colour, dashed: false } as const;
    if (from || bottom > top) {
      this._add(top, { ...line, part: 'bottom' });
    }
    this._fill(top + 1, end, { ...line, part: 'full' });
    if (from) {
      const to = this._lane(from.thread);
      this._add(from.row, { kind: 'in', lane, to, colour, dashed: false });
    } else if (bottom > top) {
      this._add(bottom, { ...line, part: 'top' });
    }
  }

  track({ target, starts, lane }: ITrack): void {
    const [first] = starts;
    const dashed = true;
    const colour = this._colour(this._threadOf(first));
    for (const row of starts) {
      const thread = this._threadOf(row);
      const at = this._lane(thread);
      const own = this._colour(thread);
      this._add(
        row,
        lane < 0
          ? { kind: 'stub', lane: at, colour: own, end: 'from' }
          : { kind: 'out', lane: at, to: lane, colour: own, dashed }
      );
    }
    if (target < 0) {
      return;
    }
    const to = this._lane(this._threadOf(target));
    if (lane < 0) {
      this._add(target, { kind: 'stub', lane: to, colour, end: 'to' });
      return;
    }
    const part = 'full';
    this._fill(first + 1, target - 1, {
      kind: 'line',
      lane,
      colour,
      part,
      dashed
    });
    this._add(target, { kind: 'in', lane, to, colour, dashed });
  }

  dots(): void {
    this._rows.forEach((row, index) => {
      const shown = shownIn(row);
      const fold = row.kind === 'fold';
      for (const name of new Set(shown.map(commit => commit.thread))) {
        const lane = this._lane(name);
        const colour = this._colour(name);
        this._drawing[index].dots.push({ lane, colour, fold });
      }
    });
  }

  private _threadOf(row: number): string {
    return shownIn(this._rows[row])[0]?.thread ?? '';
  }

  private _lane(thread: string): number {
    return this._spans.get(thread)?.lane ?? 0;
  }

  private _colour(thread: string): number {
    return this._colours.get(thread) ?? 0;
  }

  private _add(row: number, piece: Piece): void {
    this._drawing[row].pieces.push(piece);
  }

  /** One object for all rows: a long history has as many lines as rows times lanes. */
  private _fill(from: number, to: number, piece: Piece): void {
    for (let row = from; row <= to; row++) {
      this._drawing[row].pieces.push(piece);
    }
  }
}
