/**
 * The graph beside the list: which lane each thread runs in, and what is drawn in each row.
 *
 * The list is in order of ancestry, newest first, and a thread is a line through it, from its newest snapshot down to the
 * one that it was branched off. So a thread is an interval of rows, and giving lanes to threads is the colouring of an
 * interval graph: taken by where they begin, oldest first, each gets the first lane that is free. From the oldest, because
 * history grows at the other end: a new snapshot lengthens the interval of its thread at the top, and no thread below has
 * to move. For the same reason a thread that a session still goes on with keeps its lane up to the top.
 *
 * A rollback leaves the thread where it is; time goes on. What it went back to is a second line, drawn dashed beside the
 * thread ("track"), down to its target. Rollbacks to the same target share one track. Tracks get the lanes that threads
 * left free, up to a limit; what finds no place is drawn as a stub at both ends.
 *
 * Rows may be days, folds, or the few that a search found. A snapshot that is not shown is stood for by the nearest of its
 * first ancestors that is, which is what the server does with those that were forgotten.
 *
 * The work is O(rows x lanes).
 */
import type { CommitView } from '../wire';
import { type IBearings, backTo } from './commits';
import {
  Pen,
  shownIn,
  type ILaneRow,
  type ISpan,
  type IThreadSpan,
  type ITrack
} from './drawing';
import type { Row } from './rows';

/** Tracks are not drawn further to the right than this. */
export const MAX_TRACK_LANE = 11;

export interface ILanes {
  readonly rows: readonly ILaneRow[];
  /** How many lanes there are. */
  readonly width: number;
  /** The lane of each thread that is shown. */
  readonly laneOf: ReadonlyMap<string, number>;
}

/** Gives each thread a colour: the one it had, and if it had none the next, in the order of birth. */
export function assignColours(
  commits: readonly CommitView[],
  before: ReadonlyMap<string, number> = new Map()
): Map<string, number> {
  const colours = new Map(before);
  let next = 0;
  for (const used of colours.values()) {
    next = Math.max(next, used + 1);
  }
  for (let i = commits.length - 1; i >= 0; i--) {
    const { thread } = commits[i];
    if (!colours.has(thread)) {
      colours.set(thread, next);
      next += 1;
    }
  }
  return colours;
}

/** Lays the graph out. `commits` is the whole history, newest first, `rows` what is shown of it. */
export function layOut(
  commits: readonly CommitView[],
  rows: readonly Row[],
  bearings: IBearings,
  colours: ReadonlyMap<string, number>
): ILanes {
  const rowOf = placeCommits(commits, rows);
  const spans = threadSpans(commits, rows, bearings, rowOf);
  const busy = giveLanes([...spans.values()]);
  const drawing: ILaneRow[] = rows.map(() => ({ pieces: [], dots: [] }));
  const pen = new Pen(rows, spans, colours, drawing);
  spans.forEach((span, thread) => pen.thread(thread, span));
  const tracks = findTracks(rows, rowOf);
  giveTrackLanes(tracks, busy);
  tracks.forEach(track => pen.track(track));
  pen.dots();
  return {
    rows: drawing,
    width: tracks.reduce(
      (width, track) => Math.max(width, track.lane + 1),
      busy.length
    ),
    laneOf: new Map([...spans].map(([thread, span]) => [thread, span.lane]))
  };
}

/** The row of each snapshot, or of what stands for it; -1 if nothing does. */
function placeCommits(
  commits: readonly CommitView[],
  rows: readonly Row[]
): Map<string, number> {
  const rowOf = new Map<string, number>();
  rows.forEach((row, index) => {
    if (row.kind === 'fold' && !row.open) {
      row.commits.forEach(commit => rowOf.set(commit.id, index));
    } else if (row.kind === 'commit') {
      rowOf.set(row.commit.id, index);
    }
  });
  // Oldest first, so that parents are placed before those who ask for them.
  for (let i = commits.length - 1; i >= 0; i--) {
    const { id, parents } = commits[i];
    if (!rowOf.has(id)) {
      rowOf.set(id, rowOf.get(parents[0] ?? '') ?? -1);
    }
  }
  return rowOf;
}

