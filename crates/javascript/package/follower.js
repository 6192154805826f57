// `Follower`: the copy of a `Near`, which is in the WebAssembly, and the rules by which it follows its filter.

import { unexpected } from './clients.js';
import { withItem } from './items.js';
import { Bloom, objectAt } from './sketches.js';
import {
  call, copied, encoder, f64, nowMicros, numbers, release, result, run, takeBuffer, takeItems, textOf, u32, wasm,
  withBytes, withNumbers, withPlace,
} from './wasm.js';

/** The numbers of a description, in the order of near.rs. A test there reads this list. */
const NUMBERS = ['age', 'polls', 'items', 'bytes', 'fetches', 'resyncs', 'errors'];

const NOTHING = new Uint8Array();

/** The longest time of a timer, in milliseconds. */
const LONGEST_TIMER = 2 ** 31 - 1;

const freed = new FinalizationRegistry((pointer) => wasm.valkeybloom_near_free(pointer));

/** Returns a number of a reply, which has 64 bits; undefined if it is something else. */
function countOf(reply) {
  if (!/^(number|bigint|string)$/.test(typeof reply) || !/^\d{1,20}$/.test(reply)) return undefined;
  const number = BigInt(reply);
  return number < 2n ** 64n ? number : undefined;
}

/** Return the function that takes a reply, a number for it, and two arrays of bytes. */
const newsOf = ([cursor, items, hashes]) => ['near_take_news', items, cursor, hashes];
const chunkOf = ([cursor, chunk, id]) => ['near_take_chunk', cursor, id ?? NOTHING, chunk ?? NOTHING];

/** Returns what an error says. Anything can be thrown, also what can't be turned into text. */
function shown(error) {
  try {
    return String(error?.message || error);
  } catch {
    return 'an error without a text';
  }
}

export class Follower {
  #pointer;
  #waiters = new Set();

  /** The times are in seconds. Without `refresh`, it is 0, and so is `lag` unless a replica is read. */
  constructor({ every, maxAge, refresh, lag, confirm }) {
    const times = [every, maxAge, refresh, lag].map((time) => 1e6 * time);
    this.#pointer = result(u32, 'near_new', withNumbers(times), confirm);
    freed.register(this, this.#pointer, this);
  }

  /** Returns the words of the command to send next, or the milliseconds until then; undefined at the end. */
  next() {
    if (this.#pointer === 0) return undefined;
    const time = nowMicros();
    return withPlace((place) => {
      const [wordsAt, waitAt] = [place, place + 32];
      // The number of words. It stays 0 if the time is set.
      numbers().setUint32(wordsAt, 0, true);
      call('near_next', this.#pointer, time, wordsAt, waitAt);
      if (u32(wordsAt) === 0) return Math.min(Math.ceil(f64(waitAt) / 1000), LONGEST_TIMER);
      return takeItems(wordsAt).map(([word], index) => (index === 0 ? textOf(word) : Buffer.from(word)));
    });
  }

  /** Takes a reply. */
  take(command, reply) {
    const partsOf = command === 'BF.READ' ? newsOf : chunkOf;
    const [name, count, text, bytes] = partsOf(Array.isArray(reply) ? reply : []);
    const number = countOf(count);
    if (number !== undefined && text instanceof Uint8Array && bytes instanceof Uint8Array) {
      this.#learn((...when) => withBytes(text, (...texts) =>
        withBytes(bytes, (...all) => call(name, this.#pointer, number, ...texts, ...all, ...when))));
    } else {
      this.fail(command, unexpected(command));
    }
  }

  /** Takes an error in place of a reply. */
  fail(command, error, refusalOf = () => undefined) {
    const refusal = refusalOf(error);
    let text = refusal ?? shown(error);
    if (refusal?.startsWith('MOVED')) text += '; use a client of a cluster';
    if (command === 'BF.READ' && refusal?.includes('unknown command')) {
      text += '; pass refresh to follow a server without BF.READ';
    }
    const isRefusal = refusal !== undefined;
    this.#learn((...when) => withBytes(encoder.encode(text), (...texts) =>
      call('near_take_failure', this.#pointer, isRefusal, ...texts, ...when)));
  }

  /** Passes what became of a command to the WebAssembly, by a function of the time and of a random number. */
  #learn(pass) {
    if (this.#pointer === 0) return;
    pass(nowMicros(), Math.random());
    this.#wake();
  }

  #wake() {
    for (const resume of this.#waiters) resume();
    this.#waiters.clear();
  }

  /** Waits for the next outcome of a command or the end, `ms` milliseconds at most. */
  async changed(ms) {
    let timer;
    await new Promise((resume) => {
      this.#waiters.add(resume);
      // Without a timer, this call, its caller and the copy could be garbage-collected.
      timer = setTimeout(resume, Math.min(ms, LONGEST_TIMER));
    });
    clearTimeout(timer);
  }

  /** Returns what the copy answers: 0, 1, or more if only the server has the answer. */
  look(item, index) {
    const time = nowMicros();
    const look = (address, length) => run(wasm.valkeybloom_near_contains, this.#pointer, address, length, time);
    return withItem(item, look, index);
  }

  /** Notes that the server has these items, which the program added. */
  keep(items) {
    if (this.#pointer === 0) return;
    const time = nowMicros();
    const keep = (address, length) => call('near_keep', this.#pointer, address, length, time);
    for (const bytes of items) withItem(bytes, keep);
  }

  /** Describes the copy: its state, its age in microseconds, and what was done. */
  describe() {
    if (this.#pointer === 0) return { state: 'closed', age: NaN };
    const time = nowMicros();
    return withPlace((place) => {
      const [errorAt, numbersAt] = [place + 8, place + 24];
      call('near_describe', this.#pointer, time, place, errorAt, numbersAt);
      const state = textOf(copied(u32(place), u32(place + 4)));
      const counts = Object.fromEntries(NUMBERS.map((name, index) => [name, f64(numbersAt + 8 * index)]));
      const error = takeBuffer(errorAt);
      return { state, ...counts, lastError: error && textOf(error) };
    });
  }

  /** Returns the copy as a filter of its own; undefined without one. */
  copy() {
    if (this.#pointer === 0) return undefined;
    const copy = result(u32, 'near_copy', this.#pointer);
    return copy === 0 ? undefined : objectAt(copy, Bloom);
  }

  close() {
    if (this.#pointer === 0) return;
    release('near_free', this.#pointer);
    this.#pointer = 0;
    freed.unregister(this);
    this.#wake();
  }
}
