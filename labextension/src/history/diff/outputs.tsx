/**
 * The outputs of a cell, drawn by the same renderers that the notebook uses.
 *
 * They come out of a snapshot and nobody has looked at them since: they are not trusted, so HTML is sanitised and no script
 * runs. Pictures, tables and text are shown as they were.
 */
import type { IOutput } from '@jupyterlab/nbformat';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { OutputAreaModel, SimplifiedOutputArea } from '@jupyterlab/outputarea';
import { Widget } from '@lumino/widgets';
import React from 'react';

/** Who draws the outputs. */
export type Renderers = NotebookPanel['content']['rendermime'];

/** The outputs of one cell. */
export function OutputsOf(props: {
  outputs: readonly unknown[];
  renderers: Renderers;
}): JSX.Element {
  const { outputs, renderers } = props;
  const place = React.useRef<HTMLDivElement>(null);
  React.useLayoutEffect(() => {
    if (!place.current) {
      return;
    }
    const area = new SimplifiedOutputArea({
      model: new OutputAreaModel({
        values: outputs as IOutput[],
        trusted: false
      }),
      rendermime: renderers
    });
    Widget.attach(area, place.current);
    return () => area.dispose();
  }, [outputs, renderers]);
  return <div ref={place} />;
}
