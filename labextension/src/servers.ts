/**
 * The servers that the kernel of the current notebook runs, and where the page finds them.
 *
 * They are asked for when a cell has ended and when another kernel is looked at, never in between: an idle panel makes no
 * requests. What a cell starts may take a moment to listen, so they are asked for once more a little later.
 */
import { URLExt } from '@jupyterlab/coreutils';
import type { IServerLink } from './history/source';
import type { ServersAnswer, SessionView } from './wire';

/** When they are asked for, in milliseconds, and when once more if a cell has just ended. */
const SOON = 200;
const LATER = 3000;

/** Where a page at `here` finds them; a server that it cannot reach has no link. */
export function linksOf(
  answer: ServersAnswer,
  baseUrl: string,
  here: { readonly hostname: string }
): IServerLink[] {
  const isLocal = ['localhost', '127.0.0.1', '[::1]'].includes(here.hostname);
  return answer.servers.map(({ port, outside_port: outside }) => {
    if (answer.proxied) {
      return { port, url: `${URLExt.join(baseUrl, 'proxy', `${outside}`)}/` };
    }
    return { port, url: isLocal ? `http://127.0.0.1:${outside}/` : null };
  });
}

/** Knows the servers of one session at a time. */
export class Servers {
  constructor(
    private readonly _ask: (session: string) => Promise<IServerLink[]>,
    private readonly _changed: () => void
  ) {}

  get links(): readonly IServerLink[] {
    return this._links;
  }

  /** Looks at another session, or at what has become of this one. Nobody looks at `null`. */
  follow(session: SessionView | null): void {
    const id = session?.state === 'running' ? session.id : null;
    const key = JSON.stringify([id, session?.pid, session?.activity]);
    if (key === this._key) {
      return;
    }
    this._key = key;
    this.stop();
    if (id !== this._session) {
      this._session = id;
      this._links = [];
    }
    const wasBusy = this._isBusy;
    this._isBusy = id !== null && session?.activity?.state === 'busy';
    if (id !== null && !this._isBusy) {
      this._timers = (wasBusy ? [SOON, LATER] : [SOON]).map(moment =>
        setTimeout(() => void this._look(id), moment)
      );
    }
  }

  /** Asks for nothing more. */
  stop(): void {
    this._timers.forEach(timer => clearTimeout(timer));
    this._timers = [];
  }

  private async _look(id: string): Promise<void> {
    let links: IServerLink[];
    try {
      links = await this._ask(id);
    } catch {
      // Without an answer nothing is known of them: a daemon that is away or older.
      links = [];
    }
    if (
      id === this._session &&
      JSON.stringify(links) !== JSON.stringify(this._links)
    ) {
      this._links = links;
      this._changed();
    }
  }

  private _session: string | null = null;
  private _key = '';
  private _isBusy = false;
  private _links: readonly IServerLink[] = [];
  private _timers: ReturnType<typeof setTimeout>[] = [];
}
