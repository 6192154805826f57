// The package in Chromium: the page of docs/javascript.md, the golden vectors' bytes, and what only a browser has.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { Bloom } from 'valkeybloom';

const folder = fileURLToPath(new URL('../node_modules/valkeybloom/', import.meta.url));
const TYPES = { js: 'text/javascript', wasm: 'application/wasm', html: 'text/html; charset=utf-8' };

const links = new Bloom(1000, 1e-6);
links.addMany(['http://bad.example/', 'http://böse.example/']);

/** What the server has beside the files of the package. */
const files = new Map([['links', Buffer.from(links.toBytes())]]);
let server, address, resolve;
/** The folder of the files that the server has. */
let root = folder;

before(async () => {
  server = createServer(async (request, response) => {
    const name = request.url.slice(1);
    if (request.method === 'POST') {
      resolve(JSON.parse(await text(request)));
      response.end();
      return;
    }
    let body = files.get(name);
    try {
      body ??= readFileSync(join(root, name));
    } catch {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { 'content-type': TYPES[name.split('.').pop()] ?? 'application/octet-stream' }).end(body);
  });
  await new Promise((resume) => server.listen(0, '127.0.0.1', resume));
  address = `http://127.0.0.1:${server.address().port}`;
});
after(() => server.close());

/** Opens a page in a browser without a window, until its script sends what it returns. */
async function returned(page) {
  const profile = mkdtempSync(join(tmpdir(), 'valkeybloom-browser-'));
  files.set('page.html', Buffer.from(page));
  const browser = spawn(process.env.BROWSER ?? 'chromium', [
    '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
    '--disable-background-networking', '--remote-debugging-port=0', `--user-data-dir=${profile}`, `${address}/page.html`,
  ]);
  let log = '';
  browser.stderr.on('data', (text) => (log += text));
  const ended = new Promise((end) => browser.on('close', end));
  try {
    const value = new Promise((end) => (resolve = end));
    return await Promise.race([value, ended.then(() => assert.fail(`the browser ended: ${log}`))]);
  } finally {
    browser.kill('SIGKILL');
    await ended;
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** A script that sends what an asynchronous function returns, or the error of the page. */
const script = (body) => `<script>
  const send = (value) => fetch('/returned', { method: 'POST', body: JSON.stringify(value) });
  addEventListener('error', (event) => send({ error: event.message }));
</script>
<script type="module">
  import * as classes from '/web.js';
  const main = async () => { ${body} };
  main().catch((error) => ({ error: String(error.stack) })).then(send);
</script>`;

test('the page of docs/javascript.md asks its list', async () => {
  const document = readFileSync(join(process.env.REPOSITORY, 'docs/javascript.md'), 'utf8');
  const [, page] = /^```html\n(.*?)^```$/ms.exec(document);
  const found = await returned(page + script(`
    const wait = async (until) => { while (!until()) await new Promise((resume) => setTimeout(resume, 10)); };
    await wait(() => document.title.endsWith('bad links') && document.title !== 'Bad links');
    const answers = [document.title];
    for (const link of ['http://bad.example/', 'http://good.example/', 'http://böse.example/']) {
      const input = document.getElementById('link');
      input.value = link;
      input.dispatchEvent(new Event('input'));
      answers.push(document.getElementById('answer').value);
    }
    return answers;`));
  assert.deepEqual(found, ['2 bad links', 'is probably bad', 'is not on the list', 'is probably bad']);
});

/** Each bundler: builds a folder of a program, whose script has the name that it returns. */
const BUNDLERS = {
  async vite(source, into) {
    const { build } = await import('vite');
    const bundle = { entryFileNames: 'program.js' };
    await build({ root: source, logLevel: 'error', build: { outDir: into, target: 'es2022', rollupOptions: { output: bundle } } });
  },
  async webpack(source, into) {
    const { default: webpack } = await import('webpack');
    const output = { path: into, filename: 'program.js', publicPath: 'auto' };
    const stats = await promisify(webpack)({ mode: 'production', entry: join(source, 'program.mjs'), output });
    assert.deepEqual(stats.toJson().errors, []);
  },
};

test('a bundled program finds the WebAssembly', async () => {
  const source = mkdtempSync(join(folder, '../../bundled-'));
  const program = `
    import { Bloom } from 'valkeybloom';
    const filter = new Bloom(1000, 0.01);
    filter.add('a');
    fetch('/returned', { method: 'POST', body: JSON.stringify([filter.has('a'), filter.has('b')]) });`;
  writeFileSync(join(source, 'program.mjs'), program);
  writeFileSync(join(source, 'index.html'), '<script type="module" src="/program.mjs"></script>');
  try {
    for (const [name, build] of Object.entries(BUNDLERS)) {
      root = join(source, name);
      await build(source, root);
      assert.deepEqual(await returned('<script type="module" src="/program.js"></script>'), [true, false], name);
    }
  } finally {
    root = folder;
    rmSync(source, { recursive: true });
  }
});

test('objects have the same bytes in a browser', async () => {
  const seed = links.seed;
  const found = await returned(script(`
    const { Bloom, Near, decode } = classes;
    const make = ${make};
    const objects = make(classes, Uint8Array.from(${JSON.stringify([...seed])}));
    const errors = [];
    for (const call of [() => new Bloom(10, 2), () => objects[0].add(null), () => new Near({}, 'key')]) {
      try { call(); } catch (error) { errors.push(error.name + ': ' + error.message); }
    }
    const random = [new Bloom(1, 0.1).seed, new Bloom(1, 0.1).seed].map(String);
    return {
      bytes: objects.map((object) => [...object.toBytes()]),
      again: objects.every((object) => decode(object.toBytes().buffer).equals(object)),
      errors, isRandom: random[0] !== random[1],
      large: new Bloom(100_000_000, 0.01).addMany(Array(100_000).keys()).length,
    };`));
  const classes = await import('valkeybloom');
  assert.equal(found.error, undefined);
  assert.deepEqual(found.bytes, make(classes, seed).map((object) => [...object.toBytes()]));
  assert.deepEqual(found.errors, [
    'RangeError: errorRate is 2: it has to be above 0 and below 1',
    'TypeError: the item is null: an item is a string, a Uint8Array, a safe integer or a bigint',
    'TypeError: the client is not one of node-redis, ioredis, iovalkey or valkey-glide',
  ]);
  assert.deepEqual([found.again, found.isRandom, found.large], [true, true, 100_000]);
});

/** Makes an object of each class. It also runs in the browser. */
function make({ Bloom: Filter, CountMin, CuckooFilter, TDigest, TopK }, seed) {
  const items = ['a', 'é', 42, 7n, new Uint8Array([0, 255]), ''];
  const objects = [
    new Filter(5, 0.01, { seed }), Filter.counting(5, 0.01, { seed }), Filter.scaledTo(5, 0.01, { seed }),
    new CuckooFilter(10), new CountMin(10, 3), new TopK(2),
  ];
  for (const object of objects) object.addMany(items);
  const digest = new TDigest();
  digest.addMany([3, 1, 2]);
  return [...objects, digest];
}
