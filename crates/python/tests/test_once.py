"""`Once`, and the additions of `Near`: answers that no lost reply, no kill and no restart spoils."""

from __future__ import annotations

import asyncio
import os
import pickle
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import killed
import numpy as np
import pytest
import redis
import redis.asyncio
import valkey
from conftest import running, started, wait
from cutting import cutter_of
from following import QUICK, calls
from test_threads import together
from valkeybloom import Bloom, Forgotten, Near, Once, fetch, store
from valkeybloom.asyncio import Near as AsyncNear
from valkeybloom.asyncio import Once as AsyncOnce

#: How many times as long the random tests run.
TIMES = 1 + int(os.environ.get("SOAK_SECONDS", "0")) // 20


def test_a_consumer_gets_the_same_answers_again(client: Any, server: int) -> None:
    for kind in (redis.Redis, valkey.Valkey):
        for protocol in (2, 3):
            for decode in (False, True):
                with kind(port=server, protocol=protocol, decode_responses=decode) as own:
                    own.flushall()
                    once = Once(own, "clicks", "worker-7", begin=1200)
                    assert once.position() == 1200
                    assert once.add(["/a", b"/b", "/a"], at=1200) == [True, True, False]
                    assert once.add(["/b", "/a", "/c"], at=1201) == [True, False, True]
                    assert once.position() == 1204
                    assert Once(own, b"clicks", b"worker-7").add(np.array([b"/d"]), at=1204) == [True]
                    assert own.keys("*once*") in (["{clicks}:once:worker-7"], [b"{clicks}:once:worker-7"])
                    with pytest.raises(Forgotten, match="^FORGOTTEN answers are known from 1200 to 1205$") as raised:
                        once.add(["/e"], at=1300)
                    assert (raised.value.first, raised.value.end) == (1200, 1205)
                    assert pickle.loads(pickle.dumps(raised.value)).end == 1205
                    assert own.execute_command("BF.CARD", "clicks") == 4
    assert repr(once) == "<Once b'clicks' of b'worker-7'>"
    tagged = Once(client, "a{b}", 7)
    assert tagged.add([1], at=0) == [True] and tagged.add([], at=0) == []
    assert client.exists("a{b}:once:7")
    client.set("a{b}:once:7", "text")
    with pytest.raises(ValueError, match="does not hold a receipt"):
        tagged.position()
    with pytest.raises(redis.ResponseError, match="does not hold a receipt"):
        tagged.add([1], at=1)


class Counted(redis.Connection):
    """A connection of a class that counts how often they were made."""

    made = 0

    def _connect(self) -> Any:
        type(self).made += 1
        return super()._connect()


@pytest.mark.once
def test_a_server_that_stops_until_clients_send_again(tmp_path: Path) -> None:
    """Redis-py does so after five seconds. The server then has each command twice."""
    process, port = started(tmp_path)
    with redis.Redis(port=port) as client:
        client.execute_command("BF.RESERVE", "counted", "0.001", "1000", "COUNTING")
    ended = threading.Event()
    counts, told, stored = [0, 0], Counter[str](), 0

    def defaults() -> redis.Redis:
        own = redis.Redis(port=port)
        own.connection_pool.connection_class = Counted
        return own

    def count(worker: int) -> None:
        once = Once(defaults(), "counted", f"worker-{worker}")
        while not ended.is_set():
            once.add(["x"] * 50, at=counts[worker])
            counts[worker] += 50

    def add(worker: int) -> None:
        once = Once(defaults(), "names")
        for number in range(10**9):
            if ended.is_set():
                break
            names = [f"{number % 2 * worker} {number}"]
            told.update(name for name, is_new in zip(names, once.add(names), strict=True) if is_new)

    def keep() -> None:
        nonlocal stored
        own = defaults()
        while not ended.is_set():
            filter = Bloom(20_000, 0.001)
            filter.add(str(stored))
            store(own, f"filter-{stored}", filter)
            assert fetch(own, f"filter-{stored}").to_bytes() == filter.to_bytes()
            stored += 1

    def stop() -> None:
        wait(lambda: min(*counts, stored, len(told)) > 10)
        made = Counted.made
        process.send_signal(signal.SIGSTOP)
        wait(lambda: Counted.made >= made + 5)
        process.send_signal(signal.SIGCONT)
        before = (*counts, stored, len(told))
        wait(lambda: all(now > old for now, old in zip((*counts, stored, len(told)), before, strict=True)))
        ended.set()

    try:
        together(stop, keep, *(partial(work, worker) for work in (count, add) for worker in (0, 1)))
        with redis.Redis(port=port) as client:
            assert client.execute_command("BF.COUNT", "counted", "x") == sum(counts)
            assert set(told.values()) == {1}
            assert client.execute_command("BF.CARD", "names") == len(told)
    finally:
        process.kill()
        process.wait(30)


