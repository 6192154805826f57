// `Near`, over every kind of client: what it answers, and what becomes of it when servers and connections fail.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, test } from 'node:test';
import { inspect } from 'node:util';

import { GlideClient } from '@valkey/valkey-glide';
import * as ioredis from 'ioredis';
import * as iovalkey from 'iovalkey';
import { createClient } from 'redis';
import { Near, fetch } from 'valkeybloom';

import { client, server } from './own-server.js';
import { CLIENTS, CLUSTER_CLIENTS, observer, startCluster, startProxy, startServer, until, withEach } from './support.js';

/** Polls often, so that the tests are quick. The copy is never too old on a busy machine. */
const QUICK = { every: 0.005, maxAge: 60 };

beforeEach(() => client.call('FLUSHALL'));

const items = (count, start = 0) => Array.from({ length: count }, (_, number) => `item ${start + number}`);

async function calls(command) {
  const stats = (await client.call('INFO', 'commandstats')).toLowerCase();
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}

/** Waits until the copy has the bytes of the filter. */
const untilEqual = (near, key) =>
  until(async () => near.copy()?.equals(await fetch(client.client, key)));

test('a copy answers as the server does, and what is written is read at once', async () => {
  await withEach(CLIENTS, server.port, async (one, name) => {
    await client.call('FLUSHALL');
    await client.call('BF.RESERVE', 'seen', 0.01, 100_000);
    await client.call('BF.MADD', 'seen', ...items(150));
    const near = new Near(one, 'seen', QUICK);
    assert.equal(await near.wait(30), true, name);
    assert.equal(near.state, 'following');
    const asked = items(1000);
    const expected = await client.call('BF.MEXISTS', 'seen', ...asked);
    const lookups = await calls('bf.exists') + await calls('bf.mexists');
    assert.deepEqual([...(await near.hasMany(asked))], expected);
    for (const [index, item] of asked.entries()) assert.equal(near.local(item), expected[index] === 1);
    assert.equal(await near.has('item 3'), true);
    assert.equal(await calls('bf.exists') + await calls('bf.mexists'), lookups);
    const wanted = await client.call('BF.MEXISTS', 'seen', 'new', 'newer', '17', 'item 1');
    assert.deepEqual(wanted, [0, 0, 0, 1]);
    assert.equal(await near.add('new'), true);
    assert.equal(await near.has('new'), true);
    assert.equal(await near.add('new'), false);
    assert.deepEqual([...(await near.addMany(['new', 'newer', 17, 'item 1', 'newer']))], [0, 1, 1, 0, 0]);
    assert.deepEqual([...(await near.hasMany(['newer', 17n, Buffer.from('17')]))], [1, 1, 1]);
    await client.call('BF.MADD', 'seen', ...items(3000, 1000));
    await untilEqual(near, 'seen');
    assert.equal(near.local('item 3999'), true);
    const { polls, fetches, errors, asked: answered } = near.stats;
    assert.ok(polls > 1 && fetches === 1 && errors === 0 && answered === 0, JSON.stringify(near.stats));
    assert.ok(near.age >= 0);
    assert.equal(inspect(near), '<Near "seen" following>');
    near.close();
    assert.equal(inspect(near), '<Near "seen" closed>');
    assert.equal(near.state, 'closed');
    assert.equal(near.local('new'), undefined);
    assert.equal(await near.has('new'), true);
    assert.equal(near.age, undefined);
    await assert.rejects(near.wait(), { code: 'CLOSED' });
  });
});

test('a copy in a cluster is read from the primary of its key', async () => {
  const cluster = await startCluster();
  try {
    await withEach(CLUSTER_CLIENTS, cluster.port, async (one, name) => {
      for (const key of ['a', 'b', 'c'].map((letter) => `${letter} of ${name}`)) {
        const near = new Near(one, key, { ...QUICK, missing: 'create' });
        assert.equal(await near.wait(30), true, name);
        assert.equal(near.state, 'missing');
        assert.equal(await near.add(name), true);
        await until(() => near.state === 'following');
        assert.deepEqual([...(await near.addMany([name, `more of ${name}`]))], [0, 1]);
        await until(async () => near.copy()?.equals(await fetch(one, key)));
        assert.equal(near.local(`more of ${name}`), true);
        near.close();
      }
    });
  } finally {
    await cluster.stop();
  }
});

