// The WebAssembly: its memory, items and batches in it, and the statuses of its calls.

const CODES = [
  'OK', 'REFUSED', 'UNDECODABLE', 'NO_MEMORY', 'BAD_BATCH', 'BAD_TYPE', 'BROKEN', 'FREED', 'BAD_FAMILY',
];
const [OK, REFUSED, , NO_MEMORY, , , , FREED] = CODES.keys();

/** The room for an item, for the results of a call, and for options, in bytes. */
const ITEM_BYTES = 16_384;
export const RESULT_BYTES = 128;
const OPTIONS_BYTES = 512;

/** The errors of objects. `code` is REFUSED for what a server refuses with the same text. */
export class SketchError extends Error {
  constructor(code, text, index) {
    super(text);
    this.code = code;
    if (index !== undefined) this.index = index;
  }
}
SketchError.prototype.name = 'SketchError';

/** The functions of the WebAssembly. */
export let wasm;
let room, itemPlace, given, memory, stack, bytes, view, roomBytes;

const encoder = new TextEncoder();
// A byte order mark is part of an item.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

// The functions of the engine, as they are now: no code of a program runs within a call.
const fillRandom = crypto.getRandomValues.bind(crypto);
const TYPED_ARRAY = Object.getPrototypeOf(Uint8Array.prototype);
const { get: lengthOf } = Object.getOwnPropertyDescriptor(TYPED_ARRAY, 'length');

export function load(module) {
  const random = new BigUint64Array(1);
  const host = { random_bits: () => fillRandom(random)[0] };
  wasm = new WebAssembly.Instance(module, { host }).exports;
  [memory, stack] = [wasm.memory, wasm.__stack_pointer.value];
  room = wasm.valkeybloom_allocate(ITEM_BYTES + RESULT_BYTES + OPTIONS_BYTES);
  itemPlace = room + ITEM_BYTES;
  given = itemPlace + RESULT_BYTES;
  refresh();
}

// Memory that grows leaves its old arrays empty.
function refresh() {
  bytes = new Uint8Array(memory.buffer);
  view = new DataView(memory.buffer);
  roomBytes = bytes.subarray(room, room + ITEM_BYTES);
}

/** Returns the bytes of the memory. */
export function heap() {
  if (bytes.length === 0) refresh();
  return bytes;
}

/** Returns the numbers of the memory. */
export function numbers() {
  if (bytes.length === 0) refresh();
  return view;
}

export const u32 = (address) => numbers().getUint32(address, true);
export const u64 = (address) => Number(numbers().getBigUint64(address, true));
export const f64 = (address) => numbers().getFloat64(address, true);
export const isTrue = (address) => heap()[address] === 1;

/** Returns a copy of bytes in the memory. */
export const copied = (address, length) => heap().slice(address, address + length);

export const textOf = (array) => decoder.decode(array);

/** Returns the text of the last call that failed. */
export function lastError() {
  const start = wasm.valkeybloom_last_error() >>> 0;
  return textOf(copied(start, heap().indexOf(0, start) - start));
}

function failure(status) {
  if (status === FREED) return new SketchError('FREED', 'the object was freed');
  return new SketchError(CODES[status], lastError());
}

/** Throws the error of a call. */
export function check(status) {
  if (status !== OK) throw failure(status);
}

/** Returns the time in microseconds, by a clock that never goes back. */
export const nowMicros = () => performance.now() * 1000;

/** Calls a function by its name, and throws its error. */
export const call = (name, ...parameters) => check(run(wasm[`valkeybloom_${name}`], ...parameters));

/**
 * Calls a function. If there is no memory for a few words, it is aborted; if the engine's stack is full, it does not begin.
 * Then its stack in the memory is reset.
 */
export function run(callee, ...parameters) {
  try {
    return callee(...parameters);
  } catch (error) {
    wasm.__stack_pointer.value = stack;
    if (!(error instanceof WebAssembly.RuntimeError)) throw error;
    throw new SketchError('NO_MEMORY', 'not enough memory');
  }
}

/** Calls `use` with the address of a place for results: on the stack in the memory, so no other call uses it meanwhile. */
export function withPlace(use) {
  const pointer = wasm.__stack_pointer;
  const before = pointer.value;
  pointer.value = before - RESULT_BYTES;
  try {
    return use(before - RESULT_BYTES);
  } finally {
    pointer.value = before;
  }
}

/** Calls a function by its name, whose last parameter is a place for its result. Returns what `read` finds there. */
export const result = (read, name, ...parameters) =>
  withPlace((address) => {
    call(name, ...parameters, address);
    return read(address);
  });

