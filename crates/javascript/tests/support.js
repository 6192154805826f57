// Servers with the module, the clients of Node.js, and a WebAssembly with little memory.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { GlideClient, GlideClusterClient } from '@valkey/valkey-glide';
import * as ioredis from 'ioredis';
import * as iovalkey from 'iovalkey';
import { createClient, createCluster } from 'redis';

// They lie below the ports of outgoing connections, and so does the cluster bus, 10000 above.
let port = 10_000 + ((process.pid * 97) % 9_000);

function needed(name) {
  if (process.env[name] === undefined) throw new Error(`${name} is not set: run ./build.sh js test`);
  return process.env[name];
}

/**
 * Starts the server's program on a port of its own, with words that depend on the port and a folder. Returns it once its log
 * has a text.
 */
async function started(wordsOf, text) {
  const folder = mkdtempSync(join(tmpdir(), 'valkeybloom-js-'));
  for (;;) {
    port += 1;
    const server = spawn(needed('VALKEY_SERVER'), wordsOf(port, folder));
    let log = '';
    const ended = new Promise((resolve) => server.on('exit', resolve));
    const isReady = await new Promise((resolve) => {
      server.stdout.on('data', (more) => {
        log += more;
        if (log.includes(text)) resolve(true);
      });
      ended.then(() => resolve(false));
    });
    const kill = () => server.kill('SIGKILL');
    process.on('exit', kill);
    const stop = async () => {
      kill();
      await ended;
      process.off('exit', kill);
      rmSync(folder, { recursive: true, force: true });
    };
    if (isReady) return { port, folder, process: server, stop, wasKilled: () => server.killed };
    // Another program may have the port.
    if (!log.includes('Address already in use')) throw new Error(log);
  }
}

/** Starts a server with the module. */
export const startServer = (...options) => started((at, folder) => [
  '--port', at, '--bind', '127.0.0.1', '--save', '', '--dir', folder, '--enable-debug-command', 'yes', ...options,
  '--loadmodule', needed('VALKEYBLOOM_SO'),
], 'Ready to accept connections');

/** Starts a sentinel of a server. */
export const startSentinel = (primary) => started((at, folder) => {
  const config = join(folder, 'sentinel.conf');
  const lines = [`port ${at}`, 'bind 127.0.0.1', `dir ${folder}`, `sentinel monitor own 127.0.0.1 ${primary} 1`];
  writeFileSync(config, lines.join('\n'));
  return [config, '--sentinel'];
}, '+monitor');

/** Each kind of client, for a server, with what closes it. */
export const CLIENTS = {
  'node-redis, RESP2': (at) => nodeRedis(at, 2),
  'node-redis, RESP3': (at) => nodeRedis(at, 3),
  ioredis: (at) => io(new ioredis.Redis({ port: at, retryStrategy: () => 50 })),
  iovalkey: (at) => io(new iovalkey.Redis({ port: at, retryStrategy: () => 50 })),
  'valkey-glide, RESP2': (at) => glide(GlideClient, at, 0),
  'valkey-glide, RESP3': (at) => glide(GlideClient, at, 1),
};

