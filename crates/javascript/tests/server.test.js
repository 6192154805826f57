// `fetch` and `store`, over every kind of client, of one server and of a cluster.

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';

import { ConnectionError, TimeoutError } from '@valkey/valkey-glide';
import { createSentinel } from 'redis';
import { Bloom, CountMin, CuckooFilter, Near, TDigest, TopK, fetch, store } from 'valkeybloom';

import { client, server } from './own-server.js';
import { CLIENTS, CLUSTER_CLIENTS, observer, startCluster, startProxy, startSentinel, until, withEach } from './support.js';

const ITEMS = ['a', Uint8Array.of(0, 255), '', 'é', '42'];

beforeEach(() => client.call('FLUSHALL'));

/** An object of each family and kind, with the items in it, and empty. */
function filled() {
  const [hits, top, times] = [new CountMin(100, 4), new TopK(3, 50, 4), new TDigest(50)];
  hits.addMany(ITEMS, [1, 2, 3, 4, 5]);
  top.addMany(ITEMS, [5, 4, 3, 2, 1]);
  times.addMany(Array(1000).keys());
  const filters = [
    new Bloom(3, 0.01),
    new Bloom(1000, 0.001, { expansion: null }),
    Bloom.counting(100, 0.01),
    Bloom.window(100, 0.01, { windowMs: 3_600_000, periods: 3 }),
    Bloom.scaledTo(100, 0.01),
    new CuckooFilter(100),
    new CuckooFilter(4, { bucketSize: 1, expansion: 2 }),
  ];
  for (const filter of filters) filter.addMany(ITEMS);
  return [...filters, new Bloom(10, 0.1), new CuckooFilter(10), new CountMin(3, 3), new TopK(2), new TDigest(), hits, top, times];
}

test('what is stored is fetched, by every client', async () => {
  await withEach(CLIENTS, server.port, async (one, name) => {
    await client.call('FLUSHALL');
    for (const [number, sketch] of filled().entries()) {
      const key = `key${number}${'long'.repeat(100)}`;
      await store(one, key, sketch);
      const fetched = await fetch(one, Buffer.from(key));
      assert.ok(fetched.equals(sketch), `${name}, ${number}`);
      assert.equal(fetched.constructor, sketch.constructor);
      assert.equal(await client.call('TTL', key), -1);
    }
    assert.equal(await client.call('DBSIZE'), filled().length);
  });
});

test('a client of sentinels reaches the primary', async () => {
  const sentinel = await startSentinel(server.port);
  const one = createSentinel({ name: 'own', sentinelRootNodes: [{ host: '127.0.0.1', port: sentinel.port }] });
  try {
    one.on('error', () => {});
    await one.connect();
    const filter = new Bloom(100, 0.01);
    filter.add('a');
    await store(one, 'seen', filter);
    assert.ok((await fetch(one, 'seen')).equals(filter));
    // So does one that is leased.
    await one.use(async (leased) => assert.ok((await fetch(leased, 'seen')).equals(filter)));
  } finally {
    one.destroy();
    await sentinel.stop();
  }
});

test('an object of a derived class is stored as one of its family', async () => {
  class Seen extends Bloom {}
  const seen = new Seen(10, 0.01);
  seen.add('a');
  await store(client, 'seen', seen);
  await store(client, 'seen', seen, { merge: true });
  assert.ok((await fetch(client, 'seen')).equals(seen));
});

