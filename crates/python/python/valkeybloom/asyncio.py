"""`fetch`, `store`, `Near` and `Once` for asynchronous clients.

```python
import redis.asyncio
from valkeybloom.asyncio import fetch, store

async with redis.asyncio.Redis() as client:
    seen = await fetch(client, "seen")
    seen.add("a")
    await store(client, "seen", seen, replace=True)
```
"""

from __future__ import annotations

import asyncio

from ._exchange import encoded, fetching, options, routing, storing
from .near import RETRY_SECONDS, Driver, NearBase, NearStats, limited, outcome_of_error, outcome_of_reply
from .once import Forgotten, OnceBase, Routed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any, Self

    from ._core import Addition
    from ._exchange import Sketch
    from ._types import AsyncClient, Exchange, Item, Items, Key, Outcome, Step

__all__ = ["Forgotten", "Near", "NearStats", "Once", "fetch", "store"]


async def _run(client: AsyncClient, exchange: Exchange) -> Any:
    never_decode = options(client)
    try:
        command = next(exchange)
        while True:
            try:
                reply = await client.execute_command(*command, **never_decode)
            except BaseException as error:
                command = exchange.throw(error)
            else:
                command = exchange.send(reply)
    except StopIteration as end:
        return end.value


async def fetch(client: AsyncClient, key: Key) -> Sketch:
    """Copy the object of a key from a server, as `valkeybloom.fetch` does."""
    sketch: Sketch = await _run(client, fetching(encoded(client, key)))
    return sketch


async def store(
    client: AsyncClient,
    key: Key,
    sketch: Sketch,
    *,
    replace: bool = False,
    ttl: float | timedelta | None = None,
    merge: bool = False,
) -> None:
    """Send an object to a server, as `valkeybloom.store` does."""
    await _run(client, storing(encoded(client, key), sketch, replace=replace, ttl=ttl, merge=merge))


