"""Objects that several files of tests share."""

from __future__ import annotations

from typing import Any

from valkeybloom import Bloom, CountMin, CuckooFilter, TDigest, TopK

SEED = bytes(range(32))
HOUR, DAY = 3_600_000, 86_400_000


def objects() -> list[Any]:
    """Returns an object of each family and kind, filled."""
    hits, top, times = CountMin(100, 4, cell_size=8), TopK(3, 50, 4), TDigest(50)
    hits.update(list("abcab"))
    top.update(list("aaabbc"))
    times.update(range(1000))
    filters = [
        Bloom(3, 0.01, seed=SEED),
        Bloom(1000, 0.001, expansion=None),
        Bloom.counting(100, 0.01),
        Bloom.window(100, 0.01, window_ms=DAY, periods=3),
        Bloom.scaled_to(100, 0.01),
        CuckooFilter(100),
        CuckooFilter(4, bucket_size=1, expansion=2),
    ]
    for filter in filters:
        filter.update(map(str, range(20)))
    return [*filters, Bloom(10, 0.1), CuckooFilter(10), CountMin(3, 3), TopK(2), TDigest(), hits, top, times]


def fresh() -> Bloom:
    return Bloom(10_000, 0.0001, seed=SEED)


def of(items: list[bytes]) -> Bloom:
    """Returns the filter of items that are added one by one."""
    filter = fresh()
    for item in items:
        filter.add(item)
    return filter


def of_batch(batch: Any) -> Bloom:
    filter = fresh()
    filter.update(batch)
    return filter
