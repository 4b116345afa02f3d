/** Messages of the daemon as sentences, and sentences that fit into a notification. */

/** JupyterLab cuts longer messages. */
const LONGEST = 140;

/** The daemon's messages are in lower case without a full stop; people get a sentence. */
export function asSentence(message: string): string {
  const line = message.trim();
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
