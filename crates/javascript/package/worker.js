// The entry point of workers at the edge, which import a WebAssembly as a module.

import module from './valkeybloom.wasm';

import { load } from './wasm.js';

load(module);

export * from './main.js';
