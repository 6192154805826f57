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

from ._exchange import encoded, fetching, options, storing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any

    from ._exchange import Sketch
    from ._types import AsyncClient, Exchange, Key

__all__ = ["fetch", "store"]


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
