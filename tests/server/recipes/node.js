// As much of ioredis as the pages use, so that tests need no package.

const net = require('node:net');
const zlib = require('node:zlib');

// Node has a crc32 since 20.15.
zlib.crc32 ??= (item) => {
  let sum = -1;
  for (const byte of Buffer.from(item)) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum >>> 0;
};

// Returns the reply at the start of the bytes, and the bytes after it; nothing if it is not complete.
function parse(bytes) {
  const end = bytes.indexOf('\r\n');
  if (end < 0) return undefined;
  const text = bytes.toString('utf8', 1, end);
  let rest = bytes.subarray(end + 2);
  switch (bytes.toString('utf8', 0, 1)) {
    case ':': return [Number(text), rest];
    case '+': return [text, rest];
    case '-': return [new Error(text), rest];
    case '$': return [null, rest]; // the only one that the pages' commands reply
    default: {
      const replies = [];
      while (replies.length < Number(text)) {
        const next = parse(rest);
        if (!next) return undefined;
        replies.push(next[0]);
        [, rest] = next;
      }
      return [replies, rest];
    }
  }
}

function connect(port) {
  const socket = net.connect(Number(port), '127.0.0.1');
  const waiting = [];
  let received = Buffer.alloc(0);
  socket.on('data', (bytes) => {
    received = Buffer.concat([received, bytes]);
    for (let next = parse(received); next; next = parse(received)) {
      const [reply, rest] = next;
      received = rest;
      const [resolve, reject] = waiting.shift();
      if (reply instanceof Error) reject(reply);
      else resolve(reply);
    }
  });
  return {
    call: (...words) => new Promise((resolve, reject) => {
      waiting.push([resolve, reject]);
      socket.write(`*${words.length}\r\n`);
      for (const word of words) {
        const bytes = Buffer.from(`${word}`);
        socket.write(Buffer.concat([Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n')]));
      }
    }),
    close: () => socket.end(),
  };
}
