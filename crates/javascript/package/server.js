// `fetch` and `store`: the objects of a server's keys.

import BEGIN from '../../python/python/valkeybloom/begin.lua';
import MERGE from '../../python/python/valkeybloom/merge.lua';
import NAME from '../../python/python/valkeybloom/name.lua';
import { commandsOf, pause } from './clients.js';
import {
  Bloom, CountMin, CuckooFilter, Loader, TDigest, TopK, familyOf, isSketch, precedes,
} from './sketches.js';
import { SketchError, itemBytes, options, textOf } from './wasm.js';

/** The classes by the names of their types, as TYPE returns them. */
const FAMILIES = {
  bloomfltr: Bloom,
  bloomfltx: Bloom,
  'MBbloom--': Bloom,
  MBbloomCF: CuckooFilter,
  'CMSk-TYPE': CountMin,
  'TopK-TYPE': TopK,
  'TDIS-TYPE': TDigest,
};

/** Types of filters whose chunks may not belong together, because items leave the filters. */
const MOVING = ['bloomfltx', 'MBbloomCF'];

/** The most attempts to read a filter that is replaced while it is read. */
const ATTEMPTS = 5;

/** What the errors of servers without ids contain: those of RedisBloom, and any when memory is out. */
const LACKS_IDS = ['wrong number of arguments', 'used memory >'];

/** The time to live of a temporary key in milliseconds: how long it outlives a program that was killed. */
const LEASE_MS = 300_000;

const MERGES = new Map([[Bloom, 'BF.MERGE'], [CountMin, 'CMS.MERGE'], [TDigest, 'TDIGEST.MERGE']]);
const LOADS = new Map([[Bloom, 'BF.LOADCHUNK'], [CuckooFilter, 'CF.LOADCHUNK']]);

/** What to do about an error of a server, by a part of its text. */
const ADVICE = {
  unknown: 'load the module valkeybloom into the server',
  'bad data format': 'load the module valkeybloom into the server',
  'received bad data': 'the server has RedisBloom, which takes only filters that it made: load valkeybloom instead',
  'object memory limit': 'raise bf.bloom-filter-max-memory-usage or bf.bloom-memory-usage-limit',
  "couldn't create filter": 'raise bf.bloom-filter-max-memory-usage or bf.bloom-memory-usage-limit',
  'used memory >': 'the server is full: raise its maxmemory',
  'different seeds': 'make what you add with the seed of fetch(client, key)',
};

const shown = (key) => JSON.stringify(textOf(key));
const noKey = (key) => new SketchError('NO_KEY', `there is no key ${shown(key)}`);
const noSketch = (key, kind) => new TypeError(`${shown(key)} holds a value of type ${kind}, which is not a sketch`);

export async function fetch(client, key) {
  const name = itemBytes(key);
  const { send, refusalOf } = commandsOf(client, name);
  const typeOf = async () => textOf(await send('TYPE', name));
  for (;;) {
    const kind = await typeOf();
    if (kind === 'none') throw noKey(name);
    const family = FAMILIES[kind];
    if (family === undefined) throw noSketch(name, kind);
    try {
      return await fetchAs(send, refusalOf, family, kind, name);
    } catch (error) {
      const isFinal = refusalOf(error) === undefined && !(error instanceof SketchError);
      // The key may have been deleted meanwhile, or have another value.
      if (isFinal || (await typeOf()) === kind) throw error;
    }
  }
}

async function fetchAs(send, refusalOf, family, kind, key) {
  if (family === Bloom && !MOVING.includes(kind)) {
    const fetched = await fetchChunks(send, refusalOf, key);
    if (fetched !== undefined) return fetched;
  }
  const payload = await send('DUMP', key);
  if (payload === null) throw noKey(key);
  return family.fromBytes(payload);
}

/** Reads a Bloom filter that only grows; undefined if the server has no chunks, or keeps replacing the filter. */
async function fetchChunks(send, refusalOf, key) {
  let words = ['WITHID'];
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const loader = new Loader(Bloom);
    try {
      const [, header, first] = await send('BF.SCANDUMP', key, 0, ...words);
      const isOther = (id) => textOf(id ?? new Uint8Array()) !== textOf(first ?? new Uint8Array());
      loader.load(1, header);
      let cursor = 1;
      while (cursor !== 0) {
        const [next, chunk, id] = await send('BF.SCANDUMP', key, cursor, ...words);
        if (isOther(id)) break;
        // The client took its time to read the chunk.
        await pause();
        cursor = Number(next);
        if (cursor !== 0) loader.load(cursor, chunk);
      }
      const [, later, id] = await send('BF.SCANDUMP', key, 0, ...words);
      if (cursor === 0 && !isOther(id) && precedes(header, later)) return loader.end();
    } catch (error) {
      const text = (refusalOf(error) ?? '').toLowerCase();
      if (text.includes('unknown command')) return undefined;
      if (words.length > 0 && LACKS_IDS.some((reason) => text.includes(reason))) {
        words = [];
      } else if (!(error instanceof SketchError) && !/^(err )?not found$/.test(text)) {
        throw error;
      }
      // The filter was replaced: its chunks did not fit, or it was gone for a moment.
    } finally {
      loader.free();
    }
  }
  return undefined;
}

