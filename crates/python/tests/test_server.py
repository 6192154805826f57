"""`fetch` and `store`, over clients of redis-py and valkey-py, of one server and of a cluster."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import redis
from conftest import CLIENTS, running, wait
from valkeybloom import Bloom, CountMin, CuckooFilter, Near, Sketch, TDigest, TopK, fetch, store
from valkeybloom.asyncio import fetch as fetch_async
from valkeybloom.asyncio import store as store_async

ITEMS = [b"a", b"\0\xff", b"", "é".encode(), b"42"]


def filled() -> list[Sketch]:
    """Returns an object of each family and kind, with the items in it."""
    hits, top, times = CountMin(100, 4), TopK(3, 50, 4), TDigest(50)
    hits.update(ITEMS, range(1, 6))
    top.update(ITEMS, [5, 4, 3, 2, 1])
    times.update(range(1000))
    filters = [
        Bloom(3, 0.01),
        Bloom(1000, 0.001, expansion=None),
        Bloom.counting(100, 0.01),
        Bloom.window(100, 0.01, window_ms=3_600_000, periods=3),
        Bloom.scaled_to(100, 0.01),
        CuckooFilter(100),
        CuckooFilter(4, bucket_size=1, expansion=2),
    ]
    for one in filters:
        one.update(ITEMS)
    return [*filters, Bloom(10, 0.1), CuckooFilter(10), CountMin(3, 3), TopK(2), TDigest(), hits, top, times]


def clients(port: int) -> Iterator[Any]:
    for library in CLIENTS.values():
        for protocol in (2, 3):
            for decode in (False, True):
                kind = library.Redis if library is redis else library.Valkey
                client = kind(port=port, protocol=protocol, decode_responses=decode)
                client.flushall()
                yield client
                client.close()


def test_what_is_stored_is_fetched(server: int) -> None:
    for client in clients(server):
        for number, sketch in enumerate(filled()):
            key = f"key{number}" + "long" * 100
            store(client, key, sketch)
            fetched = fetch(client, key.encode())
            assert fetched == sketch and type(fetched) is type(sketch)
            assert client.ttl(key) == -1
        assert len(client.keys("*")) == len(filled())


def test_a_large_filter_goes_and_comes_in_chunks(server: int) -> None:
    with redis.Redis(port=server) as client:
        client.flushall()
        client.config_set("bf.bloom-memory-usage-limit", 1 << 30)
        seen = Bloom(20_000_000, 0.01)
        seen.update(range(100_000))
        client.config_resetstat()
        store(client, "large", seen)
        calls = client.info("commandstats")
        calls = {name.lower(): calls[name] for name in calls}
        assert calls["cmdstat_bf.loadchunk"]["calls"] > 5
        assert "cmdstat_restore" not in calls
        assert fetch(client, "large") == seen
        assert "cmdstat_dump" not in client.info("commandstats")
        client.delete("large")


def test_a_key_that_exists_is_kept_replaced_or_merged(server: int) -> None:
    with redis.Redis(port=server) as client:
        client.flushall()
        one, other = Bloom(100, 0.01), Bloom(100, 0.01)
        one.add("a")
        store(client, "key", one)
        with pytest.raises(ValueError, match="^b'key' already exists: pass replace=True, or merge=True to unite both$"):
            store(client, "key", other)
        assert fetch(client, "key") == one
        store(client, "key", other, replace=True)
        assert fetch(client, "key") == other
        client.set("text", "value")
        with pytest.raises(ValueError, match="already exists"):
            store(client, "text", other)
        with pytest.raises(ValueError, match="either replaced or merged"):
            store(client, "key", other, replace=True, merge=True)
        assert sorted(client.keys("*")) == [b"key", b"text"]


def test_only_objects_of_these_families_are_replaced(server: int) -> None:
    with redis.Redis(port=server) as client:
        client.flushall()
        client.hset("cart", "item", 1)
        client.rpush("list", "a")
        client.set("text", "value")
        for key in ("cart", "list", "text"):
            before = client.dump(key)
            for sketch in (Bloom(100, 0.01), TDigest()):
                with pytest.raises(TypeError, match="which is not a sketch"):
                    store(client, key, sketch, replace=True)
                with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
                    store(client, key, sketch, merge=True)
            assert client.dump(key) == before
        for sketch in filled():
            store(client, "key", sketch, replace=True)
            assert fetch(client, "key") == sketch

        class Slow:
            def execute_command(self, *words: Any) -> Any:
                if words[0] == "RESTORE":
                    client.hset("late", "item", 1)
                return client.execute_command(*words)

        with pytest.raises(TypeError, match="a value of type hash, which is not a sketch"):
            store(Slow(), "late", TopK(3), replace=True)
        assert client.hgetall("late") == {b"item": b"1"}
        assert sorted(client.keys("*")) == [b"cart", b"key", b"late", b"list", b"text"]


#: A server's replies to PTTL, for a key that is about to expire.
NO_TIME_LEFT = b"""
local server = redis
local function call(name, ...)
    if name == 'PTTL' then return 0 end
    return server.call(name, ...)
