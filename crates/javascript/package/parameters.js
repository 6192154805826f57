// What programs pass: the checks of it.

// The functions of the engine, as they are now. A program may give an array a length of its own, and a prototype that runs
// code.
const TYPED_ARRAY = Object.getPrototypeOf(Uint8Array.prototype);
const getterOf = (name) => Object.getOwnPropertyDescriptor(TYPED_ARRAY, name).get;
const [getLength, getTag] = [getterOf('length'), getterOf(Symbol.toStringTag)];

/** Returns the length of a typed array. It runs no code of a program. */
export const lengthOf = (array) => getLength.call(array);

/** Returns whether a value is a Uint8Array. It runs no code of a program, which `instanceof` does for some prototypes. */
export const isUint8Array = (value) => getTag.call(value) === 'Uint8Array';

export const kindOf = (value) => (value === null ? 'null' : Array.isArray(value) ? 'an array' : typeof value);

/** Returns bytes that somebody passed, without a copy. */
export function bytesOf(data, name) {
  if (isUint8Array(data)) return data;
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const kind = Object.prototype.toString.call(data).slice(8, -1);
  if (kind === 'ArrayBuffer' || kind === 'SharedArrayBuffer') return new Uint8Array(data);
  throw new TypeError(`${name} is ${kindOf(data)}, not an ArrayBuffer or a view of one`);
}

/** Returns the elements of an iterable. An array is copied, because getters could change it meanwhile. */
export function listOf(values, name) {
  const isBytes = isUint8Array(values) || values instanceof ArrayBuffer;
  if (typeof values === 'string' || isBytes || typeof values?.[Symbol.iterator] !== 'function') {
    const found = isBytes ? 'bytes' : kindOf(values);
    throw new TypeError(`${name} is ${found}, not an array or another iterable`);
  }
  return [...values];
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