/** Returns a new name in the slot of a key. It begins with the key's, because an ACL may grant keys by prefix. */
function temporary(key, slotOf) {
  const random = Buffer.from(crypto.getRandomValues(new Uint8Array(8))).toString('hex');
  // A key with a hash tag gives it to the first name. Without a tag, about one name in 16,384 is in the key's slot.
  for (let number = 0; ; number += 1) {
    const name = Buffer.concat([key, Buffer.from(`:valkeybloom-unfinished-${random}:{${number}}`)]);
    if (slotOf(name) === slotOf(key)) return name;
  }
}

function milliseconds(ttl) {
  if (ttl === undefined) return '';
  const ms = Math.round(ttl * 1000);
  if (typeof ttl !== 'number' || !(ms > 0 && ms < 2 ** 53)) throw new RangeError(`ttl is ${ttl}: it has to be some seconds`);
  return `${ms}`;
}

/** Requires that a key with a value of this type may be written. */
function requireFree(key, kind, replace) {
  if (kind === 'none') return;
  if (!replace) {
    throw new SketchError('KEY_EXISTS', `${shown(key)} already exists: pass replace: true, or merge: true to unite both`);
  }
  if (!(kind in FAMILIES)) throw noSketch(key, kind);
}

export async function store(client, key, sketch, given = {}) {
  const { replace = false, merge = false, ttl } = options(given, 'replace', 'merge', 'ttl');
  const [name, ttlMs] = [itemBytes(key), milliseconds(ttl)];
  if (!isSketch(sketch)) throw new TypeError('the third argument is not a sketch');
  const family = familyOf(sketch);
  if (replace && merge) throw new TypeError('a key is either replaced or merged');
  if (merge && !MERGES.has(family)) throw new TypeError(`objects of ${family.name} can't be merged`);
  const { send, refusalOf, slotOf } = commandsOf(client, name);
  // Someone may still create the key before the end. This check avoids sending everything in vain.
  if (!merge) requireFree(name, textOf(await send('TYPE', name)), replace);
  const unfinished = temporary(name, slotOf);
  try {
    if (LOADS.has(family)) {
      await sendChunks(send, LOADS.get(family), unfinished, sketch);
    } else {
      await send('RESTORE', unfinished, LEASE_MS, sketch.toBytes());
    }
    const kept = replace ? ['replace', ttlMs, ...Object.keys(FAMILIES)] : ['keep', ttlMs];
    const [script, words] = merge ? [MERGE, [MERGES.get(family), ttlMs]] : [NAME, kept];
    requireFree(name, textOf(await send('EVAL', script, 2, unfinished, name, ...words)), replace);
  } catch (error) {
    // If this fails, the key's time to live deletes it.
    await send('UNLINK', unfinished).catch(() => {});
    throw explained(name, error, refusalOf(error));
  }
}

/** Adds the key to the error of a server, and what to do about it, and removes the line of a script. */
function explained(key, error, refusal) {
  if (refusal === undefined) return error;
  const text = refusal.replace(/ script: .*@user_script.*$/s, '').replace(/\.$/, '');
  const [, advice] = Object.entries(ADVICE).find(([part]) => text.toLowerCase().includes(part)) ?? [];
  error.message = `store to ${shown(key)}: ${text}${advice ? `: ${advice}` : ''}`;
  return error;
}

async function sendChunks(send, load, unfinished, sketch) {
  // The program may add items while chunks are sent.
  const copy = sketch.copy();
  try {
    let leased = performance.now();
    for (const [cursor, chunk] of copy.chunks()) {
      if (cursor === 1) {
        await send('EVAL', BEGIN, 1, unfinished, load, chunk, LEASE_MS);
        continue;
      }
      if (performance.now() - leased > LEASE_MS / 10) {
        await send('PEXPIRE', unfinished, LEASE_MS);
        leased = performance.now();
      }
      await send(load, unfinished, cursor, chunk);
    }
  } finally {
    copy.free();
  }
}
