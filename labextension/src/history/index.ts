export { COMMANDS } from './actions';
export { CompareWidget } from './compare';
export { HistoryPanel } from './panel';
export type { IHistorySource, IHistoryState } from './source';
