<?php

// Calls every command class that Predis has for the module's commands, and checks the replies as it parses them, in
// RESP2, which is all that Predis speaks before version 3.
//
// usage: php main.php folder port kind [cutter]
//
// The folder is Predis' own. The kind is the server's bf.bloom-new-filters. With `redisbloom`, filters have RedisBloom's
// sizes, and the capacity of new ones is 100. The cutter is the port of a proxy that cuts connections to the server.

declare(strict_types=1);

[, $folder, $port, $kind] = $argv;
$cutter = $argv[4] ?? null;
require "$folder/autoload.php";

// Notes the classes of the commands that are called, and returns errors as texts.
final class Client
{
    public array $calls = [];

    public function __construct(private Predis\Client $client)
    {
    }

    public function __call(string $command, array $arguments): mixed
    {
        $this->calls[] = strtoupper($command);
        try {
            $reply = $this->client->$command(...$arguments);
        } catch (Predis\Response\ServerException $error) {
            return $error->getMessage();
        }

        return $reply instanceof Predis\Response\Status ? (string) $reply : $reply;
    }
}

$passed = $failed = 0;

function gives(mixed $wanted, mixed $found): void
{
    global $passed, $failed;
    if ($found === $wanted) {
        ++$passed;

        return;
    }
    ++$failed;
    $line = debug_backtrace()[0]['line'];
    echo "main.php:$line: got ", json_encode($found), ', want ', json_encode($wanted), "\n";
}

// Copies an object in chunks.
function travels(Client $client, string $family, string $from, string $to): void
{
    for ($next = 0;;) {
        [$next, $chunk] = $client->{"{$family}scandump"}($from, $next);
        if ($next === 0) {
            return;
        }
        gives('OK', $client->{"{$family}loadchunk"}($to, $next, $chunk));
    }
}

function bloom(Client $client, bool $likeRedisBloom): void
{
    gives('OK', $client->bfreserve('bf', 0.001, 2000));
    [$size] = $client->bfinfo('bf', 'size');
    gives($likeRedisBloom ? 4056 : max($size, 1), $size);
    $info = [
        'Capacity' => 2000, 'Size' => $size, 'Number of filters' => 1, 'Number of items inserted' => 0,
        'Expansion rate' => 2,
    ];
    gives($info, $client->bfinfo('bf'));
    gives('ERR item exists', $client->bfreserve('bf', 0.001, 2000));
    gives('OK', $client->bfreserve('wide', 0.01, 100, 4));
    gives([4], $client->bfinfo('wide', 'expansion'));
    gives('OK', $client->bfreserve('fixed', 1e-9, 1, -1, true));
    gives(null, $client->bfinfo('fixed')['Expansion rate']);
    gives(1, $client->bfadd('fixed', 'item'));
    gives('ERR non scaling filter is full', $client->bfadd('fixed', 'other'));

    gives(1, $client->bfadd('bf', 'item'));
    gives(0, $client->bfadd('bf', 'item'));
    gives(1, $client->bfexists('bf', 'item'));
    gives([0, 1, 1], $client->bfmadd('bf', 'item', 'second', 'third'));
    gives([1, 1, 0], $client->bfmexists('bf', 'second', 'third', 'fourth'));
    gives([2000], $client->bfinfo('bf', 'capacity'));
    gives([1], $client->bfinfo('bf', 'filters'));
    gives([3], $client->bfinfo('bf', 'items'));
    gives('ERR not found', $client->bfinfo('none'));

    gives('ERR not found', $client->bfinsert('made', 100, 0.01, 3, true, false, 'item'));
    gives([1, 1], $client->bfinsert('made', 100, 0.01, 3, false, false, 'item', 'other'));
    gives([0, 1], $client->bfinsert('made', 100, 0.01, 3, true, false, 'item', 'third'));
    gives([3], $client->bfinfo('made', 'expansion'));
    gives([1], $client->bfinsert('plain', -1, -1, -1, false, false, 'item'));
    gives('OK', $client->bfreserve('larger', 0.01, 120));
    if ($likeRedisBloom) {
        gives([[240], [264]], [$client->bfinfo('plain', 'size'), $client->bfinfo('larger', 'size')]);
    }

    travels($client, 'bf', 'bf', 'copy');
    gives(['Number of items inserted' => 3] + $info, ['Number of items inserted' => 3] + $client->bfinfo('copy'));
    gives([1, 0], $client->bfmexists('copy', 'item', 'fourth'));
}

