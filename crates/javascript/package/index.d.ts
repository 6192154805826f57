/** Bloom filters and other sketches of Valkey and Redis: docs/javascript.md describes them. */

/** A string is its UTF-8, a safe integer or a bigint its decimal digits. Everything else is a TypeError. */
export type Item = string | Uint8Array | number | bigint;

export type Bytes = ArrayBufferLike | ArrayBufferView;

/**
 * An error of an object. `code` is
 *
 * - `REFUSED`: a server refuses this, with the same text,
 * - `UNDECODABLE`: the bytes are not those of an object of this class, or chunks are missing,
 * - `NO_MEMORY`: there is not enough memory; at most 4 GiB are for all objects together,
 * - `FREED`: the object was freed,
 * - `BAD_FAMILY`: an object of this class has no such method,
 * - `NO_KEY`, `KEY_EXISTS`: the key that `fetch` needs is missing, or that of `store` is not,
 * - `CLOSED`, `NOT_FOLLOWED`: a `Near` is closed, or can't follow its filter, for the reason in the text,
 * - `FORGOTTEN`: a receipt has no answer for a position, but for those from `first` to `end`, without `end`,
 * - `NO_RECEIPTS`: the server has no BF.INSERT with ONCE,
 * - `BROKEN`: a bug of this package.
 */
export class SketchError extends Error {
  readonly code:
    | 'REFUSED' | 'UNDECODABLE' | 'NO_MEMORY' | 'FREED' | 'BAD_FAMILY' | 'NO_KEY' | 'KEY_EXISTS' | 'CLOSED' | 'NOT_FOLLOWED'
    | 'FORGOTTEN' | 'NO_RECEIPTS' | 'BROKEN';
  /** The index of the first item of a batch that was not added. */
  readonly index?: number;
  /** The first position that a receipt has an answer for. */
  readonly first?: number;
  /** The first position after it without an answer. */
  readonly end?: number;
}

/** What the objects of all families share. */
export abstract class Sketch {
  protected constructor();
  /** The bytes that the object takes in a server. */
  readonly byteLength: number;
  /** Encodes the object: a Bloom filter for BF.LOAD, unless RedisBloom made it; all others for RESTORE. */
  toBytes(): Uint8Array<ArrayBuffer>;
  copy(): this;
  /** Returns whether both have the same bytes. */
  equals(other: Sketch): boolean;
  /** Removes everything that was added. The parameters stay. */
  clear(): void;
  /** Throws: the data of an object are in `toBytes`. */
  toJSON(): never;
  /** Frees the memory at once. Later calls throw. Without it, the garbage collector does so some time. */
  free(): void;
  [Symbol.dispose](): void;
}

/** Decodes an object of any family, from `toBytes`, from DUMP, or from BF.LOAD in an append-only file. */
export function decode(data: Bytes): Bloom | CuckooFilter | CountMin | TopK | TDigest;

/** Sets the most bytes of a filter that is stacked on full ones, 1 GiB at first, and the most filters of a cuckoo filter. */
export function limitGrowth(limits?: { filterBytes?: number; cuckooFilters?: number }): void;

export interface BloomOptions {
  /** How many times larger the next filter is; null for a filter that does not grow. 2 by default. */
  expansion?: number | null;
  /** 32 bytes. Filters unite if they have one seed. It is random by default. */
  seed?: Bytes;
}

/** A time in milliseconds since the epoch, instead of now, for filters with a window. */
export interface At {
  atMs?: number;
}

/** The time of an addition, and how long its items stay, in milliseconds. */
export interface Moment extends At {
  ttlMs?: number;
}

/** A cursor and the bytes of a chunk, as SCANDUMP returns and LOADCHUNK takes them. */
export type Chunk = [cursor: number, bytes: Uint8Array<ArrayBuffer>];

export class Bloom extends Sketch {
  /** Makes a filter for `capacity` items, of which it denies none, and wrongly claims others at `errorRate`. */
  constructor(capacity: number, errorRate: number, options?: BloomOptions);
  /** Makes a filter whose items expire after `periods` periods of `windowMs` milliseconds. */
  static window(
    capacity: number, errorRate: number, options: BloomOptions & { windowMs: number; periods: number },
  ): Bloom;
  /** Makes a filter that counts, so that items can be removed. */
  static counting(capacity: number, errorRate: number, options?: BloomOptions): Bloom;
  /** Makes a filter that begins small, and takes the least memory with `capacity` items. */
  static scaledTo(capacity: number, errorRate: number, options?: BloomOptions): Bloom;
  static fromBytes(data: Bytes): Bloom;
  static fromChunks(chunks: Iterable<readonly [cursor: number, bytes: Bytes]>): Bloom;
  /** Returns whether the filter lacked the item. */
  add(item: Item, moment?: Moment): boolean;
  /** Returns a byte for each item: 1 if the filter lacked it, else 0; of equal items, only the first is new. */
  addMany(items: Iterable<Item>, moment?: Moment): Uint8Array<ArrayBuffer>;
  has(item: Item, at?: At): boolean;
  /** Returns a byte for each item: 1 if the filter claims it, else 0. */
  hasMany(items: Iterable<Item>, at?: At): Uint8Array<ArrayBuffer>;
  /** Removes an item once, from a filter that counts. Returns whether it was there. */
  remove(item: Item): boolean;
  /** Returns how often an item was added and not removed, at most, in a filter that counts. */
  count(item: Item): number;
  /** Makes a filter that claims the items of all. */
  union(...others: Bloom[]): Bloom;
  static union(filters: Iterable<Bloom>, at?: At): Bloom;
  chunks(): Generator<Chunk, void>;
  /** The number of items that were new. */
  readonly size: number;
  card(at?: At): number;
  readonly capacity: number;
  readonly errorRate: number;
  /** The present rate of false positives. All bits are read. */
  readonly estimatedErrorRate: number;
  readonly expansion: number | null;
  readonly filters: number;
  readonly windowMs: number | undefined;
  readonly periods: number | undefined;
  readonly isCounting: boolean;
  /** The seed; undefined in a filter of RedisBloom. */
  readonly seed: Uint8Array<ArrayBuffer> | undefined;
}

