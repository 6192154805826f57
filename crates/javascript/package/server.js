// `fetch` and `store`: the objects of a server's keys. The WebAssembly says which command is next.

import { commandsOf, pause } from './clients.js';
import { itemBytes, keyBytes, withBatch } from './items.js';
import { number, options } from './parameters.js';
import { objectAt, familyOf, isSketch, pointerOf } from './sketches.js';
import {
  SketchError, call, nowMicros, numbers, result, takeBuffer, takeItems, textOf, u32, wasm, withBytes, withPlace,
} from './wasm.js';

/** How conversations end, as `Ending` of the WebAssembly numbers it. */
const [DONE, NO_KEY, NO_SKETCH, EXISTS, NOT_MERGEABLE, UNEXPECTED, , REFUSED] = Array(8).keys();

const NOTHING = new Uint8Array();

/** Sends the commands of a conversation. Returns what was fetched. */
async function converse({ send, refusalOf }, key, pointer, sketch) {
  const errors = [];
  try {
    for (;;) {
      const [name, ...words] = result(takeItems, 'conversation_next', pointer, nowMicros()).map(([word]) => word);
      if (name === undefined) return ended(pointer, errors, key, sketch);
      let reply;
      try {
        reply = await send(textOf(name), ...words);
      } catch (error) {
        const refusal = refusalOf(error);
        const place = errors.push(error) - 1;
        if (refusal === undefined) call('conversation_fail', pointer, place, 0, 0);
        else withBytes(itemBytes(refusal), (...text) => call('conversation_fail', pointer, place, ...text));
        continue;
      }
      // The client took its time to read the chunk.
      if (textOf(name) === 'BF.SCANDUMP') await pause();
      const elements = Array.isArray(reply) ? reply.map((element) => element ?? NOTHING) : reply === null ? [] : [reply];
      withBatch(elements, 0, (batch) => call('conversation_take', pointer, batch));
    }
  } finally {
    wasm.valkeybloom_conversation_free(pointer);
  }
}

function ended(pointer, errors, key, sketch) {
  const [object, ending, error, bytes] = withPlace((place) => {
    numbers().setUint32(place, 0, true);
    call('conversation_end', pointer, place, place + 8, place + 12, place + 16);
    return [u32(place), u32(place + 8), errors[u32(place + 12)], takeBuffer(place + 16)];
  });
  const [text, shown] = [bytes && textOf(bytes), JSON.stringify(textOf(key))];
  if (ending === DONE) return object === 0 ? undefined : objectAt(object);
  if (ending === NO_KEY) throw new SketchError('NO_KEY', `there is no key ${shown}`);
  if (ending === NO_SKETCH) throw new TypeError(`${shown} holds a value of type ${text}, which is not a sketch`);
  if (ending === EXISTS) {
    throw new SketchError('KEY_EXISTS', `${shown} already exists: pass replace: true, or merge: true to unite both`);
  }
  if (ending === NOT_MERGEABLE) throw new TypeError(`objects of ${familyOf(sketch).name} can't be merged`);
  if (ending === UNEXPECTED) throw new TypeError('the client returned something other than a reply to the command');
  if (ending === REFUSED) error.message = `store to ${shown}: ${text}`;
  throw error;
}

export async function fetch(client, key) {
  const name = keyBytes(key);
  return converse(commandsOf(client, name), name, withBytes(name, (...at) => result(u32, 'fetch_new', ...at)));
}

/** Returns a time to live in milliseconds, 0 without one. */
function milliseconds(ttl) {
  if (ttl === undefined) return 0n;
  const ms = Math.round(number(ttl, 'ttl') * 1000);
  if (!(ms > 0 && ms < 2 ** 53)) throw new RangeError(`ttl is ${ttl}: it has to be from 0.001 to 9007199254740 seconds`);
  return BigInt(ms);
}

export async function store(client, key, sketch, given = {}) {
  const { replace = false, merge = false, ttl } = options(given, 'replace', 'merge', 'ttl');
  const [name, ttlMs] = [keyBytes(key), milliseconds(ttl)];
  if (!isSketch(sketch)) throw new TypeError('the third argument is not a sketch');
  if (replace && merge) throw new TypeError('a key is either replaced or merged');
  const commands = commandsOf(client, name);
  const random = crypto.getRandomValues(new BigUint64Array(1))[0];
  const pointer = withBytes(Buffer.concat([commands.prefix, name]), (...at) =>
    result(u32, 'store_new', pointerOf(sketch), ...at, commands.prefix.length, merge ? 2 : Number(replace), ttlMs, random),
  );
  await converse(commands, name, pointer, sketch);
}