test('a cluster has the objects where their keys are', async () => {
  const cluster = await startCluster();
  try {
    await withEach(CLUSTER_CLIENTS, cluster.port, async (one, name) => {
      for (let number = 0; number < 12; number += 1) {
        const key = number % 2 ? `${name} ${number}` : `{${number}} of ${name}`;
        const filter = new Bloom(100, 0.01);
        filter.add(number);
        await store(one, key, filter, { ttl: 1000 });
        assert.ok((await fetch(one, key)).equals(filter), key);
        await store(one, key, filter, { merge: true });
        const digest = new TDigest();
        await store(one, key, digest, { replace: true });
        assert.ok((await fetch(one, key)).equals(digest), key);
      }
    });
    for (const port of cluster.ports) {
      const node = await observer(port);
      const keys = await node.call('KEYS', '*');
      assert.ok(keys.length > 0 && keys.every((key) => !key.includes('unfinished')));
      node.close();
    }
  } finally {
    await cluster.stop();
  }
});

test('a large filter goes and comes in chunks', async () => {
  await client.call('CONFIG', 'SET', 'bf.bloom-memory-usage-limit', 2 ** 30);
  const seen = new Bloom(20_000_000, 0.01);
  seen.addMany(Array(100_000).keys());
  await withEach(CLIENTS, server.port, async (one) => {
    await client.call('CONFIG', 'RESETSTAT');
    await store(one, 'large', seen, { replace: true });
    assert.ok((await fetch(one, 'large')).equals(seen));
    const stats = (await client.call('INFO', 'commandstats')).toLowerCase();
    assert.ok(Number(/cmdstat_bf\.loadchunk:calls=(\d+)/.exec(stats)[1]) > 5);
    assert.ok(!/cmdstat_(restore|dump):/.test(stats));
  });
});

test('a key that exists is kept, replaced or merged', async () => {
  await withEach(CLIENTS, server.port, async (one) => {
    await client.call('FLUSHALL');
    const [first, other] = [new Bloom(100, 0.01), new Bloom(100, 0.01)];
    first.add('a');
    await store(one, 'key', first);
    await assert.rejects(store(one, 'key', other), {
      code: 'KEY_EXISTS',
      message: '"key" already exists: pass replace: true, or merge: true to unite both',
    });
    await assert.rejects(store(one, 'key', other, { merge: true }), /store to "key": .*different seeds.*: make what you add/);
    const twin = new Bloom(100, 0.01, { seed: first.seed });
    twin.add('b');
    await store(one, 'key', twin, { merge: true, ttl: 100 });
    assert.deepEqual([...(await fetch(one, 'key')).hasMany(['a', 'b', 'c'])], [1, 1, 0]);
    assert.ok((await client.call('PTTL', 'key')) > 90_000);
    await store(one, 'key', other, { replace: true });
    assert.ok((await fetch(one, 'key')).equals(other));
    assert.equal(await client.call('TTL', 'key'), -1);
    await client.call('SET', 'text', 'value');
    await assert.rejects(store(one, 'text', other, { replace: true }), /"text" holds a value of type string, which is not a sketch/);
    await assert.rejects(fetch(one, 'text'), TypeError);
    await assert.rejects(store(one, 'text', other, { merge: true }), /WRONGTYPE/);
    await assert.rejects(fetch(one, 'none'), { code: 'NO_KEY', message: 'there is no key "none"' });
    assert.deepEqual((await client.call('KEYS', '*')).sort(), ['key', 'text']);
  });
  const filter = new Bloom(100, 0.01);
  const calls = {
    'a key is either replaced or merged': [filter, { replace: true, merge: true }],
    "objects of TopK can't be merged": [new TopK(3), { merge: true }],
    'unknown option ttlMs: expected replace, merge, ttl': [filter, { ttlMs: 3 }],
    'ttl is 0: it has to be from 0.001 to 9007199254740 seconds': [filter, { ttl: 0 }],
    'ttl is NaN: it has to be from 0.001 to 9007199254740 seconds': [filter, { ttl: NaN }],
    'ttl is string, not a number': [filter, { ttl: '5' }],
    'the third argument is not a sketch': ['filter', {}],
  };
  for (const [message, [sketch, options]] of Object.entries(calls)) {
    await assert.rejects(store(client.client, 'new', sketch, options), { message });
  }
  const unexpected = { name: 'TypeError', message: 'the client returned something other than a reply to the command' };
  await assert.rejects(fetch({ callBuffer: async () => [] }, 'key'), unexpected);
  await assert.rejects(fetch({}, 'key'), /the client is not one of node-redis/);
  await assert.rejects(fetch(client.client, null), /the key is null: a key is a string, /);
});

