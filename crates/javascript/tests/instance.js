// Notes the memory of the WebAssembly, if it is imported before the package.

let memory;

/** What fails on purpose: with 'memory' or 'status', the end of an addition. */
export const failing = { atTheEnd: undefined };

WebAssembly.Instance = new Proxy(WebAssembly.Instance, {
  construct(of, parameters) {
    const instance = Reflect.construct(of, parameters);
    // Node.js has others, for HTTP.
    if (!('valkeybloom_allocate' in instance.exports)) return instance;
    memory = instance.exports.memory;
    const valkeybloom_once_end = (...parameters) => {
      if (failing.atTheEnd === 'memory') throw new WebAssembly.RuntimeError('unreachable');
      // The status BROKEN.
      if (failing.atTheEnd === 'status') return 6;
      return instance.exports.valkeybloom_once_end(...parameters);
    };
    return { exports: { ...instance.exports, valkeybloom_once_end } };
  },
});

/** Returns the bytes of the memory, which never becomes smaller, and those of JavaScript's objects. */
export function memories() {
  globalThis.gc();
  return [memory.buffer.byteLength, process.memoryUsage().heapUsed];
}
