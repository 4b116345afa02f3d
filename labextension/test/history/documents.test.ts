import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { compareDocuments } from '../../src/history/diff/documents';

const cell = (id: string | undefined, source: string, ...texts: string[]) => ({
  ...(id ? { id } : {}),
  cell_type: 'code',
  source: source.split(/(?<=\n)/),
  execution_count: 1,
  outputs: texts.map(text => ({ output_type: 'stream', text }))
});

const compare = (before: object[], after: object[]) =>
  compareDocuments({ cells: before }, { cells: after });

describe('two notebooks', () => {
  it('have the cells that differ in text or in what they show', () => {
    const pairs = compare(
      [cell('a', 'x = 1'), cell('b', 'plot()', '1'), cell('c', 'same', '0')],
      [cell('a', 'x = 2'), cell('b', 'plot()', '2'), cell('c', 'same', '0')]
    );
    assert.deepEqual(
      pairs.map(({ after, source, outputs }) => [after?.id, source, outputs]),
      [
        ['a', true, false],
        ['b', false, true]
      ]
    );
  });

  it('do not differ by how a file and the page write the same', () => {
    const shown = (output: object) => ({
      ...cell('a', 'plot()'),
      outputs: [output]
    });
    const data = { 'image/png': 'aGk=', 'text/plain': 'one\ntwo' };
    const page = { output_type: 'display_data', metadata: {}, data };
    const file = {
      data: { 'text/plain': ['one\n', 'two'], 'image/png': 'aGk=' },
      output_type: 'display_data'
    };
    const other = { ...file, data: { ...file.data, 'image/png': 'aG8=' } };
    assert.equal(compare([shown(page)], [shown(file)]).length, 0);
    assert.equal(compare([shown(page)], [shown(other)]).length, 1);
  });

  it('keep their order, and what is gone stands where it was', () => {
    const pairs = compare(
      [cell('a', 'a'), cell('gone', 'gone'), cell('b', 'b')],
      [cell('a', 'a'), cell('new', 'new'), cell('b', 'b2')]
    );
    assert.deepEqual(
      pairs.map(({ change, before, after }) => [change, (after ?? before)?.id]),
      [
        ['removed', 'gone'],
        ['added', 'new'],
        ['changed', 'b']
      ]
    );
  });

  it('do not differ by when something ran, nor by empty cells', () => {
    const run = (execution_count: number) => ({
      ...cell('a', 'x'),
      execution_count,
      outputs: [{ output_type: 'execute_result', execution_count, data: {} }]
    });
    assert.deepEqual(compare([run(1)], [run(9), cell('e', '')]), []);
  });

  it('without ids are told apart by their text', () => {
    const pairs = compare(
      [cell(undefined, 'a'), cell(undefined, 'a')],
      [cell(undefined, 'a'), cell(undefined, 'b')]
    );
    assert.deepEqual(
      pairs.map(({ change }) => change),
      ['removed', 'added']
    );
    assert.deepEqual(compareDocuments({ cells: 7 }, {}), []);
  });
});
