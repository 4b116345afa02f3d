/** Messages of the daemon as sentences, and sentences that fit into a notification. */

/** JupyterLab cuts longer messages. */
const LONGEST = 140;

/** Snapshots as the daemon's messages name them; people know them by other names, and the details keep the id. */
const IDS = /\b(?:snapshot )?[0-9a-f]{12,64}\b/g;

/** The daemon's messages are in lower case without a full stop; people get a sentence. */
export function asSentence(message: string): string {
  const line = message.trim().replace(IDS, 'this snapshot');
  if (!line) {
    return line;
  }
  const first = line[0].toUpperCase() + line.slice(1);
  return /[.!?…]$/.test(first) ? first : `${first}.`;
}

/** As many whole sentences of a message as a notification shows, and whether there are more. */
export function fitting(message: string): { shown: string; rest: boolean } {
  let shown = '';
  for (const sentence of message.split(/(?<=[.!?…])\s+(?=\p{Lu})/u)) {
    const longer = shown ? `${shown} ${sentence}` : sentence;
    if (Array.from(longer).length > LONGEST) {
      return { shown, rest: true };
    }
    shown = longer;
  }
  return { shown, rest: false };
}
