// `Once`, and the additions of `Near`: answers that no lost reply spoils, with the clients' own defaults.

import assert from 'node:assert/strict';
import net from 'node:net';
import { beforeEach, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';
// Before the package.
import { failing } from './instance.js';

import * as ioredis from 'ioredis';
import * as iovalkey from 'iovalkey';
import { createClient } from 'redis';
import { Bloom, Near, Once, store } from 'valkeybloom';

import { client, server } from './own-server.js';
import { CLIENTS, CLUSTER_CLIENTS, startCluster, withEach } from './support.js';

beforeEach(() => client.call('FLUSHALL'));

/** How many times as long the random tests run. */
const TIMES = 1 + Math.floor(Number(process.env.SOAK_SECONDS ?? 0) / 20);

/** Returns random whole numbers below an end, the same ones for a seed. */
function randomly(seed) {
  let state = BigInt(seed);
  return (end) => {
    state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
    return Number((state >> 33n) % BigInt(end));
  };
}

/** Passes connections on to a server, and cuts some at a command: before it, after it, or within its reply. */
async function startCutter(target, seed) {
  const below = randomly(seed);
  const cuts = { before: 0, after: 0, within: 0 };
  const listening = net.createServer((one) => {
    const other = net.connect(target, '127.0.0.1');
    let cut;
    const end = () => [one, other].forEach((socket) => socket.destroy());
    one.on('data', (data) => {
      if (cut === undefined && data.includes('BF.')) {
        cut = Object.keys(cuts)[below(8)];
        if (cut !== undefined) cuts[cut] += 1;
        // The server may get half of it.
        if (cut === 'before') return other.write(data.subarray(0, data.length / 2), end);
      }
      return other.write(data);
    });
    other.on('data', (data) => {
      if (cut === undefined) one.write(data);
      else one.end(cut === 'within' ? data.subarray(0, data.length / 2) : '', end);
    });
    for (const socket of [one, other]) socket.on('error', () => {}).on('close', end);
  });
  await new Promise((resume) => listening.listen(0, '127.0.0.1', resume));
  return { cuts, port: listening.address().port, close: () => listening.close() };
}

/** The clients as they are without options, and those that repeat nothing. */
const CUT = {
  async 'node-redis'(port) {
    const one = createClient({ socket: { host: '127.0.0.1', port } }).on('error', () => {});
    await one.connect();
    return [one, () => one.destroy()];
  },
  ioredis: (port) => io(new ioredis.Redis(port)),
  'ioredis without repetitions': (port) =>
    io(new ioredis.Redis(port, { autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0, retryStrategy: () => 5 })),
  iovalkey: (port) => io(new iovalkey.Redis(port)),
};

function io(one) {
  one.on('error', () => {});
  return [one, () => one.disconnect()];
}

for (const [name, connect] of Object.entries(CUT)) {
  for (const what of ['Once', 'Near']) {
    test(`cuts do not spoil an answer of ${what} with ${name}`, async () => {
      await client.call('BF.RESERVE', 'seen', 1e-9, 100_000);
      const below = randomly(5);
      const batches = Array.from({ length: 200 * TIMES }, () =>
        Array.from({ length: 1 + below(20) }, () => `item ${below(600 * TIMES)}`));
      const told = new Map();
      const cutter = await startCutter(server.port, 3);
      const [one, close] = await connect(cutter.port);
      const near = what === 'Near' ? new Near(one, 'seen', { reader: client.client, every: 0.005, maxAge: 60 }) : undefined;
      const once = new Once(one, 'seen');
      let failures = 0;
      const add = async (batch) => {
        for (;;) {
          try {
            return await (near ? near.addMany(batch) : once.add(batch));
          } catch (error) {
            // Whatever else it is, it is the end.
            if (error.code === 'FORGOTTEN' || error.code === 'NO_RECEIPTS' || (failures += 1) > 5000 * TIMES) throw error;
            await new Promise((resume) => setImmediate(resume));
          }
        }
      };
      try {
        await Promise.all(Array.from({ length: 8 }, async (_, caller) => {
          for (let number = caller; number < batches.length; number += 8) {
            const answers = await add(batches[number]);
            batches[number].forEach((item, index) => told.set(item, (told.get(item) ?? 0) + Number(answers[index])));
          }
        }));
      } finally {
        near?.close();
        close();
        cutter.close();
      }
      assert.deepEqual([...told].filter(([, times]) => times !== 1), []);
      assert.equal(await client.call('BF.CARD', 'seen'), new Set(batches.flat()).size);
      assert.ok(Object.values(cutter.cuts).every((times) => times > 0), JSON.stringify(cutter.cuts));
    });
  }
}

test('a consumer gets the same answers again', async () => {
  await withEach(CLIENTS, server.port, async (one, name) => {
    await client.call('FLUSHALL');
    const once = new Once(one, 'clicks', { consumer: 'worker-7', begin: 1200 });
    assert.equal(await once.position(), 1200, name);
    assert.deepEqual(await once.add(['/a', '/b', '/a'], { at: 1200 }), [true, true, false]);
    assert.deepEqual(await once.add(['/b', '/a', '/c'], { at: 1201n }), [true, false, true]);
    assert.equal(await once.position(), 1204);
    await assert.rejects(once.add(['/d'], { at: 1300 }), {
      code: 'FORGOTTEN', message: 'FORGOTTEN answers are known from 1200 to 1204', first: 1200, end: 1204,
    });
    assert.deepEqual(await client.call('KEYS', '*once*'), ['{clicks}:once:worker-7']);
    const own = new Once(one, 'names');
    assert.deepEqual([await own.add(['ann']), await own.add(['ann', 7, Buffer.from('7')])], [[true], [false, true, false]]);
    assert.deepEqual([await own.add([]), await own.position()], [[], undefined]);
    const receipts = await client.call('KEYS', '{names}:once:own-*');
    assert.equal(receipts.length, 1);
    await client.call('DEL', ...receipts);
    assert.deepEqual([await own.add(['bob']), await client.call('KEYS', '{names}:once:own-*')], [[true], receipts]);
    await client.call('SET', '{clicks}:once:worker-7', 'text');
    await assert.rejects(once.position(), { code: 'REFUSED' });
    await assert.rejects(once.add(['/a'], { at: 1200 }), /does not hold a receipt/);
  });
});

test('receipts are in the slot of their filter', async () => {
  const cluster = await startCluster();
  try {
    await withEach(CLUSTER_CLIENTS, cluster.port, async (one, name) => {
      for (const key of ['a', 'b', 'c{d}', 'e}'].map((letter) => `${letter} of ${name}`)) {
        const once = new Once(one, key, { consumer: 'c' });
        for (const _ of [1, 2]) assert.deepEqual(await once.add(['x', 'y'], { at: 0 }), [true, true], name);
        assert.equal(await once.position(), 2);
        const near = new Near(one, key);
        assert.equal(await near.add('z'), true);
        assert.equal(near.once, true);
        near.close();
      }
    });
  } finally {
    await cluster.stop();
  }
});

test('a prefix is a part of the key', async () => {
  for (const { Redis } of [ioredis, iovalkey]) {
    await client.call('FLUSHALL');
    const one = new Redis(server.port, { keyPrefix: 'app:' });
    const once = new Once(one, 'seen', { consumer: 'c' });
    assert.deepEqual(await once.add(['x'], { at: 0 }), [true]);
    assert.equal(await once.position(), 1);
    assert.deepEqual((await client.call('KEYS', '*')).sort(), ['app:seen', '{app:seen}:once:c']);
    one.disconnect();
  }
});

test('a prefix is a part of the key in a cluster whose nodes the client does not know yet', async () => {
  const cluster = await startCluster();
  try {
    for (const [name, { Cluster }] of Object.entries({ ioredis, iovalkey })) {
      for (let number = 0; number < 20; number += 1) {
        const [one, close] = io(new Cluster([{ host: '127.0.0.1', port: cluster.port }], { keyPrefix: 'app:' }));
        const once = new Once(one, `${number} of ${name}`, { consumer: 'c', begin: 5 });
        assert.equal(await once.position(), 5);
        assert.deepEqual(await once.add(['x'], { at: 5 }), [true]);
        assert.equal(await once.position(), 6);
        close();
      }
    }
  } finally {
    await cluster.stop();
  }
});

test('refusals of minified clients are recognized', async () => {
  const minified = new URL('./minified.cjs', import.meta.url);
  await build({
    stdin: { contents: "export * from 'redis'; export { Redis } from 'ioredis';", resolveDir: fileURLToPath(new URL('.', minified)) },
    outfile: fileURLToPath(minified), bundle: true, minify: true, platform: 'node', logLevel: 'error',
  });
  const { default: clients } = await import(minified);
  await client.call('ACL', 'SETUSER', 'plain', 'on', '>pw', '+@all', '~k');
  const kinds = {
    async 'node-redis'(port, username, password) {
      const one = clients.createClient({ username, password, socket: { host: '127.0.0.1', port } });
      await one.connect();
      return [one, () => one.destroy()];
    },
    ioredis: (port, username, password) => io(new clients.Redis({ port, username, password })),
  };
  for (const [name, connect] of Object.entries(kinds)) {
    await client.call('FLUSHALL');
    const [one, close] = await connect(server.port);
    const [limited, closeLimited] = await connect(server.port, 'plain', 'pw');
    try {
      const raised = await limited.get('other').catch((error) => error);
      assert.ok(raised.constructor.name.length < 4, raised.constructor.name);
      const once = new Once(one, 'k', { consumer: 'c' });
      await assert.rejects(once.add(['a'], { at: 7 }), { name: 'SketchError', code: 'FORGOTTEN', first: 0, end: 0 });
      const near = new Near(limited, 'k', { missing: 'create' });
      assert.deepEqual([await near.add('a'), near.once], [true, false], name);
      near.close();
      for (const [command, text] of [['TOPK.QUERY', 'TopK: key does not exist'], ['CF.DEL', 'Not found']]) {
        const words = [command, 'none', 'x'];
        const refused =
          name === 'ioredis' ? { callBuffer: () => one.callBuffer(...words) } : { sendCommand: () => one.sendCommand(words) };
        await assert.rejects(store(refused, 'k', new Bloom(10, 0.1)), { message: `store to "k": ${text}` }, name);
      }
    } finally {
      close();
      closeLimited();
    }
  }
});

test('the outcome of an addition stays if there is no memory to note its end', async () => {
  const broken = new Error('by the client');
  const fail = async () => {
    throw broken;
  };
  try {
    failing.atTheEnd = 'memory';
    await assert.rejects(new Once({ customCommand: fail }, 'k').add(['a']), broken);
    assert.deepEqual(await new Once({ customCommand: async () => [1] }, 'k').add(['a']), [true]);
    // A fault of the package does not stay hidden.
    failing.atTheEnd = 'status';
    await assert.rejects(new Once({ customCommand: async () => [1] }, 'k').add(['a']), { code: 'BROKEN' });
  } finally {
    failing.atTheEnd = undefined;
  }
});

test('something other than a reply is refused', async () => {
  const answering = (reply) => new Once({ customCommand: async () => reply }, 'k', { consumer: 'c' });
  for (const reply of [undefined, null, 1, '10', {}, [1, 2], [1, undefined], [undefined, 1], [1, 0, 1]]) {
    const text = (command) => ({ message: `the client returned something other than a reply to ${command}` });
    await assert.rejects(answering(reply).add(['a', 'b'], { at: 0 }), text('BF.INSERT'), String(reply));
    await assert.rejects(answering(reply).position(), text('GETRANGE'), String(reply));
  }
  await assert.rejects(answering([1]).add(['a', 'b'], { at: 0 }), { message: 'the client returned too few replies' });
});

test('answers before a refusal are kept, wherever it is in the reply', async () => {
  const refusal = Object.assign(new Error('ERR non scaling filter is full'), { name: 'RequestError' });
  let reply = [1, refusal, refusal];
  const once = new Once({ customCommand: async () => reply }, 'k');
  await assert.rejects(once.add(['a', 'b', 'c']), refusal);
  // The first call added this item, and the next one has the answer without asking.
  reply = [];
  assert.deepEqual(await once.add(['a']), [true]);
});

test('what is refused', async () => {
  const one = client.client;
  await assert.rejects(new Once(one, 'k', { consumer: 'c' }).add(['a']), /needs at/);
  await assert.rejects(new Once(one, 'k').add(['a'], { at: 0 }), /a consumer's position/);
  assert.throws(() => new Once(one, 'k', { begin: 1 }), /begin/);
  assert.throws(() => new Once(one, {}), { message: /^the key is object: a key is a string, / });
  assert.throws(() => new Once(one, 'k', { consumer: null }), { message: /^the consumer is null: a consumer is a string, / });
  for (const wrong of [null, '', false, 0.5, -1]) {
    const error = { message: /^(at|begin) is / };
    assert.throws(() => new Once(one, 'k', { consumer: 'c', begin: wrong }), error, String(wrong));
    await assert.rejects(new Once(one, 'k', { consumer: 'c' }).add(['a'], { at: wrong }), error, String(wrong));
  }
  await assert.rejects(new Once(one, 'k').add(['a', null]), /item 1/);
  await client.call('ACL', 'SETUSER', 'plain', 'on', '>pw', '+@all', '~k');
  const limited = new ioredis.Redis(server.port, { username: 'plain', password: 'pw' });
  await assert.rejects(new Once(limited, 'k').add(['a']), /NOPERM/);
  for (const [given, user] of [[{}, limited], [{ once: false }, one]]) {
    const near = new Near(user, 'k', { missing: 'create', ...given });
    assert.equal(await near.add(JSON.stringify(given)), true);
    assert.equal(near.once, false);
    near.close();
  }
  limited.disconnect();
  assert.deepEqual(await client.call('KEYS', '*once*'), []);
  await client.call('BF.RESERVE', 'full', 1e-9, 2, 'NONSCALING');
  const full = new Once(one, 'full');
  await assert.rejects(full.add(['a', 'b', 'c']), /full/);
  assert.deepEqual([await full.add(['b']), await full.add(['b'])], [[true], [false]]);
});
