"""What the tests of `Near` share."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from listening import Listener, with_shutdown
from valkeybloom import Near, fetch

#: Polls often, so that the tests are quick. The copy is never too old on a busy machine.
QUICK: dict[str, Any] = {"every": 0.005, "max_age": 60}


class Proxy(Listener):
    """Passes connections on to a server. It can stall them, cut them, and be asked to refuse others."""

    def __init__(self, target: int) -> None:
        self.flows = threading.Event()
        self.flows.set()
        self.ends: list[socket.socket] = []
        super().__init__(target)

    def serve(self, one: socket.socket, other: socket.socket) -> None:
        self.ends += [one, other]
        for pair in ((one, other), (other, one)):
            threading.Thread(target=self.pump, args=pair, daemon=True).start()

    def pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                self.flows.wait()
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                with_shutdown(end)

    def cut(self) -> None:
        """Ends all connections. What was stalled is lost."""
        ends, self.ends = self.ends, []
        for end in ends:
            with_shutdown(end)

    def close(self) -> None:
        super().close()
        self.cut()
        self.flows.set()


@contextmanager
def proxy_of(port: int) -> Iterator[Proxy]:
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()


def impatient(port: int) -> redis.Redis:
    """A client that does not wait, nor try again."""
    return redis.Redis(port=port, socket_timeout=0.2, retry=None)


def calls(client: Any, command: str) -> int:
    stats = {name.lower(): figures for name, figures in client.info("commandstats").items()}
    return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])


def thread_of(near: Near) -> threading.Thread:
    assert near._driver is not None
    return near._driver.thread


def equals(near: Near, client: Any, key: str) -> bool:
    """Returns whether the copy has the bytes of the filter, with its chunks and growth."""
    copy = near.copy()
    return copy is not None and copy.to_bytes() == fetch(client, key).to_bytes()


def items(count: int, start: int = 0) -> list[str]:
    return [f"item {number}" for number in range(start, start + count)]


class Gate:
    """A client whose commands can be held up."""

    def __init__(self, client: Any) -> None:
        self.client, self.open, self.waiting = client, threading.Event(), threading.Event()
        self.open.set()

    def execute_command(self, *words: Any, **options: Any) -> Any:
        if not self.open.is_set():
            self.waiting.set()
        self.open.wait()
        return self.client.execute_command(*words, NEVER_DECODE=[], **options)

    @contextmanager
    def held(self) -> Iterator[None]:
        self.waiting.clear()
        self.open.clear()
        try:
            assert self.waiting.wait(30)
            yield
        finally:
            self.open.set()


def is_found(near: Near, item: str) -> bool:
    try:
        return item in near
    except redis.RedisError:
        return False


def fail_once(monkeypatch: pytest.MonkeyPatch, kind: type, name: str, error: type[BaseException] = MemoryError) -> None:
    """Makes the first call of a method raise an error."""
    method, failures = getattr(kind, name), [error()]

    def failing(*given: Any) -> Any:
        if failures:
            raise failures.pop()
        return method(*given)

    monkeypatch.setattr(kind, name, failing)
