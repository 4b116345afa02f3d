/**
 * The typed client of the server extension's REST interface.
 *
 * Every method is one request. A refusal becomes an `ApiError` with the code, the sentence and the hint that the daemon
 * gave, so that whoever shows it has the way out at hand.
 */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type { ReadonlyJSONObject } from '@lumino/coreutils';
import type * as Wire from './wire';

export type * from './wire';

/** A request that the server or the daemon refused, or that did not reach them. */
export class ApiError extends Error {
  readonly code: string;
  readonly hint: string | null;
  readonly causes: readonly string[];
  readonly files: readonly Wire.Text[];
  /** The HTTP status; 0 if there was no answer. */
  readonly status: number;

  constructor(status: number, body: Wire.ErrorBody) {
    super(body.message);
    this.name = 'ApiError';
    this.status = status;
    this.code = body.code;
    this.hint = body.hint ?? null;
    this.causes = body.causes ?? [];
    this.files = body.files ?? [];
  }

  /** Everything that is known, for a report. */
  get details(): string {
    const lines = [`${this.code}: ${this.message}`];
    for (const cause of this.causes) {
      lines.push(`  caused by: ${cause}`);
    }
    if (this.hint) {
      lines.push(`  hint: ${this.hint}`);
    }
    lines.push(`  status: ${this.status}`);
    return lines.join('\n');
  }
}

/** Reads a refusal, whether it is ours, Jupyter's own or not JSON at all. */
export function readError(
  status: number,
  statusText: string,
  body: string
): ApiError {
  let parsed: Partial<Wire.ErrorBody> & { reason?: string | null } = {};
  try {
    const value: unknown = JSON.parse(body);
    if (value && typeof value === 'object') {
      parsed = value;
    }
  } catch {
    // A proxy's page of HTML: the status is all that can be told.
  }
  if (status === 404 && !parsed.code) {
    return new ApiError(status, {
      code: 'no-extension',
      message:
        'the server extension of infinijup is not enabled on this Jupyter server',
      hint: 'run `jupyter server extension enable infinijup`, then start the server again'
    });
  }
  return new ApiError(status, {
    code: parsed.code ?? `HTTP ${status}`,
    message: parsed.message || parsed.reason || statusText || `HTTP ${status}`,
    hint: parsed.hint ?? null,
    causes: parsed.causes ?? [],
    files: parsed.files ?? []
  });
}

/** Where a history is asked for: by its kernel, or by the notebook if it has none now. */
export type HistoryOf = { kernel_id: string } | { path: string };

/** The REST interface. */
export class Api {
  readonly settings: ServerConnection.ISettings;

  constructor(settings?: ServerConnection.ISettings) {
    this.settings = settings ?? ServerConnection.makeSettings();
  }

  kernel(kernelId: string): Promise<Wire.KernelAnswer> {
    return this._get(`kernels/${encodeURIComponent(kernelId)}`);
  }

  async sessions(): Promise<Wire.ListedSession[]> {
    const answer = await this._get<{ sessions: Wire.ListedSession[] }>(
      'sessions'
    );
    return answer.sessions;
  }

  /** A history, newest first; `limit` leaves out what is older. */
  history(of: HistoryOf, limit?: number): Promise<Wire.HistoryAnswer> {
    return this._get('history', {
      ...of,
      ...(limit ? { limit: String(limit) } : {})
    });
  }

  snapshot(body: {
    kernel_id: string;
    message?: string;
    tag?: string;
    label?: string;
    notebook?: ReadonlyJSONObject;
    cell?: Wire.CellNote;
    reason?: string;
  }): Promise<Wire.SnapshotOutcome> {
    return this._send('POST', 'snapshot', body);
  }

  restore(body: {
    kernel_id: string;
    to: string;
    force?: boolean;
    /** Whether files go back too; they do if it is not said. */
    files?: boolean;
    notebook?: ReadonlyJSONObject;
  }): Promise<Wire.RollbackOutcome> {
    return this._send('POST', 'restore', body);
  }

  branch(body: {
    kernel_id: string;
    from?: string;
    name?: string;
    notebook?: ReadonlyJSONObject;
  }): Promise<Wire.BranchAnswer> {
    return this._send('POST', 'branch', body);
  }

  suspend(kernelId: string): Promise<Wire.SuspendOutcome> {
    return this._send('POST', 'suspend', { kernel_id: kernelId });
  }

