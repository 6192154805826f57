// Code of the program, and failures, in the middle of calls.

import assert from 'node:assert/strict';
import { test } from 'node:test';

// Before the package.
import { failing, memories } from './instance.js';
import { Bloom, CountMin, Near, TopK, decode, fetch } from 'valkeybloom';

test('what a program does in the middle of a call harms nobody', () => {
  const others = Array.from({ length: 20 }, () => new Bloom(100, 0.0001));
  for (const [number, filter] of others.entries()) filter.add(`own ${number}`);
  // Lengths that are none: no more is read than there is room for.
  class Short extends Uint8Array {
    get length() { return 1; }
  }
  const filter = new Bloom(100, 0.01);
  for (const length of [2, 20_000, 150_000]) {
    try {
      filter.add(new Short(length).fill(255));
    } catch (error) {
      assert.ok(error instanceof RangeError, String(error));
    }
  }
  // An object that is freed while a parameter is read.
  for (const use of [
    (one, given) => one.addMany(['a'], given),
    (one, given) => one.hasMany(['a'], given),
    (one, given) => one.add('a', given),
    (one, given) => Bloom.union([one], given),
  ]) {
    const one = new Bloom(100, 0.01);
    const made = [];
    const given = { get atMs() { one.free(); made.push(new CountMin(10, 2)); return 1; } };
    assert.throws(() => use(one, given), { code: 'FREED' }, String(use));
  }
  for (const [number, other] of others.entries()) assert.ok(other.has(`own ${number}`));
  // A byte order mark is part of the item.
  const top = new TopK(3, 100, 5);
  top.addMany(['\ufeffname', 'name', 'name']);
  assert.deepEqual(top.list(), [['name', 2], ['\ufeffname', 1]]);
});

test('a call about several objects refuses one that is freed within it', (context) => {
  const seed = new Uint8Array(32);
  const calls = [
    (one, other) => one.equals(other), (one, other) => other.equals(one),
    (one, other) => one.union(other), (one, other) => Bloom.union([other, one, other], { atMs: 1 }),
  ];
  const makers = [
    () => Bloom.window(100, 0.01, { windowMs: 60_000, periods: 3, seed }), () => new Bloom(100, 0.01, { seed }),
  ];
  // The clock of a program frees an object when it is read for the last time.
  for (const call of calls) {
    let [readings, last, freed] = [0, Infinity, undefined];
    context.mock.method(Date, 'now', () => {
      readings += 1;
      if (readings === last) freed.free();
      return 0;
    });
    const filters = [makers[0](), makers[0]()];
    call(...filters);
    [last, readings, freed] = [readings, 0, filters[0]];
    assert.ok(last > 0);
    assert.throws(() => call(...filters), { code: 'FREED' }, String(call));
    context.mock.restoreAll();
  }
  // So does a getter of an object that is passed.
  const [family] = Object.getOwnPropertySymbols(Bloom.prototype);
  const [one, other] = [makers[1](), makers[1]()];
  Object.defineProperty(other, family, { get: () => (one.free(), Bloom.prototype[family]) });
  assert.throws(() => one.union(other), { code: 'FREED' });
});

test('no code of a program runs while an item is read', () => {
  const filter = new Bloom(100, 0.01);
  const prototype = new Proxy({}, { getPrototypeOf: () => (filter.free(), Uint8Array.prototype) });
  const item = Object.setPrototypeOf(new Uint16Array(1), prototype);
  const expected = { name: 'TypeError', message: /^the item is object: an item is / };
  for (const call of [() => filter.add(item), () => filter.has(item), () => filter.count(item), () => filter.remove(item)]) {
    assert.throws(call, expected);
  }
  assert.equal(filter.add('a'), true);
});

test('a batch is refused if shared memory grows so that its text has no room', (context) => {
  const filter = new Bloom(100, 0.01);
  const before = filter.toBytes();
  // Stands for another thread, between the measure of the batch and its copy.
  const { encodeInto } = TextEncoder.prototype;
  const shared = new SharedArrayBuffer(1, { maxByteLength: 100 });
  context.mock.method(TextEncoder.prototype, 'encodeInto', function (...given) {
    if (shared.byteLength === 1) shared.grow(11);
    return encodeInto.apply(this, given);
  });
  const expected = { name: 'RangeError', message: 'item 2 has no room, because an item before it grew meanwhile' };
  assert.throws(() => filter.addMany(['a', new Uint8Array(shared), '€€€€']), expected);
  assert.deepEqual(filter.toBytes(), before);
});

