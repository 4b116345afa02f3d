/**
 * Small drawings, in the colour of the text they stand in.
 *
 * They are React's own elements and not `LabIcon`s, so that everything below the panel can be drawn without a browser.
 * The names are said in words beside them or in the label of their button.
 */
import React from 'react';
import type { Kind } from './commits';

type Name =
  | Kind
  | 'refresh'
  | 'search'
  | 'open'
  | 'closed'
  | 'tag'
  | 'compare'
  | 'delete'
  | 'copy'
  | 'warning'
  | 'resume'
  | 'close'
  | 'server'
  | 'more';

const PATHS: Record<Name, string> = {
  // A camera.
  manual:
    'M2 5h2.5l1-1.5h5l1 1.5H14v8H2z M8 6.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5z',
  // A clock.
  automatic: 'M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11z M8 5v3.2l2.2 1.4',
  // A moon.
  suspend: 'M12.5 9.8A5.2 5.2 0 0 1 6.2 3.5a5.2 5.2 0 1 0 6.3 6.3z',
  // One line becomes two.
  branch:
    'M5 5.2v5.6 M5 10c0-3 6-1.5 6-4.8 M5 2.2a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3z M11 2.2a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3z M5 10.8a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3z',
  // An arrow back.
  rollback: 'M3 4v3.5h3.5 M3.3 7.3A5 5 0 1 1 3.2 10',
  // A globe.
  server:
    'M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11z M2.5 8h11 M8 2.5c-3 3-3 8 0 11 M8 2.5c3 3 3 8 0 11',
  refresh: 'M13 4v3.5H9.5 M12.7 7.3A5 5 0 1 0 12.8 10',
  search: 'M7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8z M10 10l3.5 3.5',
  open: 'M4 6l4 4 4-4',
  closed: 'M6 4l4 4-4 4',
  tag: 'M2.5 2.5h5l6 6-5 5-6-6z M5.3 5.3h.1',
  compare:
    'M5 2.5v11 M11 2.5v11 M2.5 5.5h2.5 M2.5 8h2.5 M11 8h2.5 M11 10.5h2.5',
  delete: 'M3 4.5h10 M6.5 4.5v-2h3v2 M4.5 4.5l.6 9h5.8l.6-9 M7 7v4 M9 7v4',
  copy: 'M5.5 5.5h8v8h-8z M3 10.5h-.5v-8h8V3',
  warning: 'M8 2.5l6 11H2z M8 6.5v3.5 M8 11.8h.1',
  resume: 'M5 3l8 5-8 5z',
  close: 'M4 4l8 8 M12 4l-8 8',
  // Three dots.
  more: 'M3.5 8h.1 M8 8h.1 M12.500 8h.1'
};

/** A drawing. */
export function Icon(props: { name: Name }): JSX.Element {
  return (
    <svg
      className="jp-InfinijupHistory-icon"
      viewBox="0 0 16 16"
      aria-hidden="true"
      focusable="false"
    >
      <path d={PATHS[props.name]} />
    </svg>
  );
}
