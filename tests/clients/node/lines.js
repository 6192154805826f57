// Runs the lines of docs/compatibility.md for Node.js, each with its client, and the program of docs/c.md.
//
// usage: node lines.js port
'use strict';
const { execFileSync } = require('node:child_process');
const { readFileSync } = require('node:fs');
const { isDeepStrictEqual } = require('node:util');

const port = Number(process.argv[2]);
const url = `redis://127.0.0.1:${port}`;
const clients = {
  'node-redis': () => require('redis').createClient({ url }).connect(),
  ioredis: () => new (require('ioredis').default)(port),
  iovalkey: () => new (require('iovalkey').default)(port),
  'valkey-glide': () =>
    require('@valkey/valkey-glide').GlideClient.createClient({ addresses: [{ host: '127.0.0.1', port }] }),
};
const page = (name) => readFileSync(`docs/${name}.md`, 'utf8');
const AsyncFunction = (async () => {}).constructor;
let passed = 0;
let failed = 0;

function check(found, wanted, name) {
  if (isDeepStrictEqual(found, wanted)) passed++;
  else console.log(name, 'gave', found, 'not', wanted, ++failed);
}

async function main() {
  const [rows] = page('compatibility').match(/^\| Node\.js .*\n(\| \| .*\n)*/m);
  for (const row of rows.trim().split('\n')) {
    const [, , names, line] = row.split('|').map((cell) => cell.trim());
    for (const name of names.split(', ')) {
      const client = await clients[name]();
      const run = new AsyncFunction('c', 'item', `return [${line.slice(1, -1)}]`);
      check((await run(client, `an item of ${name}`)).map(Number), [1, 1], name);
      delete clients[name];
    }
  }
  check(Object.keys(clients), [], 'lines that are missing');
  const [, program] = page('c').match(/^```js\n(.*?)^```$/ms);
  const words = ['-', url, 'seen', 'an item of ioredis', 'nothing'];
  const found = execFileSync(process.execPath, words, { input: program, encoding: 'utf8' });
  check(found, 'an item of ioredis: true\nnothing: false\n', 'the program of docs/c.md');
  console.log(`${passed} passed`);
  process.exit(failed ? 1 : 0);
}

main();