export class CuckooFilter extends Sketch {
  constructor(capacity: number, options?: { bucketSize?: number; maxIterations?: number; expansion?: number });
  static fromBytes(data: Bytes): CuckooFilter;
  static fromChunks(chunks: Iterable<readonly [cursor: number, bytes: Bytes]>): CuckooFilter;
  /** Adds a copy of the item, and returns true. */
  add(item: Item): boolean;
  /** Adds the item unless the filter claims it. Returns whether it was added. */
  addNew(item: Item): boolean;
  addMany(items: Iterable<Item>): Uint8Array<ArrayBuffer>;
  /** Returns a byte for each item: 1 if it was added. */
  addNewMany(items: Iterable<Item>): Uint8Array<ArrayBuffer>;
  has(item: Item): boolean;
  hasMany(items: Iterable<Item>): Uint8Array<ArrayBuffer>;
  /** Removes a copy. Removing an item that was never added may remove another one. */
  remove(item: Item): boolean;
  count(item: Item): number;
  /** Moves items from newer filters of the stack into older ones. */
  compact(): void;
  chunks(): Generator<Chunk, void>;
  readonly size: number;
  readonly capacity: number;
  readonly filters: number;
  readonly bucketSize: number;
  readonly maxIterations: number;
  readonly expansion: number;
}

export class CountMin extends Sketch {
  constructor(width: number, depth: number, options?: { cellSize?: number });
  /** Estimates exceed counts by more than `error` times the total with `probability` at most. */
  static fromRates(error: number, probability: number, options?: { cellSize?: number }): CountMin;
  static fromBytes(data: Bytes): CountMin;
  /** Makes the sum of sketches, each with its weight, or 1. */
  static merged(sketches: Iterable<CountMin | readonly [sketch: CountMin, weight: number]>): CountMin;
  /** Counts an item `n` times, 1 by default. Returns its new estimate. */
  add(item: Item, n?: number | bigint): number;
  addMany(items: Iterable<Item>, counts?: Iterable<number | bigint>): void;
  query(item: Item): number;
  queryMany(items: Iterable<Item>): number[];
  readonly width: number;
  readonly depth: number;
  readonly cellSize: number;
  readonly total: number;
}

export class TopK extends Sketch {
  constructor(k: number, width?: number, depth?: number, decay?: number);
  static fromBytes(data: Bytes): TopK;
  /** Adds an item `n` times, 1 by default. Returns the item that it expelled from the list. */
  add(item: Item, n?: number | bigint, options?: { bytes?: false }): string | undefined;
  add(item: Item, n: number | bigint | undefined, options: { bytes: true }): Uint8Array<ArrayBuffer> | undefined;
  /** Adds items, and returns those that were expelled, in order. */
  addMany(items: Iterable<Item>, counts?: Iterable<number | bigint>, options?: { bytes?: false }): string[];
  addMany(
    items: Iterable<Item>, counts: Iterable<number | bigint> | undefined, options: { bytes: true },
  ): Uint8Array<ArrayBuffer>[];
  has(item: Item): boolean;
  hasMany(items: Iterable<Item>): Uint8Array<ArrayBuffer>;
  count(item: Item): number;
  /** Returns the items with their counts, the largest first: as text, or with `bytes` as the bytes that they are. */
  list(options?: { bytes?: false }): [item: string, count: number][];
  list(options: { bytes: true }): [item: Uint8Array<ArrayBuffer>, count: number][];
  readonly size: number;
  readonly k: number;
  readonly width: number;
  readonly depth: number;
  readonly decay: number;
}

