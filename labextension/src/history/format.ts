/**
 * Sizes, times and names as people read them.
 *
 * What `Intl` can say is left to `Intl`, so it is right in every language that the page may be in.
 */
import type { Text } from '../wire';

const UNITS = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];

/** A size as the file browser shows it: `12.3 MB`, in powers of 1024. */
export function size(bytes: number): string {
  let value = Math.max(0, bytes);
  let unit = 0;
  // 1023.95 and more would be shown as 1024 of the smaller unit.
  while (value >= (unit === 0 ? 1024 : 1023.95) && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : 1;
  return `${Number(value.toFixed(digits))} ${UNITS[unit]}`;
}

/** How long something took: `850 µs`, `42 ms`, `1.3 s`, `2 min 5 s`. */
export function duration(micros: number): string {
  if (micros < 1000) {
    return `${Math.round(micros)} µs`;
  }
  const ms = micros / 1000;
  if (ms < 999.5) {
    return `${Math.round(ms)} ms`;
  }
  const seconds = ms / 1000;
  if (seconds < 59.95) {
    return `${Number(seconds.toFixed(1))} s`;
  }
  const whole = Math.round(seconds);
  const rest = whole % 60;
  return `${Math.floor(whole / 60)} min${rest ? ` ${rest} s` : ''}`;
}

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 365 * 86400],
  ['month', 30 * 86400],
  ['day', 86400],
  ['hour', 3600],
  ['minute', 60]
];

// Making a formatter takes longer than using it a thousand times, and every row uses one.
const formatters = new Map<string, unknown>();

function cached<T>(key: string, make: () => T): T {
  let found = formatters.get(key) as T | undefined;
  if (found === undefined) {
    found = make();
    formatters.set(key, found);
  }
  return found;
}

/** How long ago, in words: `now`, `5 minutes ago`, `yesterday`. What lies in the future by clock skew is now. */
export function relativeTime(then: Date, now: Date, locale?: string): string {
  const format = cached(
    `relative ${locale}`,
    () => new Intl.RelativeTimeFormat(locale, { numeric: 'auto' })
  );
  const seconds = Math.max(0, (now.getTime() - then.getTime()) / 1000);
  for (const [unit, length] of STEPS) {
    if (seconds >= length) {
      return format.format(-Math.floor(seconds / length), unit);
    }
  }
  return format.format(0, 'second');
}

/** The time on a card, which stands under its day: how long ago within a day, else the hour and the minute. */
export function cardTime(then: Date, now: Date, locale?: string): string {
  const day = 86_400_000;
  return now.getTime() - then.getTime() < day
    ? relativeTime(then, now, locale)
    : clock(then, locale);
}

/** The hour and the minute. */
export function clock(time: Date, locale?: string): string {
  return cached(
    `clock ${locale}`,
    () =>
      new Intl.DateTimeFormat(locale, { hour: '2-digit', minute: '2-digit' })
  ).format(time);
}

/** The whole date and time, for details and tooltips. */
export function fullTime(time: Date, locale?: string): string {
  return cached(
    `full ${locale}`,
    () =>
      new Intl.DateTimeFormat(locale, {
        dateStyle: 'medium',
        timeStyle: 'medium'
      })
  ).format(time);
}

/** A key that two times share if they are on the same day of the reader's calendar. */
export function dayKey(time: Date): number {
  return time.getFullYear() * 512 + time.getMonth() * 32 + time.getDate();
}

/** The name of a day: `Today`, `Yesterday`, `Mon, 9 Nov`, and with its year if that is another. */
export function dayName(time: Date, now: Date, locale?: string): string {
  const noon = (date: Date): number =>
    Date.UTC(date.getFullYear(), date.getMonth(), date.getDate(), 12);
  const days = Math.round((noon(now) - noon(time)) / 86400000);
  let name: string;
  if (days === 0 || days === 1) {
    name = cached(
      `day ${locale}`,
      () => new Intl.RelativeTimeFormat(locale, { numeric: 'auto' })
    ).format(-days, 'day');
  } else {
    const sameYear = time.getFullYear() === now.getFullYear();
    name = cached(
      `date ${locale} ${sameYear}`,
      () =>
        new Intl.DateTimeFormat(locale, {
          weekday: 'short',
          day: 'numeric',
          month: 'short',
          year: sameYear ? undefined : 'numeric'
        })
    ).format(time);
  }
  return name.charAt(0).toLocaleUpperCase(locale) + name.slice(1);
}

/** The first line of a text that says something, cut at `limit` characters. */
export function firstLine(text: string, limit = 200): string {
  const line = /\S[^\r\n]*/.exec(text)?.[0].trimEnd() ?? '';
  const characters = Array.from(line.slice(0, 2 * limit + 2));
  return characters.length > limit
    ? `${characters.slice(0, limit - 1).join('')}…`
    : line;
}

/** Lines that say little about what a cell does: comments, magics that only measure, decorators. */
const SAYS_LITTLE = /^\s*(#|\/\/|%%?(time|timeit|capture|prun)\b|@)/;

/** The line of a cell that tells it from others: the first one that is code; a comment if there is nothing else. */
export function codeLine(source: string, limit = 200): string {
  const lines = source.split(/\r?\n/).filter(line => line.trim());
  const found = lines.find(line => !SAYS_LITTLE.test(line)) ?? lines[0] ?? '';
  return firstLine(found, limit);
}

/** The beginning of an id, as the command line shows it. */
export function shortId(id: string): string {
  return id.slice(0, 10);
}

/** A path that may not be text: what cannot be shown is shown as the mark for that. */
export function plain(text: Text): string {
  if (typeof text === 'string') {
    return text;
  }
  const pairs = text.hex.match(/[0-9a-fA-F]{2}/g) ?? [];
  const bytes = Uint8Array.from(pairs, pair => parseInt(pair, 16));
  return new TextDecoder().decode(bytes);
}

/** The last part of a path. */
export function baseName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1) || path;
}