/** Each kind of client of a cluster. */
export const CLUSTER_CLIENTS = {
  async 'node-redis'(at) {
    const client = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${at}` }] });
    await client.connect();
    return [client, () => client.destroy()];
  },
  ioredis: (at) => io(new ioredis.Cluster([{ host: '127.0.0.1', port: at }])),
  iovalkey: (at) => io(new iovalkey.Cluster([{ host: '127.0.0.1', port: at }])),
  'valkey-glide': (at) => glide(GlideClusterClient, at, 1),
};

async function nodeRedis(at, RESP) {
  const client = createClient({ RESP, socket: { host: '127.0.0.1', port: at, reconnectStrategy: 50 } });
  // An event without a listener ends the program.
  client.on('error', () => {});
  await client.connect();
  return [client, () => client.destroy()];
}

function io(client) {
  client.on('error', () => {});
  return [client, () => client.disconnect()];
}

async function glide(kind, at, protocol) {
  const client = await kind.createClient({ addresses: [{ host: '127.0.0.1', port: at }], protocol, requestTimeout: 2000 });
  return [client, () => client.close()];
}

/** Calls `use` with each kind of client of a server. */
export async function withEach(kinds, at, use) {
  for (const [name, connect] of Object.entries(kinds)) {
    const [client, close] = await connect(at);
    try {
      await use(client, name);
    } finally {
      close();
    }
  }
}

/** A client that the tests use beside the one under test. */
export async function observer(at) {
  const [client, close] = io(new ioredis.Redis(at));
  return { call: (...words) => client.call(...words), callBuffer: (...words) => client.callBuffer(...words), close, client };
}

/** Waits for what a server does by itself. */
export async function until(condition, seconds = 30) {
  const end = Date.now() + 1000 * seconds;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`it did not happen within ${seconds} seconds: ${condition}`);
    await new Promise((resume) => setTimeout(resume, 10));
  }
}

/** Starts three servers that are one cluster. */
export async function startCluster() {
  const servers = [];
  for (let number = 0; number < 3; number += 1) servers.push(await startServer('--cluster-enabled', 'yes'));
  const nodes = await Promise.all(servers.map((server) => observer(server.port)));
  for (const [number, node] of nodes.entries()) {
    const [first, last] = [Math.floor((16384 * number) / 3), Math.floor((16384 * (number + 1)) / 3) - 1];
    await node.call('CLUSTER', 'ADDSLOTSRANGE', first, last);
    await node.call('CLUSTER', 'SET-CONFIG-EPOCH', number + 1);
    await node.call('CLUSTER', 'MEET', '127.0.0.1', servers[0].port);
  }
  for (const node of nodes) {
    await until(async () => (await node.call('CLUSTER', 'INFO')).includes('cluster_state:ok'));
    await until(async () => (await node.call('CLUSTER', 'SLOTS')).length === 3);
    node.close();
  }
  return { port: servers[0].port, ports: servers.map((server) => server.port), stop: () => Promise.all(servers.map((server) => server.stop())) };
}

/** Passes connections on to a server. It can stall them, cut them, and refuse others. */
export async function startProxy(target) {
  const sockets = new Set();
  // With `cuts`, the next command is not passed on, or its reply is not, or half of it.
  const proxy = { refuses: false, isStalled: false, cuts: undefined };
  const listening = net.createServer((one) => {
    if (proxy.refuses) return one.destroy();
    const other = net.connect(target, '127.0.0.1');
    for (const [source, sink] of [[one, other], [other, one]]) {
      sockets.add(source);
      source.on('data', (data) => {
        const isCut = proxy.cuts !== undefined && (proxy.cuts === 'before') === (source === one);
        if (!isCut) return sink.write(data);
        if (proxy.cuts === 'within') sink.write(data.subarray(0, data.length / 2));
        proxy.cuts = undefined;
        return source.destroy();
      });
      source.on('error', () => {});
      source.on('close', () => {
        sockets.delete(source);
        sink.destroy();
      });
      if (proxy.isStalled) source.pause();
    }
    return undefined;
  });
  await new Promise((resume) => listening.listen(0, '127.0.0.1', resume));
  return Object.assign(proxy, {
    port: listening.address().port,
    stall() {
      proxy.isStalled = true;
      for (const socket of sockets) socket.pause();
    },
    flow() {
      proxy.isStalled = false;
      for (const socket of sockets) socket.resume();
    },
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    close() {
      proxy.cut();
      listening.close();
    },
  });
}

/** Reads a number of WebAssembly (LEB128). Returns it and the place after it. */
function readNumber(bytes, at) {
  let number = 0;
  for (let shift = 0; ; shift += 7, at += 1) {
    number |= (bytes[at] & 127) << shift;
    if (bytes[at] < 128) return [number, at + 1];
  }
}

const numberOf = (value) => (value < 128 ? [value] : [(value & 127) | 128, ...numberOf(value >>> 7)]);

/** Returns a WebAssembly with a greatest size of its memory, in pages above the least. */
export function limited(bytes, pages) {
  for (let at = 8; at < bytes.length; ) {
    const [length, start] = readNumber(bytes, at + 1);
    // The section of memories: their number, the flags, and the least size.
    if (bytes[at] === 5) {
      assert.deepEqual([...bytes.subarray(start, start + 2)], [1, 0]);
      const [least] = readNumber(bytes, start + 2);
      const section = [1, 1, ...numberOf(least), ...numberOf(least + pages)];
      return Buffer.concat([bytes.subarray(0, at), Buffer.from([5, section.length, ...section]), bytes.subarray(start + length)]);
    }
    at = start + length;
  }
  return assert.fail('no memory');
}
