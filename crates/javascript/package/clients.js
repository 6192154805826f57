// A common way to send commands with all clients of servers.

import { encoder, run, wasm, withBytes } from './wasm.js';

/** Lets the events of a program run. */
export const pause = () => new Promise((resume) => (globalThis.setImmediate ?? setTimeout)(resume));

/** Returns whether the class of an error, or one that it is derived from, has one of these names. */
function isA(error, ...names) {
  for (let prototype = error; prototype !== null && prototype !== undefined; prototype = Object.getPrototypeOf(prototype)) {
    if (names.includes(prototype.name) || names.includes(prototype.constructor?.name)) return true;
  }
  return false;
}

/** The code that a server's error begins with. valkey-glide puts a colon after it. */
const CODE = /^([A-Z][A-Z\d_]+):? /;

/** Errors of RedisBloom that begin without a code. */
const CODELESS = /^(TopK: |[Nn]ot found$)/;

/**
 * Returns whether an error has the text of a server's. Minified classes have other names, but their texts stay. Clients and
 * programs throw a plain `Error` of their own, and the errors of Node.js have a `code`, such as ECONNREFUSED.
 */
const isWorded = (error) =>
  error.constructor !== Error && error.code === undefined && [CODE, CODELESS].some((text) => text.test(error.message));

/** Returns the text of a server's error of node-redis, ioredis or iovalkey; undefined if it is another error. */
function replyOf(error, message) {
  return isA(error, 'ErrorReply', 'ReplyError') || isWorded(error) ? message : undefined;
}

/** The words of valkey-glide before the text of a server's error. */
const SIGNALLED = /^An error was signalled by the server: - (ResponseError: )?/;

/** Returns the text of a server's error of valkey-glide, without the colon; undefined if it is another error. */
function glideReplyOf(error, message) {
  // The classes of errors without a reply are derived from RequestError, too.
  if (isA(error, 'TimeoutError', 'ConnectionError', 'CircuitBreakerError')) return undefined;
  const isReply = isA(error, 'RequestError') || SIGNALLED.test(message) || isWorded(error);
  return isReply ? message.replace(SIGNALLED, '').replace(CODE, '$1 ') : undefined;
}

/** Gives an error without a message one: those of connections that failed in several ways have only a code. */
function named(error) {
  try {
    if (error instanceof Error && error.message === '') {
      const texts = (error.errors ?? []).map(({ message }) => message);
      error.message = texts.join('; ') || error.code || error.constructor.name;
    }
  } catch {
    // Anything can be thrown, also what can't be changed.
  }
  return error;
}

const slotOf = (key) => withBytes(key, (...bytes) => run(wasm.valkeybloom_slot, ...bytes));

const joined = (prefix, key) => Buffer.concat([encoder.encode(prefix ?? ''), key]);

/** Returns the node of a cluster that has a slot, with ioredis and iovalkey. The client itself, if it does not know one. */
function primaryOf(client, slot) {
  const [address] = client.slots?.[slot] ?? [];
  const hasAddress = ({ options: { host, port } }) => `${host}:${port}` === address;
  return (address && client.nodes('master').find(hasAddress)) || client;
}

/**
 * Returns how to send commands with ioredis and iovalkey. They add their prefix only to the keys of commands that they know:
 * those without a dot, and iovalkey only if the name is in lower case. In lower case, a cluster's reads may go to replicas.
 */
function ofIoredis(client, key) {
  const prefix = client.options?.keyPrefix;
  const slot = slotOf(joined(prefix, key));
  const sendKnown = (name, ...words) => client.callBuffer(prefix ? name.toLowerCase() : name, ...words);
  // A cluster's client sends commands that it does not know to any node, which redirects them.
  const sendUnknown = async (name, own, ...words) => {
    const command = [name, joined(prefix, own), ...words];
    try {
      return await primaryOf(client, slot).callBuffer(...command);
    } catch (error) {
      if (!client.slots || !/^(MOVED|ASK) /.test(error.message)) throw error;
      return client.callBuffer(...command);
    }
  };
  const send = (name, ...words) => (name.includes('.') ? sendUnknown : sendKnown)(name, ...words);
  // A script's key has the prefix and finds the node. Its arguments stay as they are.
  const sendInScript = (...words) => client.callBuffer('eval', 'return redis.call(unpack(ARGV))', 1, key, ...words);
  return { send, sendFull: prefix ? sendInScript : send, prefix: encoder.encode(prefix ?? '') };
}