test('a confirming copy never denies what the server has', async () => {
  await client.call('BF.ADD', 'seen', 'a');
  const near = new Near(client.client, 'seen', { every: 0.5, maxAge: 60, confirm: true });
  await near.wait(30);
  for (const item of items(50)) {
    assert.equal(near.local(item), undefined);
    await client.call('BF.ADD', 'seen', item);
    assert.equal(await near.has(item), true);
    assert.deepEqual([...(await near.hasMany(['a', item]))], [1, 1]);
  }
  assert.equal(near.local('a'), true);
  assert.ok(near.stats.asked >= 50);
  near.close();
});

test('a batch is looked up as it was at the call', async () => {
  const batch = items(25_000).map((item) => Buffer.from(item));
  await client.call('BF.RESERVE', 'seen', 1e-9, 100_000);
  await client.call('BF.MADD', 'seen', ...batch);
  const near = new Near(client.client, 'seen');
  // Without a copy, the server answers, in several commands.
  near.close();
  const answers = near.hasMany(batch);
  for (const item of batch) item.fill(0);
  assert.ok((await answers).every((answer) => answer === 1));
  assert.equal(near.stats.asked, batch.length);
});

test('a missing key is what the program says', async () => {
  await withEach(CLIENTS, server.port, async (one) => {
    await client.call('DEL', 'none');
    const empty = new Near(one, 'none', QUICK);
    assert.equal(await empty.wait(30), true);
    assert.deepEqual([empty.state, await empty.has('a'), [...(await empty.hasMany(['a']))]], ['missing', false, [0]]);
    await assert.rejects(empty.add('a'), /not found/);
    assert.equal(await client.call('EXISTS', 'none'), 0);
    const strict = new Near(one, 'none', { ...QUICK, missing: 'error' });
    await assert.rejects(strict.wait(30), { code: 'NO_KEY', message: 'there is no key "none"' });
    await assert.rejects(strict.has('a'), { code: 'NO_KEY' });
    await assert.rejects(strict.hasMany(['a']), { code: 'NO_KEY' });
    assert.throws(() => strict.local('a'), { code: 'NO_KEY' });
    const creating = new Near(one, 'none', { ...QUICK, missing: 'create' });
    assert.equal(await creating.add('a'), true);
    await until(() => strict.state === 'following');
    assert.equal(await strict.has('a'), true);
    for (const near of [empty, strict, creating]) near.close();
  });
});

test('what can not be followed is refused in words', async () => {
  await client.call('BF.RESERVE', 'counting', 0.01, 100, 'COUNTING');
  await client.call('SET', 'text', 'value');
  await client.call('ACL', 'SETUSER', 'weak', 'on', '>secret', '~*', '+bf.mexists', '+hello', '+client', '+info');
  const { Redis } = await import('ioredis');
  const weak = new Redis({ port: server.port, username: 'weak', password: 'secret' });
  weak.on('error', () => {});
  await client.call('BF.ADD', 'seen', 'a');
  for (const [one, key, text] of [
    [client.client, 'counting', /feed/],
    [client.client, 'text', /WRONGTYPE/],
    [weak, 'seen', /no permissions/],
  ]) {
    const near = new Near(one, key, QUICK);
    await assert.rejects(near.wait(30), (error) => error.code === 'NOT_FOLLOWED' && text.test(error.message), key);
    assert.equal(near.state, 'refused');
    if (one === weak) assert.equal(await near.has('a'), true);
    near.close();
  }
  weak.disconnect();
  const older = {
    callBuffer(...words) {
      if (words[0] === 'BF.READ') throw Object.assign(new Error("ERR unknown command 'BF.READ'"), { name: 'ReplyError' });
      return client.callBuffer(...words);
    },
  };
  const near = new Near(older, 'seen', QUICK);
  await assert.rejects(near.wait(30), /unknown command 'BF.READ'; pass refresh to follow a server without BF.READ/);
  near.close();
  // However short it is, it does not turn fetches off.
  for (const refresh of [0.05, 1e-7]) {
    const refreshed = new Near(older, 'seen', { ...QUICK, refresh });
    assert.equal(await refreshed.wait(30), true);
    await client.call('BF.ADD', 'seen', `later ${refresh}`);
    await until(() => refreshed.local(`later ${refresh}`));
    refreshed.close();
  }
});

test('wrong arguments are refused', () => {
  for (const [options, text] of [
    [{ every: 0 }, /every is 0: it has to be more than 0, and at most 1000000000 seconds/],
    [{ every: '1' }, /^TypeError: every is string, not a number$/],
    [{ every: 2 }, /maxAge has to be larger than every/],
    [{ maxAge: Infinity }, /maxAge is Infinity/],
    [{ refresh: NaN }, /refresh is NaN/],
    [{ missing: 'maybe' }, /missing is maybe: it has to be 'empty', 'error' or 'create'/],
    [{ max_age: 3 }, /unknown option max_age: expected every, /],
  ]) {
    assert.throws(() => new Near(client.client, 'seen', options), text);
  }
  assert.throws(() => new Near({ get() {} }, 'seen'), /the client is not one of/);
  assert.throws(() => new Near(client.client, 1.5), /^TypeError: the key is 1.5: a key is a string, /);
});