/** Frees with a function what a pointer points to. It throws before that if the engine's stack is full. */
export function release(name, pointer) {
  run(wasm.valkeybloom_require_stack);
  wasm[`valkeybloom_${name}`](pointer);
}

/** Allocates memory for a while. */
export function using(length, use) {
  // Offsets have 32 bits.
  const address = length < 2 ** 31 ? run(wasm.valkeybloom_allocate, length) >>> 0 : 0;
  if (address === 0) throw new SketchError(CODES[NO_MEMORY], 'not enough memory');
  try {
    return use(address);
  } finally {
    wasm.valkeybloom_deallocate(address, length);
  }
}

const kindOf = (value) => (value === null ? 'null' : Array.isArray(value) ? 'an array' : typeof value);

const nameOf = (index) => (index === undefined ? 'the item' : `item ${index}`);

function wrongItem(value, index) {
  const found = typeof value === 'number' ? `${value}` : kindOf(value);
  return new TypeError(`${nameOf(index)} is ${found}: an item is a string, a Uint8Array, a safe integer or a bigint`);
}

const malformed = (index) => new TypeError(`${nameOf(index)} has a lone surrogate, so it is not text`);

const isBytes = (value) => ArrayBuffer.isView(value) && value instanceof Uint8Array;

/** Returns an item as a string or as bytes. */
function wordOf(value, index) {
  if (typeof value === 'string' || isBytes(value)) return value;
  if (typeof value === 'bigint' || Number.isSafeInteger(value)) return String(value);
  throw wrongItem(value, index);
}

/** Returns a copy of the bytes of an item. */
export function itemBytes(value, index) {
  const word = wordOf(value, index);
  if (typeof word !== 'string') return new Uint8Array(word);
  if (!word.isWellFormed()) throw malformed(index);
  return encoder.encode(word);
}

/** Returns the bytes of a server's key, or of a part of one. */
export function keyBytes(key, name = 'key') {
  try {
    return itemBytes(key);
  } catch ({ message }) {
    throw new TypeError(message.replace(/^the item/, `the ${name}`).replace('an item is', `a ${name} is`));
  }
}

/** Calls `use` with the address and the length of an item, and a place for results. `use` runs no other code of a program. */
export function withItem(value, use, index) {
  const word = wordOf(value, index);
  if (bytes.length === 0) refresh();
  // A character has three bytes at most.
  const length = typeof word === 'string' ? word.length * 3 : lengthOf.call(word);
  if (length > ITEM_BYTES) return withBytes(itemBytes(word, index), (...item) => use(...item, itemPlace));
  if (typeof word !== 'string') {
    roomBytes.set(word);
    return use(room, length, itemPlace);
  }
  const { written } = encoder.encodeInto(word, roomBytes);
  if (written !== word.length && !word.isWellFormed()) throw malformed(index);
  return use(room, written, itemPlace);
}

/** Calls `use` with the address and the length of bytes. */
export function withBytes(array, use) {
  const length = lengthOf.call(array);
  return using(length, (address) => {
    heap().subarray(address, address + length).set(array);
    return use(address, length);
  });
}

/** Returns bytes that somebody passed, without a copy. */
export function bytesOf(data, name) {
  if (isBytes(data)) return data;
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const kind = Object.prototype.toString.call(data).slice(8, -1);
  if (kind === 'ArrayBuffer' || kind === 'SharedArrayBuffer') return new Uint8Array(data);
  throw new TypeError(`${name} is ${kindOf(data)}, not an ArrayBuffer or a view of one`);
}

/** Writes the words of options to the memory, for the next call. Returns their address, 0 without any. */
export function withWords(text) {
  if (text === '') return 0;
  encoder.encodeInto(`${text}\0`, heap().subarray(given, given + OPTIONS_BYTES));
  return given;
}

/** Writes the numbers of options to the memory, for the next call. Returns their address, 0 without any. */
export function withNumbers(all) {
  if (all === undefined) return 0;
  all.forEach((value, index) => numbers().setFloat64(given + 8 * index, value, true));
  return given;
}

/** Returns the elements of an iterable. An array is copied, because getters could change it meanwhile. */
export function listOf(values, name) {
  const isBytes = values instanceof Uint8Array || values instanceof ArrayBuffer;
  if (typeof values === 'string' || isBytes || typeof values?.[Symbol.iterator] !== 'function') {
    const found = isBytes ? 'bytes' : kindOf(values);
    throw new TypeError(`${name} is ${found}, not an array or another iterable`);
  }
  return [...values];
}

// A batch is a structure of seven words, the offsets, the answers and the counts of 8 bytes, and then the data.
const HEADER = 32;

/**
 * Writes items to the memory, and calls `use` with the address of their batch, their number, and the address of `each` bytes
 * for each item, which begin with a multiple of eight.
 *
 * @param {number} each
 */
