const assert = require('node:assert');
const server = connect(process.argv[1]);

async function unanswered(name, items) {
  try {
    const answers = await each(server, 'BF.MADD', name, 3, items);
    assert.fail(`${name}: ${answers}`);
  } catch (error) {
    if (!error.answers) throw error;
    return error;
  }
}

(async () => {
  await reserve(server, 'seen', 12, 10_000, 1e-9);
  await reserve(server, 'seen', 12, 10_000, 1e-9);
  const items = Array.from({ length: 1000 }, (_, n) => (n % 2 ? Buffer.from(`item ${n}`) : `item ${n}`));
  const all = (answer, count) => Array(count).fill(answer);
  assert.deepEqual(await each(server, 'BF.MADD', 'seen', 12, items.slice(0, 500)), all(true, 500));
  assert.deepEqual(await each(server, 'BF.MADD', 'seen', 12, items), [...all(false, 500), ...all(true, 500)]);
  assert.deepEqual(await each(server, 'BF.MEXISTS', 'seen', 12, items), all(true, 1000));

  // Three shards with room for 23 items each.
  await reserve(server, 'full', 3, 30, 1e-9, 'NONSCALING');
  const full = await unanswered('full', items);
  const added = full.answers.filter((answer) => answer === true);
  assert.equal(added.length, 69);
  assert(!full.answers.includes(false));
  for (const shard of [0, 1, 2]) assert(full.message.includes(`full:${shard}: Error: ERR non scaling filter is full: `));
  const named = full.message.split(/[,;:] ?/);
  items.forEach((item, at) => assert.equal(named.includes(`${item}`), full.answers[at] === null, `${item}`));
  assert.deepEqual(await each(server, 'BF.MEXISTS', 'full', 3, items), full.answers.map(Boolean));

  // A shard that refuses the whole command.
  await server.call('SET', 'text:1', '');
  const text = await unanswered('text', items);
  assert(text.message.startsWith('text:1: Error: WRONGTYPE '), text.message);
  items.forEach((item, at) => assert.equal(text.message.split(/[,;:] ?/).includes(`${item}`), text.answers[at] === null));
  server.close();
})();
