"""`fetch` and `store` over connections that are cut, so that the client sends commands again by itself."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import pytest
import redis
from listening import Listener
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeybloom import Bloom, CountMin, CuckooFilter, Sketch, TDigest, TopK, fetch, store
from valkeybloom.asyncio import fetch as fetch_async
from valkeybloom.asyncio import store as store_async

#: Where a connection is cut: before the server gets the command, before its reply, and within the reply.
CUTS = ("before", "after", "within")

#: What clients send of their own accord.
OWN = (b"CLIENT", b"HELLO", b"PING", b"COMMAND")


def line(stream: BinaryIO) -> bytes:
    text = stream.readline()
    if not text.endswith(b"\r\n"):
        raise ConnectionError("the connection was closed")
    return text


def message(stream: BinaryIO) -> bytes:
    """Reads a command or a reply."""
    text = line(stream)
    if text[:1] in b"*~>":
        return text + b"".join(message(stream) for _ in range(int(text[1:])))
    if text[:1] == b"%":
        return text + b"".join(message(stream) for _ in range(2 * int(text[1:])))
    if text[:1] == b"$" and text != b"$-1\r\n":
        return text + stream.read(int(text[1:]) + 2)
    return text


class Proxy(Listener):
    """Passes commands on to a server, and cuts the connection at one of them."""

    def __init__(self, server: int) -> None:
        #: The names of the commands that came.
        self.names: list[bytes] = []
        #: The number of the command at which the connection is cut, and how; and what happens then.
        self.step, self.cut = -1, ""
        self.meanwhile: Callable[[], Any] = lambda: None
        super().__init__(server)

    def serve(self, one: socket.socket, other: socket.socket) -> None:
        threading.Thread(target=self.exchange, args=(one, other), daemon=True).start()

    def exchange(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            commands, replies = client.makefile("rb"), server.makefile("rb")
            try:
                while True:
                    command = message(commands)
                    name = command.split(b"\r\n")[2].upper()
                    is_cut = False
                    if name not in OWN:
                        is_cut = len(self.names) == self.step
                        self.names.append(name)
                    if is_cut and self.cut == "before":
                        return
                    server.sendall(command)
                    reply = message(replies)
                    if is_cut:
                        self.meanwhile()
                        if self.cut == "within":
                            client.sendall(reply[: len(reply) // 2])
                        return
                    client.sendall(reply)
            except OSError:
                return
            finally:
                commands.close()
                replies.close()


@pytest.fixture
def proxy(server: int) -> Iterator[Proxy]:
    proxy = Proxy(server)
    yield proxy
    proxy.close()


def default(port: int) -> redis.Redis:
    """Returns a client that sends again as often as by default, but at once."""
    return redis.Redis(port=port, retry=Retry(NoBackoff(), 3))


def filled() -> list[Sketch]:
    bloom, cuckoo, hits, top, times = Bloom(4_000_000, 0.01), CuckooFilter(1000), CountMin(50, 4), TopK(3, 50, 4), TDigest()
    for sketch in (bloom, cuckoo, hits, top):
        sketch.update(["a", "b", "a"])
    times.update(range(100))
    return [bloom, Bloom.counting(100, 0.01), cuckoo, hits, top, times]


def ways(sketch: Sketch) -> Iterator[tuple[dict[str, Any], Sketch | None]]:
    """Yields options of `store`, and the object that is there before."""
    yield {}, None
    yield {"ttl": 1000}, None
    yield {"replace": True}, TDigest()
    if not isinstance(sketch, (CuckooFilter, TopK)):
        yield {"merge": True}, None
        yield {"merge": True}, sketch


@pytest.mark.parametrize("number", range(6))
def test_a_store_is_done_once_wherever_it_is_cut(proxy: Proxy, client: redis.Redis, number: int) -> None:
    sketch = filled()[number]
    for options, before in ways(sketch):

        def attempt(step: int, cut: str) -> tuple[bytes, bool]:
            client.flushall()
            if before is not None:
                store(client, "key", before)
            proxy.names.clear()
            proxy.step, proxy.cut = step, cut
            with default(proxy.port) as one:
                store(one, "key", sketch, **options)
            assert client.keys("*") == [b"key"]
            return fetch(client, "key").to_bytes(), client.ttl("key") > 0

        expected, steps = attempt(-1, ""), len(proxy.names)
        assert steps >= 3
        for step in range(steps):
            for cut in CUTS:
                assert attempt(step, cut) == expected, (options, step, cut)
                assert len(proxy.names) == steps + 1 and proxy.names[step] == proxy.names[step + 1]


def test_a_fetch_survives_every_cut(proxy: Proxy, client: redis.Redis) -> None:
    for sketch in filled():
        client.flushall()
        store(client, "key", sketch)
        steps = step = 0
        while step <= steps:
            for cut in CUTS:
                proxy.names.clear()
                proxy.step, proxy.cut = step - 1, cut
                with default(proxy.port) as one:
                    assert fetch(one, "key") == sketch
                steps = steps or len(proxy.names)
            step += 1


def test_the_key_of_a_stranger_stays(proxy: Proxy, client: redis.Redis) -> None:
    """A stranger creates or replaces the key while the reply to the last step is on its way."""
    sketch, other = Bloom(100, 0.01), CountMin(10, 2)
    for cut in CUTS:
        # TYPE, the first chunk, another one, the last step.
        for step, is_stored in ((1, False), (3, True)):
            if cut == "before" and is_stored:
                continue
            client.flushall()
            proxy.names.clear()
            proxy.step, proxy.cut = step, cut
            proxy.meanwhile = lambda: store(client, "key", other, replace=True)
            with default(proxy.port) as one:
                if is_stored:
                    store(one, "key", sketch)
                elif cut == "before":
                    store(client, "key", other)
                    with pytest.raises(ValueError, match="already exists"):
                        store(one, "key", sketch)
                else:
                    with pytest.raises(ValueError, match="^b'key' already exists: "):
                        store(one, "key", sketch)
            assert fetch(client, "key") == other and client.keys("*") == [b"key"]


def test_asynchronous_clients_store_once(proxy: Proxy, client: redis.Redis) -> None:
    sketch = CountMin(50, 4)
    sketch.add("a", 5)

    async def attempt(step: int, cut: str) -> None:
        client.flushall()
        store(client, "key", sketch)
        proxy.names.clear()
        proxy.step, proxy.cut = step, cut
        async with redis.asyncio.Redis(port=proxy.port, retry=AsyncRetry(NoBackoff(), 3)) as one:
            await store_async(one, "key", sketch, merge=True)
            assert (await fetch_async(one, "key")).query("a") == 10  # type: ignore[union-attr]
        assert client.keys("*") == [b"key"]

    for step in range(5):
        for cut in CUTS:
            asyncio.run(attempt(step, cut))


def test_a_client_that_does_not_send_again_hears_of_it(proxy: Proxy, client: redis.Redis) -> None:
    for step in range(4):
        for cut in CUTS:
            client.flushall()
            proxy.names.clear()
            proxy.step, proxy.cut = step, cut
            with redis.Redis(port=proxy.port, retry=Retry(NoBackoff(), 0)) as one, pytest.raises(redis.ConnectionError):
                store(one, "key", Bloom(100, 0.01))
            # Only the last step makes the key, and nothing else is left.
            is_there = step == 3 and cut != "before"
            assert client.keys("*") == [b"key"] * is_there


def test_an_upload_whose_temporary_key_is_gone_says_so(client: redis.Redis) -> None:
    class Forgetting:
        def execute_command(self, *words: Any) -> Any:
            if words[0] == "EVAL" and words[2] == b"2":
                client.flushall()
            return client.execute_command(*words)

    for options in ({}, {"replace": True}, {"merge": True}):
        with pytest.raises(redis.ResponseError, match="^store to b'key': the temporary key is gone: it expired, or was"):
            store(Forgetting(), "key", Bloom(100, 0.01), **options)
        assert client.keys("*") == []
