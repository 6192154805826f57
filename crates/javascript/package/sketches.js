// The classes of the five families.

import { withBatch, withItem } from './items.js';
import { bytesOf, integer, lengthOf, listOf, number, options, rate } from './parameters.js';
import {
  RESULT_BYTES, SketchError, call, check, checkBatch, copied, f64, isTrue, numbers, release, result, run, takeBuffer, takeItems,
  textOf, u32, u64, using, wasm, withBytes, withNumbers, withPlace, withWords,
} from './wasm.js';

const freed = new FinalizationRegistry((pointer) => wasm.valkeybloom_free(pointer));

/** An object of the WebAssembly that no object of JavaScript has taken yet. It is passed to a constructor. */
class Made {
  #pointer;

  constructor(pointer) { this.#pointer = pointer; }

  get isTaken() { return this.#pointer === 0; }

  /** The number of the object's family. */
  get number() { return result(u32, 'family_of', this.#pointer); }

  take() {
    const pointer = this.#pointer;
    if (pointer === 0) throw new TypeError('this object was passed to a constructor already');
    this.#pointer = 0;
    return pointer;
  }

  /** Frees an object that was not taken. If the engine's stack is full, it is freed after this has been collected. */
  free() {
    if (this.isTaken) return;
    const pointer = this.take();
    try {
      release('free', pointer);
    } catch {
      freed.register(this, pointer);
    }
  }
}

/** Returns what a constructor was passed, or what `make` makes. */
const madeOf = (first, make) => (first instanceof Made ? first : new Made(make()));

/** The property of classes' prototypes with the number of their family in `FAMILIES`. Derived classes inherit it. */
const FAMILY = Symbol('family');

/**
 * Makes an object of a class from the pointer that a call returned. `Sketch` stands for the class of the object's family. The
 * class may be derived, so its constructor may run any code.
 */
export function objectAt(pointer, wanted = Sketch) {
  const made = new Made(pointer);
  try {
    const [found, expected] = [made.number, wanted.prototype[FAMILY]];
    if (expected !== undefined && expected !== found) {
      throw new SketchError('UNDECODABLE', `the bytes are a ${FAMILIES[found].name}, not a ${FAMILIES[expected].name}`);
    }
    const family = expected === undefined ? FAMILIES[found].class : wanted;
    const object = new family(made);
    if (made.isTaken) return object;
    throw new TypeError(`the constructor of ${family.name} has to pass its parameters to super`);
  } finally {
    made.free();
  }
}

/**
 * Returns the pointers of sketches for the next call. If one of them has a window, the clock is set first. A program may have
 * replaced the clock by code that frees sketches or uses the memory. So a call reads the program's iterables and options,
 * then calls this, and only then writes an item or options.
 */
let pointersOf;

/** Returns the pointer of a sketch for the next call, as `pointersOf` does. */
export let pointerOf;

/** Returns a parameter as the WebAssembly takes it: a number, or the address of the numbers of options. */
const parameterOf = (parameter) => (typeof parameter === 'object' ? withNumbers(parameter) : parameter ?? 0);

/** Calls a function with a sketch and an item. Returns its answer, which `read` finds. */
const callWithItem = (fn, sketch, item, read = isTrue) => {
  const pointer = pointerOf(sketch);
  return withItem(item, (address, length, place) => {
    check(run(fn, pointer, address, length, place));
    return read(place);
  });
};

/**
 * Calls a function with a sketch, an item, and a number or options. Returns its answer, which `read` finds. One function for
 * both, with a list of parameters that is spread into the call, would take twice as long.
 */
const callWithParameter = (fn, sketch, item, parameter, read = isTrue) => {
  const pointer = pointerOf(sketch);
  return withItem(item, (address, length, place) => {
    check(run(fn, pointer, address, length, parameterOf(parameter), place));
    return read(place);
  });
};

/** Adds a batch to a filter, with a number or options. */
const addMany = (fn, filter, items, parameter) =>
  withBatch(items, 1, (batch, count, place) => {
    const status = run(fn, pointerOf(filter), batch, parameterOf(parameter), place, 0);
    const answers = copied(place, count);
    checkBatch(status, answers);
    return answers;
  });

/** What all families share. */
export class Sketch {
  #pointer;
  #hasTime;

  static {
    pointersOf = (sketches) => {
      if (sketches.some((sketch) => sketch.#hasTime)) wasm.valkeybloom_set_time(Date.now());
      return sketches.map((sketch) => sketch.#pointer);
    };
    pointerOf = (sketch) => {
      if (sketch.#hasTime) wasm.valkeybloom_set_time(Date.now());
      return sketch.#pointer;
    };
  }

  constructor(made) {
    if (!(made instanceof Made)) throw new TypeError('Sketch has no objects of its own: make one of a family, such as Bloom');
    this.#pointer = made.take();
    freed.register(this, this.#pointer, this);
    this.#hasTime = wasm.valkeybloom_has_time(this.#pointer) === 1;
  }

  /** Decodes the bytes of `toBytes`, of DUMP, or of BF.LOAD. */
  static fromBytes(data) {
    const pointer = withBytes(bytesOf(data, 'data'), (address, length) => result(u32, 'from_bytes', address, length));
    return objectAt(pointer, this);
  }

  toBytes() { return result(takeBuffer, 'to_bytes', pointerOf(this)); }

  copy() {
    const family = this.constructor;
    return objectAt(result(u32, 'copy', pointerOf(this)), family);
  }

  equals(other) {
    if (!isSketch(other)) throw new TypeError('other is not a sketch');
    return result(isTrue, 'equal', ...pointersOf([this, other]));
  }

  clear() { call('clear', pointerOf(this)); }

  // Not every family has chunks, lookups, counts or removals: the WebAssembly refuses what a family lacks.

  static fromChunks(pairs) {
    const loader = result(u32, 'loader_new', this.prototype[FAMILY]);
    try {
      listOf(pairs, 'chunks').forEach((pair, index) => {
        const [cursor, chunk] = listOf(pair, `pair ${index}`);
        const [bytes, at] = [bytesOf(chunk ?? new Uint8Array(), 'the chunk'), integer(cursor, 'the cursor')];
        withBytes(bytes, (address, length) => call('loader_load', loader, at, address, length));
      });
      return objectAt(result(u32, 'loader_finish', loader), this);
    } finally {
      release('loader_free', loader);
    }
  }

  *chunks() {
    for (let cursor = 0n; ; ) {
      const pointer = pointerOf(this);
      const [next, chunk] = withPlace((place) => {
        numbers().setBigUint64(place, cursor, true);
        call('next_chunk', pointer, place, place + 8);
        return [numbers().getBigUint64(place, true), takeBuffer(place + 8)];
      });
      if (next === 0n) return;
      yield [Number(next), chunk];
      cursor = next;
    }
  }

  has(item, given) { return callWithParameter(wasm.valkeybloom_contains, this, item, atOf(given)); }

  hasMany(items, given) {
    const at = atOf(given);
    return withBatch(items, 1, (batch, count, answers) => {
      call('contains_many', pointerOf(this), batch, withNumbers(at), answers);
      return copied(answers, count);
    });
  }

  count(item) { return callWithItem(wasm.valkeybloom_count, this, item, u64); }

  remove(item) { return callWithItem(wasm.valkeybloom_remove, this, item); }

  /** Node.js and Bun print this. */
  [Symbol.for('nodejs.util.inspect.custom')]() {
    if (!(#pointer in this)) return `<${this.constructor.name}>`;
    if (this.#pointer === 0) return `<${this.constructor.name}, freed>`;
    const properties = FAMILIES[this[FAMILY]].shown.map((name) => [name, this[name]]);
    const shown = properties.filter(([, value]) => value !== undefined && value !== false);
    return `<${this.constructor.name} ${shown.map(([name, value]) => `${name}=${value}`).join(' ')}>`;
  }

  toJSON() { throw new TypeError(`a ${this.constructor.name} has no JSON: its data are in toBytes()`); }

  /** Frees the memory. Every later call throws. */
  free() {
    if (this.#pointer === 0) return;
    release('free', this.#pointer);
    this.#pointer = 0;
    freed.unregister(this);
  }
}
if (Symbol.dispose) Sketch.prototype[Symbol.dispose] = Sketch.prototype.free;

/** Decodes the bytes of an object of any family. */
export const decode = (data) => Sketch.fromBytes(data);

export const isSketch = (value) => value instanceof Sketch;

/** Returns the class of a sketch's family, whatever class was derived from it. */
export const familyOf = (sketch) => FAMILIES[sketch[FAMILY]].class;

/** Describes a sketch. Returns what `read` finds at an offset of the description. */
function info(name, sketch, offset, read, ...parameters) {
  const pointer = pointerOf(sketch);
  return withPlace((place) => {
    numbers().setUint32(place, RESULT_BYTES, true);
    call(`${name}_describe`, pointer, ...parameters.map(parameterOf), place);
    return read(place + offset);
  });
}

/** Calls `use` with the address of the pointers of sketches of a family. `use` runs no code of a program. */
function withAll(family, sketches, use) {
  sketches.forEach((sketch, index) => {
    if (sketch?.[FAMILY] !== family.prototype[FAMILY]) throw new TypeError(`object ${index} is not a ${family.name}`);
  });
  return using(4 * sketches.length, (address) => {
    pointersOf(sketches).forEach((pointer, index) => numbers().setUint32(address + 4 * index, pointer, true));
    return use(address);
  });
}

/** Returns options that are integers as words of a command. `words` maps their names to keywords. */
function wordsOf(given, words) {
  if (given === undefined) return '';
  const named = Object.entries(options(given, ...Object.keys(words))).filter(([, value]) => value !== undefined);
  return named.map(([name, value]) => `${words[name]} ${integer(value, name)}`).join(' ');
}

/** Returns the options `atMs` and `ttlMs` as numbers, -1 for a missing one; undefined if both are missing. */
function timesOf(given, ...names) {
  if (given === undefined) return undefined;
  const { atMs, ttlMs } = options(given, ...names);
  if (atMs === undefined && ttlMs === undefined) return undefined;
  return Object.entries({ atMs, ttlMs }).map(([name, value]) => (value === undefined ? -1 : Number(integer(value, name))));
}

const atOf = (given) => timesOf(given, 'atMs');
const momentOf = (given) => timesOf(given, 'atMs', 'ttlMs');
const cellSizeOf = (given) => wordsOf(given, { cellSize: 'CELL_SIZE' });

/** The options of all Bloom filters. */
const GROWTH = ['expansion', 'seed'];

function makeBloom(capacity, errorRate, given, words) {
  const { expansion = 2, seed } = options(given, ...GROWTH);
  const growth = expansion === null ? 'NONSCALING' : `EXPANSION ${integer(expansion, 'expansion')}`;
  const parameters = [integer(capacity, 'capacity', 1), rate(errorRate, 'errorRate')];
  const make = (address) => result(u32, 'bloom_new', ...parameters, withWords(`${growth} ${words}`), address);
  if (seed === undefined) return make(0);
  const bytes = bytesOf(seed, 'seed');
  // The length as the engine knows it: a program may have defined another one.
  const length = lengthOf(bytes);
  if (length !== 32) throw new RangeError(`seed has ${length} bytes: it has to have 32`);
  return withBytes(bytes, make);
}

export class Bloom extends Sketch {
  constructor(capacity, errorRate, given = {}) {
    super(madeOf(capacity, () => makeBloom(capacity, errorRate, given, '')));
  }

  static window(capacity, errorRate, given = {}) {
    const { windowMs, periods, ...others } = options(given, 'windowMs', 'periods', ...GROWTH);
    const words = `WINDOW ${integer(windowMs, 'windowMs', 1)} PERIODS ${integer(periods, 'periods', 1)}`;
    return objectAt(makeBloom(capacity, errorRate, others, words), this);
  }

  static counting(capacity, errorRate, given = {}) {
    return objectAt(makeBloom(capacity, errorRate, given, 'COUNTING'), this);
  }

  static scaledTo(capacity, errorRate, given = {}) {
    return objectAt(makeBloom(capacity, errorRate, given, `SCALETO ${integer(capacity, 'capacity', 1)}`), this);
  }

  add(item, given) { return callWithParameter(wasm.valkeybloom_bloom_add, this, item, momentOf(given)); }

  addMany(items, given) { return addMany(wasm.valkeybloom_bloom_add_many, this, items, momentOf(given)); }

  union(...others) { return this.constructor.union([this, ...others]); }

  static union(filters, given) {
    const list = listOf(filters, 'filters');
    const at = atOf(given);
    const pointer = withAll(this, list, (address) => result(u32, 'bloom_union', address, list.length, withNumbers(at)));
    return objectAt(pointer, this);
  }

  card(given) { return info('bloom', this, 8, u64, atOf(given)); }

  get estimatedErrorRate() { return result(f64, 'bloom_estimated_error_rate', pointerOf(this), 0); }
}

export class CuckooFilter extends Sketch {
  constructor(capacity, given) {
    super(madeOf(capacity, () => {
      const words = wordsOf(given, { bucketSize: 'BUCKETSIZE', maxIterations: 'MAXITERATIONS', expansion: 'EXPANSION' });
      return result(u32, 'cuckoo_new', integer(capacity, 'capacity', 1), withWords(words));
    }));
  }

  add(item) { return callWithParameter(wasm.valkeybloom_cuckoo_add, this, item, 0); }

  addNew(item) { return callWithParameter(wasm.valkeybloom_cuckoo_add, this, item, 1); }

  addMany(items) { return addMany(wasm.valkeybloom_cuckoo_add_many, this, items, 0); }

  addNewMany(items) { return addMany(wasm.valkeybloom_cuckoo_add_many, this, items, 1); }

  compact() { call('cuckoo_compact', pointerOf(this)); }
}

const MOST = 2n ** 63n;
const signed = (value, name) => integer(value, name, -MOST, MOST - 1n);

/** Calls `use` with a batch and the address of the number of each item, 0 without numbers. */
const withCounts = (items, counts, use) => {
  const all = counts === undefined ? undefined : listOf(counts, 'counts');
  return withBatch(items, 8, (batch, length, place) => {
    if (all === undefined) return use(batch, 0);
    if (all.length !== length) throw new RangeError(`counts has ${all.length} numbers for ${length} items`);
    all.forEach((value, index) => numbers().setBigInt64(place + 8 * index, signed(value, `count ${index}`), true));
    return use(batch, place);
  });
};

export class CountMin extends Sketch {
  constructor(width, depth, given) {
    super(madeOf(width, () => {
      const sizes = [integer(width, 'width', 1), integer(depth, 'depth', 1)];
      const cellSize = cellSizeOf(given);
      return result(u32, 'count_min_new', ...sizes, withWords(cellSize));
    }));
  }

  static fromRates(error, probability, given) {
    const [cellSize, rates] = [cellSizeOf(given), [rate(error, 'error'), rate(probability, 'probability')]];
    return objectAt(result(u32, 'count_min_from_rates', ...rates, withWords(cellSize)), this);
  }

  static merged(pairs) {
    const list = listOf(pairs, 'sketches').map((pair, index) => (isSketch(pair) ? [pair, 1] : listOf(pair, `pair ${index}`)));
    const weights = list.map(([, weight], index) => signed(weight, `weight ${index}`));
    const pointer = withAll(this, list.map(([sketch]) => sketch), (address) =>
      using(8 * list.length, (place) => {
        weights.forEach((weight, index) => numbers().setBigInt64(place + 8 * index, weight, true));
        return result(u32, 'count_min_merge', address, place, list.length);
      }),
    );
    return objectAt(pointer, this);
  }

  add(item, n = 1) { return callWithParameter(wasm.valkeybloom_count_min_add, this, item, signed(n, 'n'), u64); }

  addMany(items, counts) {
    withCounts(items, counts, (batch, by) => call('count_min_add_many', pointerOf(this), batch, by));
  }

  query(item) { return this.count(item); }

  queryMany(items) {
    return withBatch(items, 8, (batch, length, place) => {
      call('count_min_count_many', pointerOf(this), batch, place);
      return Array.from({ length }, (_, index) => u64(place + 8 * index));
    });
  }
}

/** Returns items of a list as text, or as the bytes that they are. */
const converterOf = (given) => (options(given, 'bytes').bytes ? (item) => item : textOf);

export class TopK extends Sketch {
  constructor(k, width = 8, depth = 7, decay = 0.9) {
    super(madeOf(k, () => {
      const sizes = [integer(k, 'k', 1), integer(width, 'width', 1), integer(depth, 'depth', 1)];
      return result(u32, 'top_k_new', ...sizes, rate(decay, 'decay', true));
    }));
  }

  add(item, n = 1, given = {}) {
    const [by, convert] = [signed(n, 'n'), converterOf(given)];
    const left = callWithParameter(wasm.valkeybloom_top_k_add, this, item, by, takeBuffer);
    return left && convert(left);
  }

  addMany(items, counts, given = {}) {
    const convert = converterOf(given);
    const left = withCounts(items, counts, (batch, by) => result(takeItems, 'top_k_add_many', pointerOf(this), batch, by));
    return left.map(([item]) => convert(item));
  }

  list(given = {}) {
    const convert = converterOf(given);
    return result(takeItems, 'top_k_list', pointerOf(this)).map(([item, n]) => [convert(item), n]);
  }
}

/** Writes values to the memory, and calls `use` with their address and number. */
const withDoubles = (values, use) => {
  if (values instanceof Float64Array) return withBytes(bytesOf(values, 'values'), (address, length) => use(address, length / 8));
  const all = listOf(values, 'values');
  return using(8 * all.length, (address) => {
    all.forEach((value, index) => numbers().setFloat64(address + 8 * index, number(value, `value ${index}`), true));
    return use(address, all.length);
  });
};

const i64 = (address) => Number(numbers().getBigInt64(address, true));

export class TDigest extends Sketch {
  constructor(compression = 100) {
    super(madeOf(compression, () => result(u32, 'tdigest_new', integer(compression, 'compression', 1))));
  }

  static merged(digests, given = {}) {
    const { compression = 0 } = options(given, 'compression');
    const [list, number] = [listOf(digests, 'digests'), integer(compression, 'compression')];
    const pointer = withAll(this, list, (address) => result(u32, 'tdigest_merge', address, list.length, number));
    return objectAt(pointer, this);
  }

  add(...values) { this.addMany(values); }

  addMany(values) { withDoubles(values, (address, length) => call('tdigest_add', pointerOf(this), address, length)); }

  quantiles(shares) {
    return withDoubles(shares, (address, length) => {
      call('tdigest_quantiles', pointerOf(this), address, length, address);
      return Array.from({ length }, (_, index) => f64(address + 8 * index));
    });
  }

  quantile(share) { return this.quantiles([share])[0]; }

  trimmedMean(low, high) {
    return result(f64, 'tdigest_trimmed_mean', pointerOf(this), number(low, 'low'), number(high, 'high'));
  }

  cdf(value) { return this.#query('cdf', 'setFloat64', number(value, 'value'), f64); }

  rank(value) { return this.#query('ranks', 'setFloat64', number(value, 'value'), i64, 0); }

  revRank(value) { return this.#query('ranks', 'setFloat64', number(value, 'value'), i64, 1); }

  byRank(rank) { return this.#query('by_ranks', 'setBigUint64', integer(rank, 'rank'), f64, 0); }

  byRevRank(rank) { return this.#query('by_ranks', 'setBigUint64', integer(rank, 'rank'), f64, 1); }

  /** Answers one number, which `write` writes to the memory. `read` reads the answer. */
  #query(name, write, value, read, ...reverse) {
    const pointer = pointerOf(this);
    return withPlace((place) => {
      numbers()[write](place, value, true);
      call(`tdigest_${name}`, pointer, place, 1, ...reverse, place);
      return read(place);
    });
  }
}

const optional = (address) => u64(address) || undefined;
const orNull = (address) => u64(address) || null;
const seedAt = (address) => (isTrue(address) ? copied(address + 1, 32) : undefined);

/**
 * The families, by their numbers in the WebAssembly. `shown` are the properties that are printed. `fields` are the properties
 * in the structure of `describe`: their places, and how they are read. `every property is read from its place` in
 * tests/classes.test.js holds the places.
 */
const FAMILIES = {
  1: {
    class: Bloom, name: 'Bloom filter', prefix: 'bloom', parameters: [0],
    shown: ['size', 'capacity', 'errorRate', 'windowMs', 'periods', 'isCounting'],
    fields: {
      size: [8], capacity: [16], filters: [24], byteLength: [32], errorRate: [40, f64], expansion: [48, orNull],
      windowMs: [56, optional], periods: [64, optional], isCounting: [72, isTrue], seed: [73, seedAt],
    },
  },
  2: {
    class: CuckooFilter, name: 'cuckoo filter', prefix: 'cuckoo', shown: ['size', 'capacity'],
    fields: {
      size: [8], capacity: [16], filters: [24], byteLength: [32], bucketSize: [40], maxIterations: [48], expansion: [56],
    },
  },
  3: {
    class: CountMin, name: 'count-min sketch', prefix: 'count_min', shown: ['total', 'width', 'depth'],
    fields: { width: [8], depth: [16], cellSize: [24], total: [32], byteLength: [40] },
  },
  4: {
    class: TopK, name: 'top-k list', prefix: 'top_k', shown: ['size', 'k', 'width', 'depth', 'decay'],
    fields: { k: [8], width: [16], depth: [24], decay: [32, f64], size: [40], byteLength: [48] },
  },
  5: {
    class: TDigest, name: 't-digest', prefix: 'tdigest', shown: ['size', 'compression'],
    fields: { compression: [8], size: [16], min: [24, f64], max: [32, f64], byteLength: [40] },
  },
};
for (const [family, { class: { prototype }, prefix, parameters = [], fields }] of Object.entries(FAMILIES)) {
  prototype[FAMILY] = Number(family);
  for (const [property, [place, read = u64]] of Object.entries(fields)) {
    const get = function () { return info(prefix, this, place, read, ...parameters); };
    Object.defineProperty(prototype, property, { get, configurable: true });
  }
}

/** Sets the limits on what an addition may allocate. */
export function limitGrowth(given = {}) {
  const { filterBytes = 2 ** 30, cuckooFilters = 32 } = options(given, 'filterBytes', 'cuckooFilters');
  wasm.valkeybloom_limit_growth(integer(filterBytes, 'filterBytes'), integer(cuckooFilters, 'cuckooFilters'));
}
