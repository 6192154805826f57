"""`ShardedBloom`, over clients of redis-py and valkey-py, while nodes fail and slots move."""

from __future__ import annotations

import doctest
import json
import os
import pickle
import random
import re
import signal
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import redis
import valkeybloom.sharded
from conftest import CLIENTS, TOP, joined, slot_of, wait
from valkeybloom import Bloom, fetch
from valkeybloom.sharded import ShardedBloom, Unanswered, shard_capacity, shard_of

SHARDS = 12

#: A client that has lost a node gives up early.
HASTY = {
    "redis": {"retry": redis.retry.Retry(redis.backoff.NoBackoff(), 1)},
    "valkey": {"cluster_error_retry_attempts": 1},
}


def connected(name: str, port: int, **options: Any) -> Any:
    kind = "RedisCluster" if name == "redis" else "ValkeyCluster"
    return getattr(CLIENTS[name], kind)(host="127.0.0.1", port=port, **options)


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, cluster: int) -> Iterator[Any]:
    client = connected(request.param, cluster)
    client.flushall()
    yield client
    client.close()


def items(count: int, start: int = 0) -> list[str]:
    return [f"item {number}" for number in range(start, start + count)]


def test_answers_equal_those_of_a_set(cluster: int) -> None:
    chance = random.Random(1)
    for name in CLIENTS:
        for protocol in (2, 3):
            for shards in (1, SHARDS):
                client = connected(name, cluster, protocol=protocol, decode_responses=protocol == 3)
                client.flushall()
                seen = ShardedBloom.reserve(client, "model", shards, 100_000, 1e-9)
                known: set[bytes] = set()
                for size in (0, 1, 2, 100, 25_000, 0, 999):
                    batch = [chance.randbytes(chance.randrange(4)) for _ in range(size)]
                    others = [chance.randbytes(chance.randrange(4)) for _ in range(size)]
                    assert seen.update(batch) == len(set(batch) - known)
                    known.update(batch)
                    assert list(seen.contains_many(others)) == [item in known for item in others]
                assert (b"new item" in seen, seen.add(b"new item"), seen.add(b"new item")) == (False, True, False)
                assert b"new item" in seen
                client.close()


def test_items_are_those_of_a_filter(client: Any) -> None:
    seen = ShardedBloom.reserve(client, "items", SHARDS, 1000, 1e-9)
    texts = ["a", b"b", bytearray(b"c"), memoryview(b"d"), 5, -(10**30), "é", ""]
    batches: list[Any] = [
        texts,
        (str(number) for number in range(3)),
        np.arange(10, 13),
        np.array([b"xy", b"z"]),
        pa.array(["arrow", "é"]),
        pa.chunked_array([[b"1", b"2"], [b"3"]]),
        pl.Series(["polars"]),
        {"set"},
        memoryview(np.arange(65, 68)),
        [np.int64(99), np.uint8(98)],
        pd.Series(["x", "y", "x"], dtype="category"),
    ]
    plain = Bloom(1000, 1e-9)
    for batch in batches:
        batch = list(batch) if hasattr(batch, "gi_frame") else batch
        assert list(seen.add_many(batch)) == list(plain.add_many(batch))
        assert seen.update(batch) == 0
        assert all(seen.contains_many(batch)) and len(seen.contains_many(batch)) == len(plain.contains_many(batch))
    # Every item is in its shard, as the bytes that a filter takes it for.
    shards = [fetch(client, key) for key in seen.keys]
    assert sum(map(len, shards)) == len(plain)  # type: ignore[arg-type]
    for item in texts:
        assert item in shards[shard_of(item, SHARDS)] and item in plain  # type: ignore[operator]
    for wrong, text in ((["a", None], "item 1"), ([True], "not bool"), ([1.5], "not float"), ("text", "not one item"), (memoryview(b"ABC"), "not one item"), (["a", "\ud800"], "item 1: .*surrogates"), (pd.DataFrame({"id": ["x"]}), "one dimension, not 2")):
        with pytest.raises((TypeError, ValueError), match=text):
            seen.update(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="str, bytes or int"):
        seen.add(None)  # type: ignore[arg-type]


def calls(client: Any, command: str) -> int:
    """Returns how often the nodes ran a command."""
    stats = client.info("commandstats", target_nodes="primaries")
    return sum(
        figures["calls"] for node in stats.values() for name, figures in node.items() if name.lower() == f"cmdstat_{command}"
    )


