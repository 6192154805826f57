// The programs of docs/javascript.md and of the package's README print what the pages say, and the types of the package fit them.

import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { mock, test } from 'node:test';

// Before the package.
import { memories } from './instance.js';
import * as imported from 'valkeybloom';

import { client, server } from './own-server.js';

const require = createRequire(import.meta.url);
const work = join(fileURLToPath(import.meta.url), '../..');
const run = promisify(execFile);

/** The blocks in JavaScript, each with the text that follows it. */
function programs() {
  const pages = ['docs/javascript.md', 'crates/javascript/README.md'];
  const page = pages.map((name) => readFileSync(join(process.env.REPOSITORY, name), 'utf8')).join('\n');
  const blocks = [...page.matchAll(/^```js\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?/gms)];
  return blocks.map(([, code, output]) => ({ code, output }));
}

test('the programs of the pages', async () => {
  const all = programs();
  assert.equal(all.length, 7);
  for (const [index, { code, output }] of all.entries()) {
    // A worker has no output, but handles requests.
    if (output === undefined) {
      await checkWorker(code);
      continue;
    }
    const file = join(work, `page-${index}.mjs`);
    const own = code
      .replace('createClient()', `createClient({ url: 'redis://127.0.0.1:${server.port}' })`)
      .replace('new Redis({', `new Redis({ port: ${server.port},`);
    writeFileSync(file, own);
    await client.call('FLUSHALL');
    const { stdout, stderr } = await run(process.execPath, [file]);
    assert.deepEqual([stdout, stderr], [output, '']);
  }
});

async function checkWorker(code) {
  const file = join(work, 'page-worker.mjs');
  writeFileSync(file, code);
  const { default: worker } = await import(file);
  const filter = new imported.Bloom(100, 0.01);
  filter.add('http://bad.example/');
  const bytes = filter.toBytes();
  let [reads, object] = [0, null];
  const BUCKET = {
    async get(name) {
      assert.equal(name, 'spam');
      reads += 1;
      if (object instanceof Error) throw object;
      return object && new Response(object);
    },
  };
  const context = { waitUntil: (promise) => assert.ok(promise instanceof Promise) };
  const answers = async () => {
    const links = ['http://bad.example/', 'http://good.example/'];
    const asked = links.map(async (link) => {
      const request = new Request(`http://worker/?link=${encodeURIComponent(link)}`);
      const answer = await (await worker.fetch(request, { BUCKET }, context)).json();
      assert.equal(answer.link, link);
      return answer.isSpam;
    });
    return Promise.all(asked);
  };
  const errors = mock.method(console, 'error', () => {});
  const { now } = Date;
  let minutes = 0;
  const clock = mock.method(Date, 'now', () => now() + minutes * 60_001);
  // Requests at the same time read once. Without an object, nothing is known.
  assert.deepEqual([await answers(), reads], [[null, null], 1]);
  for (const [next, expected] of [[bytes, [true, false]], [null, [true, false]], [new Error('away'), [true, false]], [Buffer.from('x'), [true, false]]]) {
    minutes += 1;
    object = next;
    reads = 0;
    await answers();
    await new Promise(setImmediate);
    assert.deepEqual([await answers(), reads], [expected, 1]);
  }
  const texts = errors.mock.calls.map(({ arguments: [text] }) => text);
  assert.ok(texts.every((text) => text.startsWith("the filter can't be read: ")), texts.join('; '));
  assert.deepEqual([texts.length, texts[0].endsWith(': away')], [2, true]);
  // Filters that are replaced are freed.
  const large = new imported.Bloom(10_000_000, 0.01);
  object = large.toBytes();
  large.free();
  const [before] = memories();
  for (let round = 0; round < 20; round += 1) {
    minutes += 1;
    await answers();
    await new Promise(setImmediate);
  }
  assert.deepEqual(await answers(), [false, false]);
  assert.equal(errors.mock.callCount(), 2);
  assert.ok(memories()[0] - before < 5 * object.length);
  clock.mock.restore();
  errors.mock.restore();
}

test('the types fit the programs, and their faults are found', () => {
  const files = readdirSync(work).filter((name) => /^page-.*\.mjs$/.test(name));
  assert.ok(files.length > 4);
  for (const name of files) {
    const text = readFileSync(join(work, name), 'utf8').replace(/import express.*/, 'const express: any = undefined;');
    // The worker's parameters have no types in JavaScript.
    const typed = text
      .replace('let spam;', 'let spam: Bloom | undefined;')
      .replace('let reading;', 'let reading: Promise<void>;')
      .replace('read(bucket)', 'read(bucket: any)')
      .replace('fetch(request, env, context)', 'fetch(request: Request, env: any, context: any)')
      .replace(/\((request, response(, next)?)\)/g, (_, names) => `(${names.replaceAll(/\w+/g, '$&: any')})`)
      .replace('catch (error)', 'catch (error: any)');
    writeFileSync(join(work, name.replace('.mjs', '.mts')), typed);
  }
  const wrong = `import { Bloom, Near, TopK } from 'valkeybloom';
    // @ts-expect-error
    new Bloom('100', 0.01);
    // @ts-expect-error
    new Bloom(100, 0.01).add(null);
    // @ts-expect-error
    new Bloom(100, 0.01, { expansions: 2 });
    // @ts-expect-error
    new TopK(3).list().map(([item]) => item.byteLength);
    // @ts-expect-error
    new Near({}, 'key');
    const counts: number = new TopK(3).list({ bytes: true })[0][0].byteLength;
    const copy: Bloom = new Bloom(1, 0.1).copy();
    copy.size satisfies number;
    counts satisfies number;`;
  writeFileSync(join(work, 'wrong.mts'), wrong);
  writeFileSync(join(work, 'required.cts'), "import { Bloom } from 'valkeybloom';\nnew Bloom(1, 0.1).has('a') satisfies boolean;\n");
  const sources = [...files.map((name) => name.replace('.mjs', '.mts')), 'wrong.mts', 'required.cts'];
  const options = ['--strict', '--noEmit', '--module', 'nodenext', '--target', 'es2022', '--lib', 'es2024,dom,esnext.disposable', '--types', 'node', '--skipLibCheck'];
  execFileSync(join(work, 'node_modules/.bin/tsc'), [...options, ...sources], { cwd: work, stdio: 'inherit' });
});

test('the package is well-formed, and its entry points share their classes', () => {
  const folder = join(work, 'node_modules/valkeybloom');
  const options = { cwd: work, encoding: 'utf8' };
  const bin = (name, ...words) => execFileSync(join(work, 'node_modules/.bin', name), words, options);
  assert.match(bin('publint', folder, '--strict'), /All good/);
  bin('attw', '--pack', folder, '--exclude-entrypoints', 'valkeybloom.wasm', '--format', 'ascii');
  const required = require('valkeybloom');
  assert.deepEqual(Object.keys(required).sort(), Object.keys(imported).filter((name) => name !== 'default').sort());
  assert.equal(required.Bloom, imported.Bloom);
  const types = readFileSync(join(folder, 'index.d.ts'), 'utf8');
  for (const name of Object.keys(required)) assert.match(types, new RegExp(`export (abstract )?(class|function) ${name}\\b`));
  for (const name of ['Bloom', 'CuckooFilter', 'CountMin', 'TopK', 'TDigest', 'Near']) {
    const [, own] = new RegExp(`export (?:abstract )?class ${name}\\b(.*?)^}`, 'ms').exec(types);
    assert.equal(required[name].name, name);
    const described = own.includes('extends Sketch') ? `${own} byteLength` : own;
    const members = [required[name].prototype, required[name]].flatMap((of) => Object.getOwnPropertyNames(of));
    const hidden = ['constructor', 'length', 'name', 'prototype', 'fromBytes'];
    for (const member of members.filter((found) => !hidden.includes(found))) {
      assert.match(described, new RegExp(`\\b${member}\\b`), `${name}.${member}`);
    }
  }
});
