/** Widgets in the outputs of a notebook. */

const VIEW = 'application/vnd.jupyter.widget-view+json';

/** The ids of widgets that outputs show and that are not among those that the kernel knows. */
export function strangers(
  outputs: readonly unknown[],
  known: ReadonlySet<string>
): string[] {
  const found: string[] = [];
  for (const output of outputs) {
    const data = (output as { data?: Record<string, unknown> }).data;
    const id = (data?.[VIEW] as { model_id?: unknown } | undefined)?.model_id;
    if (typeof id === 'string' && !known.has(id)) {
      found.push(id);
    }
  }
  return found;
}
