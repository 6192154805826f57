// Notes the memory of the WebAssembly, if it is imported before the package.

let memory;

WebAssembly.Instance = new Proxy(WebAssembly.Instance, {
  construct(of, parameters) {
    const instance = Reflect.construct(of, parameters);
    // Node.js has others, for HTTP.
    if ('valkeybloom_allocate' in instance.exports) memory = instance.exports.memory;
    return instance;
  },
});

/** Returns the bytes of the memory, which never becomes smaller, and those of JavaScript's objects. */
export function memories() {
  globalThis.gc();
  return [memory.buffer.byteLength, process.memoryUsage().heapUsed];
}
