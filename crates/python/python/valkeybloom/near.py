"""`Near`: a copy of a server's Bloom filter that stays fresh."""

from __future__ import annotations

import os
from _thread import RLock

from ._core import OPEN, Addition, Follower, NearStats, Receipts, forked
from ._exchange import encoded, options, routing, seconds
from ._server import _run
from .once import Routed, adding, answers_in, is_one, refusal, require_kind, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any, Literal, Self
    from weakref import ref

    from ._types import Client, Exchange, Item, Items, Key, Outcome, Step

__all__ = ["Near", "NearStats"]

# Modules that only a `Near` at work needs are imported within functions: they take longer to import than this package.

#: Held while a thread is started, and while the process forks: so a child has no thread that was half started.
starting = RLock()


def begin_child() -> None:
    """Notes that this process is a new child, in which no threads run."""
    forked()
    starting.release()


os.register_at_fork(before=starting.acquire, after_in_parent=starting.release, after_in_child=begin_child)


#: The seconds until the next attempt after a step raised an error: there is no memory now, or it has a bug.
RETRY_SECONDS = 1.0

#: 30 years, in seconds. A longer timeout never ends, because timers refuse those of 292 years and more.
LONGEST = 1e9


def limited(timeout: float | timedelta | None) -> float | None:
    """Returns the seconds of a timeout that timers take; None if it never ends."""
    if timeout is None:
        return None
    limit = seconds(timeout)
    if limit != limit:
        raise ValueError("bad timeout")
    return None if limit > LONGEST else max(limit, 0.0)


def chance() -> float:
    """Returns a random number from 0 to 1."""
    from random import random

    return random()


def outcome_of_loss(text: str) -> Outcome:
    """Returns the outcome of a command without a reply. The text is the reason."""
    return lambda near: near._take_loss(text, chance())


def outcome_of_error(command: str, error: Exception) -> Outcome:
    """Returns the outcome of a command that raised an error: the server refused it, or there is no reply."""
    text = refusal(error)
    if text is None:
        return outcome_of_loss(text_of(error))
    if text.startswith("MOVED"):
        text += "; use a cluster client"
    if command == "BF.READ" and "unknown command" in text:
        text += "; pass refresh= to follow a server without BF.READ"
    return lambda near: near._take_refusal(text, chance())


def outcome_of_reply(command: str, reply: Any) -> Outcome:
    """Returns the outcome of a command with a reply. That of BF.SCANDUMP comes with the filter's id or without."""
    match command, reply:
        case "BF.READ", [bytes() as cursor, int() as items, bytes() as hashes] if 0 <= items < 2**64:
            return lambda near: near._take_news(cursor, items, hashes, chance())
        case "BF.SCANDUMP", [int() as iterator, (bytes() | None) as chunk] if 0 <= iterator < 2**64:
            return lambda near: near._take_chunk(iterator, chunk or b"", b"", chance())
        case "BF.SCANDUMP", [int() as iterator, (bytes() | None) as chunk, bytes() as id] if 0 <= iterator < 2**64:
            return lambda near: near._take_chunk(iterator, chunk or b"", id, chance())
    return outcome_of_loss(f"execute_command returned {type(reply).__name__}, not the reply of {command}")


