// The entry point of Node.js, Deno and Bun. It is bundled as CommonJS.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { load } from './wasm.js';

function bytes() {
  try {
    return readFileSync(join(__dirname, 'valkeybloom.wasm'));
  } catch {
    // A bundler has put this file elsewhere. The same bytes as a string take longer to load.
    return require('./bytes.cjs');
  }
}

load(new WebAssembly.Module(bytes()));

export * from './main.js';
