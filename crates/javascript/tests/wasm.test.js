// The border to the WebAssembly, below the classes.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';

import { limited } from './support.js';

const file = pathToFileURL(join(process.env.REPOSITORY, 'crates/javascript/package/wasm.js'));
const bytes = readFileSync(createRequire(import.meta.url).resolve('valkeybloom/valkeybloom.wasm'));

/** Loads an instance of its own, with a greatest number of pages of memory. */
async function load(pages = 1000) {
  const border = await import(`${file}?pages=${pages}`);
  border.load(new WebAssembly.Module(limited(bytes, pages)));
  return border;
}

const { call, result, u32, withPlace, withWords } = await load();

test('a panic is a bug, whatever memory there is', () => {
  const list = result(u32, 'top_k_new', 3n, 8n, 7n, 0.9);
  // The prefix of a key is longer than the key.
  const panic = () => withPlace((place) => call('store_new', list, 0, 0, 1, 0, 0n, 0n, place));
  const bug = { name: 'SketchError', code: 'BROKEN', message: 'valkeybloom failed because of a bug in it' };
  assert.throws(panic, bug);
  // This call itself reports that there is not enough memory.
  assert.throws(() => result(u32, 'bloom_new', 2n ** 40n, 0.01, 0, 0), { code: 'NO_MEMORY' });
  assert.throws(panic, bug);
});

test('a call that the engine ends because memory is out says so', async () => {
  const small = await load(2);
  const sketch = small.result(small.u32, 'count_min_new', 3n, 3n, 0);
  let ended = 0;
  // A count-min sketch has no lookups. Without memory for the text that says so, the allocation ends the call.
  const { valkeybloom_contains } = small.wasm;
  const contains = (...parameters) => {
    try {
      return valkeybloom_contains(...parameters);
    } catch (error) {
      assert.ok(error instanceof WebAssembly.RuntimeError);
      ended += 1;
      throw error;
    }
  };
  for (let size = 2 ** 16; size >= 8; ) if (small.wasm.valkeybloom_allocate(size) === 0) size /= 2;
  for (let round = 0; round < 3; round += 1) {
    const refused = () => small.withPlace((place) => small.run(contains, sketch, 0, 0, 0, place));
    assert.throws(refused, { code: 'NO_MEMORY', message: 'not enough memory' });
  }
  assert.equal(ended, 3);
});

test('an instance without memory for its own places is refused', async () => {
  await assert.rejects(load(0), { code: 'NO_MEMORY', message: 'not enough memory' });
});

test('words of options that are too long are refused', () => {
  assert.ok(withWords('x'.repeat(511)) > 0);
  const error = { name: 'RangeError', message: 'the words of options have more than 511 bytes' };
  assert.throws(() => withWords('x'.repeat(512)), error);
  assert.equal(withWords(''), 0);
});