  resume(kernelId: string): Promise<Wire.SessionView> {
    return this._send('POST', 'resume', { kernel_id: kernelId });
  }

  tag(commit: string, name: string, move = false): Promise<Wire.CommitView> {
    return this._send('POST', 'tag', {
      commit,
      name,
      ...(move ? { move } : {})
    });
  }

  async untag(name: string): Promise<void> {
    await this._send('DELETE', `tag/${encodeURIComponent(name)}`);
  }

  forget(commits: string[], force = false): Promise<Wire.ForgetOutcome> {
    return this._send('POST', 'forget', { commits, force });
  }

  gc(): Promise<Wire.GcOutcome> {
    return this._send('POST', 'gc', {});
  }

  diff(a: string, b: string): Promise<Wire.Diff> {
    return this._get('diff', { a, b });
  }

  /** The notebook as it was at a snapshot. */
  async notebook(commit: string): Promise<ReadonlyJSONObject> {
    const answer = await this._get<{ content: ReadonlyJSONObject }>(
      'notebook',
      { commit }
    );
    return answer.content;
  }

  offer(path: string): Promise<Wire.Offer | null> {
    return this._get('offer', { path });
  }

  /** Says that an offer is not wanted. */
  async dismissOffer(path: string): Promise<void> {
    const query = URLExt.objectToQueryString({ path });
    await this._send('DELETE', `offer${query}`);
  }

  /** Ends a session and forgets it; the answer says which files were saved first. */
  removeSession(id: string): Promise<Wire.SessionView | null> {
    return this._send('DELETE', `sessions/${encodeURIComponent(id)}`);
  }

  /** The servers that a session runs. */
  servers(session: string): Promise<Wire.ServersAnswer> {
    return this._get(`sessions/${encodeURIComponent(session)}/servers`);
  }

  /** Where the files of a session are, and which of them no snapshot has. */
  sessionFiles(id: string): Promise<Wire.SessionFiles> {
    return this._get(`sessions/${encodeURIComponent(id)}/files`);
  }

  /** The files that a snapshot has. */
  filesOf(commit: string): Promise<Wire.SnapshotFiles> {
    return this._get('files', { commit });
  }

  /** The text of one of them. */
  fileText(commit: string, path: string): Promise<Wire.FileText> {
    return this._get('file', { commit, path });
  }

  /** Copies the files of a snapshot into a folder of the server's. */
  copyFiles(commit: string, folder: string): Promise<Wire.CopiedFiles> {
    return this._send('POST', 'files', { commit, folder });
  }

  doctor(): Promise<Wire.Doctor> {
    return this._get('doctor');
  }

  /** How much room histories take. */
  store(): Promise<Wire.StoreAnswer> {
    return this._get('store');
  }

  status(): Promise<Wire.StatusAnswer> {
    return this._get('status');
  }

  async putPolicy(policy: Wire.ServerPolicy): Promise<void> {
    await this._send('PUT', 'policy', { policy });
  }

  /** What happened since event number `since`, for pages whose websocket cannot be opened. */
  events(since: number): Promise<Wire.EventsAnswer> {
    return this._get('events', { since: String(since) });
  }

  /** Opens the stream of events. */
  openEvents(): WebSocket {
    const { wsUrl, token, appendToken, WebSocket: Socket } = this.settings;
    let url = URLExt.join(wsUrl, 'infinijup', 'events');
    if (appendToken && token) {
      url += `?token=${encodeURIComponent(token)}`;
    }
    return new Socket(url);
  }

  private _get<T>(
    path: string,
    query: Record<string, string> = {}
  ): Promise<T> {
    return this._request<T>(path + URLExt.objectToQueryString(query), {});
  }

  private _send<T>(method: string, path: string, body?: object): Promise<T> {
    return this._request<T>(path, {
      method,
      body: body === undefined ? undefined : JSON.stringify(body)
    });
  }

  private async _request<T>(path: string, init: RequestInit): Promise<T> {
    const url = URLExt.join(this.settings.baseUrl, 'infinijup', path);
    let response: Response;
    try {
      response = await ServerConnection.makeRequest(url, init, this.settings);
    } catch (error) {
      throw new ApiError(0, {
        code: 'server-away',
        message: error instanceof Error ? error.message : String(error),
        hint: null
      });
    }
    const text = await response.text();
    if (!response.ok) {
      throw readError(response.status, response.statusText, text);
    }
    return (text ? JSON.parse(text) : null) as T;
  }
}