function cuckoo(Client $client): void
{
    gives('OK', $client->cfreserve('cf', 1000));
    $info = [
        'Size' => 1080, 'Number of buckets' => 512, 'Number of filters' => 1, 'Number of items inserted' => 0,
        'Number of items deleted' => 0, 'Bucket size' => 2, 'Expansion rate' => 1, 'Max iterations' => 20,
    ];
    gives($info, $client->cfinfo('cf'));
    gives('ERR item exists', $client->cfreserve('cf', 1000));
    gives('OK', $client->cfreserve('args', 2048, 3, 15, 2));
    gives([3128, 1024, 1, 0, 0, 3, 2, 15], array_values($client->cfinfo('args')));

    gives(1, $client->cfadd('cf', 'item'));
    gives(1, $client->cfadd('cf', 'item'));
    gives(0, $client->cfaddnx('cf', 'item'));
    gives(1, $client->cfaddnx('cf', 'second'));
    gives(2, $client->cfcount('cf', 'item'));
    gives(1, $client->cfdel('cf', 'item'));
    gives(0, $client->cfdel('cf', 'other'));
    gives(1, $client->cfexists('cf', 'item'));
    gives([1, 1, 0], $client->cfmexists('cf', 'item', 'second', 'third'));
    gives('Not found', $client->cfdel('none', 'item'));
    gives('ERR not found', $client->cfinfo('none'));

    gives('ERR not found', $client->cfinsert('made', 3000, true, 'item'));
    gives([1, 1], $client->cfinsert('made', 3000, false, 'item', 'item'));
    gives([0, 1], $client->cfinsertnx('made', 3000, true, 'item', 'other'));

    travels($client, 'cf', 'cf', 'copy');
    gives($client->cfinfo('cf'), $client->cfinfo('copy'));
    gives([1, 1, 0], $client->cfmexists('copy', 'item', 'second', 'third'));
}

function countMin(Client $client): void
{
    gives('OK', $client->cmsinitbydim('cms', 1000, 5));
    gives('CMS: key already exists', $client->cmsinitbydim('cms', 1000, 5));
    gives('OK', $client->cmsinitbyprob('prob', 0.002, 0.01));
    gives(['width' => 1000, 'depth' => 7, 'count' => 0], $client->cmsinfo('prob'));
    gives([5, 7], $client->cmsincrby('cms', 'a', 5, 'b', 7));
    gives([5, 7, 0], $client->cmsquery('cms', 'a', 'b', 'c'));
    gives('OK', $client->cmsinitbydim('sum', 1000, 5));
    gives('OK', $client->cmsmerge('sum', ['cms', 'cms']));
    gives([10, 14], $client->cmsquery('sum', 'a', 'b'));
    gives('OK', $client->cmsmerge('sum', ['cms', 'sum'], [3, 1]));
    gives([25, 35], $client->cmsquery('sum', 'a', 'b'));
    gives('CMS: key does not exist', $client->cmsinfo('none'));
    gives('CMS: width/depth is not equal', $client->cmsmerge('sum', ['prob']));
}

function topK(Client $client): void
{
    gives('OK', $client->topkreserve('topk', 2));
    $info = $client->topkinfo('topk');
    // The digits of a text depend on the server.
    $info['decay'] = (float) $info['decay'];
    gives(['k' => 2, 'width' => 8, 'depth' => 7, 'decay' => 0.9], $info);
    gives('TopK: key already exists', $client->topkreserve('topk', 2));
    // With a decay of 1 no item takes the place of another.
    gives('OK', $client->topkreserve('sure', 3, 1500, 8, 1));
    gives([null, null, null, null], $client->topkadd('sure', 'a', 'b', 'c', 'a'));
    gives([null, 'c'], $client->topkincrby('sure', 'b', 9, 'd', 4));
    gives([1, 1, 0, 1], $client->topkquery('sure', 'a', 'b', 'c', 'd'));
    gives(['b', 'd', 'a'], $client->topklist('sure'));
    gives(['b' => 10, 'd' => 4, 'a' => 2], $client->topklist('sure', true));
    gives('TopK: key does not exist', $client->topkinfo('none'));
}