end
local redis = {call = call, pcall = server.pcall}
"""


def test_a_key_that_is_about_to_expire_expires_after_a_merge(server: int) -> None:
    with redis.Redis(port=server) as client:
        client.flushall()

        class Late:
            def execute_command(self, *words: Any) -> Any:
                if words[0] == "EVAL" and b"PTTL" in words[1]:
                    words = ("EVAL", NO_TIME_LEFT + words[1], *words[2:])
                return client.execute_command(*words)

        filter = Bloom(100, 0.01)
        for sketch in (filter, CountMin(10, 2), TDigest()):
            store(client, "key", sketch, ttl=100)
            store(Late(), "key", sketch, merge=True)
            wait(lambda: client.pttl("key") == -2, 5)


def test_a_key_is_what_the_client_sends(server: int) -> None:
    filter = Bloom(100, 0.01)
    for library in CLIENTS.values():
        kind = library.Redis if library is redis else library.Valkey
        for encoding in ("utf-8", "latin-1"):
            with kind(port=server, encoding=encoding) as client:
                client.flushall()
                for key in ("é", "seen", b"bytes", 7, 1_500_000_000, -3):
                    store(client, key, filter)
                    assert client.exists(key) == 1
                    client.execute_command("BF.ADD", key, "a")
                    assert "a" in fetch(client, key)  # type: ignore[operator]
                    with Near(client, key) as near:
                        assert near.wait(30) and near.state == "following"
                        assert "a" in near and near.add("b") and not near.add("a")
                # Beside the receipts of what was added.
                assert len([key for key in client.keys("*") if b":once:" not in key]) == 6
    for wrong in (None, True, 1.5, ["a"]):
        for call in (lambda: fetch(client, wrong), lambda: store(client, wrong, filter), lambda: Near(client, wrong)):
            with pytest.raises(TypeError, match="a key is str, bytes or int, not "):
                call()


def test_a_key_that_comes_into_being_meanwhile_is_kept(server: int) -> None:
    with redis.Redis(port=server) as client, redis.Redis(port=server) as rival:
        client.flushall()

        class Slow:
            def execute_command(self, *words: Any) -> Any:
                if words[0] == "RESTORE":
                    rival.set("key", "value")
                return client.execute_command(*words)

        with pytest.raises(ValueError, match="already exists"):
            store(Slow(), "key", CountMin(10, 2))
        assert client.keys("*") == [b"key"]


def test_what_is_merged_is_in_one_key(server: int) -> None:
    with redis.Redis(port=server) as client:
        client.flushall()
        one = Bloom(100, 0.01)
        other = Bloom(100, 0.01, seed=one.seed)
        one.add("a")
        other.add("b")
        store(client, "bloom", one, merge=True, ttl=1000)
        store(client, "bloom", other, merge=True)
        assert fetch(client, "bloom") == one | other
        assert 990 < client.ttl("bloom") <= 1000
        store(client, "bloom", other, merge=True, ttl=timedelta(hours=2))
        assert 7190 < client.ttl("bloom") <= 7200

        hits, more = CountMin(100, 4), CountMin(100, 4)
        hits.add("a", 2)
        more.add("a", 40)
        for part in (hits, more):
            store(client, "hits", part, merge=True)
        assert fetch(client, "hits") == CountMin.merged([(hits, 1), (more, 1)])

        times, later = TDigest(), TDigest()
        times.update(range(100))
        later.update(range(100, 200))
        for part in (times, later):
            store(client, "times", part, merge=True, ttl=100.5)
        merged = fetch(client, "times")
        assert len(merged) == 200 and (merged.min, merged.max) == (0, 199)
        assert 90 < client.ttl("times") <= 101
        for unlike in (TopK(3), CuckooFilter(10)):
            with pytest.raises(ValueError, match="can't be merged"):
                store(client, "key", unlike, merge=True)
        with pytest.raises(redis.ResponseError, match="^store to b'bloom': filters have .* seeds: make .* template"):
            store(client, "bloom", Bloom(100, 0.01), merge=True)
        with pytest.raises(redis.ResponseError, match="^store to b'hits': WRONGTYPE"):
            store(client, "hits", one, merge=True)
        assert sorted(client.keys("*")) == [b"bloom", b"hits", b"times"]


def test_a_time_to_live_is_that_of_the_key(server: int) -> None:
    with redis.Redis(port=server) as client:
        client.flushall()
        store(client, "key", TDigest(), ttl=1.5)
        assert 1000 < client.pttl("key") <= 1500
        store(client, "key", TDigest(), replace=True)
        assert client.pttl("key") == -1
        for wrong in (0, -1, 0.0004, -(10**400), timedelta(0), timedelta(-1), float("-inf")):
            with pytest.raises(ValueError, match="^ttl must be larger than 0$"):
                store(client, "other", TDigest(), ttl=wrong)
        for wrong in (float("inf"), float("nan"), 1e30):
            with pytest.raises(ValueError, match="^bad ttl$"):
                store(client, "other", TDigest(), ttl=wrong)
        assert client.keys("*") == [b"key"]


def test_what_is_no_sketch_is_refused(server: int) -> None:
    with redis.Redis(port=server) as client:
        client.flushall()
        client.set("text", "value")
        with pytest.raises(KeyError):
            fetch(client, "none")
        with pytest.raises(TypeError, match="a value of type string, which is not a sketch"):
            fetch(client, "text")
        with pytest.raises(TypeError, match="a sketch is needed, not int"):
            store(client, "key", 1)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="returned Pipeline, not a reply"):
            fetch(client.pipeline(), "text")


def test_a_merge_that_may_not_set_the_time_to_live_changes_nothing(server: int) -> None:
    sketch = CountMin(50, 4)
    sketch.add("a", 5)
    with redis.Redis(port=server) as client:
        client.flushall()
        store(client, "key", sketch, ttl=600)
        client.execute_command("ACL", "SETUSER", "merger", "on", ">word", "~*", "+@all", "-pexpire")
        with redis.Redis(port=server, username="merger", password="word") as merger:
            for options in ({}, {"ttl": 60}):
                with pytest.raises(redis.ResponseError, match="pexpire"):
                    store(merger, "key", sketch, merge=True, **options)  # type: ignore[arg-type]
        client.acl_deluser("merger")
        assert fetch(client, "key").query("a") == 5  # type: ignore[union-attr]
        assert client.keys() == [b"key"]
        assert client.ttl("key") > 60


def test_errors_of_a_server_say_what_to_do(server: int, tmp_path: Path) -> None:
    with running(tmp_path, module=False) as port, redis.Redis(port=port) as without, redis.Redis(port=server) as client:
        client.flushall()
        client.execute_command("ACL", "SETUSER", "reader", "on", ">word", "~*", "+@all", "-bf.loadchunk")
        reader = redis.Redis(port=server, username="reader", password="word")
        large = "raise bf.bloom-filter-max-memory-usage or bf.bloom-memory-usage-limit"
        for at, sketch, text in (
            (without, Bloom(100, 0.01), ".* load the module valkeybloom into the server"),
            (without, CuckooFilter(100), ".* load the module valkeybloom into the server"),
            (without, TDigest(), "Bad data format: load the module valkeybloom into the server"),
            (client, Bloom(100_000_000, 0.01), f"operation exceeds bloom object memory limit: {large}, or spread the items over several keys"),
            (client, CuckooFilter(100_000_000), f"Couldn't create filter!: {large}"),
            (reader, Bloom(100, 0.01), "ACL failure in script: User reader has no permissions to run the 'bf.loadchunk' command"),
        ):
            for merge in {False, isinstance(sketch, Bloom)}:
                with pytest.raises(redis.ResponseError, match=f"^store to b'key': {text}$"):
                    store(at, "key", sketch, merge=merge)
        client.config_set("maxmemory", 1)
        try:
            for sketch in (Bloom(100, 0.01), TDigest()):
                with pytest.raises(redis.exceptions.OutOfMemoryError, match="^store to b'key': .*: raise its maxmemory$"):
                    store(client, "key", sketch)
        finally:
            client.config_set("maxmemory", 0)
        reader.close()
        client.acl_deluser("reader")
        assert without.keys() == client.keys() == []

        class Unable:
            """Refuses the first chunk, as modules do that can't read it."""

            def execute_command(self, *words: Any) -> Any:
                if words[0] == "EVAL":
                    raise redis.ResponseError("received bad data script: on @user_script:2.")
                return client.execute_command(*words)

        with pytest.raises(redis.ResponseError, match="^store to b'key': received bad data: its module can't read this filter"):
            store(Unable(), "key", Bloom(100, 0.01))


