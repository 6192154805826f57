// Measures the npm package beside others: nanoseconds an item, for 100,000 strings of 25 bytes and a filter for a million
// items at 1 %. `./build.sh bench js` runs it. A figure is that of the quickest of many short runs, because other programs
// also use the machine.

import { execFileSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

import peers from 'bloom-filters';
import { BloomFilter } from 'bloomfilter';
import { Bloom } from 'valkeybloom';

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

/** Returns the nanoseconds an item of the quickest run. */
function quickest(batches, work) {
  let least = Infinity;
  for (const batch of batches) {
    const begun = process.hrtime.bigint();
    work(batch);
    least = Math.min(least, Number(process.hrtime.bigint() - begun) / batch.length);
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
    rows['addMany of 100,000'] = quickest(Array.from({ length: 20 }, () => present), make().addMany);
    rows['hasMany of 1,000'] = quickest([...half, ...half], filter.hasMany);
    rows['hasMany of 100,000'] = quickest(Array.from({ length: 20 }, () => half.flat()), filter.hasMany);
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
