// `Near`: a copy of a server's filter that stays fresh.

import { answersIn, commandsOf, isOne, pause, unexpected } from './clients.js';
import { itemBytes, keyBytes, withItem } from './items.js';
import { Receipts } from './once.js';
import { listOf, number, options } from './parameters.js';
import { Bloom, objectAt } from './sketches.js';
import {
  SketchError, call, encoder, f64, nowMicros, numbers, release, result, run, takeBuffer, takeItems, textOf, u32, wasm,
  withBytes, withNumbers, withPlace,
} from './wasm.js';

/** The states, as `valkeybloom_near_describe` numbers them. */
const STATES = ['syncing', 'following', 'missing', 'stale', 'refused'];
const READY = ['following', 'missing'];

/** The numbers of a description, in the order of `valkeybloom_near_describe`. */
const NUMBERS = ['state', 'age', 'polls', 'items', 'bytes', 'fetches', 'resyncs', 'errors'];

/** What becomes of a command, as `valkeybloom_near_take` numbers it. */
const [NEWS, CHUNK, REFUSAL, LOSS] = Array(4).keys();
const NOTHING = new Uint8Array();

/** Returns whether only the server has the answer to a lookup. */
const isOpen = (answer) => answer > 1;

/** The longest time that is taken, in seconds: 30 years. */
const LONGEST = 1e9;

/** The longest time of a timer, in milliseconds. */
const LONGEST_TIMER = 2 ** 31 - 1;

const freed = new FinalizationRegistry((pointer) => wasm.valkeybloom_near_free(pointer));

function seconds(value, name) {
  if (number(value, name) > 0 && value <= LONGEST) return value;
  throw new RangeError(`${name} is ${value}: it has to be more than 0, and at most ${LONGEST} seconds`);
}

/** Returns a number of a reply, which has 64 bits; undefined if it is something else. */
function countOf(reply) {
  if (!/^(number|bigint|string)$/.test(typeof reply) || !/^\d{1,20}$/.test(reply)) return undefined;
  const number = BigInt(reply);
  return number < 2n ** 64n ? number : undefined;
}

/** A reply as `valkeybloom_near_take` takes it: its kind, a number, a text and bytes. */
const newsOf = ([cursor, items, hashes]) => [NEWS, items, cursor, hashes];
const chunkOf = ([cursor, chunk, id]) => [CHUNK, cursor, id ?? NOTHING, chunk ?? NOTHING];

/** Returns what an error says. Anything can be thrown, also what can't be turned into text. */
function shown(error) {
  try {
    return String(error?.message || error);
  } catch {
    return 'an error without a text';
  }
}

const sleep = (ms) => new Promise((resume) => setTimeout(resume, ms).unref?.());

/** The milliseconds until the next attempt after a call of the WebAssembly failed: it has no memory now, or a bug. */
const REST = 1000;

/** Returns what a step with a copy returns, undefined if the copy is gone, and the time to rest if the step fails. */
function attempt(weak, step) {
  try {
    const near = weak.deref();
    return near && step(near);
  } catch {
    return REST;
  }
}

/** Sends the commands that keep a copy fresh, until it is closed or gone. It holds the copy only within each step. */
let drive;

export class Near {
  #pointer;
  #name;
  #client;
  #missing;
  #receipts;
  #asked = 0;
  #waiters = new Set();

