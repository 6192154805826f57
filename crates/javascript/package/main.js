// What every entry point exports.

export { SketchError } from './wasm.js';
export {
  Bloom, CountMin, CuckooFilter, Sketch, TDigest, TopK, decode, limitGrowth,
} from './sketches.js';
export { fetch, fetch as fetchSketch, store } from './server.js';
export { Near } from './near.js';
export { Once } from './once.js';
