/**
 * Where tabs open in the main area.
 *
 * The first branch of a notebook opens beside it, so that both can be seen; those after it are tabs in that same place, as
 * every further split would leave less room to all. A comparison needs room for two sides: it opens in the widest place.
 */
import type { DocumentRegistry } from '@jupyterlab/docregistry';

/** What is read of a notebook that is open. */
export interface IOpen {
  readonly id: string;
  readonly context: { readonly path: string };
}

const BRANCH = / \(branch(?: \d+)?\)(?=\.[^./]*$|$)/;

/** The path that a notebook was branched off, as the server names copies; its own if it is no branch. */
export function rootOf(path: string): string {
  return path.replace(BRANCH, '');
}

/** Where a branch of `panel` opens, given the notebooks that are open. */
export function placeOfBranch(
  panel: IOpen,
  open: readonly IOpen[]
): DocumentRegistry.IOpenOptions {
  const root = rootOf(panel.context.path);
  const isBranch = (one: IOpen) =>
    one.context.path !== root && rootOf(one.context.path) === root;
  // A branch of a branch stays with it; else the one that was opened last shows the place.
  const sibling = isBranch(panel) ? panel : open.filter(isBranch).pop();
  return sibling
    ? { ref: sibling.id, mode: 'tab-after' }
    : { ref: panel.id, mode: 'split-right' };
}

/** The widest of the widgets that can be seen. */
export function widest<T extends { node: { offsetWidth: number } }>(
  widgets: Iterable<T>
): T | null {
  let found: T | null = null;
  for (const one of widgets) {
    // What is behind another tab has no width.
    if (one.node.offsetWidth > (found?.node.offsetWidth ?? 0)) {
      found = one;
    }
  }
  return found;
}
