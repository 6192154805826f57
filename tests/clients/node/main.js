// Calls every command that node-redis has in @redis/bloom, and checks the replies as it decodes them.
//
// usage: node main.js port protocol kind
//
// The kind is the server's bf.bloom-new-filters. With `redisbloom`, filters have RedisBloom's sizes.
'use strict';
const { isDeepStrictEqual, inspect } = require('node:util');
const { createClient, RESP_TYPES } = require('redis');
const { default: families } = require('@redis/bloom');

let passed = 0;
let failed = 0;
const calls = new Set();

function check(right, message, place) {
  if (right) {
    passed++;
  } else {
    failed++;
    console.log(message, place?.stack.split('\n')[2] ?? '');
  }
}

// Some maps have no prototype.
const plain = (value) => (value && Object.getPrototypeOf(value) === null ? { ...value } : value);

async function gives(wanted, reply) {
  const place = new Error();
  const found = await reply.then(plain, String);
  check(isDeepStrictEqual(found, wanted), `got ${inspect(found)}, want ${inspect(wanted)}`, place);
}

async function fails(text, reply) {
  const place = new Error();
  const found = await reply.then(inspect, (error) => error.message);
  check(found === text, `got ${found}, want ${text}`, place);
}

// A family's commands, which notes those that are called.
function noting(client, family) {
  return new Proxy(client[family], {
    get(commands, name) {
      calls.add(families[family][name]);
      return commands[name].bind(commands);
    },
  });
}

// Copies an object in chunks.
async function travels(commands, from, to) {
  let next = 0;
  for (;;) {
    const { iterator, chunk } = await commands.scanDump(from, next);
    if (iterator === 0) return;
    await gives('OK', commands.loadChunk(to, iterator, chunk));
    next = iterator;
  }
}

async function bloom(bf, inBytes, likeRedisBloom) {
  await gives('OK', bf.reserve('bf', 0.001, 2000));
  const size = (await bf.info('bf')).Size;
  check(likeRedisBloom ? size === 4056 : size > 0, `the size is ${size}`);
  const info = {
    Capacity: 2000, Size: size, 'Number of filters': 1, 'Number of items inserted': 0, 'Expansion rate': 2,
  };
  await gives(info, bf.info('bf'));
  await fails('ERR item exists', bf.reserve('bf', 0.001, 2000));
  await gives('OK', bf.reserve('fixed', 1e-9, 1, { NONSCALING: true }));
  await gives(
    { ...info, Capacity: 1, Size: (await bf.info('fixed')).Size, 'Expansion rate': null }, bf.info('fixed'),
  );
  await gives('OK', bf.reserve('wide', 0.01, 100, { EXPANSION: 4 }));

  await gives(true, bf.add('bf', 'item'));
  await gives(false, bf.add('bf', 'item'));
  await gives(true, bf.exists('bf', 'item'));
  await gives(false, bf.exists('none', 'item'));
  await gives([false, true, true], bf.mAdd('bf', ['item', 'second', 'third']));
  await gives([true, true, false], bf.mExists('bf', ['second', 'third', 'fourth']));
  await gives(3, bf.card('bf'));
  await gives(true, bf.add('fixed', 'item'));
  await fails('ERR non scaling filter is full', bf.add('fixed', 'other'));
  await fails('ERR not found', bf.info('none'));

  const options = { CAPACITY: 100, ERROR: 0.01, EXPANSION: 3 };
  await fails('ERR not found', bf.insert('made', 'item', { ...options, NOCREATE: true }));
  await gives([true, true], bf.insert('made', ['item', 'other'], options));
  await gives([false], bf.insert('made', 'item', { ...options, NOCREATE: true }));
  await gives([true], bf.insert('still', 'item', { CAPACITY: 10, ERROR: 0.01, NONSCALING: true }));

  await travels(inBytes, 'bf', 'copy');
  await gives({ ...info, 'Number of items inserted': 3 }, bf.info('copy'));
  await gives([true, false], bf.mExists('copy', ['item', 'fourth']));
}

async function cuckoo(cf, inBytes) {
  await gives('OK', cf.reserve('cf', 1000));
  const info = {
    Size: 1080, 'Number of buckets': 512, 'Number of filters': 1, 'Number of items inserted': 0,
    'Number of items deleted': 0, 'Bucket size': 2, 'Expansion rate': 1, 'Max iterations': 20,
  };
  await gives(info, cf.info('cf'));
  await fails('ERR item exists', cf.reserve('cf', 1000));
  await gives('OK', cf.reserve('args', 2048, { BUCKETSIZE: 3, MAXITERATIONS: 15, EXPANSION: 2 }));
  await gives(
    { ...info, Size: 3128, 'Number of buckets': 1024, 'Bucket size': 3, 'Expansion rate': 2, 'Max iterations': 15 },
    cf.info('args'),
  );

  await gives(true, cf.add('cf', 'item'));
  await gives(true, cf.add('cf', 'item'));
  await gives(false, cf.addNX('cf', 'item'));
  await gives(true, cf.addNX('cf', 'second'));
  await gives(2, cf.count('cf', 'item'));
  await gives(true, cf.del('cf', 'item'));
  await gives(false, cf.del('cf', 'other'));
  await gives(true, cf.exists('cf', 'item'));
  await gives([true, true, false], cf.mExists('cf', ['item', 'second', 'third']));
  await fails('Not found', cf.del('none', 'item'));
  await fails('ERR not found', cf.info('none'));

  await fails('ERR not found', cf.insert('made', 'item', { CAPACITY: 3000, NOCREATE: true }));
  await gives([true, true], cf.insert('made', ['item', 'item'], { CAPACITY: 3000 }));
  await gives([0, 1], cf.insertNX('made', ['item', 'other'], { CAPACITY: 3000, NOCREATE: true }));

  await travels(inBytes, 'cf', 'copy');
  await gives({ ...info, 'Number of items inserted': 2, 'Number of items deleted': 1 }, cf.info('copy'));
  await gives([true, true, false], cf.mExists('copy', ['item', 'second', 'third']));
}

