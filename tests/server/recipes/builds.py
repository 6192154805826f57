# Runs the program of docs/builds.md that fills shards, and prints the answers of ShardedBloom. Its arguments are the port of
# a cluster's node and the numbers of items that files have, that clients add, and that are asked for.
import os
import signal
import subprocess
import sys
import threading
import time

import pyarrow
import redis
from pyarrow import parquet
from valkeybloom import fetch
from valkeybloom.sharded import ShardedBloom

port, count, live, asked = map(int, sys.argv[1:])
items = [f"item {number}" for number in range(asked)]
os.mkdir("events")
for file in range(4):
    # Files share items.
    ids = items[max(0, count * file // 4 - 100) : count * (file + 1) // 4]
    parquet.write_table(pyarrow.table({"id": ids}), f"events/{file}.parquet")
environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
cluster = redis.RedisCluster(host="127.0.0.1", port=port)
seen = ShardedBloom.reserve(cluster, "seen", 12, 2_000_000, 0.01)


def started():
    with open("log", "w") as log:
        command = [sys.executable, "program.py"]
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def ended(process):
    assert process.wait(300) == 0, open("log").read()


def sizes():
    return [cluster.execute_command("BF.CARD", key) for key in seen.keys]


# It is killed when some of the shards are there.
process = started()
while not any(sizes()):
    assert process.poll() is None, open("log").read()
    time.sleep(0.01)
os.killpg(process.pid, signal.SIGKILL)
process.wait()
for key in cluster.keys("*", target_nodes="primaries"):
    assert key.decode() in seen.keys or 0 < cluster.pttl(key) <= 300_000, key

# Clients add while it runs again.
process = started()
adding = threading.Thread(target=lambda: [seen.add(item) for item in items[count : count + live]])
adding.start()
ended(process)
adding.join()
assert all(seen.contains_many(items[: count + live]))

# Another run changes nothing.
shards = [fetch(cluster, key) for key in seen.keys]
ended(started())
assert [fetch(cluster, key) for key in seen.keys] == shards
assert all(shard.filters == 1 for shard in shards)

print("".join("01"[answer] for answer in seen.contains_many(items)))