test('a reply that is none is not taken for one', async () => {
  await client.call('BF.ADD', 'seen', 'a');
  for (const wrong of [null, 'OK', [], [Buffer.from('x'), -1, Buffer.from('')], [Buffer.from('x'), 1, 2], 7]) {
    let isBroken = true;
    const one = { callBuffer: async (...words) => (isBroken && words[0] === 'BF.READ' ? wrong : client.callBuffer(...words)) };
    const near = new Near(one, 'seen', QUICK);
    await until(() => near.stats.errors > 0);
    assert.equal(near.local('a'), undefined);
    assert.equal(await near.has('a'), true);
    isBroken = false;
    assert.equal(await near.wait(30), true);
    near.close();
  }
});

test('a reply that is none is an error of the lookup', async () => {
  await client.call('BF.ADD', 'seen', 'a');
  let [reply, to] = [undefined, ''];
  const one = { callBuffer: async (...words) => (words[0] === to ? reply : client.callBuffer(...words)) };
  const near = new Near(one, 'seen', { ...QUICK, confirm: true, missing: 'error' });
  assert.equal(await near.wait(30), true);
  for (const [command, call, ...wrongs] of [
    ['BF.MEXISTS', () => near.has('b'), null, 'OK', {}, 1, [null], ['OK'], [7], [Buffer.from('1')], [[1]], [0, 0]],
    ['BF.INSERT', () => near.add('b'), null, 'OK', [null], ['OK'], [-1], [[]], [1, 1]],
    ['EXISTS', () => near.has('b'), undefined, null, 'OK', [1], 2, {}],
  ]) {
    for (reply of wrongs) {
      to = command;
      await assert.rejects(call, { message: `the client returned something other than a reply to ${command}` }, String(reply));
      to = '';
      assert.deepEqual([near.local('b'), await near.has('b')], [undefined, false]);
    }
  }
  // Clients can be told to return numbers as text or as bigints.
  for (reply of [[1], [true], [1n], ['1']]) {
    to = 'BF.MEXISTS';
    assert.equal(await near.has('b'), true);
  }
  near.close();
});

test('whatever a client throws, the copy goes on', async () => {
  await client.call('BF.ADD', 'seen', 'a');
  const silent = { get message() { throw new Error('on purpose'); } };
  const stranger = new Proxy({}, { get() { throw new Error('on purpose'); }, getPrototypeOf() { throw new Error('on purpose'); } });
  class ReplyError extends Error {}
  const refusal = Object.assign(new ReplyError(), { message: 5 });
  const aggregate = Object.assign(new AggregateError([new Error('no route'), new Error('refused')]), { code: 'ECONNREFUSED' });
  for (const [wrong, text] of [
    [undefined, 'undefined'], [null, 'null'], ['', ''], ['text', 'text'], [Object.create(null), 'an error without a text'],
    [silent, 'an error without a text'], [stranger, 'an error without a text'], [{ message: Symbol('a') }, 'Symbol(a)'],
    [Symbol('a'), 'Symbol(a)'], [refusal, '5'], [new Error(''), 'Error'], [new (class Late extends Error {})(), 'Late'],
    [aggregate, 'no route; refused'],
  ]) {
    let isBroken = true;
    const one = {
      async callBuffer(...words) {
        if (isBroken) throw wrong;
        return client.callBuffer(...words);
      },
    };
    const near = new Near(one, 'seen', QUICK);
    await until(() => near.stats.errors > 1);
    assert.equal(near.stats.lastError, text);
    await near.has('a').then(assert.fail, (error) => assert.equal(error, wrong));
    isBroken = false;
    assert.equal(await near.wait(30), true);
    assert.equal(near.local('a'), true);
    near.close();
  }
});

test('a key that held something else for a moment is followed again', async () => {
  await client.call('BF.ADD', 'seen', 'a');
  const near = new Near(client.client, 'seen', QUICK);
  await near.wait(30);
  await client.call('SET', 'seen', 'text');
  await until(() => near.state === 'refused');
  await assert.rejects(near.wait(), { code: 'NOT_FOLLOWED', message: /wrong kind of value/ });
  await client.call('DEL', 'seen');
  await client.call('BF.ADD', 'seen', 'b');
  await until(() => near.local('b') === true, 10);
  near.close();
});