test('an object that no constructor takes is freed, even if the stack is full', async () => {
  const bytes = new Bloom(1_000_000, 0.01).toBytes();
  class Failing extends Bloom {
    constructor() { throw new Error('on purpose'); }
  }
  const settle = async () => {
    for (let turn = 0; turn < 2; turn += 1) {
      globalThis.gc();
      await new Promise((resume) => setTimeout(resume));
    }
  };
  for (const [withoutStack, make, error] of [
    [['valkeybloom_require_stack'], () => Failing.fromBytes(bytes), /on purpose/],
    [['valkeybloom_family_of'], () => Failing.fromBytes(bytes), RangeError],
    [['valkeybloom_family_of', 'valkeybloom_require_stack'], () => decode(bytes), RangeError],
  ]) {
    const rounds = async () => {
      for (let round = 0; round < 40; round += 1) {
        failing.withoutStack = withoutStack;
        try {
          assert.throws(make, error);
        } finally {
          failing.withoutStack = [];
        }
        if (round % 4 === 3) await settle();
      }
    };
    await rounds();
    const [before] = memories();
    await rounds();
    assert.ok(memories()[0] - before < 2 ** 23, `${withoutStack}`);
  }
});

test('an error of the engine while a key is read stays what it is', async (context) => {
  const error = new RangeError('Array buffer allocation failed');
  context.mock.method(TextEncoder.prototype, 'encode', () => { throw error; });
  const client = { customCommand: async () => null };
  await assert.rejects(fetch(client, 'key'), (found) => found === error);
  context.mock.restoreAll();
  const words = 'a string, a Uint8Array, a safe integer or a bigint';
  await assert.rejects(fetch(client, null), { name: 'TypeError', message: `the key is null: a key is ${words}` });
  await assert.rejects(fetch(client, '\ud800'), { name: 'TypeError', message: 'the key has a lone surrogate, so it is not text' });
});

test('code of the program that fails within a call changes nothing', (context) => {
  const filter = Bloom.window(100, 0.01, { windowMs: 60_000, periods: 3 });
  filter.add('a');
  const before = filter.toBytes();
  for (const clock of [() => { throw new Error('no clock'); }, () => { throw new WebAssembly.RuntimeError('no clock'); }]) {
    context.mock.method(Date, 'now', clock);
    for (const call of [() => filter.has('a'), () => filter.add('b'), () => filter.hasMany(['a']), () => filter.addMany(['b'])]) {
      assert.throws(call, { message: 'no clock' });
    }
    context.mock.restoreAll();
  }
  assert.deepEqual(filter.toBytes(), before);
  // The clock is the program's: it may be set, or use objects.
  const other = new Bloom(100, 0.01);
  let days = 0;
  const { now } = Date;
  context.mock.method(Date, 'now', () => {
    other.addMany(['x', 'y']);
    other.has('a lot of text, to be in the place of the item');
    return now() + days * 86_400_000;
  });
  assert.deepEqual([filter.has('a'), filter.has('c'), filter.add('c'), filter.has('c')], [true, false, true, true]);
  assert.deepEqual([...filter.hasMany(['a', 'b', 'c'])], [1, 0, 1]);
  days = 1;
  assert.equal(filter.has('a'), false);
  context.mock.restoreAll();
  // So are getters of options, and bytes with a length of their own.
  const given = { get ttlMs() { filter.free(); return 5; } };
  assert.throws(() => filter.addMany(['a', 'b'], given), { code: 'FREED' });
  const lies = Object.defineProperty(new Uint8Array([1, 2, 3]), 'length', { get: () => 2 ** 30 });
  assert.deepEqual([other.add(lies), other.has(new Uint8Array([1, 2, 3])), ...other.addMany([lies, 'z'])], [true, true, 0, 1]);
  const stranger = new Proxy(new Uint8Array(3), {});
  assert.throws(() => other.add(stranger), { name: 'TypeError', message: /^the item is object/ });
});

test('a copy rests after a bug, and goes on', async (context) => {
  const rests = [];
  const { setTimeout } = globalThis;
  context.mock.method(globalThis, 'setTimeout', (resume, ms) => {
    if (ms === 1000) rests.push(failing.functions.splice(0));
    return setTimeout(resume, ms === 1000 ? 0 : ms);
  });
  class ReplyError extends Error {}
  let commands = 0;
  const client = { async callBuffer() { commands += 1; throw new ReplyError('ERR not found'); } };
  for (const name of ['valkeybloom_near_next', 'valkeybloom_near_take_failure']) {
    failing.functions = [name];
    const near = new Near(client, 'seen');
    assert.equal(await near.wait(30), true);
    assert.deepEqual([rests, near.state, commands > 0], [[[name]], 'missing', true]);
    near.close();
    rests.length = 0;
  }
});
