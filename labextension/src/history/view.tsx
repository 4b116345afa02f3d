/**
 * The panel as a whole: what is shown follows from the state of the source and from the few things the user chose here.
 */
import React from 'react';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommitView } from '../wire';
import type { IActions } from './actions';
import { Banners, Instead, Progress, ServerLinks } from './banners';
import { takeBearings } from './commits';
import { assignColours, layOut } from './lanes';
import { HistoryList } from './list';
import { makeRows, toggleFold, type Row } from './rows';
import type { IMenuPlace, IScene } from './scene';
import { search, words, type Filter } from './search';
import type { IHistoryState } from './source';
import { HistoryToolbar } from './toolbar';

/** Relative times are renewed this often. */
const TICK = 30_000;

/** Colours of threads, by the family they belong to; they outlive the switch to another notebook and back. */
export class ColourMemory {
  of(commits: readonly CommitView[]): ReadonlyMap<string, number> {
    const family = commits[commits.length - 1]?.thread ?? '';
    const colours = assignColours(commits, this._families.get(family));
    this._families.set(family, colours);
    return colours;
  }

  private _families = new Map<string, ReadonlyMap<string, number>>();
}

function useNow(ticking: boolean): Date {
  const [now, setNow] = React.useState(() => new Date());
  React.useEffect(() => {
    if (!ticking) {
      return;
    }
    setNow(new Date());
    const timer = setInterval(() => setNow(new Date()), TICK);
    return () => clearInterval(timer);
  }, [ticking]);
  return now;
}

export interface IViewProps {
  state: IHistoryState;
  actions: IActions;
  trans: TranslationBundle;
  locale?: string;
  colours: ColourMemory;
  /** Whether anybody can see it; times stand still otherwise. */
  visible: boolean;
  onRefresh: () => void;
  onMenu: (
    commit: CommitView,
    paired: CommitView | null,
    scene: IScene,
    place: IMenuPlace
  ) => void;
}

/** The panel. */
export function HistoryView(props: IViewProps): JSX.Element {
  const { state, actions, trans, locale, colours: memory } = props;
  const { commits, threads } = state;
  const head = state.session?.head ?? null;
  const thread = state.session?.thread ?? null;
  const [query, setQuery] = React.useState('');
  const [filter, setFilter] = React.useState<Filter>('all');
  const [open, setOpen] = React.useState<ReadonlySet<string>>(new Set());
  const [selectedId, setSelectedId] = React.useState<string | null>(null);
  const [pairedId, setPairedId] = React.useState<string | null>(null);
  const asked = React.useDeferredValue(query);
  const now = useNow(props.visible);

  // A session changes whenever a cell begins or ends; the graph only when its head does.
  const bearings = React.useMemo(
    () => takeBearings(commits, threads, { head, thread }),
    [commits, threads, head, thread]
  );
  const colours = React.useMemo(() => memory.of(commits), [memory, commits]);
  const flat = words(asked).length > 0 || filter === 'tagged';
  const shown = React.useMemo(
    () => search(commits, asked, filter, bearings.thread),
    [commits, asked, filter, bearings.thread]
  );
  const rows = React.useMemo(
    () => makeRows(shown, bearings, { flat, open }),
    [shown, bearings, flat, open]
  );
  const lanes = React.useMemo(
    () => layOut(commits, rows, bearings, colours),
    [commits, rows, bearings, colours]
  );
  const { onMenu } = props;
  const scene = React.useMemo(() => {
    const made: IScene = {
      bearings,
      actions,
      trans,
      locale,
      now,
      openMenu: (commit, second, place) => onMenu(commit, second, made, place)
    };
    return made;
  }, [bearings, actions, trans, locale, now, onMenu]);

  const selected = bearings.byId.get(selectedId ?? '') ?? null;
  const paired = bearings.byId.get(pairedId ?? '') ?? null;
  const onSelect = (commit: CommitView | null): void => {
    setSelectedId(commit?.id ?? null);
    setPairedId(null);
  };
  const onToggleFold = (fold: Extract<Row, { kind: 'fold' }>): void =>
    setOpen(was => toggleFold(was, fold));
  const onContext = React.useCallback(
    (commit: CommitView, x: number, y: number) =>
      scene.openMenu(
        commit,
        selected && selected.id !== commit.id ? selected : paired,
        { x, y }
      ),
    [selected, paired, scene]
  );
  const onClear = (): void => {
    setQuery('');
    setFilter('all');
  };

  const instead = Instead({
    state,
    hidden: rows.length === 0,
    actions,
    trans,
    onRefresh: props.onRefresh,
    onClear
  });
  const folded = rows.reduce(
    (sum, row) =>
      sum + (row.kind === 'fold' && !row.open ? row.commits.length : 0),
    0
  );
  const all = commits.length;
  return (
    <div className="jp-InfinijupHistory-view">
      <HistoryToolbar
        query={query}
        filter={filter}
        actions={actions}
        trans={trans}
        onQuery={setQuery}
        onFilter={setFilter}
        onRefresh={props.onRefresh}
      />
      <Progress job={state.job} trans={trans} />
      <Banners state={state} actions={actions} trans={trans} />
      <ServerLinks servers={state.servers} trans={trans} />
      {instead ?? (
        <HistoryList
          key={state.path ?? state.kernelId ?? ''}
          rows={rows}
          lanes={lanes}
          scene={scene}
          selected={selected}
          paired={paired}
          onSelect={onSelect}
          onPair={commit => setPairedId(commit?.id ?? null)}
          onToggleFold={onToggleFold}
          onMenu={onContext}
        />
      )}
      {!instead && (
        <div className="jp-InfinijupHistory-foot" role="status">
          {[
            shown.length < all
              ? trans.__('%1 of %2 snapshots', shown.length, all)
              : trans._n('%1 snapshot', '%1 snapshots', all, all),
            folded > 0 ? trans.__('%1 folded', folded) : ''
          ]
            .filter(Boolean)
            .join(' · ')}
        </div>
      )}
    </div>
  );
}
