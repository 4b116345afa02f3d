/**
 * The notebook as a document: what a snapshot takes of it, and how it is put back.
 *
 * Putting back goes through the model, so that the shared document (and everyone who edits it with us) sees one change
 * and can undo it. A rollback may have put the file on disk back too; JupyterLab would then ask at the next save which
 * of the two to keep. So the context first takes note of the file as it is now, and then saves what the page shows.
 */
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookContent } from '@jupyterlab/nbformat';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import type { ReadonlyJSONObject } from '@lumino/coreutils';

/** The document as it is in the page now. */
export function contentOf(panel: NotebookPanel): ReadonlyJSONObject {
  return panel.context.model.toJSON() as ReadonlyJSONObject;
}

/** Writes unsaved changes to the file. A file that cannot be written does not stop a snapshot: it gets the page's copy. */
export async function saveIfDirty(panel: NotebookPanel): Promise<void> {
  const { context } = panel;
  if (!context.isReady || !context.model.dirty || context.model.readOnly) {
    return;
  }
  try {
    await context.save();
  } catch {
    // JupyterLab has told the user itself.
  }
}

/** Puts another content into the page and the file. */
export async function putBack(
  panel: NotebookPanel,
  contents: Contents.IManager,
  content: ReadonlyJSONObject
): Promise<void> {
  const { context } = panel;
  await followFile(context, contents);
  context.model.fromJSON(content as INotebookContent);
  await context.save();
}

/** Keeps what the page shows, also if the file under it was put back. */
export async function keep(
  panel: NotebookPanel,
  contents: Contents.IManager
): Promise<void> {
  const { context } = panel;
  const content = contentOf(panel);
  if (await followFile(context, contents)) {
    context.model.fromJSON(content as INotebookContent);
    await context.save();
  }
}

/** Takes note of a file that somebody else has written; says whether somebody had. */
async function followFile(
  context: DocumentRegistry.IContext<DocumentRegistry.IModel>,
  contents: Contents.IManager
): Promise<boolean> {
  let now: Contents.IModel;
  try {
    now = await contents.get(context.path, { content: false });
  } catch {
    return false; // it is not there any more; saving makes it anew
  }
  if (now.last_modified === context.contentsModel?.last_modified) {
    return false;
  }
  await context.revert();
  return true;
}
