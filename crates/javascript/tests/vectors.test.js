// The golden vectors of tests/vectors, which docs/vectors.md describes: the answers and the bytes, on a machine of 32 bits.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { Bloom, CountMin, CuckooFilter, TDigest, TopK, decode } from 'valkeybloom';

const folder = join(process.env.REPOSITORY, 'tests/vectors');

/** Numbers of more than 53 bits stay exact, as bigint. */
function read(name) {
  const text = readFileSync(join(folder, name), 'utf8');
  const large = (digits) => (Number.isSafeInteger(Number(digits)) ? digits : `"int:${digits}"`);
  return JSON.parse(text.replace(/(?<=[[ ])-?\d{16,}(?=[,\]}])/g, large), (_, value) =>
    typeof value === 'string' && value.startsWith('int:') ? BigInt(value.slice(4)) : value,
  );
}

const bytes = (hex) => Uint8Array.from(Buffer.from(hex, 'hex'));
const hex = (array) => Buffer.from(array).toString('hex');
const item = (value) => (typeof value === 'string' ? value : bytes(value.hex));
const raw = (value) => hex(typeof value === 'string' ? Buffer.from(value) : bytes(value.hex));
const number = (value) => (Number.isFinite(value) ? value : String(value).replace('Infinity', 'inf').replace('NaN', 'nan'));

/** One reply for each item, up to the first that is refused. */
function each(items, call) {
  const replies = [];
  for (const value of items) {
    try {
      replies.push(call(value));
    } catch (error) {
      if (error.code !== 'REFUSED') throw error;
      return [...replies, { error: error.message }];
    }
  }
  return replies;
}

const bools = (array) => Array.from(array, (byte) => byte === 1);

const FAMILIES = {
  'bloom.json': {
    make(create) {
      if ('dump' in create) return Bloom.fromBytes(bytes(create.dump));
      const { capacity, error_rate: rate, window_ms: windowMs, periods } = create;
      const options = { expansion: create.expansion || null, seed: bytes(create.seed) };
      if (create.counting) return Bloom.counting(capacity, rate, options);
      if (windowMs !== undefined) return Bloom.window(capacity, rate, { ...options, windowMs, periods });
      if (create.scale_to === capacity) return Bloom.scaledTo(capacity, rate, options);
      return new Bloom(capacity, rate, options);
    },
    single(filter, name, argument, time) {
      if (name === 'cardinality') return filter.card(time);
      return each(argument, (value) => filter[name === 'contains' ? 'has' : name](item(value), time));
    },
    batch: (filter, name, argument, time) =>
      name === 'contains' ? bools(filter.hasMany(argument.map(item), time)) : undefined,
  },
  'cuckoo.json': {
    make: ({ capacity, bucket_size: bucketSize, max_iterations: maxIterations, expansion }) =>
      new CuckooFilter(capacity, { bucketSize, maxIterations, expansion }),
    single: (filter, name, argument) =>
      each(argument, (value) => filter[{ contains: 'has', add_new: 'addNew' }[name] ?? name](item(value))),
    batch: (filter, name, argument) => (name === 'contains' ? bools(filter.hasMany(argument.map(item))) : undefined),
  },
  'count-min.json': {
    make: ({ width, depth, error_rate: error, probability, cell_size: cellSize }) =>
      width === undefined ? CountMin.fromRates(error, probability, { cellSize }) : new CountMin(width, depth, { cellSize }),
    single: (sketch, name, argument) =>
      name === 'increment'
        ? each(argument, ([value, by]) => sketch.add(item(value), by))
        : each(argument, (value) => sketch.query(item(value))),
    batch: (sketch, name, argument) => (name === 'query' ? sketch.queryMany(argument.map(item)) : undefined),
  },
  'top-k.json': {
    make: ({ k, width, depth, decay }) => new TopK(k, width, depth, decay),
    single(list, name, argument) {
      if (name === 'list') return list.list({ bytes: true }).map(([name, count]) => [hex(name), count]);
      if (name === 'contains' || name === 'count') {
        return each(argument, (value) => list[name === 'contains' ? 'has' : name](item(value)));
      }
      const pairs = name === 'increment' ? argument : argument.map((value) => [value, 1]);
      return each(pairs, ([value, by]) => {
        const left = list.add(item(value), by, { bytes: true });
        return left === undefined ? null : hex(left);
      });
    },
    batch: (list, name, argument) => (name === 'contains' ? bools(list.hasMany(argument.map(item))) : undefined),
    reply(step) {
      if ('list' in step) return step.reply.map(([name, count]) => [raw(name), count]);
      if ('contains' in step || 'count' in step) return step.reply;
      return step.reply.map((left) => (left === null || left.error !== undefined ? left : raw(left)));
    },
  },
  't-digest.json': {
    make: ({ compression }) => new TDigest(compression),
    single(digest, name, argument) {
      if (name === 'min' || name === 'max') return number(digest[name]);
      if (name === 'add') return digest.addMany(argument);
      if (name === 'trimmed_mean') return number(digest.trimmedMean(...argument));
      const names = { reverse_rank: 'revRank', by_rank: 'byRank', by_reverse_rank: 'byRevRank' };
      return each(argument, (value) => number(digest[names[name] ?? name](value)));
    },
    batch: (digest, name, argument) => (name === 'quantile' ? digest.quantiles(argument).map(number) : undefined),
  },
};

/** Numbers of JavaScript are rounded beyond 53 bits. */
const rounded = (value) =>
  typeof value === 'bigint' ? Number(value) : Array.isArray(value) ? value.map(rounded) : value;

for (const [name, { make, single, batch, reply = (step) => step.reply }] of Object.entries(FAMILIES)) {
  const { cases } = read(name);
  assert.ok(cases.length > 0);
  for (const vector of cases) {
    test(`${name}: ${vector.name}`, () => {
      const object = make(vector.create);
      for (const step of vector.steps) {
        const { at_ms: atMs, ttl_ms: ttlMs } = step;
        const time = atMs === undefined ? undefined : { atMs, ...(ttlMs !== undefined && { ttlMs }) };
        const [action] = Object.keys(step).filter((key) => !['at_ms', 'ttl_ms', 'reply'].includes(key));
        const expected = 'reply' in step ? rounded(reply(step)) : undefined;
        assert.deepEqual(single(object, action, step[action], time), expected, JSON.stringify(step));
        const many = batch(object, action, step[action], time);
        if (many !== undefined) assert.deepEqual(many, expected);
      }
      assert.equal(hex(object.toBytes()), vector.load ?? vector.dump);
      for (const form of ['load', 'dump']) {
        if (form in vector) assert.ok(decode(bytes(vector[form])).equals(object), form);
      }
      if (vector.chunks === undefined) {
        assert.ok(!(object instanceof Bloom || object instanceof CuckooFilter) || object.size === 0);
      } else {
        assert.deepEqual([...object.chunks()].map(([cursor, chunk]) => [cursor, hex(chunk)]), vector.chunks);
        assert.ok(object.constructor.fromChunks(vector.chunks.map(([cursor, chunk]) => [cursor, bytes(chunk)])).equals(object));
      }
    });
  }
}

test('every file is read', () => {
  assert.deepEqual(new Set(readdirSync(folder)), new Set(['hash.json', ...Object.keys(FAMILIES)]));
});
