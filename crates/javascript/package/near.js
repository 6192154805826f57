// `Near`: a copy of a server's filter that stays fresh.

import { answersIn, commandsOf, isOne } from './clients.js';
import { Follower } from './follower.js';
import { itemBytes, keyBytes } from './items.js';
import { drive } from './near-driver.js';
import { Receipts } from './once.js';
import { listOf, number, options } from './parameters.js';
import { SketchError, textOf, wasm } from './wasm.js';

/** The states in which a copy answers. */
const READY = ['following', 'missing'];

/** Returns whether only the server has the answer to a lookup. */
const isOpen = (answer) => answer > 1;

/** The longest time that is taken, in seconds: 30 years. */
const LONGEST = 1e9;

function seconds(value, name) {
  if (number(value, name) > 0 && value <= LONGEST) return value;
  throw new RangeError(`${name} is ${value}: it has to be more than 0, and at most ${LONGEST} seconds`);
}

/** The public methods are described in index.d.ts. */
export class Near {
  #follower;
  #name;
  #client;
  #missing;
  #receipts;
  #asked = 0;

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
      maySkipReceipts: true,
    });
    const isReplica = reader !== undefined && reader !== null;
    const reads = commandsOf(isReplica ? reader : client, this.#name);
    this.#follower = new Follower({
      every, maxAge, refresh: refresh ?? 0, lag: isReplica ? maxAge : 0, confirm: Boolean(confirm),
    });
    // It holds the follower weakly, so that both end with the last reference to this object.
    drive(new WeakRef(this.#follower), reads, this.#name);
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
    const answer = this.#follower.look(item);
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
    const answers = Uint8Array.from(list, (item, index) => this.#follower.look(item, index));
    this.#requireKey();
    let isAnyDenied = false;
    // All items are copied before the first command: their bytes may change while it is sent.
    for (const piece of [...pieces(list, answers)]) {
      this.#asked += piece.length;
      const replies = await this.#client.send('BF.MEXISTS', this.#name, ...piece.map(({ bytes }) => bytes));
      const [found, refused] = answersIn('BF.MEXISTS', replies, piece.length);
      if (refused !== undefined) throw refused;
      for (const [place, { index }] of piece.entries()) answers[index] = found[place];
      isAnyDenied ||= found.includes(0);
    }
    if (isAnyDenied) await this.#requireKeyAtServer();
    return answers;
  }

  async add(item) { return (await this.addMany([item]))[0] === 1; }

  addMany(items) {
    return this.#receipts.add(this.#client, this.#name, items, {
      isClaimed: (item, index) => this.#follower.look(item, index) === 1,
      // Not before the reply came, because then the server has them.
      keep: (added) => this.#follower.keep(added),
    });
  }

  get once() { return this.#receipts.areUsed; }

  async wait(timeout = Infinity) {
    if (Number.isNaN(number(timeout, 'timeout'))) throw new RangeError('timeout is NaN, not a number of seconds');
    const end = performance.now() + 1000 * timeout;
    while (!this.#isReady()) {
      const left = end - performance.now();
      if (left <= 0) return false;
      await this.#follower.changed(left);
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

  get state() { return this.#follower.describe().state; }

  get age() {
    const { age } = this.#follower.describe();
    return Number.isNaN(age) ? undefined : age / 1e6;
  }

  get stats() {
    const { state, age, ...done } = this.#follower.describe();
    return { ...done, asked: this.#asked };
  }

  copy() { return this.#follower.copy(); }

  /** Node.js and Bun print this. */
  [Symbol.for('nodejs.util.inspect.custom')]() {
    return #name in this ? `<Near ${JSON.stringify(textOf(this.#name))} ${this.state}>` : '<Near>';
  }

  close() { this.#follower.close(); }
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