export function withBatch(items, each, use) {
  const all = listOf(items, 'items');
  const count = all.length;
  let [length, isText, most] = [0, true, 0];
  for (let index = 0; index < count; index += 1) {
    const word = typeof all[index] === 'string' ? all[index] : (all[index] = wordOf(all[index], index));
    isText &&= typeof word === 'string';
    const size = typeof word === 'string' ? word.length : lengthOf.call(word);
    length += size;
    // A character has three bytes at most.
    most += typeof word === 'string' ? 3 * size : size;
  }
  const offsets = HEADER + 8 * Math.ceil((count * each) / 8);
  const data = offsets + 4 * (count + 1);
  const write = (length, fill) =>
    using(data + length, (address) => {
      let at = address + offsets;
      const mark = (end) => {
        numbers().setInt32(at, end, true);
        at += 4;
      };
      mark(0);
      const end = fill(address + data, mark);
      if (end < 0) return undefined;
      [count, address + data, end, address + offsets, 0, 0, 0].forEach((word, place) => {
        numbers().setUint32(address + 4 * place, word, true);
      });
      return { result: use(address, count, address + HEADER) };
    });
  // Text of one byte a character is encoded in one go, unless it is too long for a string. Its offsets are the lengths.
  if (isText && length < 2 ** 28) {
    const found = write(length, (address, mark) => {
      const text = all.join('');
      const { read, written } = encoder.encodeInto(text, heap().subarray(address, address + length));
      if (read !== length || written !== length) return -1;
      let end = 0;
      for (const word of all) mark((end += word.length));
      return end;
    });
    if (found !== undefined) return found.result;
  }
  return write(most, (address, mark) => {
    const room = heap().subarray(address, address + most);
    let end = 0;
    all.forEach((word, index) => {
      if (typeof word === 'string') {
        if (!word.isWellFormed()) throw malformed(index);
        end += encoder.encodeInto(word, room.subarray(end)).written;
      } else {
        room.set(word, end);
        end += lengthOf.call(word);
      }
      mark(end);
    });
    return end;
  }).result;
}

/** Returns the bytes of a buffer that a call has put at an address, and frees it. */
export function takeBuffer(address) {
  const start = u32(address);
  try {
    return start === 0 ? undefined : copied(start, u32(address + 4));
  } finally {
    wasm.valkeybloom_buffer_free(address);
  }
}

/** Returns the items that a call has put at an address, each with its count if there is one, and frees them. */
export function takeItems(address) {
  const [length, data, , offsets, counts] = [0, 4, 8, 12, 16].map((field) => u32(address + field));
  try {
    return Array.from({ length }, (_, index) => {
      const [start, end] = [u64(offsets + 8 * index), u64(offsets + 8 * index + 8)];
      return [copied(data + start, end - start), counts === 0 ? undefined : u64(counts + 8 * index)];
    });
  } finally {
    wasm.valkeybloom_items_free(address);
  }
}

/** Returns an integer that somebody passed, within a range. */
export function integer(value, name, least = 0, most = Number.MAX_SAFE_INTEGER) {
  if (typeof value !== 'bigint' && !Number.isInteger(value)) {
    throw new TypeError(`${name} is ${typeof value === 'number' ? value : kindOf(value)}, not an integer`);
  }
  if (value < least || value > most) {
    throw new RangeError(`${name} is ${value}: it has to be from ${least} to ${most}`);
  }
  return BigInt(value);
}

export function number(value, name) {
  if (typeof value === 'number') return value;
  throw new TypeError(`${name} is ${kindOf(value)}, not a number`);
}

/** Returns a rate that somebody passed. `takesOne` says whether it may be 1. */
export function rate(value, name, takesOne = false) {
  if ((number(value, name) > 0 && value < 1) || (takesOne && value === 1)) return value;
  throw new RangeError(`${name} is ${value}: it has to be above 0 and ${takesOne ? 'at most' : 'below'} 1`);
}

/** Refuses options with other names. */
export function options(given, ...names) {
  if (given === null || typeof given !== 'object') throw new TypeError(`options are an object, not ${kindOf(given)}`);
  for (const name of Object.keys(given)) {
    if (!names.includes(name)) throw new TypeError(`unknown option ${name}: expected ${names.join(', ')}`);
  }
  return given;
}

/** Throws the error of a batch, with the first item that was not added. */
export function checkBatch(status, answers) {
  if (status === OK) return;
  const error = failure(status);
  const index = answers.indexOf(2);
  if (status !== REFUSED || index < 0) throw error;
  throw new SketchError(error.code, `item ${index}: ${error.message}`, index);
}
