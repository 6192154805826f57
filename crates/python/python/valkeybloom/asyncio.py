"""`fetch` and `store` for asynchronous clients.

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

from collections.abc import Awaitable
from datetime import timedelta
from typing import Any, Protocol

from ._exchange import Exchange, Key, Sketch, fetching, options, storing

__all__ = ["Client", "fetch", "store"]


class Client(Protocol):
    """An asynchronous client of redis-py or valkey-py, of a cluster too, or anything else that sends a command."""

    def execute_command(self, *args: Any, **options: Any) -> Awaitable[Any]: ...


async def _run(client: Client, exchange: Exchange) -> Any:
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


async def fetch(client: Client, key: Key) -> Sketch:
    """Copy the object of a key from a server, as `valkeybloom.fetch` does."""
    sketch: Sketch = await _run(client, fetching(key))
    return sketch


async def store(
    client: Client,
    key: Key,
    sketch: Sketch,
    *,
    replace: bool = False,
    ttl: float | timedelta | None = None,
    merge: bool = False,
) -> None:
    """Send an object to a server, as `valkeybloom.store` does."""
    await _run(client, storing(key, sketch, replace=replace, ttl=ttl, merge=merge))
