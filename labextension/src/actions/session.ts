/** Branching, suspending and resuming. */
import type { NotebookPanel } from '@jupyterlab/notebook';
import { contentOf, saveIfDirty } from '../document';
import { cut } from '../format';
import { baseName, size } from '../history/format';
import type { ITarget } from '../notebooks';
import { asSentence, follow } from '../notify';
import { placeOfBranch } from '../places';
import { CommandIDs } from '../tokens';
import type { BranchAnswer, SessionView, SuspendOutcome } from '../wire';
import type { IDeps } from './deps';

/** Makes a second kernel out of this one, with a copy of the notebook beside the original. */
export async function branch(
  deps: IDeps,
  { kernelId, panel }: ITarget,
  from?: string
): Promise<BranchAnswer | null> {
  const { model, trans, documents } = deps;
  if (panel) {
    await saveIfDirty(panel);
  }
  return follow(model, trans, {
    kernelId,
    kinds: ['branch', 'snapshot'],
    begin: trans.__('Branching'),
    work: async () => {
      const answer = await model.api.branch({
        kernel_id: kernelId,
        ...(from ? { from } : {}),
        ...(panel ? { notebook: contentOf(panel) } : {})
      });
      const opened: NotebookPanel[] = [];
      deps.notebooks.tracker.forEach(one => opened.push(one));
      // The server has made a Jupyter session for the copy: opening the path finds it.
      documents.openOrReveal(
        answer.path,
        'Notebook',
        { id: answer.kernel_id },
        panel ? placeOfBranch(panel, opened) : {}
      );
      return answer;
    },
    end: answer => ({
      message: [
        trans.__(
          'Branched: %1 runs on a kernel of its own.',
          cut(baseName(answer.path), 60)
        ),
        ...answer.warnings.map(asSentence)
      ].join(' '),
      type: answer.warnings.length > 0 ? 'warning' : 'success'
    })
  });
}

/** Puts a kernel to sleep and gives its memory back. */
export async function suspend(
  { app, model, trans }: IDeps,
  { kernelId, panel }: ITarget
): Promise<SuspendOutcome | null> {
  if (panel) {
    await saveIfDirty(panel);
  }
  return follow(model, trans, {
    kernelId,
    kinds: ['suspend', 'snapshot'],
    begin: trans.__('Suspending the kernel'),
    work: () => model.api.suspend(kernelId),
    end: outcome => ({
      message: outcome.freed_vram_bytes
        ? trans.__(
            'Kernel suspended: %1 of GPU memory and %2 of memory freed. Running a cell brings it back.',
            size(outcome.freed_vram_bytes),
            size(outcome.freed_bytes)
          )
        : trans.__(
            'Kernel suspended: %1 of memory freed. Running a cell brings it back.',
            size(outcome.freed_bytes)
          ),
      while: state => state.session?.state === 'suspended',
      actions: [
        {
          label: trans.__('Resume'),
          displayType: 'link',
          callback: () =>
            void app.commands.execute(CommandIDs.resume, {
              kernel_id: kernelId
            })
        }
      ]
    })
  });
}

/** Brings a suspended kernel back. */
export async function resume(
  { model, trans }: IDeps,
  { kernelId }: ITarget
): Promise<SessionView | null> {
  return follow(model, trans, {
    kernelId,
    kinds: ['resume'],
    begin: trans.__('Resuming the kernel'),
    work: () => model.api.resume(kernelId),
    end: session => ({
      message: session.vram_bytes
        ? trans.__(
            'Kernel resumed, with %1 of GPU memory.',
            size(session.vram_bytes)
          )
        : trans.__('Kernel resumed.')
    })
  });
}
