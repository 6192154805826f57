"""Bloom filters and other sketches of Valkey and Redis, in your own process.

>>> from valkeybloom import Bloom
>>> seen = Bloom(1_000_000, 0.01)
>>> seen.update(["red", "green"])
2
>>> "red" in seen, "blue" in seen
(True, False)

The classes are `Bloom`, `CuckooFilter`, `CountMin`, `TopK` and `TDigest`. Their bits are those of the module
valkeybloom in a server. `store` sends an object to a server, and `fetch` copies one from there. `Near` keeps a copy of a
server's Bloom filter fresh, and `Once` adds to one so that no answer is lost. `valkeybloom.asyncio` has all four for
asynchronous clients. `template` makes empty objects in
several processes, whose parts unite exactly. `valkeybloom.sharded` has one filter over many keys of a cluster.

An item is str, bytes or int. Objects may be used from several threads.
"""

from ._core import (
    Bloom,
    Chunks,
    CountMin,
    CuckooFilter,
    TDigest,
    TopK,
    __version__,
    decode,
    limit_growth,
)
from ._server import Sketch, fetch, store
from ._template import template
from .near import Near, NearStats
from .once import Forgotten, Once

__all__ = [
    "Bloom",
    "Chunks",
    "CountMin",
    "CuckooFilter",
    "Forgotten",
    "Near",
    "NearStats",
    "Once",
    "Sketch",
    "TDigest",
    "TopK",
    "__version__",
    "decode",
    "fetch",
    "limit_growth",
    "store",
    "template",
]
