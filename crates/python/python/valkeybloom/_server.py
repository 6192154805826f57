"""`fetch` and `store` for blocking clients."""

from __future__ import annotations

from ._exchange import Sketch, encoded, fetching, options, storing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any

    from ._types import Client, Exchange, Key

__all__ = ["Sketch", "fetch", "store"]


def _run(client: Client, exchange: Exchange) -> Any:
    never_decode = options(client)
    try:
        command = next(exchange)
        while True:
            try:
                reply = client.execute_command(*command, **never_decode)
            except BaseException as error:
                command = exchange.throw(error)
            else:
                command = exchange.send(reply)
    except StopIteration as end:
        return end.value


def fetch(client: Client, key: Key) -> Sketch:
    """Copy the object of a key from a server. It may be of any of the five families, and of any module that has them.

    A Bloom filter is read in chunks. Items that others add while it is read may be missing.

    Raises KeyError if there is no such key, and TypeError if it holds something else.
    """
    sketch: Sketch = _run(client, fetching(encoded(client, key)))
    return sketch


def store(
    client: Client,
    key: Key,
    sketch: Sketch,
    *,
    replace: bool = False,
    ttl: float | timedelta | None = None,
    merge: bool = False,
) -> None:
    """Send an object to a server.

    The object goes to a temporary key, filters in chunks. Then the key gets its name in one step. So others see either
    the old value or the whole object. A program that is killed leaves a temporary key, which expires within minutes.

    With `replace`, an object of any of the five families is replaced; TypeError is raised if the key holds something
    else. With `merge`, the object is merged with the one that is there (BF.MERGE,
    CMS.MERGE, TDIGEST.MERGE). With neither, ValueError is raised if the key exists. `ttl` is the time to live of the
    key, in seconds or as a timedelta. Without it, the key does not expire; with `merge`, it expires when it would have.
    """
    _run(client, storing(encoded(client, key), sketch, replace=replace, ttl=ttl, merge=merge))
