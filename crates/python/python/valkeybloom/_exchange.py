"""The common part of clients of any kind: keys, options, and the commands that fetch and store objects.

`fetching` and `storing` return generators: they yield commands, and are sent the replies. So blocking and asynchronous
clients share them.
"""

from __future__ import annotations

from ._core import Bloom, Conversation, CountMin, CuckooFilter, TDigest, TopK

# `typing` would take longer to import than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any

    from ._types import Exchange, Key

Sketch = Bloom | CuckooFilter | CountMin | TopK | TDigest

#: The first time to live in milliseconds that is refused: the time of its end might not fit in 64 bits.
TTL_END_MS = 2**62


def encoded(client: Any, key: Key, name: str = "key") -> bytes:
    """Returns the bytes of a key, or of a part of one: of text, those that the client would send."""
    if isinstance(key, str):
        encoder = getattr(client, "get_encoder", None)
        return bytes(encoder().encode(key)) if callable(encoder) else key.encode()
    if isinstance(key, (bytes, bytearray, memoryview)):
        return bytes(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return b"%d" % key
    raise TypeError(f"a {name} is str, bytes or int, not {type(key).__name__}")


def is_a(error: BaseException, *names: str) -> bool:
    """Returns whether the class of an error, or one that it is derived from, has one of these names.

    The classes are those of redis-py and valkey-py. A program may have either, and importing none keeps both optional.
    """
    return any(base.__name__ in names for base in type(error).__mro__)


def is_loss(error: Exception) -> bool:
    """Returns whether there was no reply, so that sending another command may take as long."""
    return is_a(error, "ConnectionError", "TimeoutError", "OSError")


def fetching(key: bytes) -> Exchange:
    """Yields the commands that fetch the object of a key. Returns the object."""
    return conversing(Conversation.fetch(key))


def storing(
    key: bytes,
    sketch: Sketch,
    *,
    replace: bool = False,
    ttl: float | timedelta | None = None,
    merge: bool = False,
) -> Exchange:
    """Yields the commands that store an object under a key."""
    return conversing(Conversation.store(key, sketch, replace, merge, milliseconds(ttl)))


def conversing(conversation: Conversation) -> Exchange:
    """Yields the commands of a conversation, and passes it the replies and errors. Returns its result."""
    while (words := conversation.next()) is not None:
        try:
            reply = yield words
        except GeneratorExit:
            raise
        except BaseException as error:
            conversation.fail(error, str(error) if is_a(error, "ResponseError") else None)
        else:
            conversation.take(reply)
    return conversation.end()


def seconds(time: Any) -> float:
    """Returns a time in seconds as a number of Python's. It is a timedelta, or a number to which a float can be added."""
    if isinstance(time, (int, float)):
        return time
    # Calculations with numpy's small numbers would overflow. Its timedelta64 can't be added to, and has any unit.
    number: float = float(time + 0.0) if hasattr(time, "__float__") else time.total_seconds()
    return number


def milliseconds(ttl: float | timedelta | None) -> int | None:
    """Returns a time to live in whole milliseconds. It is a number of seconds or a timedelta."""
    if ttl is None:
        return None
    time = seconds(ttl)
    if not time * 1000 < TTL_END_MS:
        raise ValueError("bad ttl")
    # Minus infinity can't be rounded.
    ms = round(max(time, 0) * 1000)
    if ms == 0:
        raise ValueError("ttl must be larger than 0")
    return ms


def options(client: Any) -> dict[str, Any]:
    """Returns the options that make a client return bytes, even if it decodes other replies."""
    modules = {base.__module__.partition(".")[0] for base in type(client).__mro__}
    return {"NEVER_DECODE": []} if modules & {"redis", "valkey"} else {}


def routing(client: Any, key: bytes, plain: dict[str, Any]) -> dict[str, Any]:
    """Returns the plain options of a command and, for a client of a cluster, one that names the primary of the key's slot.

    Without it, the client would ask the server for the keys of each command that it does not know, and send all of its
    words for that. The client follows a slot that has moved, and finds the nodes again after it has lost one.
    """
    find_node = getattr(client, "get_node_from_key", None)
    if find_node is None:
        return plain
    try:
        return {**plain, "target_nodes": find_node(key)}
    except Exception:
        # The client finds the nodes when it sends the command.
        return plain