@pytest.mark.filterwarnings("error")
def test_an_asynchronous_client_is_refused(server: int) -> None:
    async def attempt() -> None:
        async with redis.asyncio.Redis(port=server) as client:
            for call in (
                lambda: fetch(client, "key"),
                lambda: store(client, "key", TDigest()),
                lambda: store(client, "key", Bloom(100, 0.01), merge=True),
            ):
                with pytest.raises(TypeError, match="asynchronous clients need valkeybloom.asyncio"):
                    call()

    asyncio.run(attempt())


def test_filters_of_redisbloom_come_and_go(server: int) -> None:
    with redis.Redis(port=server) as client:
        client.flushall()
        client.config_set("bf.bloom-new-filters", "redisbloom")
        try:
            client.execute_command("BF.RESERVE", "peer", 0.01, 10)
            empty = fetch(client, "peer")
            assert isinstance(empty, Bloom) and empty.seed is None and not empty
            client.execute_command("BF.MADD", "peer", *range(100))
            seen = fetch(client, "peer")
            assert isinstance(seen, Bloom) and seen.filters > 1
            assert seen.update(range(200)) > 90
            client.execute_command("BF.MADD", "peer", *range(200))
            assert fetch(client, "peer") == seen == Bloom.from_bytes(seen.to_bytes())
            for filter in (empty, seen):
                store(client, "copy", filter, replace=True)
                assert fetch(client, "copy") == filter
        finally:
            client.config_set("bf.bloom-new-filters", "own")