def test_what_is_refused(client: Any) -> None:
    consumer, own = Once(client, "k", "c"), Once(client, "k")
    with pytest.raises(TypeError, match="needs at"):
        consumer.add(["a"])
    with pytest.raises(TypeError, match="a consumer's position"):
        own.add(["a"], at=0)
    with pytest.raises(TypeError, match="begin"):
        Once(client, "k", begin=3)
    with pytest.raises(TypeError, match="^a key is str, bytes or int, not dict$"):
        Once(client, {}, "c")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="^a consumer is str, bytes or int, not float$"):
        Once(client, "k", 1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a blocking client is needed"):
        Once(redis.asyncio.Redis(), "k")
    with pytest.raises(TypeError, match="an asynchronous client is needed"):
        AsyncOnce(client, "k")
    for wrong in (-1, 2**63, True, False):
        with pytest.raises(ValueError, match="^a position is a whole number from 0 to 9223372036854775807$"):
            consumer.add(["a"], at=wrong)
        with pytest.raises(ValueError, match="^a position is a whole number from 0 to 9223372036854775807$"):
            Once(client, "k", "c", begin=wrong)
    for unlike in (0.0, 1.0, "", b""):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            consumer.add(["a"], at=unlike)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            Once(client, "k", "c", begin=unlike)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="item 1"):
        own.add(["a", None])  # type: ignore[list-item]
    assert own.position() is None and not client.exists("k")


class Answering:
    """A client whose server always answers the same."""

    def __init__(self, reply: Any) -> None:
        self.reply = reply

    def execute_command(self, *_: Any) -> Any:
        return self.reply


@pytest.mark.parametrize("reply", [None, 1, b"\1\0", "10", {1: 1, 0: 0}, [1, 2], [1, -1], [1, None], [b"1", 0], [1, 0, 1]])
def test_something_other_than_a_reply_is_refused(reply: Any) -> None:
    text = "^the client returned something other than a reply to {}$"
    with pytest.raises(TypeError, match=text.format("BF.INSERT")):
        Once(Answering(reply), "k").add(["a", "b"])
    if not isinstance(reply, bytes):
        with pytest.raises(TypeError, match=text.format("GETRANGE")):
            Once(Answering(reply), "k", "c").position()
    with Near(Answering(reply), "k", missing="create", once=False, **QUICK) as near:
        with pytest.raises(TypeError, match=text.format("BF.MADD")):
            near.add_many(["a", "b"])
        with pytest.raises(TypeError, match=text.format("BF.MEXISTS")):
            near.contains_many(["a", "b"])


def test_too_few_replies_are_refused() -> None:
    with pytest.raises(ValueError, match="^the client returned too few replies$"):
        Once(Answering([1]), "k").add(["a", "b"])