class Near(NearBase):
    """`valkeybloom.Near` for an asynchronous client, with a task instead of a thread: the same parameters and promises.

    A lookup that the copy answers returns without waiting. Every other call waits for the client, and for ever if the
    server does not reply and the client has no `socket_timeout`. A call that is cancelled may have added its items. Use
    the object in the event loop of its client. The task starts when the object is created in that loop, or else with the
    first call there. It ends with `close`, with the `async with` block, with the loop, or with the last reference.

    >>> import asyncio, redis.asyncio
    >>> from valkeybloom.asyncio import Near
    >>> async def main():
    ...     async with redis.asyncio.Redis() as client, Near(client, "new", missing="create") as near:
    ...         await near.wait(10)                      # until the copy answers
    ...         print(await near.add("a"), await near.update(["a", "b"]))
    ...         print(await near.contains("a"), list(await near.contains_many(["b", "c"])))
    >>> asyncio.run(main())
    True 1
    True [True, False]
    """

    __slots__ = ()

    _is_async = True
    _driver: AsyncWorker | None

    # The server can't be asked without waiting.
    __contains__ = None  # type: ignore[assignment]

    async def contains(self, item: Item, /) -> bool:
        """Return whether an item is in the filter."""
        found = self._look_up(item)
        return found if isinstance(found, bool) else await self._run(self._asking(found))

    async def contains_many(self, items: Items, /) -> memoryview:
        """Look up a batch of items, as `valkeybloom.Near.contains_many` does."""
        found: memoryview = await self._run(self._looking_up(items))
        return found

    async def add(self, item: Item, /) -> bool:
        """Add an item to the server's filter, as `valkeybloom.Near.add` does. Return True if it was new."""
        addition = self._begin(self._receipts, item)
        return addition is not None and await self._run(self._adding(addition), addition)

    async def add_many(self, items: Items, /) -> memoryview:
        """Add a batch of items to the server's filter, as `valkeybloom.Near.add_many` does."""
        addition = self._begin_many(self._receipts, items)
        new: memoryview = await self._run(self._adding_many(addition), addition)
        return new

    async def update(self, items: Items, /) -> int:
        """Add a batch of items to the server's filter, as `valkeybloom.Near.update` does. Return how many were new."""
        return sum(await self.add_many(items))

    async def wait(self, timeout: float | timedelta | None = None) -> bool:
        """Wait until the copy answers, as `valkeybloom.Near.wait` does. Return whether it does within `timeout` seconds."""
        try:
            async with asyncio.timeout(limited(timeout)):
                while not self._is_ready():
                    self._start()
                    assert self._driver is not None
                    await self._driver.changed.wait()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """End the task, and drop the copy. Lookups ask the server from now on."""
        self._close()
        if self._driver is not None:
            self._driver.notify()
            self._driver.end()

    async def __aenter__(self) -> Self:
        self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        worker = self._driver
        if worker is not None and worker.loop is asyncio.get_running_loop():
            # It gives back its connection before the client is closed.
            await asyncio.wait([worker.task])

    def _start(self) -> None:
        """Starts the task in the loop that runs, unless it runs there."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        worker = self._driver
        if self.state != "closed" and (worker is None or worker.loop is not loop or worker.task.done()):
            self._driver = AsyncWorker(self, loop)

    async def _run(self, exchange: Exchange, addition: Addition | None = None) -> Any:
        """Sends the commands of an exchange, which is that of a call if it adds items. Starts the task, unless it runs."""
        self._start()
        return await _run(self._client if addition is None else AsyncRouted(self._client, self._key, addition), exchange)


class AsyncWorker(Driver):
    """The task of a `Near`."""

    def __init__(self, near: Near, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(near)
        #: Set and replaced by `notify`.
        self.changed = asyncio.Event()
        self.loop = loop
        # A factory of the loop's may make eager tasks, which would run before this object is complete.
        self.task = asyncio.Task(self.run(), loop=loop, name=f"valkeybloom-near-{self.key!r}")

    def notify(self) -> None:
        """Wakes the calls that wait. Later calls wait for the next notification."""
        self.changed.set()
        self.changed = asyncio.Event()

    def end(self, _: object = None) -> None:
        try:
            # The last reference may be dropped in another thread.
            self.loop.call_soon_threadsafe(self.task.cancel)
        except RuntimeError:
            # The loop is closed.
            pass

    def next_step(self, outcome: Outcome | None) -> Step | None:
        # The client may suppress a cancellation that comes at the same time as a reply: `asyncio.wait_for` of Python 3.11 does.
        return None if self.task.cancelling() else super().next_step(outcome)

    async def run(self) -> None:
        try:
            step: Step | None = 0.0
            while step is not None:
                try:
                    step = self.next_step(await self.perform(step))
                except Exception:
                    # If the copy did not take the outcome of a command, the command is sent again.
                    step = RETRY_SECONDS
                self.notify()
        finally:
            # Calls that wait start another task, unless the copy is closed.
            self.notify()

    async def perform(self, step: Step) -> Outcome | None:
        """Waits, or sends a command and returns its outcome."""
        if isinstance(step, float):
            return await asyncio.sleep(step, None)
        try:
            reply = await self.client.execute_command(*step, **routing(self.client, self.key, self.plain))
            return outcome_of_reply(step[0], reply)
        except Exception as error:
            return outcome_of_error(step[0], error)


class Once(OnceBase):
    """`valkeybloom.Once` for an asynchronous client: the same parameters and promise.

    If a task is cancelled while it adds items, the next call with them returns which were new.

    >>> import asyncio, redis.asyncio
    >>> from valkeybloom.asyncio import Once
    >>> async def main():
    ...     async with redis.asyncio.Redis() as client:
    ...         once = Once(client, "hits", "worker-7")
    ...         print(await once.add(["/a", "/b"], at=0), await once.add(["/b", "/c"], at=1))
    ...         print(await once.position())
    >>> asyncio.run(main())
    [True, True] [True, True]
    3
    """

    __slots__ = ()

    _is_async = True

    async def add(self, items: Items, /, *, at: int | None = None) -> list[bool]:
        """Add a batch of items, as `valkeybloom.Once.add` does. Return for each whether it was new."""
        addition = self._begin_at(items, at)
        answers: list[bool] = await _run(AsyncRouted(self._client, self._key, addition), self._adding(addition))
        return answers

    async def position(self) -> int | None:
        """Return the first position of the consumer without an answer, as `valkeybloom.Once.position` does."""
        end: int | None = await _run(AsyncRouted(self._client, self._key), self._reading_position())
        return end


class AsyncRouted(Routed):
    """An asynchronous client that sends the commands of a call to the primary of a key's slot."""

    async def execute_command(self, *words: Any, **_: Any) -> Any:
        try:
            return await self.client.execute_command(*words, **routing(self.client, self.key, self.plain))
        except Exception as error:
            if not self.repeats(error):
                raise
        return await self.client.execute_command(*words, **self.plain)