  constructor(client, key, given = {}) {
    const { every = 0.05, maxAge = 1, confirm = false, refresh, reader, missing = 'empty', once = true } =
      options(given, 'every', 'maxAge', 'confirm', 'refresh', 'reader', 'missing', 'once');
    if (!['empty', 'error', 'create'].includes(missing)) {
      throw new RangeError(`missing is ${String(missing)}: it has to be 'empty', 'error' or 'create'`);
    }
    if (seconds(maxAge, 'maxAge') <= seconds(every, 'every')) throw new RangeError('maxAge has to be larger than every');
    if (refresh !== undefined) seconds(refresh, 'refresh');
    this.#name = keyBytes(key);
    this.#client = commandsOf(client, this.#name);
    this.#missing = missing;
    this.#receipts = new Receipts(this.#client.full(this.#name), {
      isOn: Boolean(once),
      creates: missing === 'create',
      mayLack: true,
    });
    const reads = commandsOf(reader ?? client, this.#name);
    const times = [every, maxAge, refresh ?? 0, reader === undefined ? 0 : maxAge].map((time) => 1e6 * time);
    this.#pointer = result(u32, 'near_new', withNumbers(times), Boolean(confirm));
    freed.register(this, this.#pointer, this);
    drive(new WeakRef(this), reads, this.#name);
  }

  // esbuild renames a class that names itself, as it would to call a static method.
  static {
    drive = async (weak, { send, refusalOf }, name) => {
      /** Sends a command. Returns a step that passes what became of it to the copy. */
      const outcomeOf = async ([command, , ...words]) => {
        try {
          const reply = await send(command, name, ...words);
          if (command === 'BF.SCANDUMP') await pause();
          return (near) => near.#take(command, reply);
        } catch (error) {
          return (near) => near.#fail(command, error, refusalOf);
        }
      };
      for (;;) {
        const next = attempt(weak, (near) => near.#next());
        if (next === undefined) return;
        // If the copy does not take the outcome, the command is sent again.
        const rest = typeof next === 'number' ? next : attempt(weak, await outcomeOf(next));
        if (rest !== undefined) await sleep(rest);
      }
    };
  }

  /** Returns the words of the command to send next, or the milliseconds until then; undefined at the end. */
  #next() {
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
  #take(command, reply) {
    const partsOf = command === 'BF.READ' ? newsOf : chunkOf;
    const [kind, count, text, bytes] = partsOf(Array.isArray(reply) ? reply : []);
    const number = countOf(count);
    if (number !== undefined && text instanceof Uint8Array && bytes instanceof Uint8Array) {
      this.#learn(kind, number, text, bytes);
    } else {
      this.#fail(command, unexpected(command));
    }
  }

  /** Takes an error in place of a reply. */
  #fail(command, error, refusalOf = () => undefined) {
    const refusal = refusalOf(error);
    let text = refusal ?? shown(error);
    if (refusal?.startsWith('MOVED')) text += '; use a client of a cluster';
    if (command === 'BF.READ' && refusal?.includes('unknown command')) {
      text += '; pass refresh to follow a server without BF.READ';
    }
    this.#learn(refusal === undefined ? LOSS : REFUSAL, 0n, encoder.encode(text), NOTHING);
  }

  /** Passes what became of a command to the WebAssembly. */
  #learn(kind, number, text, bytes) {
    if (this.#pointer === 0) return;
    const [time, random] = [nowMicros(), Math.random()];
    withBytes(text, (...texts) =>
      withBytes(bytes, (...all) => call('near_take', this.#pointer, kind, number, ...texts, ...all, time, random)),
    );
    this.#wake();
  }

  #wake() {
    for (const resume of this.#waiters) resume();
    this.#waiters.clear();
  }

  /** Returns what the copy answers: 0, 1, or more if only the server has the answer. */
  #look(item, index) {
    const time = nowMicros();
    const look = (address, length) => run(wasm.valkeybloom_near_contains, this.#pointer, address, length, time);
    return withItem(item, look, index);
  }

  /** Requires that the key existed at the last answer of the server. */
  #requireKey() {
    if (this.#missing === 'error' && this.state === 'missing') throw this.#noKey();
  }

  /** Requires that the server has the key. Its answers to lookups are the same without one. */
  async #requireKeyAtServer() {
    if (this.#missing === 'error' && !isOne('EXISTS', await this.#client.send('EXISTS', this.#name))) throw this.#noKey();
  }

  #noKey() {
    return new SketchError('NO_KEY', `there is no key ${JSON.stringify(textOf(this.#name))}`);
  }

  local(item) {
    const answer = this.#look(item);
    if (answer !== 1) this.#requireKey();
    return isOpen(answer) ? undefined : answer === 1;
  }

  async has(item) {
    const found = this.local(item);
    if (found !== undefined) return found;
    return (await this.hasMany([item]))[0] === 1;
  }

  async hasMany(items) {
    const list = listOf(items, 'items');
    const answers = Uint8Array.from(list, (item, index) => this.#look(item, index));
    this.#requireKey();
    let isAnyDenied = false;
    // All items are copied before the first command: their bytes may change while it is sent.
    for (const piece of [...pieces(list, answers)]) {
      this.#asked += piece.length;
      const replies = await this.#client.send('BF.MEXISTS', this.#name, ...piece.map(({ bytes }) => bytes));
      const [found, refused] = answersIn('BF.MEXISTS', replies, piece.length);
      if (refused !== undefined) throw refused;
      piece.forEach(({ index }, place) => (answers[index] = found[place]));
      isAnyDenied ||= found.includes(0);
    }
    if (isAnyDenied) await this.#requireKeyAtServer();
    return answers;
  }

  async add(item) { return (await this.addMany([item]))[0] === 1; }

  addMany(items) {
    return this.#receipts.add(this.#client, this.#name, items, {
      isClaimed: (item, index) => this.#look(item, index) === 1,
      // Not before the reply came, because then the server has them.
      keep: (added) => {
        if (this.#pointer === 0) return;
        const time = nowMicros();
        const keep = (address, length) => call('near_keep', this.#pointer, address, length, time);
        for (const bytes of added) withItem(bytes, keep);
      },
    });
  }

  /** Whether additions are kept in receipts, so that a client may repeat them. */
  get once() { return this.#receipts.areUsed; }

  async wait(timeout = Infinity) {
    if (Number.isNaN(number(timeout, 'timeout'))) throw new RangeError('timeout is NaN, not a number of seconds');
    const end = performance.now() + 1000 * timeout;
    while (!this.#isReady()) {
      const left = end - performance.now();
      if (left <= 0) return false;
      let timer;
      await new Promise((resume) => {
        this.#waiters.add(resume);
        // Without a timer, this call, its caller and the copy could be garbage-collected.
        timer = setTimeout(resume, Math.min(left, LONGEST_TIMER));
      });
      clearTimeout(timer);
    }
    return true;
  }

  #isReady() {
    const { state } = this;
    if (state === 'closed') throw new SketchError('CLOSED', 'the copy is closed');
    if (state === 'refused') throw new SketchError('NOT_FOLLOWED', this.stats.lastError);
    this.#requireKey();
    return READY.includes(state);
  }

  /** Describes the copy: its state, its age in microseconds, and what was done. */
  #describe() {
    if (this.#pointer === 0) return { state: 'closed', age: NaN };
    const time = nowMicros();
    return withPlace((place) => {
      const errorAt = place + 8 * NUMBERS.length;
      call('near_describe', this.#pointer, time, place, errorAt);
      const { state, ...others } = Object.fromEntries(NUMBERS.map((name, index) => [name, f64(place + 8 * index)]));
      const error = takeBuffer(errorAt);
      return { state: STATES[state], ...others, lastError: error && textOf(error) };
    });
  }

  get state() { return this.#describe().state; }

  get age() {
    const { age } = this.#describe();
    return Number.isNaN(age) ? undefined : age / 1e6;
  }

  get stats() {
    const { state, age, ...done } = this.#describe();
    return { ...done, asked: this.#asked };
  }

  copy() {
    if (this.#pointer === 0) return undefined;
    const copy = result(u32, 'near_copy', this.#pointer);
    return copy === 0 ? undefined : objectAt(copy, Bloom);
  }

  /** Node.js and Bun print this. */
  [Symbol.for('nodejs.util.inspect.custom')]() {
    return #name in this ? `<Near ${JSON.stringify(textOf(this.#name))} ${this.state}>` : '<Near>';
  }

  close() {
    if (this.#pointer === 0) return;
    release('near_free', this.#pointer);
    this.#pointer = 0;
    freed.unregister(this);
    this.#wake();
  }
}
if (Symbol.dispose) Near.prototype[Symbol.dispose] = Near.prototype.close;

/** Yields the items whose answers are wanted from the server, in pieces of a command each. */
function* pieces(list, answers) {
  const [most, mostBytes] = [wasm.valkeybloom_command_items(), wasm.valkeybloom_command_bytes()];
  let [piece, size] = [[], 0];
  for (let index = 0; index < list.length; index += 1) {
    if (!isOpen(answers[index])) continue;
    const bytes = itemBytes(list[index], index);
    if (piece.length > 0 && (piece.length === most || size + bytes.length > mostBytes)) {
      yield piece;
      [piece, size] = [[], 0];
    }
    piece.push({ index, bytes });
    size += bytes.length;
  }
  if (piece.length > 0) yield piece;
}
