// The entry point of browsers, and of bundlers for them.

import { load } from './wasm.js';

const response = await globalThis.fetch(new URL('valkeybloom.wasm', import.meta.url));
if (!response.ok) throw new Error(`valkeybloom.wasm: ${response.status} ${response.statusText}`);
load(await WebAssembly.compile(await response.arrayBuffer()));

export * from './main.js';
