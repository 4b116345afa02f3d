/** Files of a branch that are in no snapshot, as a person is told of them before their kernel is deleted. */
import type { TranslationBundle } from '@jupyterlab/translation';
import { baseName, plain, size } from './history/format';
import type { FileNote } from './wire';

/** So many are named in a sentence. */
const NAMED = 3;

/** A line for each: its name and its size. */
export function looseLines(files: readonly FileNote[]): string[] {
  return files.map(
    file => `${baseName(plain(file.path))} (${size(file.bytes)})`
  );
}

/** The first few in a sentence, and how many more there are. */
export function looseSentence(
  trans: TranslationBundle,
  files: readonly FileNote[]
): string {
  const lines = looseLines(files);
  const left = lines.length - NAMED;
  const named = lines.slice(0, NAMED).join(', ');
  return left > 0
    ? `${named} ${trans._n('and %1 more', 'and %1 more', left)}`
    : named;
}