class NearBase(Follower):
    """The common part of `Near` and `valkeybloom.asyncio.Near`, which send the commands."""

    __slots__ = ("__weakref__", "_client", "_driver", "_key", "_missing", "_reader", "_receipts")

    _client: Client
    _reader: Client
    _key: bytes
    _missing: str
    _receipts: Receipts
    _driver: Any

    #: Whether the client is an asynchronous one.
    _is_async = False

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
        once: bool = True,
    ) -> Self:
        reads = client if reader is None else reader
        require_kind(cls._is_async, client, reads)
        if missing not in ("empty", "error", "create"):
            raise ValueError("bad missing")
        name = encoded(client, key)
        self = super().__new__(
            cls,
            name,
            seconds(every),
            seconds(max_age),
            bool(confirm),
            None if refresh is None else seconds(refresh),
            reader is not None,
            missing == "error",
        )
        self._client = client
        self._reader = reads
        self._key = name
        self._missing = missing
        self._receipts = Receipts(
            name, None, 0, is_on=bool(once), creates=missing == "create", may_skip_receipts=True
        )
        self._driver = None
        self._start()
        return self

    def __repr__(self) -> str:
        age = self.age
        return f"<Near {self._key!r} {self.state}{'' if age is None else f', {age:.3f} s old'}>"

    def _start(self) -> None:
        raise NotImplementedError

    def _is_ready(self) -> bool:
        """Returns whether the copy answers. Raises the reason if it can't."""
        if self._is_fresh():
            self._require_key()
            return True
        state = self.state
        if state == "closed":
            raise ValueError("the copy is closed")
        if state == "refused":
            raise ValueError(self.stats.last_error)
        return False

    def _requiring_key(self) -> Exchange:
        """Raises KeyError if the server lacks the key and that is an error. BF.EXISTS returns 0 for a missing key, too."""
        if self._missing == "error" and not is_one("EXISTS", (yield "EXISTS", self._key)):
            raise KeyError(self._key)

    def _asking(self, item: bytes) -> Exchange:
        """Looks up an item on the server."""
        found = is_one("BF.EXISTS", (yield "BF.EXISTS", self._key, item))
        if not found:
            yield from self._requiring_key()
        return found

    def _looking_up(self, items: Items) -> Exchange:
        """Looks up a batch in the copy, and the items that it leaves open on the server."""
        found, pieces = self._look_up_many(items)
        place, is_any_denied = 0, False
        for piece in pieces:
            replies = yield "BF.MEXISTS", self._key, *piece
            answers, refused = answers_in("BF.MEXISTS", replies, len(piece))
            if refused is not None:
                raise refused
            for answer in answers:
                place = found.index(OPEN, place)
                found[place] = answer
            is_any_denied |= not all(answers)
        if is_any_denied:
            yield from self._requiring_key()
        return memoryview(found).toreadonly().cast("?")

    def _adding(self, addition: Addition) -> Exchange:
        """Adds the only item of a call. Returns whether it was new."""
        answers = yield from adding(self._receipts, addition, Addition._answers, self._take)
        return answers[0]

    def _adding_many(self, addition: Addition) -> Exchange:
        """Adds the items of a call. Returns for each whether it was new."""
        return adding(self._receipts, addition, Addition._view, self._take)

    @property
    def once(self) -> bool:
        """Whether additions are kept in receipts, so that a client may repeat them."""
        return self._receipts._has_receipts()


#     Near ── _driver ──> Worker ── thread ──> a step of the copy: sends its command, or rests; and so on
#      ^                    │ changed            notified after each step, for `wait`
#      └── near: weak ──────┘ wake               ends a rest: at `close`, and when the `Near` is gone
#
# Order of locks: first `starting` or `changed`, which no thread holds together, then the lock of the copy.


class Driver:
    """Sends the commands that keep a copy fresh. It holds a reference to its `Near` only for a moment at each step."""

    def __init__(self, near: NearBase) -> None:
        from weakref import ref

        self.client: Any = near._reader
        self.key = near._key
        self.plain = options(self.client)
        self.near: ref[NearBase] = ref(near, self.end)

    def end(self, _: object = None) -> None:
        """Wakes the driver, whose `Near` is closed or gone."""
        raise NotImplementedError

    def next_step(self, outcome: Outcome | None) -> Step | None:
        """Passes the outcome of the last step to the copy, if it was a command. Returns the next step; None at the end."""
        near = self.near()
        if near is None or near._driver is not self or near.state == "closed":
            return None
        if outcome is not None:
            outcome(near)
        return near._next()


