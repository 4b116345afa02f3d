/**
 * What is below an open card: what can be done with the snapshot, and everything that is known of it.
 *
 * Going back and going on in a copy are what people come for: those are buttons. The rest is in a menu, the same one that a
 * right click opens. Ids are for the command line, and folded away.
 */
import type { ReadonlyJSONObject } from '@lumino/coreutils';
import React from 'react';
import type { CommitView } from '../wire';
import type { Action } from './actions';
import { Icon } from './icons';
import type { IScene } from './scene';
import { facts } from './sentences';

/** Something that can be done with a snapshot. */
export interface IChoice {
  action: Action;
  label: string;
  title: string;
  enabled: boolean;
  icon: Parameters<typeof Icon>[0]['name'];
  args: ReadonlyJSONObject;
  /** Whether it is a button of the card; the others are in its menu. */
  button: boolean;
}

/** What can be done with a snapshot, in the order of the menu. */
export function choicesFor(
  commit: CommitView,
  paired: CommitView | null,
  scene: IScene
): IChoice[] {
  const { trans, bearings, actions } = scene;
  const { id } = commit;
  // A snapshot of files alone has no kernel to go back to.
  const hasKernel = commit.reason !== 'files';
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
      title: trans.__('Bring the kernel back to this snapshot'),
      enabled: hasKernel && actions.can('restore', { commit: id }),
      args: { commit: id },
      button: true
    },
    {
      action: 'branch',
      icon: 'branch',
      label: trans.__('Branch'),
      title: trans.__('Go on from here in a copy of the notebook'),
      enabled: hasKernel && actions.can('branch', { commit: id }),
      args: { commit: id },
      button: true
    },
    {
      action: 'compare',
      icon: 'compare',
      label: paired ? trans.__('Compare both') : trans.__('Compare'),
      title: paired
        ? trans.__('Show what differs between the two chosen snapshots')
        : trans.__('Show what differs from the current snapshot'),
      enabled:
        (paired !== null || id !== bearings.head) &&
        actions.can('compare', compared),
      args: compared,
      button: paired !== null
    },
    {
      action: 'tag',
      icon: 'tag',
      label: trans.__('Name…'),
      title: trans.__('Give this snapshot a name; it is kept then'),
      enabled: actions.can('tag', { commit: id }),
      args: { commit: id },
      button: false
    },
    {
      action: 'files',
      icon: 'copy',
      label: trans.__('Copy files'),
      title: trans.__('Copy the files of this snapshot beside the notebook'),
      enabled: actions.can('files', { commit: id }),
      args: { commit: id },
      // Of a snapshot of files alone this is what people want.
      button: !hasKernel
    },
    {
      action: 'copy',
      icon: 'copy',
      label: trans.__('Copy id'),
      title: trans.__('Copy the id for the command line or the magic'),
      enabled: actions.can('copy', { commit: id }),
      args: { commit: id },
      button: false
    },
    {
      action: 'delete',
      icon: 'delete',
      label: trans.__('Delete'),
      title: trans.__('Delete this snapshot'),
      // The newest one of a kernel is where it comes back to.
      enabled: !isHead && actions.can('delete', { commits: [id] }),
      args: { commits: [id] },
      button: false
    }
  ];
}

function Choices(props: {
  commit: CommitView;
  paired: CommitView | null;
  scene: IScene;
}): JSX.Element {
  const { commit, paired, scene } = props;
  const { trans, actions } = scene;
  const hasKernel = commit.reason !== 'files';
  const more = trans.__('More actions');
  return (
    <div
      className="jp-InfinijupHistory-actions"
      role="group"
      aria-label={trans.__('Actions of this snapshot')}
    >
      {choicesFor(commit, paired, scene)
        .filter(choice => choice.button && (choice.enabled || hasKernel))
        .map(choice => (
          <button
            key={choice.action}
            type="button"
            className="jp-InfinijupHistory-action"
            data-infinijup-action={choice.action}
            title={choice.title}
            disabled={!choice.enabled}
            onClick={() => actions.run(choice.action, choice.args)}
          >
            <Icon name={choice.icon} />
            <span>{choice.label}</span>
          </button>
        ))}
      <button
        type="button"
        className="jp-InfinijupHistory-action jp-mod-more"
        data-infinijup-action="more"
        title={more}
        aria-label={more}
        aria-haspopup="menu"
        onClick={event => {
          const button = event.currentTarget;
          const box = button.getBoundingClientRect();
          scene.openMenu(commit, paired, {
            x: box.left,
            y: box.bottom,
            rest: true,
            from: button
          });
        }}
      >
        <Icon name="more" />
      </button>
    </div>
  );
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
      <Choices commit={commit} paired={paired} scene={scene} />
      <dl className="jp-InfinijupHistory-facts">
        {facts(commit, trans, locale).map(([name, value]) => (
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
          aria-label={trans.__('Names of this snapshot')}
        >
          {commit.tags.map(name => (
            <li key={name} className="jp-InfinijupHistory-chip jp-mod-tag">
              <span>{name}</span>
              <button
                type="button"
                data-infinijup-action="untag"
                title={trans.__('Remove the name %1', name)}
                aria-label={trans.__('Remove the name %1', name)}
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
      <details className="jp-InfinijupHistory-ids">
        <summary>{trans.__('Details')}</summary>
        <dl className="jp-InfinijupHistory-facts">
          <dt>{trans.__('Id')}</dt>
          <dd>
            <code>{commit.id}</code>
          </dd>
          <dt>{trans.__('Thread')}</dt>
          <dd>
            <code>{commit.thread}</code>
          </dd>
        </dl>
      </details>
    </div>
  );
}
