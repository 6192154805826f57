"""`Near` of `valkeybloom.asyncio`: what its task, its loop and its client do. The rules of the copy are in test_near.py."""

from __future__ import annotations

import asyncio
import gc
import math
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import redis.asyncio
import valkey.asyncio
from conftest import CLIENTS
from following import QUICK, calls, equals, fail_once, items, proxy_of
from valkeybloom.asyncio import Near

KINDS = {"redis": redis.asyncio.Redis, "valkey": valkey.asyncio.Valkey}
CLUSTERS = {"redis": redis.asyncio.RedisCluster, "valkey": valkey.asyncio.ValkeyCluster}
ERRORS = (redis.RedisError, valkey.ValkeyError)


def at_once(call: Coroutine[Any, Any, Any]) -> Any:
    """Returns what a coroutine returns without waiting for anything."""
    with pytest.raises(StopIteration) as end:
        call.send(None)
    return end.value.value


async def become(until: Callable[[], Any]) -> None:
    """Waits for what a server or a task does by itself."""
    for _ in range(600):
        if until():
            return
        await asyncio.sleep(0.05)
    pytest.fail("it did not happen within 30 seconds")


class Gate:
    """A client whose commands can be held up."""

    def __init__(self, client: Any) -> None:
        self.client, self.open, self.waiting = client, asyncio.Event(), asyncio.Event()
        self.open.set()

    async def execute_command(self, *words: Any, **options: Any) -> Any:
        if not self.open.is_set():
            self.waiting.set()
        await self.open.wait()
        return await self.client.execute_command(*words, NEVER_DECODE=[], **options)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        self.waiting.clear()
        self.open.clear()
        await self.waiting.wait()
        yield
        self.open.set()


@pytest.mark.parametrize("library", KINDS)
def test_a_copy_answers_without_waiting(client: Any, server: int, library: str) -> None:
    async def main(protocol: int, decode: bool) -> None:
        async with (
            KINDS[library](port=server, protocol=protocol, decode_responses=decode) as own,
            Near(own, "seen", **QUICK) as near,
            Near(own, "seen", confirm=True, reader=own, **QUICK) as confirming,
        ):
            assert await near.wait(30) and await confirming.wait() and near.state == "following"
            asked = items(2000)
            answers = [bool(answer) for answer in client.execute_command("BF.MEXISTS", "seen", *asked)]
            assert list(at_once(near.contains_many(asked))) == answers
            assert [at_once(near.contains(item)) for item in asked] == answers
            assert [await confirming.contains(item) for item in asked] == answers
            assert list(await confirming.contains_many(asked)) == answers
            assert confirming.stats.asked == 2 * answers.count(False)
            client.execute_command("BF.MADD", "seen", *items(3000, 2000))
            await become(lambda: equals(near, client, "seen"))
            assert all(at_once(near.contains_many(items(3000, 2000))))
            assert await near.add("mine") and at_once(near.contains("mine")) and not at_once(near.add("mine"))
            assert await near.update(["mine", "other", 5]) == 2 and at_once(near.update(["mine", "other", 5])) == 0
            assert (near.stats.fetches, near.stats.errors, near.stats.asked) == (1, 0, 0)
            assert repr(near).startswith("<Near b'seen' following, 0.")
        assert near.state == "closed" and near._driver is not None and near._driver.task.done()

    for protocol in (2, 3):
        for decode in (False, True):
            client.flushall()
            client.execute_command("BF.RESERVE", "seen", 0.01, 100_000)
            client.execute_command("BF.MADD", "seen", *items(1000))
            asyncio.run(main(protocol, decode))


@pytest.mark.parametrize("library", KINDS)
def test_no_copy_answers_beyond_its_age(client: Any, server: int, library: str) -> None:
    async def main(port: int) -> None:
        options = {"port": port, "socket_timeout": 0.2, "retry": None}
        async with KINDS[library](**options) as own, Near(own, "seen", every=0.01, max_age=0.5) as near:
            for name, fail in (("stalled", proxy.flows.clear), ("cut", proxy.cut)):
                assert await near.wait(30)
                proxy.refuses = name == "cut"
                fail()
                client.execute_command("BF.ADD", "seen", name)
                while True:
                    age = near.age
                    assert age is not None
                    try:
                        found = await near.contains_many(["old", name])
                    except ERRORS:
                        if age >= 0.5:
                            break
                    else:
                        assert age < 0.5 and list(found)[0]
                    await asyncio.sleep(0)
                assert near.state == "stale" and await near.wait(timedelta(0)) is False
                for call in (near.add, near.contains, lambda item: near.update([item])):
                    with pytest.raises(ERRORS):
                        await call("new")
                proxy.refuses = False
                proxy.flows.set()
                assert await near.wait(30) and await near.contains(name)

    client.execute_command("BF.ADD", "seen", "old")
    with proxy_of(server) as proxy:
        asyncio.run(main(proxy.port))


