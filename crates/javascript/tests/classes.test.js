// The classes: what they refuse and in which words, memory, and bytes of anyone.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';

// Before the package.
import { memories } from './instance.js';
import {
  Bloom, CountMin, CuckooFilter, Sketch, SketchError, TDigest, TopK, decode, limitGrowth,
} from 'valkeybloom';

const LENGTHS = [0, 1, 12, 5460, 5461, 5462, 16_384, 16_385, 70_000];

const isFilter = (object) => object instanceof Bloom || object instanceof CuckooFilter;

/** Makes an object of each class and kind, with items in it. */
function filled() {
  const filters = [
    new Bloom(3, 0.01), Bloom.counting(100, 0.01), Bloom.window(100, 0.01, { windowMs: 1000, periods: 3 }),
    Bloom.scaledTo(100, 0.01), new CuckooFilter(100),
  ];
  for (const filter of filters) filter.addMany(['a', 'b', 'c', 'd', 'e', 'f', 'g']);
  const [hits, top, times] = [new CountMin(20, 3), new TopK(3), new TDigest(20)];
  hits.addMany(['a', 'b', 'a']);
  top.addMany(['a', 'b', 'a']);
  times.addMany([1, 2, 3, 4]);
  return [...filters, hits, top, times];
}

/** The first chunk of a cuckoo filter of 2^31 buckets of 2 slots, which no WebAssembly can hold. */
const CLAIM_OF_4_GIB = new Uint8Array(38);
{
  const numbers = new DataView(CLAIM_OF_4_GIB.buffer);
  numbers.setBigUint64(8, 2n ** 31n, true);
  numbers.setBigUint64(24, 1n, true);
  numbers.setUint16(32, 2, true);
  numbers.setUint16(34, 20, true);
}

test('an item is the same as text, bytes or a number, one at a time and in batches', () => {
  const texts = ['', 'a', 'é', '漢字', '😀', '\0', 'a'.repeat(100)];
  for (const length of LENGTHS) texts.push('x'.repeat(length), 'é'.repeat(length), '漢'.repeat(length));
  const single = new Bloom(1000, 1e-9);
  const batch = new Bloom(1000, 1e-9, { seed: single.seed });
  const mixed = new Bloom(1000, 1e-9, { seed: single.seed });
  const unique = [...new Set(texts)];
  for (const text of unique) assert.equal(single.add(text), true, text.slice(0, 9));
  assert.ok(batch.addMany(unique).every((isNew) => isNew === 1));
  mixed.addMany(unique.map((text, index) => (index % 2 ? text : Buffer.from(text))));
  assert.ok(batch.equals(single));
  assert.ok(mixed.equals(single));
  for (const text of unique) assert.ok(single.has(Buffer.from(text)) && single.has(new Uint8Array(Buffer.from(text))));
  const numbers = new Bloom(1000, 1e-9);
  numbers.addMany([0, -0, -1, 42, 2 ** 53 - 1, 12345678901234567890n, -5n]);
  assert.deepEqual(
    [...numbers.hasMany(['0', '-1', '42', '9007199254740991', '12345678901234567890', '-5', '1'])],
    [1, 1, 1, 1, 1, 1, 0],
  );
  for (const items of [new Set([42, 7]), [42, 7].values(), new Int32Array([42, 7]), new BigInt64Array([42n, 7n])]) {
    assert.deepEqual([...numbers.hasMany(items)], [1, 0]);
  }
  assert.deepEqual(numbers.hasMany([]), new Uint8Array());
});