class Meddling:
    """A client that changes a key at its second chunk, or after `skip` more."""

    def __init__(self, client: Any, meddle: Callable[[], Any], times: int, skip: int = 0) -> None:
        self.client, self.meddle, self.times, self.skip, self.commands = client, meddle, times, skip, []

    def execute_command(self, *words: Any) -> Any:
        self.commands.append(words[0])
        if words[0] == "BF.SCANDUMP" and words[2] != b"0" and self.times:
            if self.skip:
                self.skip -= 1
            else:
                self.times -= 1
                self.meddle()
        return self.client.execute_command(*words)


def test_a_filter_that_grows_or_is_replaced_meanwhile_is_fetched(server: int) -> None:
    with redis.Redis(port=server) as client:
        client.flushall()
        client.execute_command("BF.RESERVE", "key", 0.01, 100)
        client.execute_command("BF.MADD", "key", *range(50))
        grow = Meddling(client, lambda: client.execute_command("BF.MADD", "key", *range(1000)), 1)
        seen = fetch(grow, "key")
        assert all(seen.contains_many(range(50))) and grow.commands.count("DUMP") == 0

        def replace() -> None:
            client.delete("key")
            client.execute_command("BF.RESERVE", "key", 0.01, 100)
            client.execute_command("BF.MADD", "key", *range(500))

        replaced = Meddling(client, replace, 1)
        assert all(fetch(replaced, "key").contains_many(range(500)))
        assert replaced.commands.count("DUMP") == 0
        with pytest.raises(KeyError):
            fetch(Meddling(client, lambda: client.delete("key"), 1), "key")
        client.execute_command("BF.ADD", "key", "a")
        with pytest.raises(TypeError, match="type string, which is not a sketch"):
            fetch(Meddling(client, lambda: client.set("key", "text"), 1), "key")
        client.delete("key")
        client.execute_command("BF.ADD", "key", "a")
        always = Meddling(client, replace, 100)
        assert all(fetch(always, "key").contains_many(range(500)))
        assert always.commands.count("DUMP") == 1


