/**
 * What is below an open card: everything that is known of the snapshot, and what can be done with it.
 */
import type { ReadonlyJSONObject } from '@lumino/coreutils';
import React from 'react';
import type { CommitView } from '../wire';
import type { Action } from './actions';
import { Icon } from './icons';
import type { IScene } from './scene';
import { facts } from './sentences';

type ButtonProps = {
  action: Action;
  label: string;
  title: string;
  enabled: boolean;
  onClick: () => void;
  icon: Parameters<typeof Icon>[0]['name'];
};

function ActionButton(props: ButtonProps): JSX.Element {
  return (
    <button
      type="button"
      className="jp-InfinijupHistory-action"
      data-infinijup-action={props.action}
      title={props.title}
      disabled={!props.enabled}
      onClick={event => {
        event.stopPropagation();
        props.onClick();
      }}
    >
      <Icon name={props.icon} />
      <span>{props.label}</span>
    </button>
  );
}

/** What can be done with a snapshot, as a row of buttons and as a menu. */
export function actionsFor(
  commit: CommitView,
  paired: CommitView | null,
  scene: IScene
): (Omit<ButtonProps, 'onClick'> & { args: ReadonlyJSONObject })[] {
  const { trans, bearings, actions } = scene;
  const { id } = commit;
  const isHead = id === bearings.head || bearings.heads.has(id);
  const other = paired ?? bearings.byId.get(bearings.head ?? '') ?? null;
  // The older one is what was before.
  const compared: { a: string; b?: string } = !other
    ? { a: id }
    : new Date(other.time) < new Date(commit.time)
      ? { a: other.id, b: id }
      : { a: id, b: other.id };
  return [
    {
      action: 'restore',
      icon: 'rollback',
      label: trans.__('Restore'),
      title: trans.__('Put the kernel back to this snapshot'),
      enabled: actions.can('restore', { commit: id }),
      args: { commit: id }
    },
    {
      action: 'branch',
      icon: 'branch',
      label: trans.__('Branch'),
      title: trans.__('Open a copy of the notebook on a new kernel from here'),
      enabled: actions.can('branch', { commit: id }),
      args: { commit: id }
    },
    {
      action: 'tag',
      icon: 'tag',
      label: trans.__('Tag'),
      title: trans.__('Give this snapshot a name that keeps it'),
      enabled: actions.can('tag', { commit: id }),
      args: { commit: id }
    },
    {
      action: 'compare',
      icon: 'compare',
      label: paired ? trans.__('Compare both') : trans.__('Compare'),
      title: paired
        ? trans.__('Show what differs between the two chosen snapshots')
        : id === bearings.head
          ? trans.__(
              'Choose a second snapshot with Ctrl or Cmd and a click to compare'
            )
          : trans.__('Show what differs from the current snapshot'),
      enabled:
        (paired !== null || id !== bearings.head) &&
        actions.can('compare', compared),
      args: compared
    },
    {
      action: 'delete',
      icon: 'delete',
      label: trans.__('Delete'),
      title: isHead
        ? trans.__('The newest snapshot of a kernel cannot be deleted')
        : trans.__('Delete this snapshot'),
      enabled: !isHead && actions.can('delete', { commits: [id] }),
      args: { commits: [id] }
    },
    {
      action: 'copy',
      icon: 'copy',
      label: trans.__('Copy id'),
      title: id,
      enabled: actions.can('copy', { commit: id }),
      args: { commit: id }
    }
  ];
}

/** The details. They tell their height whenever it changes. */
export function Details(props: {
  commit: CommitView;
  scene: IScene;
  paired: CommitView | null;
  onMeasure: (height: number) => void;
}): JSX.Element {
  const { commit, scene, paired, onMeasure } = props;
  const { trans, actions, bearings, locale } = scene;
  const element = React.useRef<HTMLDivElement>(null);
  React.useLayoutEffect(() => {
    const node = element.current;
    if (!node) {
      return;
    }
    const measure = (): void => onMeasure(node.offsetHeight);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(node);
    return () => observer.disconnect();
  }, [onMeasure]);
  const path = bearings.threads.get(commit.thread)?.path;
  return (
    <div
      ref={element}
      className="jp-InfinijupHistory-details"
      // Clicks and keys in here are not the card's.
      onClick={event => event.stopPropagation()}
      onKeyDown={event => {
        if (event.key !== 'Escape') {
          event.stopPropagation();
        }
      }}
    >
      <div
        className="jp-InfinijupHistory-actions"
        role="group"
        aria-label={trans.__('Actions of this snapshot')}
      >
        {actionsFor(commit, paired, scene).map(({ args, ...button }) => (
          <ActionButton
            key={button.action}
            {...button}
            onClick={() => actions.run(button.action, args)}
          />
        ))}
      </div>
      <dl className="jp-InfinijupHistory-facts">
        {facts(commit, bearings, trans, locale).map(([name, value]) => (
          <React.Fragment key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </React.Fragment>
        ))}
        {path && (
          <>
            <dt>{trans.__('Notebook')}</dt>
            <dd>
              <button
                type="button"
                className="jp-InfinijupHistory-link"
                title={trans.__('Open %1', path)}
                onClick={() => actions.run('open', { path })}
              >
                {path}
              </button>
            </dd>
          </>
        )}
      </dl>
      {commit.tags.length > 0 && (
        <ul
          className="jp-InfinijupHistory-tags"
          aria-label={trans.__('Tags of this snapshot')}
        >
          {commit.tags.map(name => (
            <li key={name} className="jp-InfinijupHistory-chip jp-mod-tag">
              <span>{name}</span>
              <button
                type="button"
                data-infinijup-action="untag"
                title={trans.__('Remove the tag %1', name)}
                aria-label={trans.__('Remove the tag %1', name)}
                onClick={() => actions.run('untag', { name })}
              >
                <Icon name="close" />
              </button>
            </li>
          ))}
        </ul>
      )}
      {commit.cell?.source && (
        <pre
          className="jp-InfinijupHistory-source"
          aria-label={trans.__('Source of the cell')}
          tabIndex={0}
        >
          {commit.cell.source}
        </pre>
      )}
    </div>
  );
}