def test_a_missing_key_is_what_the_program_says(client: Any, server: int) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=server) as own:
            gate = Gate(own)
            async with Near(own, "seen", **QUICK) as near, Near(own, "seen", missing="error", **QUICK) as error:
                assert await near.wait(30) and near.state == "missing" and not await near.contains("a")
                with pytest.raises(redis.ResponseError, match="not found"):
                    await near.add("a")
                for call in (error.wait, lambda: error.contains("a"), lambda: error.contains_many(["a"])):
                    with pytest.raises(KeyError, match="seen"):
                        await call()
                error.close()
                # The server is asked.
                with pytest.raises(KeyError, match="seen"):
                    await error.contains("a")
            client.execute_command("SET", "text", "value")
            async with Near(own, "text") as near:
                with pytest.raises(ValueError, match="WRONGTYPE"):
                    await near.wait(30)
            assert client.dbsize() == 1
            async with Near(gate, "seen", missing="create", **QUICK) as near:
                assert await near.add("a") and await near.update(["a", "b"]) == 1 and await near.contains("a")

    asyncio.run(main())


def test_calls_are_cancelled(client: Any, server: int) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=server) as own:
            gate = Gate(own)
            async with Near(gate, "seen", confirm=True, **QUICK) as near:
                assert await near.wait(30)
                async with gate.held():
                    waiting = [
                        asyncio.create_task(call)
                        for call in (near.contains("b"), near.contains_many(["b"]), near.add("b"), near.update(["b"]))
                    ]
                    await asyncio.sleep(0)
                    for one in waiting:
                        one.cancel()
                    ended = await asyncio.gather(*waiting, return_exceptions=True)
                    assert all(isinstance(one, asyncio.CancelledError) for one in ended)
                assert client.execute_command("BF.EXISTS", "seen", "b") == 0
                assert await near.add("c") and await near.contains("c") and not await near.contains("d")
                # Its own task: those who wait start another one.
                assert near._driver is not None
                first = near._driver.task
                first.cancel()
                await asyncio.wait([first])
                client.execute_command("BF.ADD", "seen", "e")
                assert await near.contains("e") and near._driver.task is not first
                await become(lambda: equals(near, client, "seen"))
                # Those who wait for a copy that is closed.
                gate.open.clear()
                other = Near(gate, "other")
                waiting = [asyncio.create_task(other.wait()) for _ in range(2)]
                await asyncio.sleep(0)
                waiting[0].cancel()
                other.close()
                ended = await asyncio.gather(*waiting, return_exceptions=True)
                assert isinstance(ended[0], asyncio.CancelledError) and str(ended[1]) == "the copy is closed"
                gate.open.set()

    client.execute_command("BF.ADD", "seen", "a")
    asyncio.run(main())


def test_a_dropped_copy_ends_its_task(client: Any, server: int) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=server) as own:
            gate = Gate(own)
            for every, reader in ((0.005, own), (3000, own), (0.005, gate)):
                near = Near(own, "seen", every=every, max_age=6000, reader=reader)
                assert await near.wait(30) and near._driver is not None
                task = near._driver.task
                if reader is gate:
                    async with gate.held():
                        del near
                        await asyncio.wait([task])
                else:
                    del near
                    await asyncio.wait([task])
            assert len(asyncio.all_tasks()) == 1

    # By the last reference alone, without the garbage collector.
    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()


