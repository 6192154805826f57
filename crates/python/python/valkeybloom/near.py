"""`Near`: a copy of a server's Bloom filter that stays fresh."""

from __future__ import annotations

import atexit
import os
from _thread import RLock

from ._core import Follower, NearStats, forked
from ._exchange import encoded, is_loss, options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any, Literal, Self
    from weakref import ref

    from ._types import Client, Key, Outcome

__all__ = ["Near", "NearStats"]

#: Held while a thread is started.
starting = RLock()

#: The threads that run. `None` once the interpreter ends.
workers: set[Worker] | None = set()


def begin_child() -> None:
    """Notes that this process is a new child, in which no threads run."""
    forked()
    if workers is not None:
        workers.clear()
    starting.release()


os.register_at_fork(before=starting.acquire, after_in_parent=starting.release, after_in_child=begin_child)


@atexit.register
def end_all() -> None:
    """Keeps threads out of Rust, which a thread must not be in when the interpreter ends. They may wait for a server."""
    global workers
    with starting:
        running, workers = workers, None
    for worker in list(running or ()):
        worker.end()
        with worker.changed:
            pass


def seconds(time: float | timedelta) -> float:
    return time if isinstance(time, (int, float)) else time.total_seconds()


def require_blocking(client: Client) -> None:
    from inspect import iscoroutinefunction

    if iscoroutinefunction(client.execute_command):
        raise TypeError("a blocking client is needed, not an asynchronous one")


def failure(error: Exception) -> Outcome:
    """Returns what becomes of a command that raised an error: the server refused it, or there is no reply."""
    text = (str(error) or type(error).__name__).encode("utf-8", "replace").decode()
    if is_loss(error):
        return "_take_loss", (text,)
    if "NoPermissionError" in {base.__name__ for base in type(error).__mro__} and not text.startswith("NOPERM"):
        # The clients strip the code.
        text = f"NOPERM {text}"
    return "_take_refusal", (text,)


def chance() -> float:
    """Returns a random number from 0 to 1."""
    # The module takes longer to import than all the rest.
    from random import random

    return random()


class Near(Follower):
    """A copy of a server's Bloom filter that follows it, so that lookups take no round trip.

    `client` is one of redis-py or valkey-py, for a server or a cluster, or any object with a method `execute_command`
    that threads may call. `key` is the filter's. A thread fetches the filter, and then reads what is new `every` 50 ms
    (BF.READ). `close` ends it, and so does the end of a `with` block or of the last reference. Items and batches are
    those of `Bloom`.

    A copy answers while it is younger than `max_age` seconds. Otherwise, the server answers; if it can't be reached, the
    client's exception is raised. So no answer is older than `max_age`, and what this object added is found at once. With
    `confirm=True`, the copy answers only if it claims an item, and the server answers for all others. So an item that
    anyone has added is never denied. If the key is deleted, a copy may claim its items until it is `max_age` old.

    A missing key is an empty filter, as for BF.EXISTS, but is not created: `add` and `update` raise the client's
    exception. With `missing="error"`, lookups and `wait` raise KeyError. With `missing="create"`, the server creates the
    filter with its default parameters when an item is added. Filters with a window or counters can't be followed, nor can
    those that the client's user may not read. Then `state` is "refused", `wait` raises ValueError with the reason, and
    lookups ask the server.

    With `refresh=60`, a filter of a server without BF.READ, such as RedisBloom's, is followed, too: it is fetched anew
    every 60 seconds, and a copy answers until it is `refresh + max_age` seconds old. `reader` is a client of a replica,
    from which the copy is read; lookups and adds still go to `client`. Such a copy lacks what the replica lacks, in
    addition to its age.

    Give the client a `socket_timeout`: without it, a server that accepts commands and does not reply holds up the thread
    and each lookup that asks for ever. The copy itself is never used beyond its age.

    After `os.fork`, a child goes on with the copy. It starts a thread of its own when a lookup first asks the server.

    >>> import redis
    >>> from valkeybloom import Near
    >>> client = redis.Redis()
    >>> len(client.execute_command("BF.MADD", "seen", "a", "b"))
    2
    >>> with Near(client, "seen") as near:
    ...     near.wait(10)                                # until the copy answers
    ...     "a" in near, "c" in near
    ...     list(near.contains_many(["b", "c"]))
    ...     near.add("c"), near.add("c"), "c" in near    # added at the server
    ...     near.state, near.age < 1, near.stats.fetches
    True
    (True, False)
    [True, False]
    (True, False, True)
    ('following', True, 1)
    """

    __slots__ = ("__weakref__", "_client", "_key", "_reader", "_worker")

    _client: Client
    _reader: Client
    _key: bytes
    _worker: Worker | None

    def __new__(
        cls,
        client: Client,
        key: Key,
        *,
        every: float | timedelta = 0.05,
        max_age: float | timedelta = 1.0,
        confirm: bool = False,
        refresh: float | timedelta | None = None,
        reader: Client | None = None,
        missing: Literal["empty", "error", "create"] = "empty",
    ) -> Self:
        reads = client if reader is None else reader
        require_blocking(client)
        require_blocking(reads)
        name = encoded(client, key)
        self = super().__new__(
            cls,
            name,
            seconds(every),
            seconds(max_age),
            bool(confirm),
            None if refresh is None else seconds(refresh),
            reader is not None,
            missing,
        )
        self._client = client
        self._reader = reads
        self._key = name
        self._worker = None
        self._start()
        return self

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the copy answers, for at most `timeout` seconds. Return whether it does.

        Raises ValueError with the reason if the filter can't be followed, or if the object is closed. A server that can't
        be reached is tried again until the time is up.
        """
        from time import monotonic

        end = None if timeout is None else monotonic() + timeout
        self._start()
        worker = self._worker
        if worker is None:
            raise ValueError("the copy is closed")
        with worker.changed:
            while not self._is_fresh():
                state = self.state
                if state == "closed":
                    raise ValueError("the copy is closed")
                if state == "refused":
                    raise ValueError(self.stats.last_error)
                left = None if end is None else end - monotonic()
                if left is not None and left <= 0:
                    return False
                worker.changed.wait(left)
        self._require_key()
        return True

    def close(self) -> None:
        """End the thread, and drop the copy. Lookups ask the server from now on.

        It does not wait for a command that the thread has sent; its reply has no effect.
        """
        worker = self._worker
        if worker is None or not worker.thread.is_alive():
            self._close()
            return
        worker.end()
        with worker.changed:
            self._close()
            worker.changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        age = self.age
        return f"<Near {self._key!r} {self.state}{'' if age is None else f', {age:.3f} s old'}>"

    def _start(self) -> None:
        """Starts the thread, unless it runs. A child of `fork` has none."""
        worker = self._worker
        if worker is not None and worker.thread.is_alive():
            return
        with starting:
            if self._worker is not worker or workers is None or self.state == "closed":
                return
            self._worker = worker = Worker(self)
            workers.add(worker)
            worker.thread.start()

    def _send(self, command: str, *items: bytes) -> Any:
        """Sends a command of the program's."""
        try:
            self._start()
        except RuntimeError:
            # The interpreter ends, or the system has no more threads. The server answers nevertheless.
            pass
        return self._client.execute_command(command, self._key, *items)