@pytest.mark.parametrize("maker", ["own", "redisbloom"])
def test_no_chunk_of_another_filter_passes(server: int, maker: str) -> None:
    with redis.Redis(port=server) as client:
        seed = (b"SEED", b"s" * 32) if maker == "own" else ()

        def make(first: int) -> None:
            client.delete("key")
            items = range(first, first + 250)
            client.execute_command("BF.INSERT", "key", "CAPACITY", 100, "ERROR", 0.001, *seed, "ITEMS", *items)

        client.config_set("bf.bloom-new-filters", maker)
        try:
            for skip in range(2):
                make(0)
                seen = fetch(Meddling(client, lambda: make(1000), 1, skip), "key")
                assert isinstance(seen, Bloom) and seen.filters == 2
                assert seen == fetch(client, "key")
            # At its first chunk the key is gone for a moment, and it is replaced later.
            turns = iter([lambda: client.delete("key"), lambda: make(0), lambda: None, lambda: make(1000)])

            class Turning:
                def execute_command(self, *words: Any) -> Any:
                    if words[0] == "BF.SCANDUMP":
                        next(turns, lambda: None)()
                    return client.execute_command(*words)

            assert fetch(Turning(), "key") == fetch(client, "key")
        finally:
            client.config_set("bf.bloom-new-filters", "own")


def test_a_store_that_fails_leaves_nothing(server: int) -> None:
    with redis.Redis(port=server) as client:
        client.flushall()

        class Failing:
            def __init__(self) -> None:
                self.chunks = 0

            def execute_command(self, *words: Any) -> Any:
                if words[0] == "BF.LOADCHUNK":
                    assert 0 < client.pttl(client.keys("*")[0]) <= 300_000
                    raise ConnectionError("on purpose")
                return client.execute_command(*words)

        with pytest.raises(ConnectionError, match="on purpose"):
            store(Failing(), "key", Bloom(100, 0.01))
        assert client.keys("*") == []


KILLED = """
import sys, redis
from valkeybloom import Bloom, store

class Stopping:
    client = redis.Redis(port=int(sys.argv[1]))
    chunks = 0

    def execute_command(self, *words):
        reply = self.client.execute_command(*words)
        if words[0] == "BF.LOADCHUNK":
            self.chunks += 1
            if self.chunks == 2:
                print("half", flush=True)
                sys.stdin.read()
        return reply

store(Stopping(), "key", Bloom(10_000_000, 0.01))
"""


def test_a_killed_store_leaves_a_key_that_expires(server: int) -> None:
    with redis.Redis(port=server) as client:
        client.flushall()
        command = [sys.executable, "-c", KILLED, str(server)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"half\n"
            process.send_signal(signal.SIGKILL)
            process.wait()
        (left,) = client.keys("*")
        assert left.startswith(b"key:valkeybloom-unfinished-")
        assert 0 < client.pttl(left) <= 300_000
        client.pexpire(left, 1)
        wait(lambda: client.keys("*") == [])


def test_clusters(cluster: int) -> None:
    for library, name in ((CLIENTS["redis"], "RedisCluster"), (CLIENTS["valkey"], "ValkeyCluster")):
        for protocol in (2, 3):
            client = getattr(library, name)(host="127.0.0.1", port=cluster, protocol=protocol)
            client.flushall()
            for number, sketch in enumerate(filled()):
                for key in (f"key{number}", f"{{tag}}{number}"):
                    store(client, key, sketch)
                    assert fetch(client, key) == sketch
                    store(client, key, sketch, replace=True, ttl=100)
                    assert fetch(client, key) == sketch
            one = Bloom(100, 0.01)
            store(client, "merged", one, merge=True)
            one.add("a")
            store(client, "merged", one, merge=True)
            assert fetch(client, "merged") == one
            keys = client.keys("*", target_nodes="primaries")
            assert len(keys) == 2 * len(filled()) + 1
            client.close()


@pytest.mark.parametrize("name", CLIENTS)
def test_asynchronous_clients(name: str, server: int, cluster: int) -> None:
    library: ModuleType = CLIENTS[name]
    kind, of_cluster = ("Redis", "RedisCluster") if name == "redis" else ("Valkey", "ValkeyCluster")

    async def run() -> None:
        for protocol in (2, 3):
            for decode in (False, True):
                one = getattr(library.asyncio, kind)(port=server, protocol=protocol, decode_responses=decode)
                many = getattr(library.asyncio.cluster, of_cluster)(
                    host="127.0.0.1", port=cluster, protocol=protocol, decode_responses=decode
                )
                for client in (one, many):
                    await client.flushall()
                    for number, sketch in enumerate(filled()):
                        await store_async(client, f"key{number}", sketch)
                        assert await fetch_async(client, f"key{number}") == sketch
                    with pytest.raises(ValueError, match="already exists"):
                        await store_async(client, "key0", sketch)
                    with pytest.raises(KeyError):
                        await fetch_async(client, "none")
                    await client.aclose()

    asyncio.run(run())