test('an item of a wrong type is named, and then nothing changes', () => {
  const filter = new Bloom(100, 0.01);
  const kinds = [
    [null, 'null'], [undefined, 'undefined'], [1.5, '1.5'], [NaN, 'NaN'], [2 ** 53, '9007199254740992'], [true, 'boolean'],
    [{}, 'object'], [['a'], 'an array'], [Symbol('a'), 'symbol'], [() => 'a', 'function'], [new ArrayBuffer(1), 'object'],
    [new Uint16Array(1), 'object'],
  ];
  for (const [wrong, kind] of kinds) {
    const text = `is ${kind}: an item is a string, a Uint8Array, a safe integer or a bigint`;
    assert.throws(() => filter.add(wrong), { name: 'TypeError', message: `the item ${text}` });
    assert.throws(() => filter.has(wrong), { name: 'TypeError', message: `the item ${text}` });
    assert.throws(() => filter.addMany(['a', 'b', wrong]), { name: 'TypeError', message: `item 2 ${text}` });
    assert.throws(() => filter.hasMany(new Set(['a', wrong])), { name: 'TypeError', message: `item 1 ${text}` });
  }
  for (const half of ['\ud800', 'a\udc00', '\udc00\ud800', 'x'.repeat(20_000) + '\ud800']) {
    const message = 'the item has a lone surrogate, so it is not text';
    assert.throws(() => filter.add(half), { name: 'TypeError', message });
    assert.throws(() => filter.addMany(['a', half]), { name: 'TypeError', message: message.replace('the item', 'item 1') });
  }
  assert.throws(() => filter.addMany([, 'a']), /item 0 is undefined/);
  for (const [wrong, kind] of [['text', 'string'], [null, 'null'], [7, 'number'], [{}, 'object'], [Buffer.from('a'), 'bytes']]) {
    assert.throws(() => filter.addMany(wrong), { name: 'TypeError', message: `items is ${kind}, not an array or another iterable` });
  }
  const broken = (function* () {
    yield 'a';
    throw new Error('of the program');
  })();
  assert.throws(() => filter.addMany(broken), /of the program/);
  assert.equal(filter.size, 0);
  // An array that changes while it is read.
  const items = Array(3).fill('a');
  Object.defineProperty(items, 1, { get: () => (items.push('b'.repeat(1000)), 'b') });
  assert.ok(filter.addMany(items).length >= 3);
});

