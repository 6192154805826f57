// What keeps the copy of a `Near` fresh: it sends the commands of a `Follower`.

import { pause } from './clients.js';

/** The milliseconds until the next attempt after a call of the WebAssembly failed: it has no memory now, or a bug. */
const RETRY_MS = 1000;

const sleep = (ms) => new Promise((resume) => setTimeout(resume, ms).unref?.());

/** Returns what a step with a follower returns, undefined if it is gone, and the milliseconds to rest if the step fails. */
function attempt(weak, step) {
  try {
    const follower = weak.deref();
    return follower && step(follower);
  } catch {
    return RETRY_MS;
  }
}

/** Sends a command. Returns a step that passes its outcome to the follower. */
async function outcomeOf({ send, refusalOf }, key, [command, , ...words]) {
  try {
    const reply = await send(command, key, ...words);
    if (command === 'BF.SCANDUMP') await pause();
    return (follower) => follower.take(command, reply);
  } catch (error) {
    return (follower) => follower.fail(command, error, refusalOf);
  }
}

/** Sends the commands of a follower about a key, until it is closed or gone. It holds the follower only within each step. */
export async function drive(weak, client, key) {
  for (;;) {
    const next = attempt(weak, (follower) => follower.next());
    if (next === undefined) return;
    // If the follower does not take the outcome, the command is sent again.
    const rest = typeof next === 'number' ? next : attempt(weak, await outcomeOf(client, key, next));
    if (rest !== undefined) await sleep(rest);
  }
}
