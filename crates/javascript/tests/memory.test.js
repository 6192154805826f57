// What happens when the WebAssembly has no more memory: calls fail, and everything else goes on.

import assert from 'node:assert/strict';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { limited } from './support.js';

const modules = fileURLToPath(new URL('../node_modules/', import.meta.url));
const PAGE = 65_536;

/** Loads the package with little memory. */
function load(pages) {
  const folder = `${modules}limited-${pages}`;
  cpSync(`${modules}valkeybloom`, folder, { recursive: true });
  writeFileSync(`${folder}/valkeybloom.wasm`, limited(readFileSync(`${folder}/valkeybloom.wasm`), pages));
  return createRequire(import.meta.url)(`${folder}/node.cjs`);
}

test('calls fail while memory is out, and all objects stay whole', () => {
  const { Bloom, CountMin, CuckooFilter, TDigest, TopK, decode } = load(30);
  const held = [];
  const items = Array.from({ length: 300 }, (_, index) => `item ${index}`);
  const refusals = new Map();
  const attempt = (call) => {
    try {
      return call();
    } catch (error) {
      assert.ok(['NO_MEMORY', 'REFUSED', 'UNDECODABLE'].includes(error.code), error.stack);
      refusals.set(error.code, (refusals.get(error.code) ?? 0) + 1);
      return undefined;
    }
  };
  // Larger ones first, then those that fit in what is left, until not even a few bytes are left.
  for (const capacity of [10_000, 1000, 100, 1]) {
    for (;;) {
      const filter = attempt(() => new Bloom(capacity, 0.01));
      if (filter === undefined) break;
      held.push(filter);
      if (filter.capacity >= 1000) assert.ok(attempt(() => filter.addMany(items.slice(0, 50))) ?? true);
    }
  }
  assert.ok(held.length > 100 && held.length * 100 < 30 * PAGE);
  const [filter] = held;
  const bytes = filter.seed;
  for (let round = 0; round < 300; round += 1) {
    for (const call of [
      () => new CuckooFilter(10, { bucketSize: 256 }),
      () => new Bloom(1, 0.1, { seed: bytes }),
      () => new CuckooFilter(100).add('a'),
      () => new CountMin(50, 3).query('a'),
      () => new TopK(3).addMany(items),
      () => new TDigest().addMany(Array(500).keys()),
      () => filter.toBytes(),
      () => filter.copy(),
      () => filter.hasMany(items),
      () => [...filter.chunks()],
      () => filter.union(filter),
      () => decode(new Uint8Array(50)),
    ]) {
      const made = attempt(call);
      made?.free?.();
    }
    assert.equal(filter.has('item 3'), true);
    assert.equal(filter.has('other'), false);
  }
  assert.ok(refusals.get('NO_MEMORY') > 1000, JSON.stringify([...refusals]));
  for (const one of held.splice(1)) one.free();
  assert.deepEqual([...filter.hasMany(['item 0', 'item 49', 'other'])], [1, 1, 0]);
  assert.equal(filter.add('other'), true);
  const again = new Bloom(10_000, 0.01);
  assert.equal(again.addMany(items).length, 300);
  assert.ok(again.hasMany(items).every((found) => found === 1));
  assert.throws(() => new CuckooFilter(10, { bucketSize: 256 }), { code: 'REFUSED' });
});

test('a copy goes on after a poll for which there was no memory', async () => {
  const { Near } = load(31);
  const unhandled = [];
  const note = (reason) => unhandled.push(reason);
  process.on('unhandledRejection', note);
  class ReplyError extends Error {}
  let polls = 0;
  // Replies, and errors, that are larger than the memory; then that of a server without the key.
  const answers = [
    () => [Buffer.from('0-0'), 0, Buffer.alloc(16_000_000)], () => { throw new ReplyError('x'.repeat(16_000_000)); },
    () => { throw new Error('x'.repeat(16_000_000)); }, () => { throw new ReplyError('ERR not found'); },
  ];
  const client = {
    async callBuffer() {
      polls += 1;
      return answers[Math.min(polls, answers.length) - 1]();
    },
  };
  const near = new Near(client, 'seen', { every: 0.01 });
  assert.equal(await near.wait(30), true);
  assert.deepEqual([near.state, near.local('a'), polls >= answers.length], ['missing', false, true]);
  near.close();
  await sleep(0);
  process.off('unhandledRejection', note);
  assert.deepEqual(unhandled, []);
});