test('errors have the text of a server, and name the option', () => {
  const refused = [
    [() => new Bloom(10, 0.1, { expansion: 2 ** 40 }), 'REFUSED', /./],
    [() => Bloom.window(10, 0.1, { windowMs: 1000, periods: 60_001 }), 'REFUSED', /periods/],
    [() => new Bloom(10, 0.1).remove('a'), 'REFUSED', /^filter was not made with COUNTING$/],
    [() => new Bloom(10, 0.1).add('a', { atMs: 1, ttlMs: 5 }), 'REFUSED', /^filter was not made with WINDOW$/],
    [() => Bloom.window(10, 0.1, { windowMs: 1000, periods: 3 }).add('a', { ttlMs: 0 }), 'REFUSED', /^\(ttl should be larger than 0\)$/],
    [() => Bloom.window(10, 0.1, { windowMs: 1000, periods: 3 }).add('a', { ttlMs: 3001 }), 'REFUSED', /^ttl is longer than the window$/],
    [() => new CuckooFilter(10).has('a', { atMs: 3 }), 'REFUSED', /^there are no options here$/],
    [() => new Bloom(10, 0.1).union(new Bloom(10, 0.1)), 'REFUSED', /different seeds/],
    [() => Bloom.union([]), 'REFUSED', /nothing to merge/],
    [() => new CuckooFilter(1), 'REFUSED', /^Capacity must be in the range \[2 \* BUCKETSIZE, /],
    [() => new CuckooFilter(10, { bucketSize: 256 }), 'REFUSED', /^BUCKETSIZE: value must be in the range \[1, 255\]$/],
    [() => new TDigest().add(NaN), 'REFUSED', /^T-Digest: val parameter needs to be a finite number$/],
    [() => Bloom.fromBytes(new Uint8Array(9)), 'UNDECODABLE', /./],
    [() => TopK.fromBytes(new TDigest().toBytes()), 'UNDECODABLE', /^the bytes are a t-digest, not a top-k list$/],
    [() => Bloom.fromChunks([[7, new Uint8Array(3)]]), 'UNDECODABLE', /^the first chunk has cursor 1$/],
    [() => Bloom.fromChunks([]), 'UNDECODABLE', /^there are no chunks$/],
    [() => CuckooFilter.fromChunks([[1, new Uint8Array(5)]]), 'UNDECODABLE', /^the header has the wrong length$/],
    [() => CuckooFilter.fromChunks([[1, new Uint8Array(38)]]), 'UNDECODABLE', /^the header's numbers are out of range$/],
    [() => CuckooFilter.fromChunks([[1, CLAIM_OF_4_GIB]]), 'UNDECODABLE', /^the filter lacks chunks$/],
    [() => CuckooFilter.fromChunks([[1, CLAIM_OF_4_GIB], [2, Uint8Array.of(1)]]), 'NO_MEMORY', /^not enough memory$/],
    [() => new Bloom(2 ** 52, 1e-9), 'NO_MEMORY', /^not enough memory$/],
    [() => new Bloom(10, 0.1).hasMany(Array(17).fill('x'.repeat(2 ** 28))), 'NO_MEMORY', /^not enough memory$/],
    [() => new Bloom(10, 0.1).addMany(['é', ...Array(6).fill('x'.repeat(2 ** 28))]), 'NO_MEMORY', /^not enough memory$/],
  ];
  for (const [call, code, message] of refused) {
    assert.throws(call, (error) => {
      assert.ok(error instanceof SketchError && error instanceof Error && error.name === 'SketchError');
      assert.equal(error.code, code, `${call}: ${error}`);
      assert.match(error.message, message);
      return true;
    });
  }
  for (const [call, kind, message] of [
    [() => new Bloom('10', 0.1), TypeError, 'capacity is string, not an integer'],
    [() => new Bloom(1.5, 0.1), TypeError, 'capacity is 1.5, not an integer'],
    ...[-1, 0, 2 ** 53].flatMap((wrong) => Object.entries({
      capacity: [() => new Bloom(wrong, 0.1), () => Bloom.counting(wrong, 0.1), () => Bloom.scaledTo(wrong, 0.1), () => new CuckooFilter(wrong)],
      windowMs: [() => Bloom.window(10, 0.1, { windowMs: wrong, periods: 3 })],
      periods: [() => Bloom.window(10, 0.1, { windowMs: 10, periods: wrong })],
      width: [() => new CountMin(wrong, 3), () => new TopK(3, wrong)],
      depth: [() => new CountMin(3, wrong), () => new TopK(3, 3, wrong)],
      k: [() => new TopK(wrong)],
      compression: [() => new TDigest(wrong)],
    }).flatMap(([name, calls]) => calls.map(
      (call) => [call, RangeError, `${name} is ${wrong}: it has to be from 1 to 9007199254740991`],
    ))),
    ...[NaN, -1, 0, 1, 2, Infinity].flatMap((wrong) => Object.entries({
      errorRate: [() => new Bloom(10, wrong), () => Bloom.counting(10, wrong)],
      error: [() => CountMin.fromRates(wrong, 0.1)],
      probability: [() => CountMin.fromRates(0.1, wrong)],
    }).flatMap(([name, calls]) => calls.map((call) => [call, RangeError, `${name} is ${wrong}: it has to be above 0 and below 1`]))),
    ...[NaN, -1, 0, 1.1, Infinity].map((wrong) => [() => new TopK(3, 3, 3, wrong), RangeError, `decay is ${wrong}: it has to be above 0 and at most 1`]),
    [() => new Bloom(10), TypeError, 'errorRate is undefined, not a number'],
    [() => new Bloom(10, 0.1, { seeds: 1 }), TypeError, 'unknown option seeds: expected expansion, seed'],
    [() => new Bloom(10, 0.1, null), TypeError, 'options are an object, not null'],
    [() => new Bloom(10, 0.1, { seed: new Uint8Array(3) }), RangeError, 'seed has 3 bytes: it has to have 32'],
    [() => new Bloom(10, 0.1, { seed: Object.defineProperty(new Uint8Array(3), 'length', { value: 32 }) }), RangeError,
      'seed has 3 bytes: it has to have 32'],
    [() => new Bloom(10, 0.1, { seed: 'x' }), TypeError, 'seed is string, not an ArrayBuffer or a view of one'],
    [() => Bloom.window(10, 0.1, { windowMs: 10 }), TypeError, 'periods is undefined, not an integer'],
    [() => Bloom.window(10, 0.1, null), TypeError, 'options are an object, not null'],
    [() => Bloom.window(10, 0.1, { seeds: 1 }), TypeError, 'unknown option seeds: expected windowMs, periods, expansion, seed'],
    [() => new Bloom(10, 0.1).has('a', { at: 3 }), TypeError, 'unknown option at: expected atMs'],
    [() => new CountMin(9, 9).add('a', 2 ** 64), RangeError, /^n is 18446744073709552000: it has to be from /],
    [() => new CountMin(9, 9).add('a', 2n ** 63n), RangeError, /^n is 9223372036854775808: .* to 9223372036854775807$/],
    [() => new CountMin(9, 9).add('a', 2 ** 63), RangeError, /^n is 9223372036854776000: /],
    [() => new CountMin(9, 9).addMany(['a', 'b'], [1]), RangeError, 'counts has 1 numbers for 2 items'],
    [() => new CountMin(9, 9).addMany(['a'], ['1']), TypeError, 'count 0 is string, not an integer'],
    [() => CountMin.merged([new TopK(1)]), TypeError, 'object 0 is not a CountMin'],
    [() => CountMin.merged([7]), TypeError, 'pair 0 is number, not an array or another iterable'],
    [() => Bloom.fromChunks([7]), TypeError, 'pair 0 is number, not an array or another iterable'],
    [() => new TDigest().add(1, '2'), TypeError, 'value 1 is string, not a number'],
    [() => new TDigest().byRank(-1), RangeError, /^rank is -1: it has to be from 0 to /],
    [() => new TDigest().byRevRank('x'), TypeError, 'rank is string, not an integer'],
    ...['cdf', 'rank', 'revRank'].map((name) => [() => new TDigest()[name]('x'), TypeError, 'value is string, not a number']),
    [() => new CountMin(9, 9).has('a'), SketchError, 'a count-min sketch has no lookups'],
    [() => new TopK(1).chunks().next(), SketchError, 'a top-k list has no chunks'],
    [() => TDigest.fromChunks([]), SketchError, 'only Bloom filters and cuckoo filters have chunks'],
    [() => new Bloom(1, 0.1).union({}), TypeError, 'object 1 is not a Bloom'],
    [() => new Bloom(1, 0.1).equals(null), TypeError, 'other is not a sketch'],
    [() => decode('text'), TypeError, 'data is string, not an ArrayBuffer or a view of one'],
    [() => Bloom.prototype.add.call({}, 'a'), TypeError, /./],
    [() => limitGrowth({ filterBytes: -1 }), RangeError, /^filterBytes is -1/],
    [() => limitGrowth({ bytes: 1 }), TypeError, 'unknown option bytes: expected filterBytes, cuckooFilters'],
    [() => limitGrowth(null), TypeError, 'options are an object, not null'],
    [() => new Sketch(), TypeError, 'Sketch has no objects of its own: make one of a family, such as Bloom'],
  ]) {
    assert.throws(call, (error) => {
      assert.equal(error.constructor, kind, `${call}: ${error}`);
      if (typeof message === 'string') assert.equal(error.message, message);
      else assert.match(error.message, message);
      return true;
    });
  }
});

test('a full filter takes what has room, and says which item had none', () => {
  const seed = new Uint8Array(32);
  const bloom = new Bloom(3, 0.01, { expansion: null, seed });
  assert.throws(() => bloom.addMany(['a', 'a', 'b', 'c', 'd', 'e']), { code: 'REFUSED', index: 4 });
  assert.deepEqual([...bloom.hasMany(['a', 'b', 'c', 'd', 'e'])], [1, 1, 1, 0, 0]);
  const cuckoo = new CuckooFilter(2, { bucketSize: 1, expansion: 0 });
  assert.throws(() => cuckoo.addMany(Array(50).keys()), (error) => error.code === 'REFUSED' && error.index > 0);
  const limited = new Bloom(2, 0.01);
  limitGrowth({ filterBytes: 100 });
  try {
    assert.throws(() => limited.addMany(Array(1000).keys()), /limit on memory/);
  } finally {
    limitGrowth();
  }
  assert.ok(limited.addMany(Array(1000).keys()).length === 1000);
});

test('objects of a derived class stay so, and join those of its family', () => {
  class Seen extends Bloom {}
  const seen = new Seen(10, 0.01);
  seen.add('a');
  for (const made of [
    seen.copy(), Seen.fromBytes(seen.toBytes()), Seen.fromChunks(seen.chunks()), Seen.union([seen]), seen.union(Bloom.fromBytes(seen.toBytes())),
  ]) {
    assert.equal(made.constructor, Seen);
    assert.ok(made.equals(seen) && made.has('a'));
  }
  assert.equal(decode(seen.toBytes()).constructor, Bloom);
  assert.throws(() => Seen.fromBytes(new TopK(1).toBytes()), /^SketchError: the bytes are a top-k list, not a Bloom filter$/);
});

test('a window forgets by the clock of the machine', () => {
  const day = 86_400_000;
  const now = Bloom.window(100, 1e-9, { windowMs: day, periods: 2 });
  assert.deepEqual([now.windowMs, now.periods, now.isCounting], [day, 2, false]);
  now.add('now');
  assert.ok(now.has('now') && now.has('now', { atMs: Date.now() }) && !now.has('now', { atMs: Date.now() + 3 * day }));
});

test('every property is read from its place', () => {
  const seed = Uint8Array.from({ length: 32 }, (_, index) => 7 + index);
  const growth = { expansion: 4, seed };
  const [hits, top, times] = [new CountMin(20, 3, { cellSize: 8 }), new TopK(3, 50, 4, 0.8), new TDigest(30)];
  hits.add('a', 5);
  top.add('a');
  times.add(1, 2, 7);
  const plain = { size: 0, capacity: 1000, filters: 1, errorRate: 0.01, expansion: 4, isCounting: false, seed };
  const none = { windowMs: undefined, periods: undefined };
  for (const [object, expected] of [
    [new Bloom(1000, 0.01, growth), { ...plain, ...none }],
    [new Bloom(1000, 0.01, { seed, expansion: null }), { ...plain, ...none, expansion: null }],
    [Bloom.counting(1000, 0.01, growth), { ...plain, ...none, isCounting: true }],
    [Bloom.window(1000, 0.01, { ...growth, windowMs: 6000, periods: 3 }), { windowMs: 6000, periods: 3, seed }],
    [new CuckooFilter(1000, { bucketSize: 4, maxIterations: 7, expansion: 2 }),
      { size: 0, capacity: 1024, filters: 1, bucketSize: 4, maxIterations: 7, expansion: 2 }],
    [hits, { width: 20, depth: 3, cellSize: 8, total: 5 }],
    [top, { k: 3, width: 50, depth: 4, decay: 0.8, size: 1 }],
    [times, { compression: 30, size: 3, min: 1, max: 7 }],
  ]) {
    for (const [name, value] of Object.entries(expected)) assert.deepEqual(object[name], value, `${object}.${name}`);
    assert.ok(object.byteLength > 16);
  }
});

test('observations in a Float64Array are the same as those in a list', () => {
  const all = Float64Array.from([9, 0.25, 0.5, 1, 0.125]);
  for (const values of [all, all.subarray(1, 4), all.subarray(2, 2)]) {
    const [one, other] = [new TDigest(), new TDigest()];
    one.addMany(values);
    other.addMany([...values]);
    assert.equal(one.size, values.length);
    assert.ok(one.equals(other));
  }
  const digest = new TDigest();
  digest.addMany(all);
  const shares = all.subarray(1);
  assert.deepEqual(digest.quantiles(shares), digest.quantiles([...shares]));
  assert.throws(() => digest.quantiles(all), { code: 'REFUSED', message: /quantile should be in \[0,1\]$/ });
  assert.throws(() => digest.addMany(Float64Array.of(1, NaN)), { code: 'REFUSED' });
  assert.equal(digest.size, all.length);
});

test('every object can be copied, compared, cleared and freed', () => {
  for (const object of filled()) {
    const copy = object.copy();
    assert.ok(copy.equals(object) && copy instanceof Sketch && copy.constructor === object.constructor);
    assert.ok(decode(object.toBytes()).equals(object));
    assert.ok(object.constructor.fromBytes(object.toBytes().buffer).equals(object));
    assert.ok(object.byteLength > 0);
    copy.clear();
    assert.ok(!copy.equals(object));
    object.free();
    object.free();
    for (const method of ['toBytes', 'copy', 'clear']) assert.throws(() => object[method](), { code: 'FREED' });
    assert.throws(() => copy.equals(object), { code: 'FREED' });
    assert.throws(() => object.byteLength, { code: 'FREED' });
    if (isFilter(object)) assert.throws(() => object.has('a'), { code: 'FREED', message: 'the object was freed' });
  }
  assert.deepEqual([...new Bloom(10, 0.1).seed].length, 32);
  assert.ok(!new Bloom(10, 0.1).equals(new TopK(1)));
});

test('more than half of the memory can be used', () => {
  const small = new Bloom(1000, 0.01);
  const kept = Array.from({ length: 20 }, () => new Bloom(1e8, 0.01));
  const texts = Array.from({ length: 100_000 }, (_, number) => `item ${number}`);
  small.add('x'.repeat(20_000));
  assert.ok(small.has('x'.repeat(20_000)));
  assert.equal(new Bloom(200_000, 0.01).addMany(texts).length, 100_000);
  assert.ok(Bloom.fromBytes(small.toBytes()).equals(small));
  assert.ok(new Bloom(1000, 0.01, { seed: small.seed }).union(small).has('x'.repeat(20_000)));
  assert.throws(() => new Bloom(3, 0.01, { expansion: null }).addMany(texts), { code: 'REFUSED' });
  for (const filter of kept) filter.free();
});

test('rounds leave no memory', { timeout: 600_000 }, async () => {
  const rounds = Number(process.env.ROUNDS ?? 1000);
  const round = () => {
    for (const object of filled()) {
      const copy = object.copy();
      copy.constructor.fromBytes(copy.toBytes()).free();
      if (isFilter(object)) object.constructor.fromChunks(object.chunks()).free();
      assert.throws(() => copy.addMany([null]), TypeError);
      assert.throws(() => decode(new Uint8Array(100)), SketchError);
      copy.free();
      object.free();
    }
  };
  for (let i = 0; i < 200; i += 1) round();
  const before = memories();
  for (let i = 0; i < rounds; i += 1) {
    round();
    // The engine forgets objects that are no longer registered when other events run.
    if (i % 50 === 0) await new Promise(setImmediate);
  }
  const after = memories();
  assert.equal(after[0], before[0]);
  assert.ok(after[1] < before[1] + 3e6, `${before[1]} bytes became ${after[1]}`);
  // Objects that nobody frees are freed after their last reference. Together these would be larger than the memory.
  for (let i = 0; i < 200; i += 1) {
    new Bloom(40_000_000, 0.01).add('a');
    await new Promise((resume) => setTimeout(resume));
    globalThis.gc();
    await new Promise((resume) => setTimeout(resume));
  }
});

/** A random number generator with a seed: numbers from 0 to 2³² − 1 (xorshift). */
function generator(seed) {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}

test('no bytes do harm', { timeout: 600_000 }, () => {
  const count = Number(process.env.MUTATIONS ?? 20_000);
  const random = generator(Number(process.env.SEED ?? Date.now() | 1));
  const vectors = ['bloom', 'cuckoo', 'count-min', 'top-k', 't-digest'].flatMap((name) => {
    const text = readFileSync(join(process.env.REPOSITORY, 'tests/vectors', `${name}.json`), 'utf8');
    return JSON.parse(text).cases.flatMap(({ load, dump }) => [load, dump]).filter(Boolean).map((hex) => Buffer.from(hex, 'hex'));
  });
  const sources = [...vectors, ...filled().map((object) => object.toBytes())].filter((bytes) => bytes.length < 5000);
  const chunked = filled().filter(isFilter).map((object) => [...object.chunks()]);
  let [taken, refused] = [0, 0];
  // There is memory for what these small inputs are. Chunks reserve at once what their header claims.
  const attempt = (make, codes) => {
    let object;
    try {
      object = make();
    } catch (error) {
      assert.ok(codes.includes(error.code), `${error.stack}`);
      refused += 1;
      return;
    }
    taken += 1;
    // What is taken can be used.
    try {
      if (isFilter(object)) object.hasMany(['a', 'b']);
      object.addMany(object instanceof TDigest ? [1, 2] : ['a', 'b']);
    } catch (error) {
      assert.equal(error.code, 'REFUSED', `${error.stack}`);
    }
    object.free();
  };
  const mutate = (bytes) => {
    const copy = Uint8Array.from(bytes);
    for (let changes = 1 + (random() % 3); changes > 0 && copy.length > 0; changes -= 1) {
      copy[random() % copy.length] = [random() & 255, 0, 255, 1][random() % 4];
    }
    return random() % 8 === 0 ? copy.subarray(0, random() % (copy.length + 1)) : copy;
  };
  for (let i = 0; i < count; i += 1) {
    if (i % 4 === 0) {
      const pairs = chunked[random() % chunked.length].map(([cursor, bytes]) => [cursor + (random() % 9 ? 0 : 1), mutate(bytes)]);
      attempt(() => (random() % 2 ? Bloom : CuckooFilter).fromChunks(pairs), ['UNDECODABLE', 'REFUSED', 'NO_MEMORY']);
    } else {
      const bytes = mutate(sources[random() % sources.length]);
      attempt(() => decode(bytes), ['UNDECODABLE', 'REFUSED']);
    }
  }
  assert.ok(taken > count / 100 && refused > count / 100, `${taken} taken, ${refused} refused`);
  // The memory is whole.
  const filter = new Bloom(1000, 0.01);
  filter.addMany(Array(1000).keys());
  assert.ok(filter.hasMany(Array(1000).keys()).every((found) => found === 1));
});

/** Calls a function again and again while a recursion that has filled the stack returns, until it has succeeded twice. */
function callOnLittleStack(call) {
  const found = { refused: 0, done: 0 };
  const descend = () => {
    try {
      descend();
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
    if (found.done === 2) return;
    try {
      call();
      found.done += 1;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      found.refused += 1;
    }
  };
  descend();
  return found;
}

test('a call without enough stack fails before it begins, and every object goes on', () => {
  const items = Array.from({ length: 300 }, (_, index) => `item ${index}`);
  const objects = [
    new Bloom(10, 0.01), Bloom.window(100, 0.01, { windowMs: 1000, periods: 3 }), Bloom.counting(100, 0.01),
    Bloom.scaledTo(10_000, 0.01), new CuckooFilter(100_000), new CountMin(100, 3), new TopK(10), new TDigest(20),
  ];
  let number = 0;
  const next = () => (number += 1);
  const calls = objects.flatMap((object) => [
    () => object.add(next()), () => object.addMany([next(), next(), next()]), () => object.toBytes(), () => object.copy().free(),
    () => object.equals(object), () => decode(object.toBytes()).free(), () => object.clear(), () => object.byteLength,
    ...(isFilter(object) ? [() => object.has(next()), () => object.hasMany(items), () => [...object.chunks()]] : []),
    ...(object instanceof Bloom ? [() => object.union(object).free(), () => object.estimatedErrorRate] : []),
  ]);
  calls.push(() => objects[2].remove('a'), () => objects[5].queryMany(items), () => objects[6].list(), () => objects[7].quantile(0.5));
  const refused = calls.map((call) => {
    for (let round = 0; round < 3; round += 1) callOnLittleStack(call);
    const [before] = memories();
    const found = callOnLittleStack(call);
    assert.equal(found.done, 2, `${call}`);
    for (let round = 0; round < 3; round += 1) callOnLittleStack(call);
    assert.ok(memories()[0] - before < 2 ** 20, `${call}`);
    call();
    return found.refused;
  });
  // Those whose call failed before it began, of which there is one in each frame of 8 KiB.
  assert.ok(refused.every((count) => count > 20), `${refused}`);
  for (const object of objects) object.clear();
  for (const object of objects) assert.ok(object.equals(object.copy()));
});

test('a derived class that makes other objects first gets its own one', () => {
  class Pair extends Bloom {
    constructor(...parameters) {
      const helper = new Bloom(7, 0.5);
      super(...parameters);
      this.helper = helper;
    }
  }
  const pairs = [
    new Pair(1000, 0.01), Pair.counting(1000, 0.01), Pair.window(1000, 0.01, { windowMs: 1000, periods: 3 }),
    Pair.fromBytes(new Bloom(1000, 0.01).toBytes()), Pair.fromChunks(new Bloom(1000, 0.01).chunks()), new Pair(1000, 0.01).copy(),
    Pair.union([new Bloom(1000, 0.01)]),
  ];
  for (const pair of pairs) {
    assert.ok(pair instanceof Pair);
    pair.add('a');
    assert.ok(pair.capacity >= 1000);
    assert.deepEqual([pair.size, pair.helper.capacity, pair.helper.size], [1, 7, 0]);
    pair.helper.free();
    assert.equal(pair.has('a'), true);
    pair.free();
  }
  const [before] = memories();
  class Own extends Bloom {
    constructor() { super(10, 0.1); }
  }
  class Failing extends Bloom {
    constructor() { throw new Error('on purpose'); }
  }
  class Twice extends Bloom {
    constructor(first) {
      super(first);
      this.second = new Bloom(first);
    }
  }
  for (let round = 0; round < 20; round += 1) {
    assert.throws(() => Own.counting(1_000_000, 0.01), {
      name: 'TypeError', message: 'the constructor of Own has to pass its parameters to super',
    });
    assert.throws(() => Failing.counting(1_000_000, 0.01), /on purpose/);
    assert.throws(() => Twice.counting(10, 0.01), { name: 'TypeError', message: 'this object was passed to a constructor already' });
  }
  assert.ok(memories()[0] - before < 2 ** 23);
  assert.equal(new Own().capacity, 10);
});

test('an object is printed, and does not become a JSON without its data', () => {
  const [bloom, cuckoo, hits, top, times] = [new Bloom(3, 0.01), new CuckooFilter(100), new CountMin(20, 3), new TopK(3), new TDigest(20)];
  for (const one of [bloom, cuckoo, top, hits]) one.addMany(['a', 'b']);
  times.add(1, 2);
  class Seen extends Bloom {}
  const printed = [
    [bloom, '<Bloom size=2 capacity=3 errorRate=0.01>'],
    [Bloom.window(3, 0.01, { windowMs: 1000, periods: 2 }), '<Bloom size=0 capacity=9 errorRate=0.01 windowMs=1000 periods=2>'],
    [Seen.counting(3, 0.01), '<Seen size=0 capacity=3 errorRate=0.01 isCounting=true>'],
    [cuckoo, '<CuckooFilter size=2 capacity=128>'],
    [hits, '<CountMin total=2 width=20 depth=3>'],
    [top, '<TopK size=2 k=3 width=8 depth=7 decay=0.9>'],
    [times, '<TDigest size=2 compression=20>'],
    [Object.create(Bloom.prototype), '<Bloom>'],
  ];
  for (const [object, text] of printed) {
    assert.equal(inspect(object), text);
    assert.equal(inspect({ object }, { breakLength: Infinity }), `{ object: ${text} }`);
    const message = `a ${object.constructor.name} has no JSON: its data are in toBytes()`;
    assert.throws(() => JSON.stringify({ object }), { name: 'TypeError', message });
  }
  bloom.free();
  assert.equal(inspect(bloom), '<Bloom, freed>');
});