class OfCluster:
    """A client of a cluster that loses the first reply to a command that adds items."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.is_lost = False

    def get_node_from_key(self, key: bytes) -> None:
        return None

    def execute_command(self, *words: Any, **_: Any) -> Any:
        reply = self.client.execute_command(*words)
        if words[0] in ("BF.MADD", "BF.INSERT") and not self.is_lost:
            self.is_lost = True
            raise redis.ConnectionError("lost")
        return reply


class OfAsyncCluster(OfCluster):
    async def execute_command(self, *words: Any, **_: Any) -> Any:
        return super().execute_command(*words)


@pytest.mark.parametrize("once", [False, True])
def test_only_a_command_with_a_receipt_is_sent_again(client: Any, once: bool) -> None:
    """Items may be words of a command."""
    batch = ["ONCE", "ITEMS", "a"]
    with Near(OfCluster(client), "seen", reader=client, missing="create", once=once, **QUICK) as near:
        if once:
            assert list(near.add_many(batch)) == [True] * 3
        else:
            with pytest.raises(redis.ConnectionError, match="^lost$"):
                near.add_many(batch)

    async def main() -> None:
        async with AsyncNear(OfAsyncCluster(client), "others", missing="create", once=once, **QUICK) as near:
            if once:
                assert list(await near.add_many(batch)) == [True] * 3
            else:
                with pytest.raises(redis.ConnectionError, match="^lost$"):
                    await near.add_many(batch)

    asyncio.run(main())


def test_a_server_without_receipts(tmp_path: Path, client: Any) -> None:
    with running(tmp_path, module=False) as port, redis.Redis(port=port) as plain:
        for call in (lambda: Once(plain, "k").add(["a"]), lambda: Once(plain, "k", "c").add(["a"], at=0)):
            with pytest.raises(ValueError, match="load the module valkeybloom"):
                call()
    lacking = Lacking(client)
    with pytest.raises(ValueError, match="load the module valkeybloom"):
        Once(lacking, "k").add(["a"])
    for missing in ("create", "empty"):
        with Near(lacking, "k", missing=missing, **QUICK) as near:  # type: ignore[arg-type]
            assert near.once and near.add(f"a {missing}") and not near.once
            assert list(near.add_many(["b", f"a {missing}", "c"])) == [missing == "create", False, missing == "create"]
    assert client.keys("*once*") == []


@pytest.mark.parametrize("parser", [redis.connection.DefaultParser, valkey.cluster.ClusterParser])
@pytest.mark.parametrize("reply", ["CROSSSLOT Keys in request don't hash to the same slot", "NOPERM No permissions to access a key"])
def test_a_server_that_refuses_the_key_of_a_receipt(client: Any, parser: Any, reply: str) -> None:
    lacking = Lacking(client, parser.parse_error(reply))
    with Near(lacking, "k", missing="create", **QUICK) as near:
        assert near.once and near.add("a") and not near.once


class Lacking:
    """A client of a server whose BF.INSERT lacks ONCE, as that of RedisBloom does, or refuses it for another reason."""

    def __init__(self, client: Any, error: Exception = redis.ResponseError("Unknown argument received")) -> None:
        self.client, self.error = client, error

    def execute_command(self, *words: Any, **options: Any) -> Any:
        if b"ONCE" in words[2:4]:
            raise self.error
        return self.client.execute_command(*words, NEVER_DECODE=[], **options)


def test_a_user_without_permission_for_receipts(client: Any, server: int) -> None:
    client.execute_command("ACL", "SETUSER", "plain", "on", ">pw", "+@all", "~seen")
    with redis.Redis(port=server, username="plain", password="pw") as own:
        with pytest.raises(redis.exceptions.NoPermissionError):
            Once(own, "seen").add(["a"])
        with Near(own, "seen", missing="create", **QUICK) as near:
            assert near.once and near.add("a") and not near.once and near.update(["a", "b"]) == 1
    with Near(client, "other", missing="create", once=False, **QUICK) as near:
        assert not near.once and near.add("a") and client.keys("*once*") == []


def test_receipts_of_its_own_are_taken_again(client: Any) -> None:
    once = Once(client, "names")
    assert [once.add([f"name {number}"]) for number in range(100)] == [[True]] * 100
    assert len(client.keys("*once*")) == 1
    # Those that are used at the same time are different ones.

    def add(number: int) -> None:
        assert [once.add([f"{number} {step}"]) for step in range(100)] == [[True]] * 100

    together(*[partial(add, number) for number in range(8)])
    assert 1 <= len(client.keys("*once*")) <= 8
    # Lost ones begin anew.
    client.delete(*client.keys("*once*"))
    assert [once.add([f"later {number}"]) for number in range(20)] == [[True]] * 20


def test_a_child_has_receipts_of_its_own(client: Any, server: int) -> None:
    once = Once(redis.Redis(port=server), "names")
    assert once.add(["parent"]) == [True]
    child = os.fork()
    if child == 0:
        os._exit(0 if once.add(["child"]) == [True] and once.add(["parent"]) == [False] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert once.add(["child"]) == [False] and len(client.keys("*once*")) == 2


def test_a_full_filter_ends_a_call(client: Any) -> None:
    client.execute_command("BF.RESERVE", "full", 1e-9, 3, "NONSCALING")
    for once, at in ((Once(client, "full", "c"), {"at": 0}), (Once(client, "full"), {})):
        client.delete("full")
        client.execute_command("BF.RESERVE", "full", 1e-9, 3, "NONSCALING")
        items = [f"item {number}" for number in range(5)]
        for _ in range(2):
            with pytest.raises(redis.ResponseError, match="full"):
                once.add(items, **at)  # type: ignore[arg-type]
        client.delete("full")
        # The answers before the refusal are told, once.
        assert once.add(items, **at) == [True] * 5  # type: ignore[arg-type]


def test_a_call_without_an_answer_is_owed_one(client: Any, server: int) -> None:
    gate = Losing(client)
    once = Once(gate, "names")
    with Near(gate, "names", reader=client, missing="create", **QUICK) as near:
        assert near.wait(30)
        for add in (lambda item: once.add([item])[0], near.add, lambda item: near.update([item, "ann"]) > 0):
            assert add("ann") or not add("ann")
            item = f"item {id(add)}"
            gate.loses = True
            with pytest.raises(redis.ConnectionError):
                add(item)
            gate.loses = False
            # The copy claims it by now.
            assert client.execute_command("BF.EXISTS", "names", item) == 1
            for _ in range(1000):
                if near.contains(item):
                    break
            assert add(item) and not add(item)


class Losing:
    """A client that may lose replies."""

    def __init__(self, client: Any) -> None:
        self.client, self.loses = client, False

    def execute_command(self, *words: Any, **options: Any) -> Any:
        reply = self.client.execute_command(*words, NEVER_DECODE=[], **options)
        if self.loses:
            raise redis.ConnectionError("lost")
        return reply


def universe(seed: int, count: int) -> list[list[str]]:
    """Returns batches in which items occur several times."""
    chance = random.Random(seed)
    return [[f"item {chance.randrange(3 * count)}" for _ in range(chance.randint(1, 20))] for _ in range(count)]


def require_told_once(client: Any, key: str, batches: list[list[str]], told: Counter[str]) -> None:
    """Requires that each item was new to one caller. The filter has hardly a false positive."""
    distinct = {item for batch in batches for item in batch}
    assert {item: told[item] for item in distinct if told[item] != 1} == {}
    assert set(told) == distinct and client.execute_command("BF.CARD", key) == len(distinct)


@pytest.mark.parametrize("kind", ["default", "no retry", "valkey-py"])
@pytest.mark.parametrize("what", ["once", "near"])
def test_cuts_do_not_spoil_an_answer(client: Any, server: int, kind: str, what: str) -> None:
    makers: dict[str, Callable[[int], Any]] = {
        "default": lambda port: redis.Redis(port=port),
        "no retry": lambda port: redis.Redis(port=port, retry=None),
        "valkey-py": lambda port: valkey.Valkey(port=port),
    }
    client.execute_command("BF.RESERVE", "seen", 1e-9, 100_000)
    batches, told, lock = universe(7, 400 * TIMES), Counter[str](), threading.Lock()
    with cutter_of(server, 7) as cutter, makers[kind](cutter.port) as cut:
        near = Near(cut, "seen", reader=client, **QUICK) if what == "near" else None
        once = Once(cut, "seen")
        add = near.add_many if near else once.add

        def run(number: int) -> None:
            for batch in batches[number::8]:
                while True:
                    try:
                        new = add(batch)
                        break
                    except (redis.ConnectionError, redis.TimeoutError, valkey.ConnectionError):
                        pass
                with lock:
                    told.update(item for item, is_new in zip(batch, new, strict=True) if is_new)

        together(*[partial(run, number) for number in range(8)])
        if near:
            near.close()
        assert all(cutter.cuts.values())
    require_told_once(client, "seen", batches, told)


@pytest.mark.parametrize("retries", [True, False])
def test_cuts_do_not_spoil_an_answer_in_asyncio(client: Any, server: int, retries: bool) -> None:
    client.execute_command("BF.RESERVE", "seen", 1e-9, 100_000)
    batches, told = universe(8, 400 * TIMES), Counter[str]()

    async def run(number: int, add: Any) -> None:
        for batch in batches[number::8]:
            while True:
                try:
                    # Some tasks are cancelled while they wait, and the call is repeated.
                    async with asyncio.timeout(None if number else 0.02):
                        new = await add(batch)
                    break
                except (redis.ConnectionError, redis.TimeoutError, TimeoutError):
                    pass
            told.update(item for item, is_new in zip(batch, new, strict=True) if is_new)

    async def main(port: int) -> None:
        options: Any = {} if retries else {"retry": None}
        async with redis.asyncio.Redis(port=port, **options) as cut:
            if retries:
                once = AsyncOnce(cut, "seen")
                await asyncio.gather(*[run(number, once.add) for number in range(8)])
                return
            async with redis.asyncio.Redis(port=server) as reader, AsyncNear(cut, "seen", reader=reader, **QUICK) as near:
                await asyncio.gather(*[run(number, near.add_many) for number in range(8)])

    with cutter_of(server, 8) as cutter:
        asyncio.run(main(cutter.port))
        assert all(cutter.cuts.values())
    require_told_once(client, "seen", batches, told)


@pytest.mark.once
@pytest.mark.parametrize("kind", killed.SOURCES)
def test_killed_consumers_work_on_each_item_once(tmp_path: Path, kind: str) -> None:
    killed.run(tmp_path, kind, 4000 * TIMES, 24 * TIMES, 50)


def test_a_late_transaction_of_the_recipe_is_noticed(client: Any, server: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction arrives after its client has lost patience, and before the next step of the same consumer."""
    count_views = killed.recipe(1000)["count_views"]
    late_at, is_late = 0, True
    while is_late:
        client.flushall()
        client.execute_command("BF.RESERVE", "clicks", 1e-9, 1000)
        client.xgroup_create(killed.LOG, killed.GROUP, id="0", mkstream=True)
        lost: list[Any] = []
        execute = redis.client.Pipeline.execute

        def lose(pipeline: Any) -> Any:
            if not pipeline.watching:
                return execute(pipeline)
            words = [("MULTI",), *[words for words, _ in pipeline.command_stack], ("EXEC",)]
            lost.append((pipeline.connection, words))
            # Its connection stays open, and keeps an eye on the key.
            pipeline.connection, pipeline.watching = None, False
            raise redis.ConnectionError("lost")

        class Late(redis.connection.Connection):
            sent = 0

            def send_packed_command(self, *words: Any, **options: Any) -> None:
                if Late.sent == late_at:
                    connection, transaction = lost.pop()
                    connection.send_packed_command(connection.pack_commands(transaction))
                    for _ in transaction:
                        connection.read_response()
                    connection.disconnect()
                Late.sent += 1
                super().send_packed_command(*words, **options)

        def add(count: int) -> None:
            for _ in range(count):
                client.xadd(killed.LOG, {"path": f"/{client.xlen(killed.LOG)}"})

        add(10)
        with redis.Redis(port=server) as dead, redis.Redis.from_pool(
            redis.ConnectionPool(connection_class=Late, port=server)
        ) as next_one:
            with monkeypatch.context() as patch, pytest.raises(redis.ConnectionError):
                patch.setattr(redis.client.Pipeline, "execute", lose)
                count_views(dead, "worker")
            add(20)
            while True:
                try:
                    if not count_views(next_one, "worker"):
                        break
                except redis.WatchError:
                    pass
        assert client.hgetall(killed.VIEWS) == {b"/%d" % number: b"1" for number in range(30)}, late_at
        is_late, late_at = not lost, late_at + 1
    assert late_at > 10
