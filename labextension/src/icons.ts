/** Icons, drawn with JupyterLab's classes so that they follow the theme. */
import { LabIcon } from '@jupyterlab/ui-components';

function icon(name: string, path: string): LabIcon {
  return new LabIcon({
    name: `infinijup:${name}`,
    svgstr:
      '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">' +
      `<path class="jp-icon3 jp-icon-selectable" fill="#616161" fill-rule="evenodd" d="${path}"/></svg>`
  });
}

/** A camera. */
export const snapshotIcon = icon(
  'snapshot',
  'M9 4 7.4 6H4a2 2 0 0 0-2 2v10a2 2 0 0 0 2 2h16a2 2 0 0 0 2-2V8a2 2 0 0 0-2-2h-3.400L15 4ZM12 8a5 5 0 1 1 0 10a5 5 0 0 1 0-10ZM12 10a3 3 0 1 0 0 6a3 3 0 0 0 0-6Z'
);

/** One line that becomes two. */
export const branchIcon = icon(
  'branch',
  'M6 2a3 3 0 0 1 1 5.830V13.600C8 12.600 9.500 12 11 12c3 0 5-1.500 5-3.600V7.830a3 3 0 1 1 2 0v.570C18 11.800 15 14 11 14c-2 0-3.700 1-4 2.200A3 3 0 1 1 5 16.170V7.830A3 3 0 0 1 6 2ZM6 4a1 1 0 1 0 0 2a1 1 0 0 0 0-2ZM17 4a1 1 0 1 0 0 2a1 1 0 0 0 0-2ZM6 18a1 1 0 1 0 0 2a1 1 0 0 0 0-2Z'
);

/** An arrow back over a cell. */
export const undoCellIcon = icon(
  'undo-cell',
  'M3 13h13v8H3ZM5 15v4h9v-4ZM12.500 8a6.500 6.500 0 0 1 6.400 7.600l-2-.300A4.500 4.500 0 0 0 12.500 10H7l2.300 2.300-1.400 1.400L3.200 9l4.700-4.700 1.400 1.400L7 8Z'
);

/** A moon: the kernel sleeps, and its memory is given back. */
export const suspendIcon = icon(
  'suspend',
  'M13 3a9 9 0 1 0 8 11.700A7.500 7.500 0 0 1 13 3ZM10.300 5.200A9.500 9.500 0 0 0 17.600 16.900A7 7 0 1 1 10.300 5.200Z'
);

/** A sun: it is awake again. */
export const resumeIcon = icon(
  'resume',
  'M12 7a5 5 0 1 1 0 10a5 5 0 0 1 0-10ZM12 9a3 3 0 1 0 0 6a3 3 0 0 0 0-6ZM11 1h2v4h-2ZM11 19h2v4h-2ZM1 11h4v2H1ZM19 11h4v2h-4ZM3.500 4.900 4.900 3.500 7.800 6.300 6.300 7.800ZM16.200 17.700 17.700 16.200 20.500 19.100 19.100 20.500ZM19.100 3.500 20.500 4.900 17.700 7.800 16.200 6.300ZM6.300 16.200 7.800 17.700 4.900 20.500 3.500 19.100Z'
);
