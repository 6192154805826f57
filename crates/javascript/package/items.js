// Items in the memory of the WebAssembly: one, or a batch.

import { isUint8Array, kindOf, lengthOf, listOf } from './parameters.js';
import { ITEM_BYTES, encoder, heap, itemAddress, itemRoom, numbers, resultAddress, using, withBytes } from './wasm.js';

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

/** The most bytes that a code unit of a string takes in UTF-8. */
const UNIT_BYTES = 3;

/** Calls `use` with the address and the length of an item, and a place for results. `use` runs no other code of a program. */
export function withItem(value, use, what = 'the item') {
  const word = wordOf(value, what);
  const isText = typeof word === 'string';
  const most = isText ? word.length * UNIT_BYTES : lengthOf(word);
  if (most > ITEM_BYTES) return withBytes(itemBytes(word, what), (...item) => use(...item, resultAddress));
  const room = itemRoom();
  if (!isText) {
    room.set(word);
    return use(itemAddress, most, resultAddress);
  }
  const { written } = encoder.encodeInto(word, room);
  // Text that takes a byte for each code unit is ASCII, which has no surrogates.
  if (written !== word.length && !word.isWellFormed()) throw malformed(what);
  return use(itemAddress, written, resultAddress);
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

/** Turns items into words, in the list itself. Returns the most bytes that they take, and whether all are strings. */
function measure(all) {
  let [most, isText] = [0, true];
  for (let index = 0; index < all.length; index += 1) {
    const word = typeof all[index] === 'string' ? all[index] : (all[index] = wordOf(all[index], index));
    const isString = typeof word === 'string';
    isText &&= isString;
    most += isString ? UNIT_BYTES * word.length : lengthOf(word);
  }
  return { most, isText };
}

/** Encodes strings in one go. Returns the number of bytes; undefined if they are not ASCII. */
function encodeAscii(all, room, mark) {
  const { read, written } = encoder.encodeInto(all.join(''), room);
  if (read !== room.length || written !== read) return undefined;
  let end = 0;
  for (const word of all) mark((end += word.length));
  return end;
}

/** Encodes words one by one. Returns the number of bytes. */
function encodeEach(all, room, mark) {
  let end = 0;
  all.forEach((word, index) => {
    if (typeof word === 'string') {
      if (!word.isWellFormed()) throw malformed(index);
      const { read, written } = encoder.encodeInto(word, room.subarray(end));
      if (read !== word.length) throw new RangeError(`item ${index} has no room, because an item before it grew meanwhile`);
      end += written;
    } else {
      // Another thread may lengthen shared memory meanwhile.
      const size = lengthOf(word);
      room.set(word, end);
      end += size;
    }
    mark(end);
  });
  return end;
}

/** The answer of a batch that its encoder could not write. */
const NOT_WRITTEN = Symbol('not written');

/**
 * Writes a batch with `room` bytes of data, and calls `use` as `withBatch` does. `encode` marks the end of each item. If it
 * can't encode the items, NOT_WRITTEN is returned.
 */
function writeBatch(all, each, room, encode, use) {
  const offsets = HEADER + 8 * Math.ceil((all.length * each) / 8);
  const data = offsets + 4 * (all.length + 1);
  return using(data + room, (address) => {
    let place = address + offsets;
    const mark = (end) => {
      numbers().setUint32(place, end, true);
      place += 4;
    };
    mark(0);
    const length = encode(all, heap().subarray(address + data, address + data + room), mark);
    if (length === undefined) return NOT_WRITTEN;
    [all.length, address + data, length, address + offsets, 0, 0, 0].forEach((word, index) => {
      numbers().setUint32(address + 4 * index, word, true);
    });
    return use(address, all.length, address + HEADER);
  });
}

/** Calls `use` with the address of a batch of items, their number, and the address of their results, `each` bytes an item. */
export function withBatch(items, each, use) {
  const all = listOf(items, 'items');
  const { most, isText } = measure(all);
  const units = most / UNIT_BYTES;
  const answer = isText && units < LONGEST_TEXT ? writeBatch(all, each, units, encodeAscii, use) : NOT_WRITTEN;
  return answer === NOT_WRITTEN ? writeBatch(all, each, most, encodeEach, use) : answer;
}