def test_a_cluster_is_followed(cluster: int) -> None:
    async def main(library: str) -> None:
        key = f"followed by {library}"
        async with CLUSTERS[library](host="127.0.0.1", port=cluster) as own, Near(own, key, missing="create", **QUICK) as near:
            assert await near.add("a") and await near.wait(30) and await near.contains("a")
            await own.execute_command("BF.ADD", key, "b")
            await become(lambda: near.stats.items)
            assert at_once(near.contains("b")) and near.state == "following"

    for library in CLUSTERS:
        asyncio.run(main(library))


def test_what_is_no_asynchronous_client_is_refused(client: Any) -> None:
    for options in ({"client": client}, {"client": redis.asyncio.Redis(), "reader": client}):
        with pytest.raises(TypeError, match="^an asynchronous client is needed, not a blocking one$"):
            Near(key="seen", **options)
    with pytest.raises(TypeError, match="not a container"):
        "a" in Near(redis.asyncio.Redis(), "seen")  # noqa: B015


ENDING = """
import asyncio, sys
import redis.asyncio
from valkeybloom.asyncio import Near

near = None

async def main(closes):
    global near
    # A busy machine takes longer for a step than Python's development mode permits.
    asyncio.get_running_loop().slow_callback_duration = 60
    client = redis.asyncio.Redis(port=int(sys.argv[1]))
    # Outside of a loop, the task starts with the first call.
    near = near or Near(client, "seen", every=0.002)
    assert await near.wait(30)
    if closes:
        near.close()
    await client.aclose()

for closes in (True, False):
    asyncio.run(main(closes))
    near = None if closes else near
loop = asyncio.new_event_loop()
loop.slow_callback_duration = 60
near = Near(redis.asyncio.Redis(port=int(sys.argv[1])), "seen", every=0.002)
loop.run_until_complete(near.wait(30))
near.close()
loop.run_until_complete(near._client.aclose())
loop.close()
print(near.state, end="")
"""


EAGER = """
import asyncio, math, sys
import redis.asyncio
from valkeybloom.asyncio import Near

async def main():
    asyncio.get_running_loop().slow_callback_duration = 60
    # Python 3.11 has none.
    asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory", None))
    async with redis.asyncio.Redis(port=int(sys.argv[1])) as client, Near(client, "seen", every=0.002) as near:
        print(await asyncio.create_task(near.wait(30)), await asyncio.create_task(near.contains("a")), near.state)
        # Those who wait start another task.
        near._driver.task.cancel()
        await asyncio.wait([near._driver.task])
        print(await asyncio.create_task(near.wait(30)), near.stats.fetches)

asyncio.run(main())
"""


def test_tasks_may_be_eager(client: Any, server: int) -> None:
    client.execute_command("BF.ADD", "seen", "a")
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", EAGER, str(server)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True following\nTrue 1\n", "")


@pytest.mark.parametrize("timeout", [math.inf, 10**400, 1e300, 2.0**63], ids=["inf", "int", "float", "nanoseconds"])
def test_a_timeout_may_be_longer_than_timers_take(client: Any, server: int, timeout: float) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=server) as own:
            gate = Gate(own)
            async with Near(gate, "seen", **QUICK) as near:
                async with gate.held():
                    waiting = asyncio.create_task(near.wait(timeout))
                assert await waiting and await near.wait(-timeout)
                gate.open.clear()
                assert not await Near(gate, "seen", **QUICK).wait(-timeout)
                with pytest.raises(ValueError, match="^bad timeout$"):
                    await near.wait(math.nan)
                assert await near.wait(np.int8(30)) and await near.wait(Fraction(30))  # type: ignore[arg-type]
                gate.open.set()

    asyncio.run(main())


@pytest.mark.parametrize("step", ["_next", "_take_news", "_take_chunk"])
def test_a_step_that_fails_is_repeated(client: Any, server: int, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    client.execute_command("BF.ADD", "seen", "a")
    fail_once(monkeypatch, Near, step)

    async def main() -> None:
        async with redis.asyncio.Redis(port=server) as own, Near(own, "seen", **QUICK) as near:
            assert near._driver is not None
            task = near._driver.task
            assert await near.wait(30) and near.state == "following" and await near.contains("a")
            # Without the rest, the call to wait would have started another task.
            assert not task.done() and near._driver.task is task

    asyncio.run(main())


def test_a_loop_ends_quietly(client: Any, server: int) -> None:
    client.execute_command("BF.ADD", "seen", "a")
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", ENDING, str(server)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "closed", "")