/** Returns how to send commands with valkey-glide. */
function ofGlide(client, key) {
  // Only clients of clusters have this method.
  const isCluster = typeof client.pubsubShardChannels === 'function';
  // The decoder 0 returns replies as bytes.
  const options = { decoder: 0, ...(isCluster && { route: { type: 'primarySlotId', id: slotOf(key) } }) };
  return { send: (...words) => client.customCommand(words, options), textOf: glideReplyOf };
}

/** Returns the parameters before the words of a command, with node-redis. They say that a replica will not do. */
function leadOf(client, key) {
  const isCluster = client.masters !== undefined;
  const isOfSentinels = client.sendCommand.length === 3;
  return isCluster ? [key, false] : isOfSentinels ? [false] : [];
}

/** Returns how to send commands with node-redis. */
function ofNodeRedis(client, key) {
  // Bulk strings and simple strings as bytes, for version 4 and for later ones.
  const options = { returnBuffers: true, typeMapping: { 36: Buffer, 43: Buffer } };
  const lead = leadOf(client, key);
  return { send: (...words) => client.sendCommand(...lead, words, options) };
}

/** Returns the function that returns how to send commands with a client of this kind. */
function adapterOf(client) {
  if (typeof client?.callBuffer === 'function') return ofIoredis;
  if (typeof client?.customCommand === 'function') return ofGlide;
  if (typeof client?.sendCommand === 'function') return ofNodeRedis;
  throw new TypeError('the client is not one of node-redis, ioredis, iovalkey or valkey-glide');
}

/** Returns a word as clients take it. */
const argumentOf = (word) =>
  word instanceof Uint8Array ? Buffer.from(word.buffer, word.byteOffset, word.length) : `${word}`;

/** The replies of clients that stand for 1 and 0. */
const [YES, NO] = [[1, 1n, '1', true], [0, 0n, '0', false]];

export const unexpected = (command) => new Error(`the client returned something other than a reply to ${command}`);

/** Returns whether a reply is 1 or true. */
export function isOne(command, reply) {
  if (YES.includes(reply)) return true;
  if (NO.includes(reply)) return false;
  throw unexpected(command);
}

/** Returns the answers among the replies to a batch, and the refusal after them, if there is one. */
export function answersIn(command, replies, count) {
  if (!Array.isArray(replies) || replies.length > count) throw unexpected(command);
  const end = replies.findIndex((reply) => reply instanceof Error);
  if (end < 0 && replies.length < count) throw new Error('the client returned too few replies');
  const answers = end < 0 ? replies : replies.slice(0, end);
  return [Uint8Array.from(answers, (reply) => isOne(command, reply)), end < 0 ? undefined : replies[end]];
}

/**
 * Returns functions that send commands about a key to its primary, and that tell refusals from lost replies. With both a prefix
 * and `scaleReads`, ioredis and iovalkey send reads that are the server's own commands to replicas.
 */
export function commandsOf(client, name) {
  const adapter = adapterOf(client);
  const { send, sendFull = send, prefix = new Uint8Array(), textOf = replyOf } = adapter(client, Buffer.from(name));
  const sending = (sendWords) => async (...words) => {
    try {
      return await sendWords(...words.map(argumentOf));
    } catch (error) {
      throw named(error);
    }
  };
  /** Returns the text of a server's error; undefined if there was no reply. */
  const refusalOf = (error) => {
    try {
      return typeof error.message === 'string' ? textOf(error, error.message) : undefined;
    } catch {
      // Anything can be thrown, also what has no message. It is not a server's.
      return undefined;
    }
  };
  // `full` returns the name of a key at the server, and `sendFull` takes such names.
  const full = (key) => Buffer.concat([prefix, key]);
  return { prefix, full, refusalOf, send: sending(send), sendFull: sending(sendFull) };
}
