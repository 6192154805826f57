// The entry point of browsers, and of bundlers for them. The WebAssembly is in the file: there is no other file to find, and
// nothing to await at the top, so bundlers need no configuration.

import bytes from 'valkeybloom.wasm';

import { load } from './wasm.js';

load(new WebAssembly.Module(bytes));

export * from './main.js';
