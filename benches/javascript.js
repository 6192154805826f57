// Measures the npm package beside others: nanoseconds an item, for 100,000 strings of 25 bytes and a filter for a million
// items at 1 %; and how long the events of a program take that fetches and follows a filter of 110 MB. `./build.sh bench js`
// runs it. A figure is that of the quickest of many short runs, because other programs also use the machine.

import { execFileSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

import peers from 'bloom-filters';
import { BloomFilter } from 'bloomfilter';
import { Bloom, Near, fetch } from 'valkeybloom';

import { CLIENTS, observer, startServer } from './tests/support.js';

const CAPACITY = 1_000_000;
const RATE = 0.01;
const COUNT = 100_000;
const RUN = 1000;

// Strings as programs have them: of one piece.
const text = (word, index) => Buffer.from(`${word}-${String(index).padStart(24 - word.length, '0')}`).toString();
const present = Array.from({ length: COUNT }, (_, index) => text('item', index));
const absent = Array.from({ length: COUNT }, (_, index) => text('none', index));
const runs = (items) => Array.from({ length: COUNT / RUN }, (_, run) => items.slice(run * RUN, (run + 1) * RUN));

const bits = Math.ceil((-CAPACITY * Math.log(RATE)) / Math.LN2 ** 2);
const KINDS = {
  valkeybloom: () => {
    const filter = new Bloom(CAPACITY, RATE);
    return {
      add: (item) => filter.add(item),
      has: (item) => filter.has(item),
      addMany: (items) => filter.addMany(items),
      hasMany: (items) => filter.hasMany(items),
    };
  },
  'bloom-filters': () => {
    const filter = peers.BloomFilter.create(CAPACITY, RATE);
    return { add: (item) => filter.add(item), has: (item) => filter.has(item) };
  },
  bloomfilter: () => {
    const filter = new BloomFilter(bits, Math.round((bits / CAPACITY) * Math.LN2));
    return { add: (item) => filter.add(item), has: (item) => filter.test(item) };
  },
};

/** Returns the nanoseconds that the main thread has run, to some milliseconds. */
const used = () => Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[0]);
const now = () => Number(process.hrtime.bigint());

/** Returns the nanoseconds an item of the quickest run. Long runs are measured in time of the processor. */
function quickest(batches, work) {
  let least = Infinity;
  for (const batch of batches) {
    const clock = batch.length > RUN ? used : now;
    const begun = clock();
    work(batch);
    least = Math.min(least, (clock() - begun) / batch.length);
  }
  return Math.round(least);
}

const each = (call) => (items) => {
  for (const item of items) call(item);
};

console.log('nanoseconds an item'.padEnd(34), ...Object.keys(KINDS).map((name) => name.padStart(14)));
const columns = Object.values(KINDS).map((make) => {
  const filter = make();
  const half = runs(present).map((run, index) => run.map((item, place) => (place % 2 ? item : absent[index * RUN + place])));
  const rows = { add: quickest(runs(present), each(filter.add)) };
  for (const [name, batches] of [['has, present', runs(present)], ['has, absent', runs(absent)], ['has, half of them present', half]]) {
    rows[name] = quickest([...batches, ...batches], each(filter.has));
  }
  if (filter.addMany) {
    const { addMany } = make();
    rows['addMany of 1,000'] = quickest(runs(present), addMany);
    rows['addMany of 100,000'] = quickest(Array(20).fill(present), make().addMany);
    rows['hasMany of 1,000'] = quickest([...half, ...half], filter.hasMany);
    rows['hasMany of 100,000'] = quickest(Array(20).fill(half.flat()), filter.hasMany);
  }
  return rows;
});
for (const row of Object.keys(columns[0])) {
  console.log(row.padEnd(34), ...columns.map((column) => String(column[row] ?? '').padStart(14)));
}

const file = new URL('node_modules/valkeybloom/valkeybloom.wasm', import.meta.url);
const program = 'const begun = performance.now(); require("valkeybloom"); console.log(performance.now() - begun)';
const loads = Array.from({ length: 20 }, () => Number(execFileSync(process.execPath, ['-e', program], { encoding: 'utf8' })));
console.log('WebAssembly'.padEnd(34), statSync(file).size, 'bytes,', gzipSync(readFileSync(file), { level: 9 }).length, 'compressed');
console.log('require("valkeybloom")'.padEnd(34), Math.min(...loads).toFixed(1), 'ms');

/**
 * Returns the longest time that one event takes while something runs, in milliseconds of the processor. The time
 * that other programs take does not count.
 */
async function longestEvent(work) {
  let [longest, last, isDone] = [0, used(), false];
  const tick = () => {
    const time = used();
    longest = Math.max(longest, time - last);
    last = time;
    if (!isDone) setImmediate(tick);
  };
  setImmediate(tick);
  try {
    await work();
  } finally {
    isDone = true;
    tick();
  }
  return (longest / 1e6).toFixed(1);
}

/** The commands that read a chunk with each client, and nothing else. */
const reads = {
  ioredis: (client) => (cursor) => client.callBuffer('BF.SCANDUMP', 'large', cursor),
  'node-redis, RESP2': (client) => (cursor) =>
    client.sendCommand(['BF.SCANDUMP', 'large', `${cursor}`], { typeMapping: { 36: Buffer } }),
};

const server = await startServer();
const { call, close: closeObserver } = await observer(server.port);
await call('CONFIG', 'SET', 'bf.bloom-memory-usage-limit', 2 ** 30);
await call('CONFIG', 'SET', 'bf.bloom-filter-max-memory-usage', 2 ** 30);
await call('BF.RESERVE', 'large', 0.01, 80_000_000);
console.log('\nthe longest event, in milliseconds of the processor');
for (const [name, read] of Object.entries(reads)) {
  const [client, close] = await CLIENTS[name](server.port);
  const alone = async () => {
    let cursor = 0;
    do {
      [cursor] = await read(client)(cursor);
    } while (Number(cursor) !== 0);
  };
  let near;
  const follow = async () => {
    near = new Near(client, 'large', { maxAge: 60 });
    await near.wait();
  };
  const fetched = async () => (await fetch(client, 'large')).free();
  // The first of each is before the code is compiled.
  for (const [what, work] of [['the chunks alone', alone], ['fetch', fetched], ['Near, until it answers', follow]]) {
    await work();
    near?.close();
    console.log(`${what}, ${name}`.padEnd(49), await longestEvent(work));
  }
  const items = Array.from({ length: 60_000 }, (_, index) => `${name} ${index}`);
  await call('BF.MADD', 'large', ...items);
  const caughtUp = async () => {
    while (!near.local(items.at(-1))) await new Promise(setImmediate);
  };
  console.log(`Near, 60,000 new items, ${name}`.padEnd(49), await longestEvent(caughtUp));
  near.close();
  close();
}
closeObserver();
await server.stop();