class Worker:
    """The thread of a `Near`. It holds a reference to it only for a moment at each step."""

    def __init__(self, near: Near) -> None:
        from queue import SimpleQueue
        from threading import Condition, Thread
        from weakref import ref

        self.client: Any = near._reader
        self.key = near._key
        self.options = options(self.client)
        self.find_node = getattr(self.client, "get_node_from_key", None)
        #: Notified after each step. The thread changes the copy only while it holds it.
        self.changed = Condition()
        self.has_ended = False
        #: Wakes the thread. Its `put` may run at any moment, even while the garbage collector interrupts the thread.
        self.wake: SimpleQueue[None] = SimpleQueue()
        self.near: ref[Near] = ref(near, self.end)
        self.thread = Thread(target=self.run, name=f"valkeybloom-near-{self.key!r}", daemon=True)

    def end(self, _: object = None) -> None:
        self.has_ended = True
        self.wake.put(None)

    def run(self) -> None:
        try:
            step = self.step(None)
            while step is not None:
                if isinstance(step, float):
                    self.sleep(step)
                    step = self.step(None)
                else:
                    step = self.step(self.send(step))
        finally:
            if workers is not None:
                workers.discard(self)

    def step(self, outcome: Outcome | None) -> float | tuple[str | bytes, ...] | None:
        """Takes what became of a command. Returns the next one, or the seconds until then; None at the end."""
        near = self.near()
        with self.changed:
            if near is None or self.has_ended or near._worker is not self or near.state == "closed":
                return None
            if outcome is not None:
                name, arguments = outcome
                getattr(near, name)(*arguments, chance())
                self.changed.notify_all()
            return near._next()

    def sleep(self, seconds: float) -> None:
        from queue import Empty

        try:
            self.wake.get(timeout=seconds)
        except Empty:
            pass

    def send(self, words: tuple[str | bytes, ...]) -> Outcome:
        try:
            reply = self.client.execute_command(*words, **self.options, **self.target())
        except Exception as error:
            return failure(error)
        match reply:
            case [bytes() as cursor, int() as items, bytes() as hashes] if items >= 0:
                return "_take_news", (cursor, items, hashes)
            case [int() as cursor, (bytes() | None) as chunk, *ids] if cursor >= 0:
                return "_take_piece", (cursor, chunk or b"", *(ids or (b"",)))
        return "_take_loss", (f"execute_command returned {type(reply).__name__}, not the reply of {words[0]}",)

    def target(self) -> dict[str, Any]:
        """Returns the option that sends a command to the primary of the key's slot, for a client of a cluster.

        The client follows a slot that has moved, and finds the nodes again after it has lost one.
        """
        if self.find_node is None:
            return {}
        try:
            return {"target_nodes": self.find_node(self.key)}
        except Exception:
            return {}