test('a prefix of ioredis or iovalkey is part of every key', async () => {
  for (const { Redis } of [await import('ioredis'), await import('iovalkey')]) {
    await client.call('FLUSHALL');
    const one = new Redis({ port: server.port, keyPrefix: 'app:' });
    const filter = new Bloom(100, 0.01);
    await store(one, 'key', filter);
    assert.ok((await fetch(one, 'key')).equals(filter));
    assert.deepEqual(await client.call('KEYS', '*'), ['app:key']);
    const near = new Near(one, 'key', { missing: 'error' });
    assert.deepEqual([await near.wait(30), await near.has('a')], [true, false]);
    near.close();
    // The server is asked whether it has the key.
    assert.equal(await near.has('a'), false);
    one.disconnect();
  }
});

test('servers without ids have their chunks read, and servers without chunks their payload', async () => {
  const filter = new Bloom(1000, 0.01);
  filter.add('a');
  await store(client.client, 'key', filter);
  for (const [refused, text] of [
    ['WITHID', "ERR wrong number of arguments for 'BF.SCANDUMP' command"],
    ['BF.SCANDUMP', "ERR unknown command 'BF.SCANDUMP'"],
  ]) {
    const older = {
      callBuffer(...words) {
        if (words.includes(refused)) throw Object.assign(new Error(text), { name: 'ReplyError' });
        return client.callBuffer(...words);
      },
    };
    assert.ok((await fetch(older, 'key')).equals(filter));
  }
});

test('the time to live of an unfinished key is renewed while the date stands still', async (t) => {
  let time = 0;
  t.mock.method(Date, 'now', () => 0);
  t.mock.method(performance, 'now', () => (time += 60_000));
  const sent = [];
  const recording = new Proxy(client.client, {
    get(target, property) {
      if (property !== 'callBuffer') return target[property];
      return (...words) => {
        sent.push(words[0]);
        return target.callBuffer(...words);
      };
    },
  });
  const filter = new Bloom(5_000_000, 0.01);
  filter.add('a');
  await store(recording, 'key', filter);
  const chunks = sent.filter((word) => word === 'BF.LOADCHUNK').length;
  assert.ok(chunks > 1);
  assert.equal(sent.filter((word) => word === 'PEXPIRE').length, chunks);
  assert.ok((await fetch(client, 'key')).equals(filter));
});

test('a server that ends in the middle is an error of the client', async () => {
  await withEach(CLIENTS, server.port, async () => {});
  for (const [name, connect] of Object.entries(CLIENTS)) {
    const proxy = await startProxy(server.port);
    const [one, close] = await connect(proxy.port);
    const filter = new Bloom(5_000_000, 0.01);
    await store(one, 'key', filter, { replace: true });
    let calls = 0;
    const breaking = new Proxy(one, {
      get(target, property) {
        const value = target[property];
        if (!['callBuffer', 'customCommand', 'sendCommand'].includes(property)) return value;
        return (...words) => {
          calls += 1;
          if (calls === 3) {
            proxy.refuses = true;
            proxy.cut();
          }
          return value.apply(target, words);
        };
      },
    });
    if (name.startsWith('io')) one.options.maxRetriesPerRequest = 0;
    const failed = assert.rejects(fetch(breaking, 'key'), name);
    // node-redis and ioredis keep commands until there is a connection again.
    if (name.startsWith('node')) setTimeout(() => close(), 200);
    await failed;
    if (!name.startsWith('node')) close();
    proxy.close();
  }
});