export class TDigest extends Sketch {
  constructor(compression?: number);
  static fromBytes(data: Bytes): TDigest;
  static merged(digests: Iterable<TDigest>, options?: { compression?: number }): TDigest;
  add(...values: number[]): void;
  addMany(values: Iterable<number>): void;
  /** Returns the value that a share of the observations, from 0 to 1, is below. */
  quantile(share: number): number;
  quantiles(shares: Iterable<number>): number[];
  /** Returns the share of observations below a value, plus half of those equal to it; NaN for NaN or if there are none. */
  cdf(value: number): number;
  /**
   * Returns the number of observations below a value, plus half of those equal to it; -1 if all are larger, -2 for NaN or without
   * observations.
   */
  rank(value: number): number;
  /**
   * Returns the number of observations above a value, plus half of those equal to it; -1 if all are smaller, -2 for NaN or
   * without observations.
   */
  revRank(value: number): number;
  /** Returns the value of a rank, from 0 at the smallest observation; Infinity after the last, NaN without observations. */
  byRank(rank: number): number;
  /** Returns the value of a rank, from 0 at the largest observation; -Infinity after the last, NaN without observations. */
  byRevRank(rank: number): number;
  /** Returns the mean of the observations between two quantiles. `low` has to be below `high`. */
  trimmedMean(low: number, high: number): number;
  readonly compression: number;
  readonly size: number;
  readonly min: number;
  readonly max: number;
}

/** A client of node-redis, ioredis, iovalkey or valkey-glide, of a server or of a cluster. */
export type Client =
  | { callBuffer(command: string, ...words: any[]): Promise<unknown> }
  | { customCommand(words: any[], options?: any): Promise<unknown> }
  | { sendCommand(...parameters: any[]): Promise<unknown> };

/** Copies the object of a key from a server. */
export function fetch(client: Client, key: Item): Promise<Bloom | CuckooFilter | CountMin | TopK | TDigest>;

/** `fetch`, for programs that need the global function of that name, too. */
export function fetchSketch(client: Client, key: Item): Promise<Bloom | CuckooFilter | CountMin | TopK | TDigest>;

export interface StoreOptions {
  /** Whether an object of any of these classes is replaced. */
  replace?: boolean;
  /** Whether the object is merged with the one that is there. */
  merge?: boolean;
  /** The key's time to live in seconds. */
  ttl?: number;
}

/** Sends an object to a temporary key of a server, and renames the key in one step. */
export function store(client: Client, key: Item, sketch: Sketch, options?: StoreOptions): Promise<void>;

export interface NearOptions {
  /** The seconds between two polls, 0.05 by default. */
  every?: number;
  /** The age in seconds at which the copy stops answering, 1 by default. */
  maxAge?: number;
  /** Whether the server is asked about items that the copy denies. */
  confirm?: boolean;
  /** The seconds between two fetches of the filter, for servers without BF.READ. */
  refresh?: number;
  /** A client of a replica, from which the copy is read. */
  reader?: Client;
  /** What a missing key is: a filter without items, an error, or created by the server when an item is added. */
  missing?: 'empty' | 'error' | 'create';
  /** Whether additions are kept in receipts, so that a client may repeat them: true by default. */
  once?: boolean;
}

export interface NearStats {
  polls?: number;
  items?: number;
  bytes?: number;
  fetches?: number;
  resyncs?: number;
  errors?: number;
  lastError?: string | undefined;
  /** The items that the server was asked about. */
  asked: number;
}

/** A copy of a server's Bloom filter that follows it, so that lookups take no round trip. */
export class Near {
  constructor(client: Client, key: Item, options?: NearOptions);
  /** Answers from the copy, or undefined if the server would have to be asked. */
  local(item: Item): boolean | undefined;
  /** Answers from the copy, or asks the server. */
  has(item: Item): Promise<boolean>;
  hasMany(items: Iterable<Item>): Promise<Uint8Array<ArrayBuffer>>;
  /** Adds an item to the server's filter, unless the copy claims it. Returns whether it was new. */
  add(item: Item): Promise<boolean>;
  addMany(items: Iterable<Item>): Promise<Uint8Array<ArrayBuffer>>;
  /** Waits until the copy answers, for some seconds at most. Returns whether it does. */
  wait(timeout?: number): Promise<boolean>;
  /** Whether additions are kept in receipts: false if the server takes none. */
  readonly once: boolean;
  readonly state: 'syncing' | 'following' | 'missing' | 'stale' | 'refused' | 'closed';
  /** How many seconds ago the server had what the copy has. */
  readonly age: number | undefined;
  readonly stats: NearStats;
  /** The copy as a filter of its own. */
  copy(): Bloom | undefined;
  /** Ends the polls, and drops the copy. */
  close(): void;
  [Symbol.dispose](): void;
}

export interface OnceOptions {
  /** The consumer that gives each item a position in its input. Without it, the object has receipts of its own. */
  consumer?: Item;
  /** The position of the consumer's first batch, 0 by default. */
  begin?: number | bigint;
}

/** Additions to a server's Bloom filter whose answers can be asked for again. */
export class Once {
  constructor(client: Client, key: Item, options?: OnceOptions);
  /** Adds items, and returns for each whether it was new. `at` is the position of a consumer's first item. */
  add(items: Iterable<Item>, options?: { at?: number | bigint }): Promise<boolean[]>;
  /** Returns the first position of the consumer without an answer, as the server has it; undefined without a consumer. */
  position(): Promise<number | undefined>;
}
