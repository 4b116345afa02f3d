/**
 * Classes of the lane colours. The colours themselves are in `style/history.css`, one set for light themes and one for
 * dark ones; a test computes that each can be told from the backgrounds it is drawn on.
 */

/** How many colours there are before they begin again. */
export const COLOURS = 8;

/** The class that sets `color` to that of a thread. */
export function colourClass(colour: number): string {
  return `jp-InfinijupHistory-colour${colour % COLOURS}`;
}
