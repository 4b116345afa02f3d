/**
 * The one stream of events that a page has.
 *
 * A websocket carries it. When the socket closes, it is opened again after a pause that doubles from one second to half
 * a minute, with some randomness so that the pages of a whole class do not come back at the same instant. Where
 * websockets cannot be opened at all (some proxies), three failures in a row make the stream ask `GET events` every few
 * seconds instead, only while the page is visible, and it goes on trying the socket once a minute.
 *
 * Events that happened while nobody listened are lost to the page, so each time the stream comes back it says `resync`,
 * and whoever keeps state asks for it anew. Between those moments no other request is needed.
 */
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import type { EventsAnswer, StreamEvent } from './wire';

/** The pauses, in milliseconds. */
export const FIRST_PAUSE = 1000;
export const LONGEST_PAUSE = 30_000;
export const POLL_EVERY = 3000;
export const SOCKET_AGAIN = 60_000;
/** After so many failures in a row to open the socket the stream polls. */
export const FAILURES_BEFORE_POLLING = 3;

/** What the stream needs from a websocket. */
export type Socket = Pick<
  WebSocket,
  'onopen' | 'onclose' | 'onmessage' | 'close'
>;

/** How the events arrive now. */
export type Transport = 'connecting' | 'socket' | 'polling';

/** What the stream needs from its page; tests give their own. */
export interface IPage {
  readonly hidden: boolean;
  /** Calls back each time the page becomes visible. */
  onVisible(call: () => void): IDisposable;
  setTimeout(call: () => void, ms: number): number;
  clearTimeout(timer: number): void;
  random(): number;
}

/** The page that this code runs in. */
export class BrowserPage implements IPage {
  get hidden(): boolean {
    return document.visibilityState === 'hidden';
  }

  onVisible(call: () => void): IDisposable {
    const listener = () => {
      if (!this.hidden) {
        call();
      }
    };
    document.addEventListener('visibilitychange', listener);
    let isDisposed = false;
    return {
      get isDisposed() {
        return isDisposed;
      },
      dispose: () => {
        isDisposed = true;
        document.removeEventListener('visibilitychange', listener);
      }
    };
  }

  setTimeout(call: () => void, ms: number): number {
    return window.setTimeout(call, ms);
  }

  clearTimeout(timer: number): void {
    window.clearTimeout(timer);
  }

  random(): number {
    return Math.random();
  }
}

/** The stream. */
export class EventStream implements IDisposable {
  constructor(options: EventStream.IOptions) {
    this._open = options.open;
    this._ask = options.poll;
    this._page = options.page ?? new BrowserPage();
    this._visible = this._page.onVisible(() => this._hasBecomeVisible());
  }

  /** Each event, in order. */
  get event(): ISignal<this, StreamEvent> {
    return this._event;
  }

  /** Events may have been missed: ask for what you keep. */
  get resync(): ISignal<this, void> {
    return this._resync;
  }

  get transport(): Transport {
    return this._transport;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Begins to listen. */
  start(): void {
    this._connect();
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._visible.dispose();
    this._stopPolling();
    this._page.clearTimeout(this._retry);
    this._drop();
    Signal.clearData(this);
  }

  private _connect(): void {
    if (this._isDisposed || this._socket) {
      return;
    }
    let socket: Socket;
    try {
      socket = this._open();
    } catch {
      // A page that may not open sockets at all (a content security policy).
      this._hasFailed();
      return;
    }
    this._socket = socket;
    let opened = false;
    socket.onopen = () => {
      opened = true;
      this._failures = 0;
      this._stopPolling();
      this._transport = 'socket';
      this._resync.emit();
    };
    socket.onmessage = message => {
      const event = parse(message.data);
      if (event) {
        this._event.emit(event);
      }
    };
    socket.onclose = () => {
      this._drop();
      if (opened) {
        this._transport = 'connecting';
        this._again(this._pause(0));
      } else {
        this._hasFailed();
      }
    };
  }

  private _drop(): void {
    const socket = this._socket;
    this._socket = null;
    if (socket) {
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close();
    }
  }

  private _hasFailed(): void {
    this._failures += 1;
    if (this._failures >= FAILURES_BEFORE_POLLING) {
      this._again(SOCKET_AGAIN);
      if (this._transport !== 'polling') {
        this._transport = 'polling';
        this._next = null;
        this._poll();
      }
    } else {
      this._again(this._pause(this._failures));
    }
  }

  private _again(ms: number): void {
    if (this._isDisposed) {
      return;
    }
    this._page.clearTimeout(this._retry);
    this._retry = this._page.setTimeout(() => this._connect(), ms);
  }

  private _pause(failures: number): number {
    const longest = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** failures);
    return longest * (0.5 + this._page.random() / 2);
  }

  private _poll(): void {
    this._page.clearTimeout(this._timer);
    if (this._isDisposed || this._transport !== 'polling' || this._asking) {
      return;
    }
    if (this._page.hidden) {
      return; // goes on when the page is looked at again
    }
    this._asking = true;
    const first = this._next === null;
    this._ask(this._next ?? 0)
      .then(
        answer => {
          if (this._isDisposed || this._transport !== 'polling') {
            return;
          }
          this._next = answer.next;
          if (first) {
            // What the server remembers from before is in the state that is asked for now.
            this._resync.emit();
            return;
          }
          for (const event of answer.events) {
            this._event.emit(event);
          }
          if (answer.missed) {
            this._resync.emit();
          }
        },
        () => {
          this._next = null;
        }
      )
      .finally(() => {
        this._asking = false;
        if (!this._isDisposed && this._transport === 'polling') {
          this._page.clearTimeout(this._timer);
          this._timer = this._page.setTimeout(() => this._poll(), POLL_EVERY);
        }
      });
  }

  private _stopPolling(): void {
    this._page.clearTimeout(this._timer);
  }

  private _hasBecomeVisible(): void {
    if (this._transport === 'polling') {
      this._poll();
    } else if (!this._socket) {
      this._again(0);
    }
  }

  private readonly _open: () => Socket;
  private readonly _ask: (since: number) => Promise<EventsAnswer>;
  private readonly _page: IPage;
  private readonly _visible: IDisposable;
  private readonly _event = new Signal<this, StreamEvent>(this);
  private readonly _resync = new Signal<this, void>(this);
  private _socket: Socket | null = null;
  private _transport: Transport = 'connecting';
  private _failures = 0;
  private _retry = 0;
  private _timer = 0;
  private _next: number | null = null;
  private _asking = false;
  private _isDisposed = false;
}

export namespace EventStream {
  export interface IOptions {
    /** Opens the websocket. */
    open: () => Socket;
    /** Asks for the events since a number. */
    poll: (since: number) => Promise<EventsAnswer>;
    page?: IPage;
  }
}

/** One event; `null` for what cannot be read, which a newer server may send. */
function parse(data: unknown): StreamEvent | null {
  if (typeof data !== 'string') {
    return null;
  }
  try {
    const value: unknown = JSON.parse(data);
    return value && typeof value === 'object' && 'type' in value
      ? (value as StreamEvent)
      : null;
  } catch {
    return null;
  }
}
