"""The golden vectors of tests/vectors, which docs/vectors.md describes: the bits, the answers and the bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import TOP

from valkeybloom import Bloom, CountMin, CuckooFilter, TDigest, TopK


def read(name: str) -> Any:
    return json.loads((TOP / "tests" / "vectors" / f"{name}.json").read_text(encoding="utf-8"))


def item(value: Any) -> str | bytes:
    return value if isinstance(value, str) else bytes.fromhex(value["hex"])


FAMILIES: dict[str, type[Any]] = {
    "bloom": Bloom,
    "cuckoo": CuckooFilter,
    "count-min": CountMin,
    "top-k": TopK,
    "t-digest": TDigest,
}

EVERY = [
    pytest.param(kind, case, id=f"{family}, {case['name']}")
    for family, kind in FAMILIES.items()
    for case in read(family)["cases"]
]


@pytest.mark.parametrize(("kind", "case"), EVERY)
def test_bytes(kind: Any, case: Any) -> None:
    """All forms of the bytes make equal objects, which have these bytes again."""
    load = bytes.fromhex(case.get("load", case["dump"]))
    sketch = kind.from_bytes(load)
    assert sketch.to_bytes() == load
    assert kind.from_bytes(bytes.fromhex(case["dump"])) == sketch
    if "chunks" in case:
        pairs = [(cursor, bytes.fromhex(chunk)) for cursor, chunk in case["chunks"]]
        assert list(sketch.chunks()) == pairs
        assert kind.from_chunks(pairs) == sketch


def make_counting(capacity: int, error_rate: float, expansion: int, seed: str, *, counting: bool) -> Bloom:
    assert counting
    return Bloom.counting(capacity, error_rate, expansion=expansion, seed=bytes.fromhex(seed))


MADE: list[tuple[str, str, Any]] = [
    ("bloom", "counting, grown", make_counting),
    ("cuckoo", "large buckets", CuckooFilter),
    ("count-min", "one row, collisions", CountMin),
    ("top-k", "numbered", TopK),
    ("t-digest", "extremes", TDigest),
]

#: Methods with another name than the step.
METHODS = {
    "contains": "__contains__",
    "increment": "add",
    "reverse_rank": "rev_rank",
    "by_reverse_rank": "by_rev_rank",
    "cardinality": "card",
}


@pytest.mark.parametrize(("family", "name", "make"), MADE)
def test_replies(family: str, name: str, make: Any) -> None:
    """Carries out a case of each family: its replies and its bytes are those of the file."""
    (case,) = (case for case in read(family)["cases"] if case["name"] == name)
    sketch = make(**case["create"])
    for step in case["steps"]:
        reply = step.pop("reply", None)
        ((name, argument),) = step.items()
        method = getattr(sketch, METHODS.get(name, name))
        if reply is None:
            sketch.update(argument)
        elif name == "trimmed_mean":
            assert method(*argument) == reply
        elif argument is not None:
            calls = [value if isinstance(value, list) else [value] for value in argument]
            found = [method(value if family == "t-digest" else item(value), *by) for value, *by in calls]
            assert list(map(written, found)) == reply, step
        else:
            assert written(method() if callable(method) else method) == reply
    assert sketch.to_bytes().hex() == case.get("load", case["dump"])


def written(reply: Any) -> Any:
    """A reply as the files have it. JSON lacks some numbers."""
    if isinstance(reply, list):
        return [list(map(written, pair)) for pair in reply]
    if isinstance(reply, float) and reply - reply != 0:
        return str(reply)
    return reply.decode() if isinstance(reply, bytes) else reply


def test_every_file_is_read() -> None:
    names = {path.stem for path in (TOP / "tests" / "vectors").glob("*.json")}
    assert names == {"hash", *FAMILIES}
