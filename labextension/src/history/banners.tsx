/**
 * What stands above the list, or in its place: states of the kernel, work under way, and why there is nothing to see.
 */
import React from 'react';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { JobNews, LeftOut } from '../wire';
import type { IActions } from './actions';
import { Icon } from './icons';
import { Course } from './progress';
import type { IHistoryState, IServerLink } from './source';

function Button(props: {
  label: string;
  action?: string;
  disabled?: boolean;
  onClick: () => void;
}): JSX.Element {
  return (
    <button
      type="button"
      className="jp-InfinijupHistory-button"
      data-infinijup-action={props.action}
      disabled={props.disabled}
      onClick={props.onClick}
    >
      {props.label}
    </button>
  );
}

/** The job under way. */
export function Progress(props: {
  job: JobNews | null;
  trans: TranslationBundle;
}): JSX.Element | null {
  const { job, trans } = props;
  const [course] = React.useState(() => new Course());
  if (!job || job.state !== 'running') {
    return null;
  }
  const { words, share } = course.follow(job, trans);
  const percent = share === null ? undefined : Math.round(share * 100);
  return (
    <div className="jp-InfinijupHistory-progress" data-infinijup-job={job.kind}>
      <span role="status">{trans.__('%1 …', words)}</span>
      <div
        role="progressbar"
        aria-label={words}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={percent}
        className={percent === undefined ? 'jp-mod-unknown' : undefined}
      >
        <div
          style={percent === undefined ? undefined : { width: `${percent}%` }}
        />
      </div>
    </div>
  );
}

/** What should be known before the list is read. */
export function Banners(props: {
  state: IHistoryState;
  actions: IActions;
  trans: TranslationBundle;
}): JSX.Element | null {
  const { state, actions, trans } = props;
  if (state.away) {
    return (
      <div className="jp-InfinijupHistory-banner jp-mod-warn" role="alert">
        <Icon name="warning" />
        <span>
          {trans.__(
            'The snapshot service does not answer, so nothing can be saved or restored. Start it with `infinijup daemon start`; kernels run on meanwhile.'
          )}
        </span>
      </div>
    );
  }
  switch (state.session?.state) {
    case 'suspended':
      return (
        <div className="jp-InfinijupHistory-banner" role="status">
          <Icon name="suspend" />
          <span>
            {trans.__(
              'This kernel is suspended and takes no memory. Run a cell to wake it.'
            )}
          </span>
          <Button
            action="resume"
            label={trans.__('Resume')}
            disabled={!actions.can('resume')}
            onClick={() => actions.run('resume')}
          />
        </div>
      );
    case 'failed':
    case 'ended':
      return state.commits.length ? (
        <div className="jp-InfinijupHistory-banner" role="status">
          <Icon name="warning" />
          <span>
            {trans.__(
              'This kernel has ended. Restore a snapshot to go on from there.'
            )}
          </span>
        </div>
      ) : null;
    default:
      return state.session?.left_out ? (
        <div
          className="jp-InfinijupHistory-banner"
          role="status"
          data-infinijup-left-out
        >
          <Icon name="warning" />
          <span>{leftOutText(state.session.left_out, trans)}</span>
        </div>
      ) : null;
  }
}

/** Why there is no snapshot after a cell. */
function leftOutText(
  { number, pause_ms }: LeftOut,
  trans: TranslationBundle
): string {
  const limit = trans.__('%1 ms', pause_ms ?? 100);
  const first =
    typeof number === 'number'
      ? trans.__(
          'No snapshot was taken after [%1]: the kernel would stand still for longer than %2.',
          number,
          limit
        )
      : trans.__(
          'No snapshot was taken after the last cell: the kernel would stand still for longer than %1.',
          limit
        );
  return `${first} ${trans.__('Take one yourself, or allow more in the settings under Kernel history.')}`;
}

/** The servers that this kernel runs, each with a way to it. */
export function ServerLinks(props: {
  servers: readonly IServerLink[];
  trans: TranslationBundle;
}): JSX.Element | null {
  const { servers, trans } = props;
  if (!servers.length) {
    return null;
  }
  return (
    <ul
      className="jp-InfinijupHistory-servers"
      aria-label={trans.__('Servers of this kernel')}
    >
      {servers.map(({ port, url }) => (
        <li key={port} data-infinijup-server={port}>
          <Icon name="server" />
          {url ? (
            <a href={url} target="_blank" rel="noopener noreferrer">
              {trans.__('Server on port %1', port)}
            </a>
          ) : (
            <span
              title={trans.__(
                'This page cannot reach it. Install jupyter-server-proxy beside JupyterLab to open it from here.'
              )}
            >
              {trans.__(
                'Server on port %1 (needs jupyter-server-proxy to be opened from here)',
                port
              )}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

/** What is shown where there is no list. `null` if there is one. */
export function Instead(props: {
  state: IHistoryState;
  /** Whether a search or a filter hid everything. */
  hidden: boolean;
  actions: IActions;
  trans: TranslationBundle;
  onRefresh: () => void;
  onClear: () => void;
}): JSX.Element | null {
  const { state, actions, trans } = props;
  let text: string;
  let more: JSX.Element | null = null;
  if (state.whyNot && !state.session) {
    text = trans.__('This kernel has no history: %1', state.whyNot);
    more = (
      <>
        {actions.can('doctor') && (
          <Button
            action="doctor"
            label={trans.__('Check this machine')}
            onClick={() => actions.run('doctor')}
          />
        )}
        <Button label={trans.__('Try again')} onClick={props.onRefresh} />
      </>
    );
  } else if (state.status === 'error') {
    const { message, hint } = state.error ?? { message: '', hint: null };
    text = trans.__('The history cannot be read: %1', message);
    if (hint) {
      text = `${text} ${hint}`;
    }
    more = <Button label={trans.__('Try again')} onClick={props.onRefresh} />;
  } else if (state.status === 'none') {
    text = state.path
      ? trans.__('This notebook has no kernel with a history.')
      : trans.__('Open a notebook to see the history of its kernel.');
  } else if (state.status === 'loading' && !state.commits.length) {
    text = trans.__('Reading the history …');
  } else if (!state.commits.length) {
    text = trans.__(
      'No snapshot yet. A snapshot saves the whole kernel: variables, GPU memory and open files. You can come back to it, or go on from it in a copy.'
    );
    more = (
      <Button
        action="snapshot"
        label={trans.__('Take the first snapshot')}
        disabled={!actions.can('snapshot')}
        onClick={() => actions.run('snapshot')}
      />
    );
  } else if (props.hidden) {
    text = trans.__('No snapshot matches.');
    more = <Button label={trans.__('Show all')} onClick={props.onClear} />;
  } else {
    return null;
  }
  return (
    <div className="jp-InfinijupHistory-instead" role="status">
      <p>{text}</p>
      {more}
    </div>
  );
}
