"""The commands that fetch and store objects, for any kind of client.

`fetching` and `storing` are generators: they yield commands, and are sent the replies. So blocking and asynchronous
clients share them.
"""

from __future__ import annotations

import binascii
import os
import time

from ._core import Bloom, BloomLoader, CountMin, CuckooFilter, TDigest, TopK

# `typing` would take longer to import than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta
    from typing import Any

    from ._types import Command, Exchange, Key

Sketch = Bloom | CuckooFilter | CountMin | TopK | TDigest

#: The classes by the names of their types, as TYPE returns them.
FAMILIES: dict[str, type[Sketch]] = {
    "bloomfltr": Bloom,
    "bloomfltx": Bloom,
    "MBbloom--": Bloom,
    "MBbloomCF": CuckooFilter,
    "CMSk-TYPE": CountMin,
    "TopK-TYPE": TopK,
    "TDIS-TYPE": TDigest,
}

#: Types whose values may change while chunks are read so that the chunks do not belong together.
MOVING = ("bloomfltx", "MBbloomCF")

#: The most attempts to read a filter that is replaced while it is read.
ATTEMPTS = 5

#: What the errors of servers without ids contain: those of RedisBloom, and any when memory is out.
LACKS_IDS = ("wrong number of arguments", "used memory >")

#: The time to live of a temporary key in milliseconds: how long it outlives a program that was killed.
LEASE_MS = 300_000

#: The first time to live in milliseconds that is refused: the time of its end might not fit in 64 bits.
TTL_END_MS = 2**62


