// The WebAssembly: its memory, items and batches in it, and the statuses of its calls.

import { isUint8Array, kindOf, lengthOf, listOf } from './parameters.js';

const CODES = [
  'OK', 'REFUSED', 'UNDECODABLE', 'NO_MEMORY', 'BAD_BATCH', 'BAD_TYPE', 'BROKEN', 'FREED', 'BAD_FAMILY',
];
const [OK, REFUSED, FREED] = [0, 1, 7];

/** The bytes for an item, for the result of a call, and for options. */
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
let memory, stack, bytes, view;

/** The addresses of the bytes for an item, for its result and for options. `itemRoom` is the array of the first. */
let itemAddress, resultAddress, optionsAddress, itemRoom;

const encoder = new TextEncoder();
// A byte order mark is part of an item.
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

// The function of the engine, as it is now: no code of a program runs within a call.
const fillRandom = crypto.getRandomValues.bind(crypto);
export function load(module) {
  const random = new BigUint64Array(1);
  const host = { random_bits: () => fillRandom(random)[0] };
  wasm = new WebAssembly.Instance(module, { host }).exports;
  [memory, stack] = [wasm.memory, wasm.__stack_pointer.value];
  itemAddress = allocate(ITEM_BYTES + RESULT_BYTES + OPTIONS_BYTES);
  resultAddress = itemAddress + ITEM_BYTES;
  optionsAddress = resultAddress + RESULT_BYTES;
  refresh();
}