/** Returns a client of ioredis that differs in some properties. */
const changed = (properties) =>
  new Proxy(client.client, {
    get(target, property) {
      const value = properties[property] ?? target[property];
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });

test('a cluster whose slots have no address yet is asked anywhere', async () => {
  const one = changed({ slots: Array(16_384).fill(['']), nodes: () => [] });
  const filter = new Bloom(10, 0.1);
  await store(one, 'key', filter);
  assert.ok((await fetch(one, 'key')).equals(filter));
});

test("only valkey-glide's words are taken out of a refusal", async () => {
  const glide = 'An error was signalled by the server: - ';
  for (const [name, message, text] of [
    ['ErrorReply', 'DENIED: by a proxy', 'DENIED: by a proxy'],
    ['ReplyError', `${glide}ResponseError: by a proxy`, `${glide}ResponseError: by a proxy`],
    ['RequestError', 'DENIED: by a proxy', 'DENIED by a proxy'],
    ['RequestError', `${glide}ResponseError: by a proxy`, 'by a proxy'],
  ]) {
    const refuse = async () => {
      throw Object.assign(new Error(message), { name });
    };
    const refusing = name === 'RequestError' ? { customCommand: refuse } : changed({ callBuffer: refuse });
    await assert.rejects(store(refusing, 'key', new Bloom(10, 0.1)), { message: `store to "key": ${text}` });
  }
});

test('an error without a reply is not a refusal', async () => {
  for (const [method, error] of [
    ['customCommand', new TimeoutError('lost')],
    ['customCommand', new ConnectionError('lost')],
    ['callBuffer', new Error('HTTP 503 of a gateway')],
  ]) {
    const { message } = error;
    const lose = async () => {
      throw error;
    };
    await assert.rejects(store({ [method]: lose }, 'key', new Bloom(10, 0.1)), (thrown) => thrown === error && error.message === message);
  }
});

/** Calls `use` with a client of ioredis, as it is by default, for each step at which the connection can be cut. */
async function withEachCut(use) {
  const { Redis } = await import('ioredis');
  const proxy = await startProxy(server.port);
  const one = new Redis({ port: proxy.port, retryStrategy: () => 1 });
  one.on('error', () => {});
  let [steps, step] = [0, -1];
  const cutting = new Proxy(one, {
    get(target, property) {
      if (property !== 'callBuffer') return target[property];
      return (...words) => {
        steps += 1;
        if (steps === step) proxy.cuts = cutting.cuts;
        return target.callBuffer(...words);
      };
    },
  });
  let last = 0;
  do {
    for (cutting.cuts of ['before', 'after', 'within']) {
      steps = 0;
      await use(cutting, `${cutting.cuts} ${step}`);
      assert.equal(proxy.cuts, undefined);
      last = Math.max(last, steps);
    }
    step = Math.max(step, 0) + 1;
  } while (step <= last);
  one.disconnect();
  proxy.close();
  assert.ok(last >= 3);
}

test('an object is stored once, wherever the connection is cut', async () => {
  const [filter, hits] = [new Bloom(4_000_000, 0.01), new CountMin(50, 4)];
  filter.add('a');
  hits.add('a', 5);
  await withEachCut(async (one, where) => {
    await client.call('FLUSHALL');
    await store(one, 'key', filter);
    assert.ok((await fetch(client.client, 'key')).equals(filter), where);
    assert.deepEqual(await client.call('KEYS', '*'), ['key']);
  });
  await withEachCut(async (one, where) => {
    await client.call('FLUSHALL');
    await store(client.client, 'key', hits);
    await store(one, 'key', hits, { merge: true });
    assert.equal((await fetch(client.client, 'key')).query('a'), 10, where);
    assert.deepEqual(await client.call('KEYS', '*'), ['key']);
  });
  await store(client.client, 'filter', filter);
  await withEachCut(async (one, where) => {
    assert.ok((await fetch(one, 'filter')).equals(filter), where);
  });
});
