"""Memory that is not given back would be seen after a million rounds."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from valkeybloom import Bloom, CountMin, CuckooFilter, TDigest, TopK


def resident() -> int:
    """Returns the memory that the process has, in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


filter, other = Bloom(100, 0.01), CuckooFilter(100)
hits, top, times = CountMin(100, 3), TopK(3), TDigest()
times.update(range(100))
text, array, table = pa.array(["a", "b"]), np.array([1, 2]), pa.chunked_array([["a"], ["b"]])
bad, null = [1, 2, None], pa.array(["a", None])


def refused(call: Callable[..., Any], *arguments: Any) -> Callable[[], None]:
    def run() -> None:
        try:
            call(*arguments)
        except (TypeError, ValueError):
            return
        raise AssertionError("it was taken")

    return run


def inplace() -> None:
    global filter
    filter |= filter


ROUNDS: dict[str, tuple[int, Callable[[], Any]]] = {
    "add": (1_000_000, lambda: filter.add("item")),
    "add bytes": (300_000, lambda: filter.add(b"item")),
    "add int": (300_000, lambda: filter.add(12345678901234567890123)),
    "add with words": (300_000, lambda: filter.add("a", at_ms=5)),
    "in": (1_000_000, lambda: "item" in filter),
    "list": (300_000, lambda: filter.update(["a", b"b", 3])),
    "contains_many": (300_000, lambda: filter.contains_many(["a", "b"])),
    "generator": (100_000, lambda: filter.update(str(n) for n in range(2))),
    "numpy": (300_000, lambda: filter.contains_many(array)),
    "arrow": (100_000, lambda: filter.contains_many(text)),
    "arrow stream": (50_000, lambda: filter.contains_many(table)),
    "null": (50_000, refused(filter.update, null)),
    "bad list": (100_000, refused(filter.update, bad)),
    "bad item": (100_000, refused(filter.add, 1.5)),
    "new": (100_000, lambda: Bloom(100, 0.01)),
    "new refused": (100_000, refused(Bloom, 0, 0.1)),
    "bytes": (50_000, lambda: Bloom.from_bytes(filter.to_bytes())),
    "bad bytes": (100_000, refused(Bloom.from_bytes, b"bytes")),
    "chunks": (50_000, lambda: Bloom.from_chunks(filter.chunks())),
    "pickle": (30_000, lambda: pickle.loads(pickle.dumps(filter)) == filter),
    "union": (50_000, lambda: filter | filter),
    "union in place": (50_000, inplace),
    "getters": (100_000, lambda: (filter.seed, filter.capacity, filter.nbytes, repr(filter))),
    "cuckoo": (100_000, lambda: (other.add("a"), other.remove("a"))),
    "count": (300_000, lambda: (hits.add("a"), hits.update(["a"], [0]), hits.query_many(["a"]))),
    "merge": (50_000, lambda: CountMin.merged([(hits, 1), (hits, 0)])),
    "topk": (100_000, lambda: (top.add("a"), top.list(), top.add("b", 2))),
    "tdigest": (100_000, lambda: (times.add(1.5), times.quantiles([0.5, 0.9]), times.update(array))),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_no_memory_is_kept(name: str) -> None:
    rounds, run = ROUNDS[name]
    for _ in range(rounds // 20):
        run()
    before = resident()
    for _ in range(rounds):
        run()
    # A leak of eight bytes a round would be more.
    assert resident() - before < max(300_000, 8 * rounds)
