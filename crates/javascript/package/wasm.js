// The WebAssembly: its memory, its calls, and their statuses.

import { lengthOf } from './parameters.js';

/** The codes of statuses, by their numbers in ffi/border/status.rs. The only bad pointers are those of freed objects. */
const CODES = [
  'OK', 'REFUSED', 'UNDECODABLE', 'NO_MEMORY', 'BAD_BATCH', 'BAD_TYPE', 'BROKEN', 'FREED', 'BAD_FAMILY',
];
const [OK, REFUSED, FREED] = ['OK', 'REFUSED', 'FREED'].map((code) => CODES.indexOf(code));

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

/** The memory, and arrays of all of it. */
let memory, arrays;

/** The stack pointer before any call. */
let stack;

/** The places for an item, for the result of a call and for options, each with its bytes. No two calls use them at once. */
export let itemAddress, resultAddress;
let optionsAddress;
export const ITEM_BYTES = 16_384;
export const RESULT_BYTES = 128;
const OPTIONS_BYTES = 512;

export const encoder = new TextEncoder();
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
  arrays = arraysOf(memory.buffer);
}

// Memory that grows leaves its old arrays empty.
function arraysOf(buffer) {
  const bytes = new Uint8Array(buffer);
  return { bytes, view: new DataView(buffer), room: bytes.subarray(itemAddress, itemAddress + ITEM_BYTES) };
}

const current = () => (arrays.bytes.length > 0 ? arrays : (arrays = arraysOf(memory.buffer)));

/** Return the bytes of the memory, its numbers, and the bytes for an item. */
export const heap = () => current().bytes;
export const numbers = () => current().view;
export const itemRoom = () => current().room;

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