def test_a_batch_is_one_command_for_each_shard(client: Any) -> None:
    seen = ShardedBloom.reserve(client, "commands", SHARDS, 1_000_000, 0.01)
    assert ShardedBloom.reserve(client, "commands", SHARDS, 50, 0.5).keys == seen.keys
    client.config_resetstat(target_nodes="primaries")
    batch = items(100_000)
    assert seen.update(batch) > 99_000
    assert calls(client, "bf.insert") == SHARDS
    assert all(seen.contains_many(batch))
    assert calls(client, "bf.mexists") == SHARDS
    # No command has more than 10,000 items, even if all are of one shard.
    one = [item for item in items(300_000) if shard_of(item, SHARDS) == 0]
    seen.update(one)
    assert calls(client, "bf.insert") == SHARDS + -(-len(one) // 10_000)


@contextmanager
def redisbloom(protocol: int) -> Iterator[int]:
    """Plays a server with RedisBloom: a command gets the reply that was recorded for it. Yields its port.

    Keys are those of a single shard. Option words differ in case, which RedisBloom does not heed.
    """
    recorded = json.loads((TOP / "tests/data/redisbloom-8.8-replies/replies.json").read_text())
    replies = {canonical(words): replies[protocol - 2] for words, *replies in recorded}

    class Connection(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while header := self.rfile.readline():
                words = []
                for _ in range(int(header[1:])):
                    length = int(self.rfile.readline()[1:])
                    words.append(self.rfile.read(length + 2)[:-2].decode("latin-1"))
                if words[0] == "HELLO":
                    reply = "%1\r\n$5\r\nproto\r\n:3\r\n"
                elif words[0] == "CLIENT":
                    reply = "+OK\r\n"
                else:
                    words[1] = words[1].removesuffix(":0")
                    reply = replies.get(canonical(words), f"-ERR not recorded: {words}\r\n")
                self.wfile.write(reply.encode("latin-1"))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def canonical(words: list[str]) -> tuple[str, ...]:
    options = {"NONSCALING", "EXPANSION", "NOCREATE", "ITEMS"}
    return tuple(word.upper() if word.upper() in options else word for word in words)


@pytest.mark.parametrize("protocol", (2, 3))
@pytest.mark.parametrize("name", CLIENTS)
def test_redisbloom_understands_and_is_understood(name: str, protocol: int) -> None:
    """Every command is one that RedisBloom has, and its replies are read."""
    kind = {"redis": "Redis", "valkey": "Valkey"}[name]
    with redisbloom(protocol) as port, getattr(CLIENTS[name], kind)(port=port, protocol=protocol) as client:
        ShardedBloom.reserve(client, "b5", 1, 3000, 0.2, expansion=None)
        # It is there already.
        ShardedBloom.reserve(client, "b3", 1, 10, 0.01, expansion=2)
        with pytest.raises(Unanswered, match="none:0: .*wrong kind of value"):
            ShardedBloom.reserve(client, "none", 1, 10, 0.001, expansion=4)
        long = "long" * 20
        filter = ShardedBloom(client, "b0", 1)
        assert list(filter.add_many([long, "i12", long, "i3"])) == [False, False, False, True]
        assert list(filter.contains_many(["i34", "i32", "i21", "i0"])) == [False, False, False, True]
        assert "i35" in filter and "i19" not in ShardedBloom(client, "b4", 1)


def test_shards_of_redisbloom_stay_as_they_are(client: Any) -> None:
    client.config_set("bf.bloom-new-filters", "redisbloom", target_nodes="primaries")
    try:
        seen = ShardedBloom.reserve(client, "theirs", 3, 1000, 0.01)
        assert seen.update(items(100)) > 90
        again = ShardedBloom.reserve(client, "theirs", 3, 5, 0.5, expansion=None)
        assert all(again.contains_many(items(100)))
        client.set("theirs:1", "text")
        with pytest.raises(Unanswered, match="^theirs:1: "):
            ShardedBloom.reserve(client, "theirs", 4, 1000, 0.01)
    finally:
        client.config_set("bf.bloom-new-filters", "own", target_nodes="primaries")


def test_refusals_name_the_shard_and_leave_all_other_answers(client: Any) -> None:
    missing = ShardedBloom(client, "missing", 3)
    assert not any(missing.contains_many(items(10)))
    with pytest.raises(Unanswered, match="missing:0: .*not found.*; missing:1: ") as caught:
        missing.update(items(100))
    assert caught.value.answers == [None] * 100 and sorted(caught.value.errors) == sorted(missing.keys)
    with pytest.raises(Unanswered, match=r"missing:\d: "):
        missing.add("a")

    full = ShardedBloom.reserve(client, "full", 3, 30, 1e-9, expansion=None)
    with pytest.raises(Unanswered) as caught:
        full.update(items(100))
    assert len(caught.value.errors) == 3 and all("full" in str(e) for e in caught.value.errors.values())
    answers = caught.value.answers
    assert answers.count(True) == 3 * shard_capacity(30, 3) and False not in answers
    assert list(full.contains_many(items(100))) == [answer is True for answer in answers]

    client.set("text:1", "value")
    text = ShardedBloom(client, "text", 3)
    with pytest.raises(Unanswered, match="^text:1: WRONGTYPE ") as caught:
        text.contains_many(items(100))
    assert caught.value.answers == [None if shard_of(item, 3) == 1 else False for item in items(100)]
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value) and copy.answers == caught.value.answers
    with pytest.raises(Unanswered, match="bad error rate"):
        ShardedBloom.reserve(client, "rate", 3, 10, "x")  # type: ignore[arg-type]
    # Swapped numbers create no keys.
    for swapped in ((1_000_000, 24, 0.01), (24, 0.01, 1_000_000), (0.01, 24, 1_000_000)):
        with pytest.raises((ValueError, TypeError)):
            ShardedBloom.reserve(client, "swapped", *swapped)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="^capacity is 24, less than the 1000000 shards: are they swapped"):
        ShardedBloom.reserve(client, "swapped", 1_000_000, 24, 0.01)
    with pytest.raises(TypeError, match="^capacity is an integer, not float$"):
        ShardedBloom.reserve(client, "swapped", 24, 1e6, 0.01)  # type: ignore[arg-type]
    assert client.keys("swapped*") == []
    for wrong, text in ((("{a}", 3), "has no braces"), (("a", 0), "^shards must be larger than 0$")):
        with pytest.raises(ValueError, match=text):
            ShardedBloom(client, *wrong)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_lost_node_leaves_the_answers_of_all_others(name: str, tmp_path: Path) -> None:
    options = ("--cluster-require-full-coverage", "no", "--cluster-node-timeout", "2000")
    with joined(tmp_path, *options) as ports:
        client = connected(name, ports[0], **HASTY[name])
        seen = ShardedBloom.reserve(client, "partly", SHARDS, 100_000, 1e-9)
        assert seen.update(items(5000)) == 5000
        lost = ports[2]
        with redis.Redis(port=lost) as node:
            os.kill(node.info("server")["process_id"], signal.SIGKILL)
        there = {key for key in seen.keys if slot_of(key.encode()) >= 16384 * 2 // 3}
        assert 0 < len(there) < SHARDS
        # At first the other nodes don't know of it, then they do.
        for start in (10_000, 20_000):
            for batch, old in ((items(5000), True), (items(5000, start), False)):
                for ask, known in ((seen.contains_many, old), (seen.update, not old)):
                    with pytest.raises(Unanswered) as caught:
                        ask(batch)
                    assert set(caught.value.errors) == there
                    for item, answer in zip(batch, caught.value.answers, strict=True):
                        assert answer is (None if seen.keys[shard_of(item, SHARDS)] in there else known)
            with redis.Redis(port=ports[0], decode_responses=True) as node:
                wait(lambda: ",fail " in str(node.execute_command("CLUSTER", "NODES")))
        with pytest.raises(Unanswered) as caught:
            ShardedBloom.reserve(client, "partly", SHARDS, 100_000, 1e-9)
        assert set(caught.value.errors) == there
        client.close()


@pytest.mark.parametrize("name", CLIENTS)
def test_slots_that_move_are_followed(name: str, tmp_path: Path) -> None:
    with joined(tmp_path) as ports:
        client = connected(name, ports[0])
        seen = ShardedBloom.reserve(client, "moving", SHARDS, 100_000, 1e-9)
        assert seen.update(items(5000)) == 5000
        key = seen.keys[5]
        slot = slot_of(key.encode())
        at = slot * 3 // 16384
        nodes = [redis.Redis(port=port, decode_responses=True) for port in ports]
        source, target = nodes[at], nodes[(at + 1) % 3]
        target_port = ports[(at + 1) % 3]
        source_id, target_id = (node.execute_command("CLUSTER", "MYID") for node in (source, target))
        target.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
        source.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
        source.execute_command("MIGRATE", "127.0.0.1", target_port, key, 0, 30_000)
        # The key is at the other node and the slot is not: ASK.
        assert seen.update(items(6000)) == 1000
        assert all(seen.contains_many(items(6000))) and not any(seen.contains_many(items(6000, 6000)))
        for node in (target, source):
            node.execute_command("CLUSTER", "SETSLOT", slot, "NODE", target_id)
        # The client does not know that the slot has moved: MOVED.
        assert client.get_node_from_key(key).port == ports[at]
        assert seen.update(items(7000)) == 1000
        assert all(seen.contains_many(items(7000))) and not any(seen.contains_many(items(7000, 7000)))
        assert client.get_node_from_key(key).port == target_port
        for node in nodes:
            node.close()
        client.close()


class Moving:
    """A client whose pipelines fail in all ways, and whose commands are answered."""

    def __init__(self, client: Any) -> None:
        self.client, self.errors, self.asked = client, [redis.exceptions.TryAgainError("TRYAGAIN"), None], 0

    def execute_command(self, *words: Any) -> Any:
        self.asked += 1
        return self.client.execute_command(*words)

    def pipeline(self, transaction: bool) -> Any:
        pipeline, error = self.client.pipeline(transaction=transaction), self.errors.pop()

        class Failing:
            execute_command = pipeline.execute_command

            def execute(self, raise_on_error: bool) -> Any:
                if error is None:
                    raise redis.ConnectionError("on purpose")
                replies = pipeline.execute(raise_on_error=raise_on_error)
                return [error, *replies[1:]]

        return Failing()


def test_a_pipeline_that_breaks_off_and_try_again_are_sent_again(server: int) -> None:
    with redis.Redis(port=server) as client:
        client.flushall()
        ShardedBloom.reserve(client, "again", 3, 1000, 1e-9)
        moving = Moving(client)
        seen = ShardedBloom(moving, "again", 3)
        assert seen.update(items(100)) == 100
        assert moving.asked == 3
        assert all(seen.contains_many(items(100)))
        assert moving.asked == 4


CHANGES: list[Any] = [
    *[lambda r: r[:-1], lambda r: [], lambda r: [*r, 1], lambda r: "QUEUED", lambda r: 1],
    *[lambda r: [2, *r[1:]], lambda r: [None, *r[1:]], lambda r: [b"0", *r[1:]]],
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_reply_of_another_form_is_no_answer(server: int, change: Any) -> None:
    class Changing:
        def __init__(self, client: Any) -> None:
            self.client = client

        def pipeline(self, transaction: bool) -> Any:
            pipeline = self.client.pipeline(transaction=transaction)

            class Changed:
                execute_command = pipeline.execute_command

                def execute(self, raise_on_error: bool) -> Any:
                    first, *others = pipeline.execute(raise_on_error=raise_on_error)
                    return [change(first), *others]

            return Changed()

    with redis.Redis(port=server) as client:
        client.flushall()
        ShardedBloom.reserve(client, "short", 3, 1000, 1e-9)
        seen = ShardedBloom(Changing(client), "short", 3)
        for ask, answer in ((seen.update, True), (seen.contains_many, True)):
            with pytest.raises(Unanswered, match=r"^short:\d: BF\.(INSERT|MEXISTS) returned ") as caught:
                ask(items(100))
            [key] = caught.value.errors
            expected = [None if seen.keys[shard_of(item, 3)] == key else answer for item in items(100)]
            assert caught.value.answers == expected


def test_the_scheme_is_that_of_the_page() -> None:
    rows = re.findall(
        r"^\| 10(\S+) \| (\S+) % \| .*? \| (\d+) \| (\d+) \|", (TOP / "docs/sharded.md").read_text(), re.MULTILINE
    )
    assert len(rows) > 10
    for power, _, shards, capacity in rows:
        exponent = int(power.translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")))
        assert shard_capacity(10**exponent, int(shards)) == int(capacity)
    # The check value of CRC-32.
    assert shard_of(b"123456789", 1 << 32) == 0xCBF43926


def test_the_example_of_the_page(cluster: int) -> None:
    [example] = re.findall(r"^## In Python\n.*?^```python\n(.*?)^```", (TOP / "docs/sharded.md").read_text(), re.M | re.S)
    example = example.replace("RedisCluster(host=", f"RedisCluster(port={cluster}, host=").replace("10.0.0.1", "127.0.0.1")
    with redis.RedisCluster(host="127.0.0.1", port=cluster) as client:
        client.flushall()
    checked, found = re.subn(r"^(list.*\)) +# (\[.*\])$", r"assert \1 == \2", example, flags=re.M)
    assert found == 1
    exec(compile(checked, "docs/sharded.md", "exec"), {})
    with redis.RedisCluster(host="127.0.0.1", port=cluster) as client:
        client.flushall()


def test_examples_in_docstrings_of_sharded(client: Any) -> None:
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    for test in finder.find(valkeybloom.sharded, extraglobs={"client": client}):
        runner.run(test)
    assert runner.summarize().failed == 0 and runner.tries >= 7
