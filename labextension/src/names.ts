/**
 * What tags may be called.
 *
 * The rule is the daemon's (`crates/base/src/names.rs`), which refuses what does not fit. It stands here too so that a dialog can say
 * so while one types; `tests/fixtures/names/table.json` holds both together.
 */

const LONGEST_TAG = 200;

const CONTROL = /\p{Cc}/u;
/** They turn the direction of text around, or end a line: a name with one of them looks like another. */
const DIRECTION = /[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;
const RESERVED = /[~^:?*[\\]/u;
const WHITE_SPACE_AROUND = /^\p{White_Space}|\p{White_Space}$/u;

/** Whether a tag can be called so. */
export function isTagName(name: string): boolean {
  const bytes = new TextEncoder().encode(name).length;
  return (
    bytes >= 1 &&
    bytes <= LONGEST_TAG &&
    ![CONTROL, DIRECTION, RESERVED, WHITE_SPACE_AROUND].some(rule =>
      rule.test(name)
    ) &&
    !name.includes('..') &&
    !name.startsWith('-') &&
    !name.endsWith('.') &&
    name
      .split('/')
      .every(
        part => part !== '' && !part.startsWith('.') && !part.endsWith('.lock')
      )
  );
}
