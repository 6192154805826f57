"""The golden vectors of tests/vectors, which docs/vectors.md describes: the bits, the answers and the bytes."""

from __future__ import annotations

import json
import struct
from itertools import islice, takewhile
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


def test_bits() -> None:
    """The hashes of `hash.json` give the bits that an item sets."""
    hashes = read("hash")
    seed = bytes.fromhex(hashes["seed"])
    for row in hashes["items"]:
        sketch = Bloom(100, 0.01, expansion=None, seed=seed)
        sketch.add(item(row["item"]))
        # After the payload's header come the bitmap's length in bytes, the number of hashes, the seed, and the
        # bitmap.
        stored = sketch.to_bytes()[39:]
        size, count = struct.unpack_from("<QI", stored)
        bitmap = stored[44 : 44 + size]
        a, b = (int(digits, 16) for digits in row["sip"])
        assert positions(a, b, hashes["bits"], hashes["hashes"]) == row["positions"]
        wanted = set(positions(a, b, 8 * size, count))
        assert {at for at in range(8 * size) if bitmap[at // 8] >> at % 8 & 1} == wanted, row["item"]


def positions(a: int, b: int, bits: int, count: int) -> list[int]:
    later = ((a + i * b) % 2**64 % 0xFFFFFFFFFFFFFFC5 % bits for i in range(2, count))
    return [a % bits, b % bits, *later][:count]


def tables(stored: bytes) -> list[dict[int, tuple[int, int]]]:
    """The tables of a payload of BF.LOAD: the bits of each fingerprint, and its count or period."""
    (kind,) = struct.unpack_from("<Q", stored, 9)
    (periods,) = struct.unpack_from("<Q", stored, 89)
    at, found = 97 if kind == 1 else 81, {}
    while size := struct.unpack_from("<Q", stored, at)[0]:
        piece = stored[at + 8 : at + 8 + size]
        at += 8 + size
        begin, end, newest, _, count = struct.unpack_from("<5Q", piece)
        place = 40
        for _ in range(count):
            number, _, bits, entries, k, size = struct.unpack_from("<6Q", piece, place)
            text = int.from_bytes(piece[place + 48 : place + 48 + size], "little")
            stream = iter(f"{text:0{8 * size}b}"[::-1])
            place += 48 + size

            def take(count: int) -> int:
                return int("".join(islice(stream, count))[::-1] or "0", 2)  # noqa: B023

            def ones() -> int:
                return len(list(takewhile("1".__eq__, stream)))  # noqa: B023

            following = -(-begin * 2**bits // 2**52)
            for _ in range(entries):
                fingerprint = following + (ones() << k | take(k))
                following = fingerprint + 1
                held = 0
                if kind == 1:
                    held = newest - (2 * periods + 4) - take(periods.bit_length())
                elif kind == 2:
                    log = ones()
                    held = 1 << log | take(log)
                found.setdefault(number, {})[fingerprint] = bits, held
            assert following << 52 <= end << bits
        assert place == len(piece)
    assert at + 8 == len(stored)
    return list(found.values())


def test_tables() -> None:
    """The entries of a filter that counts, forgets or is scaled are the first bits of the hashes of `hash.json`."""
    hashes = read("hash")
    seed = bytes.fromhex(hashes["seed"])
    window = Bloom.window(9, 0.01, window_ms=1000, periods=20, seed=seed)
    counting, scaled = Bloom.counting(99, 1e-9, seed=seed), Bloom.scaled_to(99, 1e-15, seed=seed)
    expected: list[dict[int, int]] = [{}, {}, {}]
    # The first item comes again.
    for number, row in enumerate(hashes["items"][1:], 1):
        window.add(item(row["item"]), at_ms=1000 * number)
        counting.update([item(row["item"])] * number)
        scaled.add(item(row["item"]))
        for found, held in zip(expected, (number, number, 0), strict=True):
            found[int(row["sip"][0], 16)] = held
    for sketch, wanted in zip((window, counting, scaled), expected, strict=True):
        (table,) = tables(sketch.to_bytes())
        ((bits, _), *_) = table.values()
        assert table == {hash >> 64 - bits: (bits, held) for hash, held in wanted.items()}
    # Several tables, and several pieces.
    for grown in (Bloom.counting(9, 0.01), Bloom.scaled_to(90_000, 0.01)):
        grown.update(range(50_000))
        assert sum(map(len, tables(grown.to_bytes()))) == len(grown)


def test_every_file_is_read() -> None:
    names = {path.stem for path in (TOP / "tests" / "vectors").glob("*.json")}
    assert names == {"hash", *FAMILIES}
