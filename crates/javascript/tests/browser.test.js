// The package in Chromium: the page of docs/javascript.md, the golden vectors' bytes, and what only a browser has.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
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
async function returned(page, url = `${address}/page.html`) {
  const profile = mkdtempSync(join(tmpdir(), 'valkeybloom-browser-'));
  if (page !== undefined) files.set('page.html', Buffer.from(page));
  const browser = spawn(process.env.BROWSER ?? 'chromium', [
    '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
    '--disable-background-networking', '--remote-debugging-port=0', `--user-data-dir=${profile}`, url,
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

/** The page, its program and its worker, which bundlers get. The program sends what it finds: in the page, in another import, and in the worker. */
const PROGRAM = {
  'index.html': '<script type="module" src="/program.js"></script>',
  'program.js': `
    import { Bloom } from 'valkeybloom';
    import { ask } from './ask.js';
    const worker = new Worker(new URL('./worker.js', import.meta.url), { type: 'module' });
    const send = (value) => fetch('ADDRESS/returned', { method: 'POST', mode: 'no-cors', body: JSON.stringify(value) });
    worker.onmessage = ({ data }) =>
      import('valkeybloom').then((later) => send([ask(Bloom), later.Bloom === Bloom, data]), (error) => send(String(error)));
    worker.onerror = (event) => send(event.message ?? 'the worker failed');
    worker.postMessage('');`,
  'worker.js': `
    import { Bloom } from 'valkeybloom';
    import { ask } from './ask.js';
    onmessage = () => postMessage(ask(Bloom));`,
  'ask.js': `
    export function ask(Bloom) {
      const filter = new Bloom(1000, 0.01);
      filter.add('a');
      return [filter.has('a'), filter.has('b')];
    }`,
};

/** Calls `use` with the folder of the program, beside which the package is, and one for what a bundler makes. */
async function withProgram(use) {
  const source = mkdtempSync(join(folder, '../../bundled-'));
  for (const [name, text] of Object.entries(PROGRAM)) writeFileSync(join(source, name), text.replace('ADDRESS', address));
  try {
    await use(source, join(source, 'built'));
  } finally {
    root = folder;
    rmSync(source, { recursive: true });
  }
}

const EXPECTED = [[true, false], true, [true, false]];

for (const vite of ['vite-5', 'vite-7', 'vite']) {
  test(`${vite} serves and builds a program without a configuration`, async () => {
    const { build, createServer: serve } = await import(vite);
    await withProgram(async (source, into) => {
      const development = await serve({ root: source, configFile: false, logLevel: 'silent', server: { port: 0, host: '127.0.0.1' } });
      try {
        await development.listen();
        const { port } = development.httpServer.address();
        assert.deepEqual(await returned(undefined, `http://127.0.0.1:${port}/`), EXPECTED);
      } finally {
        await development.close();
      }
      await build({ root: source, configFile: false, logLevel: 'error', build: { outDir: into } });
      root = into;
      assert.deepEqual(await returned(readFileSync(join(into, 'index.html'), 'utf8')), EXPECTED);
    });
  });
}

test('webpack and esbuild build a program without a configuration', async () => {
  const { default: webpack } = await import('webpack');
  const esbuild = await import('esbuild');
  const page = '<script type="module" src="/program.js"></script>';
  const bundlers = {
    ...Object.fromEntries(['development', 'production'].map((mode) => [`webpack, ${mode}`, async (source, into) => {
      const output = { path: into, filename: 'program.js' };
      const stats = await promisify(webpack)({ mode, entry: join(source, 'program.js'), output });
      assert.deepEqual(stats.toJson().errors, []);
    }])),
    ...Object.fromEntries([false, true].map((minify) => [`esbuild, ${minify}`, (source, into) => {
      const entryPoints = ['program.js', 'worker.js'].map((name) => join(source, name));
      return esbuild.build({ entryPoints, bundle: true, format: 'esm', minify, outdir: into, logLevel: 'error' });
    }])),
  };
  for (const [name, build] of Object.entries(bundlers)) {
    await withProgram(async (source, into) => {
      await build(source, into);
      root = into;
      assert.deepEqual(await returned(page), EXPECTED, name);
    });
  }
});

test('programs for Node.js are bundled into one file', async () => {
  const { default: webpack } = await import('webpack');
  const esbuild = await import('esbuild');
  const program = "import { Bloom } from 'valkeybloom'; import { ask } from './ask.js'; console.log(JSON.stringify(ask(Bloom)));";
  await withProgram(async (source, into) => {
    const entry = join(source, 'node.js');
    writeFileSync(entry, program);
    const alone = mkdtempSync(join(tmpdir(), 'valkeybloom-bundle-'));
    const options = { entryPoints: [entry], bundle: true, platform: 'node', logLevel: 'error' };
    await esbuild.build({ ...options, outfile: join(alone, 'esbuild.cjs') });
    // Bundles of modules need a `require` for what comes as CommonJS.
    const banner = { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" };
    await esbuild.build({ ...options, format: 'esm', banner, outfile: join(alone, 'esbuild.mjs') });
    const stats = await promisify(webpack)({ mode: 'production', target: 'node', entry, output: { path: alone, filename: 'webpack.cjs' } });
    assert.deepEqual(stats.toJson().errors, []);
    try {
      for (const name of ['esbuild.cjs', 'esbuild.mjs', 'webpack.cjs']) {
        const { stdout } = await promisify(execFile)(process.execPath, [join(alone, name)], { cwd: alone });
        assert.equal(stdout, '[true,false]\n', name);
      }
    } finally {
      rmSync(alone, { recursive: true });
    }
  });
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
