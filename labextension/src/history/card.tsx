/**
 * One snapshot in the list: a card of two lines of fixed height, and the details below it when it is open.
 *
 * The first line is what the snapshot is called, mostly the code of its cell; the icon says why it was taken. The second
 * has when, what kernels stand there, further names, and the code where the first line has a name instead.
 */
import React from 'react';
import type { CommitView } from '../wire';
import { isInteresting, kindOf } from './commits';
import { Details } from './details';
import { cardTime, fullTime } from './format';
import { Icon } from './icons';
import type { IScene } from './scene';
import { cellText, reasonText, threadTitle, titleOf } from './sentences';

/** Whose newest snapshot this is, whether that kernel sleeps, and further names. */
function Chips(props: {
  commit: CommitView;
  scene: IScene;
}): JSX.Element | null {
  const { commit, scene } = props;
  const { bearings, trans, actions } = scene;
  const heads = bearings.heads.get(commit.id) ?? [];
  const chips: JSX.Element[] = [];
  if (commit.id === bearings.head) {
    chips.push(
      <span key="current" className="jp-InfinijupHistory-chip jp-mod-current">
        {trans.__('current')}
      </span>
    );
  }
  if (heads.some(thread => thread.state === 'suspended')) {
    const asleep = trans.__('This kernel is suspended');
    chips.push(
      <span
        key="asleep"
        className="jp-InfinijupHistory-asleep"
        role="img"
        aria-label={asleep}
        title={asleep}
      >
        <Icon name="suspend" />
      </span>
    );
  }
  // The first is the card's title.
  for (const tag of commit.tags.slice(1)) {
    chips.push(
      <span
        key={`tag ${tag}`}
        className="jp-InfinijupHistory-chip jp-mod-tag"
        title={trans.__('Also called %1', tag)}
      >
        {tag}
      </span>
    );
  }
  for (const thread of heads) {
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
  const reason = reasonText(commit.reason, trans);
  const cell = title.code ? '' : cellText(commit);
  const thread = bearings.threads.get(commit.thread);
  const foreign =
    bearings.thread !== null &&
    commit.thread !== bearings.thread &&
    !bearings.heads.has(commit.id)
      ? thread
        ? threadTitle(thread)
        : commit.thread
      : '';
  const Title = title.code ? 'code' : 'span';
  return (
    <div className="jp-InfinijupHistory-body">
      <div className="jp-InfinijupHistory-lines">
        <div className="jp-InfinijupHistory-first">
          <span
            className="jp-InfinijupHistory-reason"
            role="img"
            aria-label={reason}
            title={reason}
          >
            <Icon name={kindOf(commit)} />
          </span>
          <Title
            className={`jp-InfinijupHistory-title${
              isInteresting(commit, bearings) ? '' : ' jp-mod-automatic'
            }`}
            title={title.code ? commit.cell?.source : title.text}
          >
            {title.text}
          </Title>
        </div>
        <div className="jp-InfinijupHistory-second">
          <time dateTime={commit.time} title={fullTime(time, locale)}>
            {cardTime(time, now, locale)}
          </time>
          <Chips commit={commit} scene={scene} />
          {cell && (
            <code className="jp-InfinijupHistory-cell" title={cell}>
              {cell}
            </code>
          )}
          {foreign && (
            <span className="jp-InfinijupHistory-foreign">{foreign}</span>
          )}
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
