/**
 * One snapshot in the list: a card of three lines, all of fixed height, and the details below it when it is open.
 */
import React from 'react';
import type { CommitView } from '../wire';
import { isInteresting, kindOf } from './commits';
import { Details } from './details';
import { cardTime, fullTime } from './format';
import { Icon } from './icons';
import type { IScene } from './scene';
import {
  cellText,
  figures,
  reasonText,
  threadTitle,
  titleOf
} from './sentences';

/** Tags, the notebook of another thread, and whose newest snapshot this is. */
function Chips(props: {
  commit: CommitView;
  scene: IScene;
}): JSX.Element | null {
  const { commit, scene } = props;
  const { bearings, trans, actions } = scene;
  const chips: JSX.Element[] = [];
  if (commit.id === bearings.head) {
    chips.push(
      <span key="current" className="jp-InfinijupHistory-chip jp-mod-current">
        {trans.__('current')}
      </span>
    );
  }
  for (const tag of commit.tags) {
    chips.push(
      <span
        key={`tag ${tag}`}
        className="jp-InfinijupHistory-chip jp-mod-tag"
        title={trans.__('Tag %1', tag)}
      >
        {tag}
      </span>
    );
  }
  for (const thread of bearings.heads.get(commit.id) ?? []) {
    if (thread.name === bearings.thread) {
      continue;
    }
    const { path } = thread;
    const title = threadTitle(thread);
    chips.push(
      path ? (
        <button
          key={`thread ${thread.name}`}
          type="button"
          // The card has the focus; this button is also in the details.
          tabIndex={-1}
          className="jp-InfinijupHistory-chip jp-mod-thread"
          title={trans.__('Open %1', path)}
          onClick={event => {
            event.stopPropagation();
            actions.run('open', { path });
          }}
        >
          {title}
        </button>
      ) : (
        <span
          key={`thread ${thread.name}`}
          className="jp-InfinijupHistory-chip jp-mod-thread"
        >
          {title}
        </span>
      )
    );
  }
  return chips.length ? <>{chips}</> : null;
}

/** A snapshot. */
export function Card(props: {
  commit: CommitView;
  scene: IScene;
  open: boolean;
  paired: CommitView | null;
  onMeasure: (height: number) => void;
}): JSX.Element {
  const { commit, scene, open } = props;
  const { bearings, trans, locale, now } = scene;
  const time = new Date(commit.time);
  const title = titleOf(commit, bearings, trans);
  const cell = cellText(commit);
  const thread = bearings.threads.get(commit.thread);
  const foreign =
    bearings.thread !== null &&
    commit.thread !== bearings.thread &&
    !bearings.heads.has(commit.id)
      ? thread
        ? threadTitle(thread)
        : commit.thread
      : '';
  const numbers = (
    <span className="jp-InfinijupHistory-figures">
      {figures(commit, trans).join(' · ')}
    </span>
  );
  return (
    <div className="jp-InfinijupHistory-body">
      <div className="jp-InfinijupHistory-lines">
        <div className="jp-InfinijupHistory-first">
          <span
            className="jp-InfinijupHistory-reason"
            title={reasonText(commit.reason, trans)}
          >
            <Icon name={kindOf(commit)} />
          </span>
          <span
            className={`jp-InfinijupHistory-title${
              isInteresting(commit, bearings) ? '' : ' jp-mod-automatic'
            }`}
            title={title}
          >
            {title}
          </span>
          <time
            className="jp-InfinijupHistory-time"
            dateTime={commit.time}
            title={fullTime(time, locale)}
          >
            {cardTime(time, now, locale)}
          </time>
        </div>
        <div className="jp-InfinijupHistory-second">
          {cell ? (
            <code className="jp-InfinijupHistory-cell">{cell}</code>
          ) : (
            numbers
          )}
          {foreign && (
            <span className="jp-InfinijupHistory-foreign">{foreign}</span>
          )}
        </div>
        <div className="jp-InfinijupHistory-third">
          <Chips commit={commit} scene={scene} />
          {cell && numbers}
        </div>
      </div>
      {open && (
        <Details
          commit={commit}
          scene={scene}
          paired={props.paired}
          onMeasure={props.onMeasure}
        />
      )}
    </div>
  );
}