test('too few replies are an error, and long times are no short ones', async (t) => {
  await client.call('BF.MADD', 'seen', 'a', 'b');
  const timers = t.mock.method(globalThis, 'setTimeout');
  let short = false;
  const one = {
    async callBuffer(...words) {
      const reply = await client.callBuffer(...words);
      return short && Array.isArray(reply) ? reply.slice(1) : reply;
    },
  };
  const near = new Near(one, 'seen', { every: 1e7, maxAge: 1e8, confirm: true });
  assert.equal(await near.wait(30), true);
  short = true;
  for (const wrong of [NaN, null, '10', 10n]) await assert.rejects(near.wait(wrong), { message: /^timeout is / });
  assert.equal(await near.wait(-Infinity), true);
  await assert.rejects(near.hasMany(['c', 'd']), /too few replies/);
  await assert.rejects(near.addMany(['c', 'd']), /too few replies/);
  // A longer timer would end at once.
  const longest = () => Math.max(...timers.mock.calls.map(({ arguments: [, ms] }) => ms ?? 0));
  await until(() => longest() > 60_000);
  assert.equal(longest(), 2 ** 31 - 1);
  near.close();
});

test('no copy answers beyond its age, and a stalled server holds nobody up but who asks it', async (t) => {
  const { maxAge } = QUICK;
  const clock = performance.now.bind(performance);
  let [ahead, stopped] = [0, undefined];
  t.mock.method(performance, 'now', () => (stopped ?? clock()) + 1000 * ahead);
  const proxy = await startProxy(server.port);
  t.after(() => proxy.close());
  await withEach(CLIENTS, proxy.port, async (one, name) => {
    await client.call('FLUSHALL');
    await client.call('BF.MADD', 'seen', 'a', 'b');
    const near = new Near(one, 'seen', QUICK);
    assert.equal(await near.wait(30), true, name);
    proxy.stall();
    stopped = clock();
    // It answers as long as it is fresh, and then not at all.
    ahead += maxAge - near.age - 0.001;
    assert.deepEqual([near.local('a'), near.state], [true, 'following']);
    ahead += 0.002;
    assert.deepEqual([near.local('a'), near.state], [undefined, 'stale']);
    stopped = undefined;
    proxy.flow();
    await until(() => near.local('a') === true);
    proxy.refuses = true;
    proxy.cut();
    // A last reply may be on its way.
    await until(() => {
      ahead += maxAge;
      return near.local('a') === undefined;
    });
    await client.call('BF.ADD', 'seen', 'while it was away');
    proxy.refuses = false;
    await until(() => near.local('while it was away') === true);
    near.close();
  });
});

test('with the options of docs/javascript.md, a server that has stopped holds nobody up', async () => {
  const page = readFileSync(join(process.env.REPOSITORY, 'docs/javascript.md'), 'utf8');
  const [, text] = /^\| node-redis \| `(.*)` \|$/m.exec(page);
  const { socket, ...options } = new Function(`return ${text}`)();
  const limited = {
    async 'node-redis'(port) {
      const one = createClient({ ...options, socket: { ...socket, host: '127.0.0.1', port } });
      one.on('error', () => {});
      await one.connect();
      return [one, () => one.destroy()];
    },
    ioredis: (port) => io(new ioredis.Redis({ port, commandTimeout: 1000 })),
    iovalkey: (port) => io(new iovalkey.Redis({ port, commandTimeout: 1000 })),
    async 'valkey-glide'(port) {
      const one = await GlideClient.createClient({ addresses: [{ host: '127.0.0.1', port }], requestTimeout: 1000 });
      return [one, () => one.close()];
    },
  };
  const io = (one) => {
    one.on('error', () => {});
    return [one, () => one.disconnect()];
  };
  for (const [name, connect] of Object.entries(limited)) {
    const stopping = await startServer();
    const own = await observer(stopping.port);
    await own.call('BF.ADD', 'seen', 'a');
    own.close();
    const [one, close] = await connect(stopping.port);
    const near = new Near(one, 'seen', { every: 0.02, maxAge: 0.2 });
    assert.equal(await near.wait(30), true, name);
    const rejects = (call) => call().then(() => assert.fail(name), (error) => assert.ok(error.message.length > 5, `${name}: ${error.message}`));
    for (const signal of ['SIGSTOP', 'SIGKILL']) {
      stopping.process.kill(signal);
      await until(() => near.state !== 'following');
      // Each of them ends, or the test does not.
      for (const call of [() => near.has('a'), () => near.add('b')]) await rejects(call);
      if (signal === 'SIGKILL') break;
      stopping.process.kill('SIGCONT');
      await until(() => near.local('a') === true);
    }
    near.close();
    close();
    await stopping.stop();
  }
});