class Worker(Driver):
    """The thread of a `Near`."""

    def __init__(self, near: Near) -> None:
        from queue import SimpleQueue
        from threading import Condition, Thread

        #: Notified after each step. The thread holds it while it changes the copy.
        self.changed = Condition()
        #: Wakes the thread. Its `put` may run at any moment, even while the garbage collector interrupts the thread.
        self.wake: SimpleQueue[None] = SimpleQueue()
        super().__init__(near)
        self.thread = Thread(target=self.run, name=f"valkeybloom-near-{self.key!r}", daemon=True)

    def end(self, _: object = None) -> None:
        self.wake.put(None)

    def run(self) -> None:
        step: Step | None = 0.0
        while step is not None:
            try:
                step = self.next_step(self.perform(step))
            except BaseException:
                # If the copy did not take the outcome of a command, the command is sent again. A panic in Rust is not an
                # Exception; if it ended the thread, calls that wait would not be woken.
                step = RETRY_SECONDS

    def next_step(self, outcome: Outcome | None) -> Step | None:
        with self.changed:
            try:
                return super().next_step(outcome)
            finally:
                self.changed.notify_all()

    def perform(self, step: Step) -> Outcome | None:
        """Waits, or sends a command and returns its outcome."""
        if isinstance(step, float):
            from queue import Empty

            try:
                self.wake.get(timeout=step)
            except Empty:
                pass
            return None
        try:
            return outcome_of_reply(step[0], self.client.execute_command(*step, **routing(self.client, self.key, self.plain)))
        except Exception as error:
            return outcome_of_error(step[0], error)
        except BaseException as error:
            # Such as SystemExit, a timeout of gevent, or a panic of a client in Rust: there is no reply.
            return outcome_of_loss(text_of(error))