function tDigest(Client $client): void
{
    gives('OK', $client->tdigestcreate('td'));
    gives('ERR T-Digest: key already exists', $client->tdigestcreate('td'));
    gives([
        'Compression' => 100, 'Capacity' => 610, 'Merged nodes' => 0, 'Unmerged nodes' => 0, 'Merged weight' => 0,
        'Unmerged weight' => 0, 'Observations' => 0, 'Total compressions' => 0, 'Memory usage' => 9840,
    ], $client->tdigestinfo('td'));
    gives('nan', $client->tdigestmax('td'));
    gives(['nan'], $client->tdigestquantile('td', 0.5));
    gives('OK', $client->tdigestadd('td', 10, 20, 30, 40, 50, 60, 70, 80, 90, 100));
    gives(['10', '20', 'inf'], $client->tdigestbyrank('td', 0, 1, 10));
    gives(['100', '90', '-inf'], $client->tdigestbyrevrank('td', 0, 1, 10));
    gives(['0', '1'], $client->tdigestcdf('td', 5, 101));
    gives('100', $client->tdigestmax('td'));
    gives('10', $client->tdigestmin('td'));
    gives(['20', '30'], $client->tdigestquantile('td', 0.1, 0.2));
    gives([-1, 0, 10], $client->tdigestrank('td', 1, 10, 101));
    gives([10, 9, -1], $client->tdigestrevrank('td', 1, 10, 101));
    gives('40', $client->tdigesttrimmed_mean('td', 0.1, 0.6));
    gives('OK', $client->tdigestcreate('fine', 1000));
    gives('OK', $client->tdigestadd('fine', 5.5));
    gives('OK', $client->tdigestmerge('sum', ['td', 'fine'], 500, true));
    gives([500, '5.5'], [$client->tdigestinfo('sum')['Compression'], $client->tdigestmin('sum')]);
    gives('OK', $client->tdigestreset('td'));
    gives('nan', $client->tdigestmin('td'));
    gives('ERR T-Digest: key does not exist', $client->tdigestinfo('none'));
}

// Adds items with receipts through a proxy that cuts connections: before a command, after it, and within its reply. Each
// item has to be new once, and is counted as often as it was added.
function cuts(Predis\Client $client, Predis\Client $cut): void
{
    mt_srand(7);
    foreach (['plain' => [], 'counting' => ['COUNTING']] as $key => $options) {
        // A false positive is improbable.
        gives('OK', $client->executeRaw(['BF.RESERVE', $key, '1e-9', '10000', ...$options]));
        $sent = $told = $positions = [];
        for ($call = 0; $call < 300; ++$call) {
            $receipt = "{{$key}}:" . $call % 8;
            $batch = array_map(fn () => 'item ' . mt_rand(0, 1999), range(0, mt_rand(0, 19)));
            $position = (string) ($positions[$receipt] ?? 0);
            $command = ['BF.INSERT', $key, 'ONCE', $receipt, $position, 'ITEMS', ...$batch];
            for ($answers = null; $answers === null;) {
                try {
                    $answers = $cut->executeRaw($command);
                } catch (Predis\CommunicationException) {
                    // The next call connects again.
                }
            }
            gives(count($batch), is_array($answers) ? count($answers) : $answers);
            foreach ($batch as $at => $item) {
                $sent[$item] = ($sent[$item] ?? 0) + 1;
                $told[$item] = ($told[$item] ?? 0) + $answers[$at];
            }
            $positions[$receipt] = $position + count($batch);
        }
        gives(count($sent), $client->executeRaw(['BF.CARD', $key]));
        gives([1], array_values(array_unique($told)));
        foreach ($options === [] ? [] : $sent as $item => $times) {
            gives($times, $client->executeRaw(['BF.COUNT', $key, $item]));
        }
    }
}

$connection = new Predis\Client("tcp://127.0.0.1:$port");
$client = new Client($connection);
foreach (['bloom', 'cuckoo', 'countMin', 'topK', 'tDigest'] as $family) {
    $connection->flushall();
    $family($client, $kind === 'redisbloom');
}
$classes = glob("$folder/Command/Redis/{BloomFilter,CuckooFilter,CountMinSketch,TopK,TDigest}/*.php", GLOB_BRACE);
gives(true, count($classes) > 0);
foreach ($classes as $class) {
    $name = basename($class, '.php');
    gives([$name, true], [$name, in_array($name, $client->calls, true)]);
}
if ($cutter !== null) {
    $connection->flushall();
    cuts($connection, new Predis\Client("tcp://127.0.0.1:$cutter"));
}
echo "$passed passed\n";
exit($failed === 0 ? 0 : 1);