test('a replica is read, and the primary is written to', async () => {
  const replica = await startServer('--replicaof', '127.0.0.1', server.port);
  const reading = await observer(replica.port);
  try {
    await client.call('BF.ADD', 'seen', 'a');
    await until(async () => (await reading.call('INFO', 'replication')).includes('master_link_status:up'));
    const near = new Near(client.client, 'seen', { ...QUICK, reader: reading.client });
    assert.equal(await near.wait(30), true);
    const before = await calls('bf.read');
    assert.equal(await near.add('b'), true);
    assert.equal(await near.has('b'), true);
    await until(() => near.copy()?.has('b'));
    assert.equal(await calls('bf.read'), before);
    // The replica is cut off. What was added is found nevertheless.
    await reading.call('REPLICAOF', '127.0.0.1', 1);
    assert.equal(await near.add('c'), true);
    const { polls } = near.stats;
    await until(() => near.stats.polls > polls + 2);
    assert.equal(await near.has('c'), true);
    near.close();
  } finally {
    reading.close();
    await replica.stop();
  }
});

test('a reader that is null is no replica', async () => {
  await client.call('BF.ADD', 'seen', 'a');
  let [latest, isFrozen] = [undefined, false];
  const one = {
    async callBuffer(...words) {
      if (words[0] !== 'BF.READ') return client.callBuffer(...words);
      if (isFrozen) return [...latest.slice(0, 2), Buffer.alloc(0)];
      return (latest = await client.callBuffer(...words));
    },
  };
  const near = new Near(one, 'seen', { ...QUICK, reader: null });
  assert.equal(await near.wait(30), true);
  isFrozen = true;
  assert.equal(await near.add('b'), true);
  // Only a replica may lack it for long: a poll that brings nothing ends what the object knows by itself.
  await until(() => near.local('b') === false);
  near.close();
});

test('a wait ends, even if nothing else refers to the copy or the caller', async () => {
  for (const timeout of [undefined, 1e9]) {
    let [polls, isReachable, isDone] = [0, false, false];
    const one = {
      async callBuffer() {
        polls += 1;
        if (!isReachable) throw new Error('on purpose');
        throw Object.assign(new Error('ERR not found'), { name: 'ReplyError' });
      },
    };
    (async () => {
      const near = new Near(one, 'seen', QUICK);
      await near.wait(timeout);
      near.close();
      isDone = true;
    })();
    await until(() => {
      globalThis.gc();
      return polls > 2;
    });
    isReachable = true;
    await until(() => isDone);
  }
});

test('a dropped copy ends its polls, and no copy keeps a program alive', async () => {
  await client.call('BF.ADD', 'seen', 'a');
  let polls = 0;
  const counting = {
    callBuffer(...words) {
      polls += words[0] === 'BF.READ';
      return client.callBuffer(...words);
    },
  };
  const dropped = await (async () => {
    const near = new Near(counting, 'seen', QUICK);
    await near.wait(30);
    return new WeakRef(near);
  })();
  await until(() => {
    globalThis.gc();
    return dropped.deref() === undefined;
  });
  const before = polls;
  const other = new Near(client.client, 'seen', QUICK);
  await until(() => other.stats.polls > 20);
  other.close();
  assert.ok(before > 0);
  assert.equal(polls, before);
  const program = `
    import { createClient } from 'redis';
    import { Near } from 'valkeybloom';
    const client = await createClient({ url: 'redis://127.0.0.1:${server.port}' }).connect();
    const near = new Near(client, 'seen', { every: 20, maxAge: 60 });
    await near.wait();
    console.log(await near.has('a'));
    client.unref();`;
  const run = spawnSync(process.execPath, ['--input-type=module', '-e', program], { timeout: 15_000, encoding: 'utf8' });
  assert.deepEqual([run.stdout, run.stderr, run.status], ['true\n', '', 0]);
});

test('a program that waits goes on, even if nothing else keeps it alive', () => {
  const program = `
    import { Near } from 'valkeybloom';
    class ReplyError extends Error {}
    let polls = 0;
    const client = {
      async callBuffer() {
        polls += 1;
        throw polls > 2 ? new ReplyError('ERR not found') : new Error('on purpose');
      },
    };
    const near = new Near(client, 'seen', { every: 0.005, maxAge: 60 });
    console.log(await near.wait(), near.state);`;
  const run = spawnSync(process.execPath, ['--input-type=module', '-e', program], { timeout: 15_000, encoding: 'utf8' });
  assert.deepEqual([run.stdout, run.stderr, run.status], ['true missing\n', '', 0]);
});