class Near(NearBase):
    """A copy of a server's Bloom filter that follows it, so that lookups take no round trip.

    `client` is one of redis-py or valkey-py, for a server or a cluster, or any object with a method `execute_command`
    that threads may call. `key` is the filter's. A thread fetches the filter, and then reads what is new `every` 50 ms
    (BF.READ). `close` ends it, and so does the end of a `with` block or of the last reference. Items and batches are
    those of `Bloom`.

    A copy answers while it is younger than `max_age` seconds. Otherwise, the server answers; if it can't be reached, the
    client's exception is raised. So no answer is older than `max_age`, and what this object added is found at once. Time
    in which the machine is suspended does not count. With `confirm=True`, the copy answers only if it claims an item,
    and the server answers for all others. So an item that anyone has added is never denied. If the key is deleted, a
    copy may claim its items until it is `max_age` old.

    A missing key is an empty filter, as for BF.EXISTS, but is not created: `add` and `update` raise the client's
    exception. With `missing="error"`, lookups and `wait` raise KeyError. With `missing="create"`, the server creates the
    filter with its default parameters when an item is added. Filters whose items expire, that count or that are scaled
    can't be followed, nor can those that the client's user may not read. Then `state` is "refused", `wait` raises
    ValueError with the reason, and lookups ask the server.

    With `refresh=60`, a filter of a server without BF.READ, such as RedisBloom's, is followed, too: it is fetched anew
    every 60 seconds, and a copy answers until it is `refresh + max_age` seconds old. `reader` is a client of a replica,
    from which the copy is read; lookups and adds still go to `client`. Such a copy lacks what the replica lacks, in
    addition to its age.

    Additions have receipts of the object's own on the server, as `Once` has: so a client that sends
    an addition again does not spoil its answer. If the server refuses receipts, because it lacks `BF.INSERT ... ONCE` or the
    client's user may not write them, the object adds without them from then on, and `once` is False. `once=False`
    turns them off.

    Give the client a `socket_timeout` and `retry=None`: a server that accepts commands and does not reply blocks each
    lookup that asks it, for a minute with the defaults of redis-py 8, and for ever with those of valkey-py. The copy
    itself is never used beyond its age, and `state` is "stale" then.

    After `os.fork`, a child goes on with the copy. It starts a thread of its own when a lookup first asks the server.

    >>> import redis
    >>> from valkeybloom import Near
    >>> client = redis.Redis(socket_timeout=1, retry=None)
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

    __slots__ = ()

    _driver: Worker | None

    def contains(self, item: Item, /) -> bool:
        """Return whether an item is in the filter. It is `item in near`."""
        return item in self

    def contains_many(self, items: Items, /) -> memoryview:
        """Look up a batch of items. Return a memoryview of bool, one byte for each item.

        A batch is one of those that `Bloom` takes. The server is asked for the items that the copy does not answer, in
        commands of up to 10,000 items.
        """
        found: memoryview = self._run(self._looking_up(items))
        return found

    def add(self, item: Item, /) -> bool:
        """Add an item to the server's filter. Return True if it was new.

        If the copy claims the item, nothing is sent. If there is no such key, the client's exception is raised, unless
        `missing` is "create". A lookup of this object finds the item from now on. If another exception is raised, call it
        again: it returns True if the item was new to the first call.
        """
        addition = self._begin(self._receipts, item)
        return addition is not None and self._run(self._adding(addition), addition)

    def add_many(self, items: Items, /) -> memoryview:
        """Add a batch of items to the server's filter. Return a memoryview of bool: for each item, whether it was new.

        Only items that the copy does not claim are sent, in commands of up to 10,000 items. If the server refuses an
        item, the client's exception is raised; the items before it are added, and the next call with them
        returns which were new. A missing key is as for `add`.
        """
        addition = self._begin_many(self._receipts, items)
        new: memoryview = self._run(self._adding_many(addition), addition)
        return new

    def update(self, items: Items, /) -> int:
        """Add a batch of items as `add_many` does. Return how many were new."""
        return sum(self.add_many(items))

    def wait(self, timeout: float | timedelta | None = None) -> bool:
        """Wait until the copy answers, for at most `timeout` seconds. Return whether it does.

        Raises ValueError with the reason if the filter can't be followed, the password is wrong, or the object is closed.
        A server that can't be reached is tried again until the time is up.
        """
        from time import monotonic

        limit = limited(timeout)
        end = None if limit is None else monotonic() + limit
        while True:
            self._start()
            worker = self._driver
            # A thread that a fork left behind may have held the lock of its worker.
            if worker is None or self.state == "closed":
                raise ValueError("the copy is closed")
            with worker.changed:
                if self._is_ready():
                    return True
                left = None if end is None else end - monotonic()
                if left is not None and left <= 0:
                    return False
                worker.changed.wait(left)

    def close(self) -> None:
        """End the thread, and drop the copy. Lookups ask the server from now on.

        It does not wait for a command that the thread has sent; its reply has no effect.
        """
        self._close()
        # A call that was starting a thread may still replace this worker. The new thread ends at its first step, and wakes
        # calls that wait for it.
        worker = self._driver
        if worker is not None and worker.thread.is_alive():
            with worker.changed:
                # The thread may have changed the copy since.
                self._close()
                worker.changed.notify_all()
            worker.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        """Starts the thread, unless it runs. A child of `fork` has none."""
        if self._is_running():
            return
        with starting:
            # Another call may have started it meanwhile.
            if not self._is_running() and self.state != "closed":
                self._driver = Worker(self)
                self._driver.thread.start()

    def _is_running(self) -> bool:
        worker = self._driver
        return worker is not None and worker.thread.is_alive()

    def _run(self, exchange: Exchange, addition: Addition | None = None) -> Any:
        """Sends the commands of an exchange, which is that of a call if it adds items. Starts the thread, unless it runs."""
        try:
            self._start()
        except RuntimeError:
            # The interpreter ends, or the system has no more threads. The server answers nevertheless.
            pass
        return _run(self._client if addition is None else Routed(self._client, self._key, addition), exchange)

    def _ask(self, item: bytes) -> bool:
        """Asks the server about an item. A lookup that the copy does not answer calls it."""
        found: bool = self._run(self._asking(item))
        return found


