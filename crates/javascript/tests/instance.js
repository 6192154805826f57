// Notes the memory of the WebAssembly, if it is imported before the package.

let memory;

/**
 * What fails on purpose: with 'memory' or 'status', the end of an addition; the functions that `withoutStack` names, as if the
 * engine's stack were full; and those that `functions` names, as after a bug.
 */
export const failing = { atTheEnd: undefined, withoutStack: [], functions: [] };

/** The status of a bug. */
const BROKEN = 6;

WebAssembly.Instance = new Proxy(WebAssembly.Instance, {
  construct(of, parameters) {
    const instance = Reflect.construct(of, parameters);
    // Node.js has others, for HTTP.
    if (!('valkeybloom_allocate' in instance.exports)) return instance;
    memory = instance.exports.memory;
    const valkeybloom_once_end = (...parameters) => {
      if (failing.atTheEnd === 'memory') throw new WebAssembly.RuntimeError('unreachable');
      if (failing.atTheEnd === 'status') return BROKEN;
      return instance.exports.valkeybloom_once_end(...parameters);
    };
    const valkeybloom_allocation_failed = () =>
      (failing.atTheEnd === 'memory' ? 1 : instance.exports.valkeybloom_allocation_failed());
    const orFull = Object.fromEntries(['valkeybloom_require_stack', 'valkeybloom_family_of'].map((name) => [name, (...parameters) => {
      if (failing.withoutStack.includes(name)) throw new RangeError('Maximum call stack size exceeded');
      return instance.exports[name](...parameters);
    }]));
    const orBroken = Object.fromEntries(['valkeybloom_near_next', 'valkeybloom_near_take_failure'].map((name) => [name, (...parameters) =>
      (failing.functions.includes(name) ? BROKEN : instance.exports[name](...parameters))]));
    return { exports: { ...instance.exports, ...orFull, ...orBroken, valkeybloom_once_end, valkeybloom_allocation_failed } };
  },
});

/** Returns the bytes of the memory, which never becomes smaller, and those of JavaScript's objects. */
export function memories() {
  globalThis.gc();
  return [memory.buffer.byteLength, process.memoryUsage().heapUsed];
}
