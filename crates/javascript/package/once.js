// `Once`: additions whose answers the server can repeat.

import { answersIn, commandsOf, unexpected } from './clients.js';
import { keyBytes, withItem } from './items.js';
import { integer, listOf, options } from './parameters.js';
import {
  SketchError, call, encoder, f64, lastError, result, run, takeBuffer, takeItems, textOf, u32, wasm, withBytes,
  withPlace,
} from './wasm.js';

/** What an error means to a call: `Refusal` of the crate `near`, as `valkeybloom_once_refuse` numbers it. */
const [RETRY_WITHOUT, LACKING, FORGOTTEN] = [1, 2, 3];

const freed = new FinalizationRegistry((pointer) => wasm.valkeybloom_once_free(pointer));

/** The receipts of a filter. */
export class Receipts {
  #pointer;

  /**
   * `name` is the key as the server knows it. Additions have receipts if `isOn`. If the server takes none, items are added
   * without receipts if they `maySkipReceipts`. A command `creates` a missing filter, with the server's parameters.
   */
  constructor(name, { consumer, begin = 0n, isOn = true, creates, maySkipReceipts }) {
    const [high, low] = crypto.getRandomValues(new BigUint64Array(2));
    this.#pointer = withBytes(name, (...key) =>
      withBytes(consumer ?? new Uint8Array(), (address, length) =>
        result(u32, 'once_new', ...key, consumer ? address : 0, length, begin, high, low, isOn, creates, maySkipReceipts)),
    );
    freed.register(this, this.#pointer);
  }

  get areUsed() { return run(wasm.valkeybloom_once_has_receipts, this.#pointer) === 1; }

  /** Adds items. Returns a byte for each. `isClaimed(item, index)` says whether a copy claims an item. `keep` gets what was added. */
  async add(client, name, items, { at = 0n, isClaimed = () => false, keep = () => {} } = {}) {
    const list = listOf(items, 'items');
    const claimed = list.map(isClaimed);
    const addition = result(u32, 'once_begin', this.#pointer, at);
    let isDelivered = false;
    try {
      list.forEach((item, index) => {
        const push = (address, length) => call('once_push', this.#pointer, addition, address, length, claimed[index]);
        withItem(item, push, index);
      });
      for (let next = nextOf(addition); next !== undefined; next = nextOf(addition)) {
        await send(client, name, addition, next, keep);
      }
      const answers = result(takeBuffer, 'once_answers', addition) ?? new Uint8Array();
      isDelivered = true;
      return answers;
    } finally {
      try {
        call('once_end', this.#pointer, addition, isDelivered);
      } catch (error) {
        // Without memory to note the end of the call, the program gets its answers or its error nevertheless.
        if (error.code !== 'NO_MEMORY') throw error;
      }
    }
  }

  /** Returns the first position of the consumer without an answer. */
  async position({ sendFull }) {
    const [command, ...words] = result(takeItems, 'once_position_words', this.#pointer).map(([word]) => word);
    const head = await sendFull(textOf(command), ...words);
    if (!(head instanceof Uint8Array)) throw unexpected(textOf(command));
    const end = withBytes(head, (...reply) => run(wasm.valkeybloom_once_position_in, this.#pointer, ...reply));
    if (end < 0) throw new SketchError('REFUSED', `${textOf(words[0])} does not hold a receipt`);
    return end;
  }
}

/** Returns the next command of a call, the words after its key, and those of them that are items; undefined at the end. */
const nextOf = (addition) =>
  withPlace((place) => {
    // First the structure of the words, then the number of items, which are the last of the words.
    const [wordsAt, countAt] = [place, place + 64];
    call('once_command', addition, wordsAt, countAt);
    const count = u32(countAt);
    if (count === 0) return undefined;
    const [command, ...words] = takeItems(wordsAt).map(([word]) => word);
    return { command: textOf(command), words, items: words.slice(-count) };
  });

/** Sends a command of a call, and takes its answers. */
async function send(client, name, addition, { command, words, items }, keep) {
  let replies;
  try {
    replies = await client.send(command, name, ...words);
  } catch (error) {
    requireRetry(addition, error, client.refusalOf(error));
    return;
  }
  const [answers, refused] = answersIn(command, replies, items.length);
  withBytes(answers, (...bytes) => call('once_take', addition, ...bytes));
  keep(items.slice(0, answers.length));
  if (refused === undefined) return;
  call('once_refuse_item', addition);
  throw refused;
}

/** Throws the error of a command, or a clearer one, unless the call goes on without receipts. */
function requireRetry(addition, error, refusal) {
  if (refusal === undefined) throw error;
  const text = encoder.encode(refusal);
  const [meaning, first, end] = withPlace((known) => {
    const meaning = withBytes(text, (...bytes) => run(wasm.valkeybloom_once_refuse, addition, ...bytes, known));
    return [meaning, f64(known), f64(known + 8)];
  });
  if (meaning === RETRY_WITHOUT) return;
  if (meaning === LACKING) throw new SketchError('NO_RECEIPTS', lastError());
  if (meaning === FORGOTTEN) throw Object.assign(new SketchError('FORGOTTEN', refusal), { first, end });
  throw error;
}

export class Once {
  #receipts;
  #client;
  #name;
  #isConsumer;

  constructor(client, key, given = {}) {
    const { consumer, begin } = options(given, 'consumer', 'begin');
    if (consumer === undefined && begin !== undefined) {
      throw new TypeError('begin is the first position of a consumer, which is missing');
    }
    this.#name = keyBytes(key);
    this.#client = commandsOf(client, this.#name);
    this.#isConsumer = consumer !== undefined;
    this.#receipts = new Receipts(this.#client.full(this.#name), {
      consumer: consumer === undefined ? undefined : keyBytes(consumer, 'consumer'),
      begin: integer(begin === undefined ? 0 : begin, 'begin'),
      creates: true,
      maySkipReceipts: false,
    });
  }

  async add(items, given = {}) {
    const { at } = options(given, 'at');
    if ((at !== undefined) !== this.#isConsumer) {
      throw new TypeError(this.#isConsumer ? 'add needs at, the position of the first item' : "at is a consumer's position");
    }
    const position = integer(at === undefined ? 0 : at, 'at');
    const answers = await this.#receipts.add(this.#client, this.#name, items, { at: position });
    return Array.from(answers, (answer) => answer === 1);
  }

  async position() { return this.#isConsumer ? this.#receipts.position(this.#client) : undefined; }
}
