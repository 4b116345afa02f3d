/**
 * Questions of `input()` that a swap has ended.
 *
 * The box of such a question would stay in the output for ever, and JupyterLab would run no cell as long as it believes
 * that the kernel waits for an answer. A kernel that goes on in the middle of a question asks it again, in a new box.
 */
import type { CodeCell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';

const BOX = 'jp-OutputArea-stdin-item';

/** Takes away the boxes that nobody waits behind: all, but for the newest one of the cell that goes on. */
export function endQuestions(
  panel: NotebookPanel,
  runningCell: string | null
): void {
  let asked = false;
  for (const cell of panel.content.widgets) {
    if (cell.model.type !== 'code') {
      continue;
    }
    const boxes = (cell as CodeCell).outputArea.widgets.filter(widget =>
      widget.hasClass(BOX)
    );
    if (cell.model.id === runningCell) {
      asked = boxes.pop() !== undefined || asked;
    }
    boxes.forEach(box => box.dispose());
  }
  if (!asked) {
    panel.sessionContext.session?.kernel?.removeInputGuard();
  }
}