def encoded(client: Any, key: Key) -> bytes:
    """Returns the bytes of a key: of text, those that the client would send."""
    if isinstance(key, str):
        encoder = getattr(client, "get_encoder", None)
        return bytes(encoder().encode(key)) if callable(encoder) else key.encode()
    if isinstance(key, (bytes, bytearray, memoryview)):
        return bytes(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return b"%d" % key
    raise TypeError(f"a key is str, bytes or int, not {type(key).__name__}")


def is_loss(error: Exception) -> bool:
    """Returns whether there was no reply, so that sending another command may take as long."""
    names = {base.__name__ for base in type(error).__mro__}
    return bool(names & {"ConnectionError", "TimeoutError", "OSError"})


def type_of(key: bytes) -> Exchange:
    """Returns the type of a key's value, "none" if there is none."""
    kind = yield ("TYPE", key)
    if not isinstance(kind, (str, bytes)):
        # A coroutine that nobody awaits is closed, or Python warns of it.
        getattr(kind, "close", lambda: None)()
        raise TypeError(
            f"execute_command returned {type(kind).__name__}, not a reply; "
            "asynchronous clients need valkeybloom.asyncio"
        )
    return kind.decode() if isinstance(kind, bytes) else kind


def no_sketch(key: bytes, kind: str) -> TypeError:
    return TypeError(f"{key!r} holds a value of type {kind}, which is not a sketch")


def fetching(key: bytes) -> Exchange:
    kind = yield from type_of(key)
    if kind == "none":
        raise KeyError(key)
    family = FAMILIES.get(kind)
    if family is None:
        raise no_sketch(key, kind)
    try:
        return (yield from fetching_as(family, kind, key))
    except Exception as error:
        if is_loss(error) or (yield from type_of(key)) == kind:
            raise
    # The key has been deleted meanwhile, or has another value.
    return (yield from fetching(key))


def fetching_as(family: type[Sketch], kind: str, key: bytes) -> Exchange:
    if family is Bloom and kind not in MOVING:
        fetched = yield from fetching_chunks(key)
        if fetched is not None:
            return fetched
    payload = yield ("DUMP", key)
    if payload is None:
        raise KeyError(key)
    return family.from_bytes(payload)


def fetching_chunks(key: bytes) -> Exchange:
    """Reads a Bloom filter that only grows; None if the server has no chunks, or keeps replacing the filter."""
    words: Command = ("WITHID",)
    for _ in range(ATTEMPTS):
        loader, cursor = BloomLoader(), 1
        try:
            _, header, *first = yield ("BF.SCANDUMP", key, 0, *words)
            complete = loader.load(cursor, header)
            while not complete:
                cursor, chunk, *id = yield ("BF.SCANDUMP", key, cursor, *words)
                if cursor == 0 or id != first:
                    break
                complete = loader.load(cursor, chunk)
            _, now, *id = yield ("BF.SCANDUMP", key, 0, *words)
        except Exception as error:
            text = str(error).lower()
            if "unknown command" in text:
                return None
            if words and any(reason in text for reason in LACKS_IDS):
                words = ()
            elif not (isinstance(error, ValueError) or text == "not found"):
                raise
            # The filter was replaced: its chunks did not fit, or it was gone for a moment.
            continue
        if complete and id == first and BloomLoader.precedes(header, now):
            return loader.end()
    return None


def temporary(key: bytes) -> bytes:
    """Returns a new name in the slot of a key. It begins with the key's, because an ACL may grant keys by prefix."""
    start = key + b":valkeybloom-unfinished-" + os.urandom(8).hex().encode()
    slot = slot_of(key)
    number = 0
    # A key with a hash tag gives it to the first name. Without a tag, about one name in 16,384 is in the key's slot.
    while True:
        name = start + b":{%d}" % number
        if slot_of(name) == slot:
            return name
        number += 1


def slot_of(key: bytes) -> int:
    start = key.find(b"{")
    end = key.find(b"}", start + 1)
    if start >= 0 and end > start + 1:
        key = key[start + 1 : end]
    return binascii.crc_hqx(key, 0) % 16384


def read_script(name: str) -> str:
    """Returns a script for the server. The package for JavaScript takes it from here."""
    with open(f"{os.path.dirname(__file__)}/{name}.lua", encoding="ascii") as file:
        return file.read()


BEGIN, NAME, MERGE = map(read_script, ("begin", "name", "merge"))

MERGES: dict[type[Sketch], str] = {
    Bloom: "BF.MERGE",
    CountMin: "CMS.MERGE",
    TDigest: "TDIGEST.MERGE",
}

#: The commands that load chunks, for the classes that have them.
LOADS: dict[type[Sketch], str] = {
    Bloom: "BF.LOADCHUNK",
    CuckooFilter: "CF.LOADCHUNK",
}


def milliseconds(ttl: float | timedelta | None) -> bytes:
    if ttl is None:
        return b""
    seconds = ttl if isinstance(ttl, (int, float)) else ttl.total_seconds()
    if not seconds * 1000 < TTL_END_MS:
        raise ValueError("bad ttl")
    ms = round(seconds * 1000)
    if ms <= 0:
        raise ValueError("(ttl should be larger than 0)")
    return b"%d" % ms


def storing(
    key: bytes,
    sketch: Sketch,
    *,
    replace: bool = False,
    ttl: float | timedelta | None = None,
    merge: bool = False,
) -> Exchange:
    ttl_ms = milliseconds(ttl)
    family = type(sketch)
    if family not in FAMILIES.values():
        raise TypeError(f"a sketch is needed, not {family.__name__}")
    if replace and merge:
        raise ValueError("a key is either replaced or merged")
    if merge and family not in MERGES:
        raise ValueError(f"objects of {family.__name__} can't be merged")
    kind = yield from type_of(key)
    if not merge:
        # Someone may still create the key before the end. This check avoids sending everything in vain.
        require_free(key, kind, replace)
    unfinished = temporary(key)
    try:
        if family in LOADS:
            yield from sending_chunks(LOADS[family], unfinished, sketch.chunks())  # type: ignore[union-attr]
        else:
            yield ("RESTORE", unfinished, LEASE_MS, sketch.to_bytes())
        if merge:
            words: Command = (MERGES[family], ttl_ms)
            script = MERGE
        else:
            words = ("replace", ttl_ms, *FAMILIES) if replace else ("keep", ttl_ms)
            script = NAME
        kind = yield ("EVAL", script, 2, unfinished, key, *words)
        require_free(key, kind.decode() if isinstance(kind, bytes) else kind, replace)
    except BaseException as error:
        if not isinstance(error, GeneratorExit):
            try:
                yield ("UNLINK", unfinished)
            except Exception:
                # The key's time to live deletes it.
                pass
        raise explained(key, error)


#: What to do about an error of a server, by a part of its text.
ADVICE = {
    "unknown": "load the module valkeybloom into the server",
    "bad data format": "load the module valkeybloom into the server",
    "received bad data": "the server has RedisBloom, which takes only filters that it made: load valkeybloom instead",
    "object memory limit": "raise bf.bloom-filter-max-memory-usage or bf.bloom-memory-usage-limit, or use ShardedBloom",
    "couldn't create filter": "raise bf.bloom-filter-max-memory-usage or bf.bloom-memory-usage-limit",
    "used memory >": "the server is full: raise its maxmemory",
    "different seeds": "make what you add from template(fetch(client, key))",
}


def explained(key: bytes, error: BaseException) -> BaseException:
    """Returns the error of a server with the key and what to do about it, without the line of a script."""
    if "ResponseError" not in {base.__name__ for base in type(error).__mro__}:
        return error
    text, _, line = str(error).rpartition(" script: ")
    if "@user_script" not in line:
        text = str(error)
    advice = (f": {advice}" for part, advice in ADVICE.items() if part in text.lower())
    try:
        return type(error)(f"store to {key!r}: {text.removesuffix('.')}{next(advice, '')}")
    except Exception:
        # Some classes, such as those of a cluster's redirections, take other texts.
        return error


def require_free(key: bytes, kind: str, replace: bool) -> None:
    """Requires that a key with a value of this type may be written."""
    if kind == "none":
        return
    if not replace:
        raise ValueError(f"{key!r} already exists: pass replace=True, or merge=True to unite both")
    if kind not in FAMILIES:
        raise no_sketch(key, kind)


def sending_chunks(
    load: str, unfinished: bytes, chunks: Iterable[tuple[int, bytes]]
) -> Exchange:
    leased = time.monotonic()
    for cursor, chunk in chunks:
        if cursor == 1:
            yield ("EVAL", BEGIN, 1, unfinished, load, chunk, LEASE_MS)
            continue
        if time.monotonic() - leased > LEASE_MS / 10_000:
            yield ("PEXPIRE", unfinished, LEASE_MS)
            leased = time.monotonic()
        yield (load, unfinished, cursor, chunk)


def options(client: Any) -> dict[str, Any]:
    """Returns the options that make a client return bytes, even if it decodes other replies."""
    modules = {base.__module__.partition(".")[0] for base in type(client).__mro__}
    return {"NEVER_DECODE": []} if modules & {"redis", "valkey"} else {}