/** From where to where each thread runs. */
function threadSpans(
  commits: readonly CommitView[],
  rows: readonly Row[],
  bearings: IBearings,
  rowOf: ReadonlyMap<string, number>
): Map<string, IThreadSpan> {
  const spans = new Map<string, IThreadSpan>();
  rows.forEach((row, index) => {
    for (const { thread } of shownIn(row)) {
      const span = spans.get(thread);
      if (span) {
        span.bottom = index;
      } else {
        const goesOn = !!bearings.threads.get(thread)?.session;
        spans.set(thread, {
          top: index,
          bottom: index,
          from: null,
          kept: goesOn ? -1 : index,
          lane: 0
        });
      }
    }
  });
  for (const commit of commits) {
    const span = spans.get(commit.thread);
    const parent = bearings.byId.get(commit.parents[0] ?? '');
    if (span && parent && parent.thread !== commit.thread) {
      const row = rowOf.get(parent.id) ?? -1;
      const there = row > span.bottom ? shownIn(rows[row]) : [];
      // What stands for the parent may belong to an ancestor's thread.
      const found = there.find(it => it.id === parent.id) ?? there[0];
      if (found && found.thread !== commit.thread) {
        span.from = { row, thread: found.thread };
      }
    }
  }
  return spans;
}

/** Gives lanes to threads, oldest first. Returns what is taken in each lane, from the bottom up. */
function giveLanes(spans: IThreadSpan[]): ISpan[][] {
  const lanes: ISpan[][] = [];
  const end = (span: IThreadSpan): number => span.from?.row ?? span.bottom;
  spans.sort((a, b) => end(b) - end(a) || b.bottom - a.bottom);
  for (const span of spans) {
    const bottom = end(span);
    let lane = lanes.findIndex(taken => taken[taken.length - 1].top > bottom);
    if (lane < 0) {
      lane = lanes.push([]) - 1;
    }
    span.lane = lane;
    lanes[lane].push({ top: span.kept, bottom });
  }
  return lanes;
}

/** Rollbacks by their targets, the oldest target first. A target that is not shown has the row -1. */
function findTracks(
  rows: readonly Row[],
  rowOf: ReadonlyMap<string, number>
): ITrack[] {
  const tracks = new Map<string, ITrack>();
  rows.forEach((row, index) => {
    const id = row.kind === 'commit' ? backTo(row.commit) : null;
    if (id === null) {
      return;
    }
    const track = tracks.get(id);
    if (track) {
      track.starts.push(index);
    } else {
      const at = rowOf.get(id) ?? -1;
      const shown = at > index && shownIn(rows[at]).some(it => it.id === id);
      tracks.set(id, { target: shown ? at : -1, starts: [index], lane: -1 });
    }
  });
  return [...tracks.values()].sort((a, b) => b.target - a.target);
}

/** Gives tracks the lanes that threads left free. */
function giveTrackLanes(
  tracks: readonly ITrack[],
  busy: readonly ISpan[][]
): void {
  const tops: number[] = []; // lane -> the topmost row that tracks have taken
  for (const track of tracks) {
    if (track.target < 0) {
      continue;
    }
    const [top] = track.starts;
    for (let lane = 0; lane <= MAX_TRACK_LANE; lane++) {
      const free = (tops[lane] ?? Infinity) > track.target;
      if (free && !meets(busy[lane] ?? [], top, track.target)) {
        track.lane = lane;
        tops[lane] = top;
        break;
      }
    }
  }
}

/** Whether one of `spans`, which lie apart from each other, the lowest first, has a row from `top` to `bottom`. */
function meets(spans: readonly ISpan[], top: number, bottom: number): boolean {
  let low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle].top <= bottom) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low < spans.length && spans[low].bottom >= top;
}