async function countMin(cms, _, likeRedisBloom) {
  await gives('OK', cms.initByDim('cms', 1000, 5));
  await fails('CMS: key already exists', cms.initByDim('cms', 1000, 5));
  if (!likeRedisBloom) await gives('OK', cms.initByDim('bytes', 1000, 5, { CELL_SIZE: 1 }));
  await gives('OK', cms.initByProb('prob', 0.002, 0.01));
  await gives({ width: 1000, depth: 7, count: 0 }, cms.info('prob'));
  await gives([5, 7], cms.incrBy('cms', [{ item: 'a', incrementBy: 5 }, { item: 'b', incrementBy: 7 }]));
  await gives([5, 7, 0], cms.query('cms', ['a', 'b', 'c']));
  await gives('OK', cms.initByDim('sum', 1000, 5));
  await gives('OK', cms.merge('sum', ['cms', 'cms']));
  await gives([10, 14], cms.query('sum', ['a', 'b']));
  await gives('OK', cms.merge('sum', [{ name: 'cms', weight: 3 }]));
  await gives([15], cms.query('sum', 'a'));
  await fails('CMS: key does not exist', cms.query('none', 'a'));
  await fails('CMS: width/depth is not equal', cms.merge('sum', ['prob']));
}

async function topK(topk) {
  await gives('OK', topk.reserve('topk', 2));
  await gives({ k: 2, width: 8, depth: 7, decay: 0.9 }, topk.info('topk'));
  await fails('TopK: key already exists', topk.reserve('topk', 2));
  // With a decay of 1 no item takes the place of another.
  await gives('OK', topk.reserve('sure', 3, { width: 1500, depth: 8, decay: 1 }));
  await gives([null, null, null, null], topk.add('sure', ['a', 'b', 'c', 'a']));
  await gives([null, 'c'], topk.incrBy('sure', [{ item: 'b', incrementBy: 9 }, { item: 'd', incrementBy: 4 }]));
  await gives([true, true, false, true], topk.query('sure', ['a', 'b', 'c', 'd']));
  await gives([2, 10, 4], topk.count('sure', ['a', 'b', 'd']));
  await gives(['b', 'd', 'a'], topk.list('sure'));
  await gives(
    [{ item: 'b', count: 10 }, { item: 'd', count: 4 }, { item: 'a', count: 2 }], topk.listWithCount('sure'),
  );
  await fails('TopK: key does not exist', topk.info('none'));
}

async function tDigest(td) {
  await gives('OK', td.create('td'));
  await fails('ERR T-Digest: key already exists', td.create('td'));
  const info = {
    Compression: 100, Capacity: 610, 'Merged nodes': 0, 'Unmerged nodes': 0, 'Merged weight': 0,
    'Unmerged weight': 0, Observations: 0, 'Total compressions': 0, 'Memory usage': 9840,
  };
  await gives(info, td.info('td'));
  await gives(NaN, td.max('td'));
  await gives([NaN], td.quantile('td', [0.5]));
  await gives('OK', td.add('td', [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]));
  await gives([10, 20, Infinity], td.byRank('td', [0, 1, 10]));
  await gives([100, 90, -Infinity], td.byRevRank('td', [0, 1, 10]));
  await gives([0, 0.1, 0.65, 1], td.cdf('td', [5, 15, 70, 101]));
  await gives(100, td.max('td'));
  await gives(10, td.min('td'));
  await gives([20, 30], td.quantile('td', [0.1, 0.2]));
  await gives([-1, 0, 10], td.rank('td', [1, 10, 101]));
  await gives([10, 9, -1], td.revRank('td', [1, 10, 101]));
  await gives(40, td.trimmedMean('td', 0.1, 0.6));
  await gives('OK', td.create('fine', { COMPRESSION: 1000 }));
  await gives('OK', td.add('fine', [5.5]));
  await gives('OK', td.merge('sum', ['td', 'fine'], { COMPRESSION: 500, OVERRIDE: true }));
  await gives(5.5, td.min('sum'));
  await gives('OK', td.reset('td'));
  await gives(NaN, td.min('td'));
  await fails('ERR T-Digest: key does not exist', td.info('none'));
}

async function main(port, protocol, kind) {
  const client = createClient({ url: `redis://127.0.0.1:${port}`, RESP: Number(protocol) });
  await client.connect();
  const bytes = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  const tests = { bf: bloom, cf: cuckoo, cms: countMin, topK, tDigest };
  for (const [family, commands] of Object.entries(families)) {
    await client.flushAll();
    await tests[family](noting(client, family), noting(bytes, family), kind === 'redisbloom');
    for (const [name, command] of Object.entries(commands)) {
      check(calls.has(command), `${family}.${name} was not called`);
    }
  }
  await client.close();
  console.log(`${passed} passed`);
  process.exitCode = failed === 0 ? 0 : 1;
}

main(...process.argv.slice(2));
