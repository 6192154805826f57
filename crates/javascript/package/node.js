// The entry point of programs with files: Node, Deno and Bun. It is bundled as CommonJS.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { load } from './wasm.js';

load(new WebAssembly.Module(readFileSync(join(__dirname, 'valkeybloom.wasm'))));

export * from './main.js';
