export { COMMANDS } from './actions';
export { CompareWidget } from './diff/widget';
export { HistoryPanel } from './panel';
export type { IHistorySource, IHistoryState } from './source';
