import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import { linksOf, Servers } from '../src/servers';
import type { SessionView } from '../src/wire';
import { session } from './history/make';

const servers = [{ port: 8050, outside_port: 40123 }];

describe('links to servers', () => {
  it('go through the proxy of the server where there is one', () => {
    assert.deepEqual(
      linksOf({ servers, proxied: true }, 'https://hub/user/ada/', {
        hostname: 'hub'
      }),
      [{ port: 8050, url: 'https://hub/user/ada/proxy/40123/' }]
    );
  });

  it('go straight to the machine only from a page of that machine', () => {
    const url = (hostname: string): string | null =>
      linksOf({ servers, proxied: false }, '/', { hostname })[0].url;
    assert.equal(url('localhost'), 'http://127.0.0.1:40123/');
    assert.equal(url('127.0.0.1'), 'http://127.0.0.1:40123/');
    assert.equal(url('hub.example.org'), null);
  });
});

describe('servers', () => {
  const at = (
    more: Partial<SessionView>,
    state: 'busy' | 'idle'
  ): SessionView =>
    session({
      state: 'running',
      activity: { state } as SessionView['activity'],
      ...more
    });

  it('are asked for when a cell has ended, and not in between', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    try {
      const asked: string[] = [];
      let changes = 0;
      const watch = new Servers(
        id => {
          asked.push(id);
          return Promise.resolve([{ port: 8050, url: '/x/' }]);
        },
        () => changes++
      );
      const settle = async (): Promise<void> => {
        mock.timers.tick(10_000);
        await Promise.resolve();
        await Promise.resolve();
      };
      watch.follow(at({ id: 'a' }, 'busy'));
      await settle();
      assert.deepEqual(asked, []);
      watch.follow(at({ id: 'a' }, 'idle'));
      await settle();
      assert.deepEqual(asked, ['a', 'a']);
      assert.equal(changes, 1);
      watch.follow(at({ id: 'a' }, 'idle'));
      await settle();
      assert.equal(asked.length, 2);
      assert.equal(watch.links.length, 1);
      watch.follow(at({ id: 'b' }, 'busy'));
      assert.equal(watch.links.length, 0);
      watch.follow(null);
      await settle();
      assert.equal(asked.length, 2);
      // A kernel that is only looked at has started nothing just now.
      watch.follow(at({ id: 'b' }, 'idle'));
      await settle();
      assert.deepEqual(asked, ['a', 'a', 'b']);
    } finally {
      mock.timers.reset();
    }
  });
});