// Memory that grows leaves its old arrays empty.
function refresh() {
  bytes = new Uint8Array(memory.buffer);
  view = new DataView(memory.buffer);
  itemRoom = bytes.subarray(itemAddress, itemAddress + ITEM_BYTES);
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

const noMemory = () => new SketchError('NO_MEMORY', 'not enough memory');

/**
 * Calls a function. The engine aborts it if there is no memory for a few words or if it has a bug, and does not begin it if
 * the engine's stack is full. Then its stack in the memory is reset.
 */
export function run(callee, ...parameters) {
  try {
    return callee(...parameters);
  } catch (error) {
    wasm.__stack_pointer.value = stack;
    if (!(error instanceof WebAssembly.RuntimeError)) throw error;
    if (wasm.valkeybloom_allocation_failed() === 1) throw noMemory();
    throw new SketchError('BROKEN', 'valkeybloom failed because of a bug in it');
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

/** Allocates memory, and returns its address. */
function allocate(length) {
  // Offsets have 32 bits.
  const address = length < 2 ** 31 ? run(wasm.valkeybloom_allocate, length) >>> 0 : 0;
  if (address === 0) throw noMemory();
  return address;
}

/** Calls `use` with the address of memory that is freed afterwards. */
export function using(length, use) {
  const address = allocate(length);
  try {
    return use(address);
  } finally {
    wasm.valkeybloom_deallocate(address, length);
  }
}

/** Returns the noun of an item: `what` is one, or the index of the item in a list. */
const nounOf = (what) => (typeof what === 'number' ? `item ${what}` : what);

function wrongItem(value, what, kind) {
  const found = typeof value === 'number' ? `${value}` : kindOf(value);
  return new TypeError(`${nounOf(what)} is ${found}: ${kind} is a string, a Uint8Array, a safe integer or a bigint`);
}

const malformed = (what) => new TypeError(`${nounOf(what)} has a lone surrogate, so it is not text`);

/** Returns an item as a string or as bytes. */
function wordOf(value, what, kind = 'an item') {
  if (typeof value === 'string' || isUint8Array(value)) return value;
  if (typeof value === 'bigint' || Number.isSafeInteger(value)) return String(value);
  throw wrongItem(value, what, kind);
}

/** Returns a copy of the bytes of an item. */
export function itemBytes(value, what = 'the item', kind = 'an item') {
  const word = wordOf(value, what, kind);
  if (typeof word !== 'string') return new Uint8Array(word);
  if (!word.isWellFormed()) throw malformed(what);
  return encoder.encode(word);
}

/** Returns a copy of the bytes of a server's key, or of a part of one. */
export const keyBytes = (key, noun = 'key') => itemBytes(key, `the ${noun}`, `a ${noun}`);

/** Calls `use` with the address and the length of an item, and a place for results. `use` runs no other code of a program. */
export function withItem(value, use, what = 'the item') {
  const word = wordOf(value, what);
  if (bytes.length === 0) refresh();
  // A character has three bytes at most.
  const length = typeof word === 'string' ? word.length * 3 : lengthOf(word);
  if (length > ITEM_BYTES) return withBytes(itemBytes(word, what), (...item) => use(...item, resultAddress));
  if (typeof word !== 'string') {
    itemRoom.set(word);
    return use(itemAddress, length, resultAddress);
  }
  const { written } = encoder.encodeInto(word, itemRoom);
  if (written !== word.length && !word.isWellFormed()) throw malformed(what);
  return use(itemAddress, written, resultAddress);
}

/** Calls `use` with the address and the length of bytes. */
export function withBytes(array, use) {
  const length = lengthOf(array);
  return using(length, (address) => {
    heap().subarray(address, address + length).set(array);
    return use(address, length);
  });
}

/** Writes the words of options to the memory, for the next call. Returns their address, 0 without any. */
export function withWords(text) {
  if (text === '') return 0;
  const { read } = encoder.encodeInto(`${text}\0`, heap().subarray(optionsAddress, optionsAddress + OPTIONS_BYTES));
  if (read !== text.length + 1) throw new RangeError(`the words of options have more than ${OPTIONS_BYTES - 1} bytes`);
  return optionsAddress;
}

/** Writes the numbers of options to the memory, for the next call. Returns their address, 0 without any. */
export function withNumbers(all) {
  if (all === undefined) return 0;
  all.forEach((value, index) => numbers().setFloat64(optionsAddress + 8 * index, value, true));
  return optionsAddress;
}

// A batch, as ffi/border/batch.rs reads it:
//
//     address       length, data, data length, offsets, 0, 0, 0      seven words of 4 bytes
//     + HEADER      the results                                      `each` bytes for each item, and up to 7 unused ones
//                   the offsets                                      4 bytes for each item, and 4 more
//                   the data                                         the items, end to end
//
// The seven words take 28 bytes. The results may be words of 8 bytes, so they begin at the next multiple of 8.
const HEADER = 32;

/** A string of more code units may be too long for an engine. */
const LONGEST_TEXT = 2 ** 28;

/** Turns items into words, in the list itself. Returns what their data may take. A character has three bytes at most. */
function measure(all) {
  let [length, most, isText] = [0, 0, true];
  for (let index = 0; index < all.length; index += 1) {
    const word = typeof all[index] === 'string' ? all[index] : (all[index] = wordOf(all[index], index));
    const isString = typeof word === 'string';
    const size = isString ? word.length : lengthOf(word);
    isText &&= isString;
    length += size;
    most += isString ? 3 * size : size;
  }
  return { length, most, isText };
}

/** Encodes strings in one go. Returns false if they are not ASCII. */
function encodeAscii(all, room, mark) {
  const { read, written } = encoder.encodeInto(all.join(''), room);
  if (read !== room.length || written !== read) return false;
  let end = 0;
  for (const word of all) mark((end += word.length));
  return true;
}

/** Encodes words one by one. */
function encodeEach(all, room, mark) {
  let end = 0;
  all.forEach((word, index) => {
    if (typeof word === 'string') {
      if (!word.isWellFormed()) throw malformed(index);
      end += encoder.encodeInto(word, room.subarray(end)).written;
    } else {
      // Another thread may lengthen shared memory meanwhile.
      const size = lengthOf(word);
      room.set(word, end);
      end += size;
    }
    mark(end);
  });
  return true;
}

/** Writes a batch and calls `use` with its address, unless `encode` returns false. `encode` marks the end of each item. */
function writeBatch(all, each, room, encode, use) {
  const offsets = HEADER + 8 * Math.ceil((all.length * each) / 8);
  const data = offsets + 4 * (all.length + 1);
  return using(data + room, (address) => {
    let [end, place] = [0, address + offsets];
    const mark = (at) => {
      end = at;
      numbers().setInt32(place, at, true);
      place += 4;
    };
    mark(0);
    if (!encode(all, heap().subarray(address + data, address + data + room), mark)) return false;
    [all.length, address + data, end, address + offsets, 0, 0, 0].forEach((word, index) => {
      numbers().setUint32(address + 4 * index, word, true);
    });
    use(address);
    return true;
  });
}

/** Calls `use` with the address of a batch of items, their number, and the address of their results, `each` bytes an item. */
export function withBatch(items, each, use) {
  const all = listOf(items, 'items');
  const { length, most, isText } = measure(all);
  let answer;
  const ask = (address) => { answer = use(address, all.length, address + HEADER); };
  const isShort = isText && length < LONGEST_TEXT;
  if (!isShort || !writeBatch(all, each, length, encodeAscii, ask)) writeBatch(all, each, most, encodeEach, ask);
  return answer;
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

/** Throws the error of a batch, with the first item that was not added. */
export function checkBatch(status, answers) {
  if (status === OK) return;
  const error = failure(status);
  const index = answers.indexOf(2);
  if (status !== REFUSED || index < 0) throw error;
  throw new SketchError(error.code, `item ${index}: ${error.message}`, index);
}
