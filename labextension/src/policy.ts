/** The settings of this extension, as the server takes them. */
import type { ServerPolicy } from './wire';

/** The settings, as the schema has them: 0 minutes means never. */
export type Settings = {
  snapshotEveryMinutes?: unknown;
  snapshotAfterIdleMinutes?: unknown;
  snapshotBeforeCell?: unknown;
  snapshotAfterCell?: unknown;
  snapshotPauseMilliseconds?: unknown;
  snapshotBeforeRestart?: unknown;
  suspendAfterIdleMinutes?: unknown;
  suspendOnlyGpu?: unknown;
  keepLast?: unknown;
  keepHourly?: unknown;
  keepDaily?: unknown;
  culling?: unknown;
};

/** As in the schema. */
const PAUSE_MS = 100;

/** What the server shall do from now on. */
export function policyOf(settings: Settings): ServerPolicy {
  const keep = {
    last: count(settings.keepLast),
    hourly: count(settings.keepHourly),
    daily: count(settings.keepDaily)
  };
  return {
    snapshot_every_s: seconds(settings.snapshotEveryMinutes),
    snapshot_after_idle_s: seconds(settings.snapshotAfterIdleMinutes),
    suspend_after_idle_s: seconds(settings.suspendAfterIdleMinutes),
    suspend_only_gpu: settings.suspendOnlyGpu !== false,
    // Nothing to be kept would mean that every automatic snapshot goes: that is "keep all" instead.
    keep: keep.last || keep.hourly || keep.daily ? keep : null,
    before_cell: settings.snapshotBeforeCell === true,
    after_cell: settings.snapshotAfterCell !== false,
    pause_ms: count(settings.snapshotPauseMilliseconds) || PAUSE_MS,
    before_restart: settings.snapshotBeforeRestart !== false,
    cull: settings.culling === 'shutdown' ? 'shutdown' : 'suspend'
  };
}

function seconds(minutes: unknown): number | null {
  return typeof minutes === 'number' && minutes > 0
    ? Math.max(1, Math.round(minutes * 60))
    : null;
}

function count(value: unknown): number {
  return typeof value === 'number' && value > 0 ? Math.floor(value) : 0;
}
