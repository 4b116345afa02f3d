import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { isTagName } from '../src/names';

interface IRow {
  name: string;
  times?: number;
  tag: boolean;
}

/** Tests are run in `labextension/`. */
const table = JSON.parse(
  readFileSync(join('..', 'tests', 'fixtures', 'names', 'table.json'), 'utf8')
) as IRow[];

describe('the rule for names', () => {
  it('judges every name of the table as it says', () => {
    assert.ok(table.length > 40);
    for (const row of table) {
      const name = row.name.repeat(row.times ?? 1);
      assert.equal(isTagName(name), row.tag, JSON.stringify(name));
    }
  });
});
