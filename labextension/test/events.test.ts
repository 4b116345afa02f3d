import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { IPage, Socket } from '../src/events';
import {
  EventStream,
  FIRST_PAUSE,
  LONGEST_PAUSE,
  POLL_EVERY
} from '../src/events';
import type { EventsAnswer, StreamEvent } from '../src/wire';

/** A page whose clock the test moves. */
class FakePage implements IPage {
  hidden = false;
  private _now = 0;
  private _next = 1;
  private _timers = new Map<number, { at: number; call: () => void }>();
  private _visible: (() => void)[] = [];

  onVisible(call: () => void) {
    this._visible.push(call);
    return { isDisposed: false, dispose: () => undefined };
  }
  setTimeout(call: () => void, ms: number): number {
    this._timers.set(this._next, { at: this._now + ms, call });
    return this._next++;
  }
  clearTimeout(timer: number): void {
    this._timers.delete(timer);
  }
  random(): number {
    return 1;
  }
  show(): void {
    this.hidden = false;
    this._visible.forEach(call => call());
  }
  /** Lets time pass and what is due happen. */
  async pass(ms: number): Promise<void> {
    const end = this._now + ms;
    for (;;) {
      await settled();
      const due = [...this._timers].filter(([, t]) => t.at <= end);
      if (!due.length) {
        break;
      }
      const [id, timer] = due.reduce((a, b) => (a[1].at <= b[1].at ? a : b));
      this._timers.delete(id);
      this._now = timer.at;
      timer.call();
    }
    this._now = end;
  }
}

/** Lets promises that are already resolved call their followers. */
async function settled(): Promise<void> {
  for (let i = 0; i < 10; i++) {
    await Promise.resolve();
  }
}

type Fake = Socket & { closed: boolean };

function setUp(answers: () => EventsAnswer = () => ({ events: [], next: 0 })) {
  const page = new FakePage();
  const sockets: Fake[] = [];
  const asked: number[] = [];
  const stream = new EventStream({
    page,
    open: () => {
      const socket: Fake = {
        onopen: null,
        onclose: null,
        onmessage: null,
        closed: false,
        close: () => {
          socket.closed = true;
        }
      };
      sockets.push(socket);
      return socket;
    },
    poll: async since => {
      asked.push(since);
      return answers();
    }
  });
  const events: StreamEvent[] = [];
  let resyncs = 0;
  stream.event.connect((_, event) => void events.push(event));
  stream.resync.connect(() => void resyncs++);
  stream.start();
  const last = () => sockets[sockets.length - 1] as Socket as WebSocket;
  return {
    page,
    sockets,
    asked,
    stream,
    events,
    resyncs: () => resyncs,
    opens: () => last().onopen?.call(last(), {} as Event),
    closes: () => last().onclose?.call(last(), {} as CloseEvent),
    says: (data: string) =>
      last().onmessage?.call(last(), { data } as MessageEvent)
  };
}

describe('the stream of events', () => {
  it('passes events on, and skips what it cannot read', () => {
    const t = setUp();
    t.opens();
    t.says('{"type":"daemon","away":true}');
    t.says('not json');
    t.says('[1]');
    assert.deepEqual(t.events, [{ type: 'daemon', away: true }]);
    assert.equal(t.resyncs(), 1);
    assert.equal(t.stream.transport, 'socket');
  });

  it('opens the socket again after it closed, and says that events may be missing', async () => {
    const t = setUp();
    t.opens();
    t.closes();
    assert.equal(t.sockets.length, 1);
    await t.page.pass(FIRST_PAUSE);
    assert.equal(t.sockets.length, 2);
    t.opens();
    assert.equal(t.resyncs(), 2);
    assert.deepEqual(t.asked, []);
  });

  it('polls where sockets cannot be opened, and drops what is older than the page', async () => {
    let answer: EventsAnswer = {
      events: [{ type: 'resumed', kernel_id: 'old' }],
      next: 7
    };
    const t = setUp(() => answer);
    for (let failures = 0; failures < 3; failures++) {
      t.closes();
      await t.page.pass(failures < 2 ? LONGEST_PAUSE : 0);
    }
    assert.equal(t.stream.transport, 'polling');
    assert.deepEqual(t.asked, [0]);
    assert.deepEqual(t.events, []);
    assert.equal(t.resyncs(), 1);

    answer = { events: [{ type: 'resumed', kernel_id: 'new' }], next: 8 };
    await t.page.pass(POLL_EVERY);
    assert.deepEqual(t.asked, [0, 7]);
    assert.deepEqual(t.events, [{ type: 'resumed', kernel_id: 'new' }]);
  });

  it('does not poll while the page is hidden', async () => {
    const t = setUp();
    t.page.hidden = true;
    for (let failures = 0; failures < 3; failures++) {
      t.closes();
      await t.page.pass(failures < 2 ? LONGEST_PAUSE : 0);
    }
    await t.page.pass(10 * POLL_EVERY);
    assert.deepEqual(t.asked, []);
    t.page.show();
    await settled();
    assert.deepEqual(t.asked, [0]);
  });

  it('ends with the page', async () => {
    const t = setUp();
    t.opens();
    t.stream.dispose();
    assert.ok(t.sockets[0].closed);
    await t.page.pass(LONGEST_PAUSE);
    assert.equal(t.sockets.length, 1);
  });
});
