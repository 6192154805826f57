"""The golden vectors of tests/vectors, which docs/vectors.md describes: the bits, the answers and the bytes."""

from __future__ import annotations

import json
import struct
from itertools import islice, takewhile
from typing import Any, TypeVar

import pytest
from conftest import TOP

from valkeybloom import Bloom, CountMin, CuckooFilter, TDigest, TopK

S = TypeVar("S", Bloom, CuckooFilter)

#: What a step has beside its own name.
BESIDE = {"at_ms", "ttl_ms", "reply"}


def read(name: str) -> Any:
    return json.loads((TOP / "tests" / "vectors" / f"{name}.json").read_text(encoding="utf-8"))


def cases(name: str) -> pytest.MarkDecorator:
    found = read(name)["cases"]
    assert found
    return pytest.mark.parametrize("case", found, ids=[case["name"] for case in found])


def item(value: Any) -> str | bytes:
    return value if isinstance(value, str) else bytes.fromhex(value["hex"])


def raw(value: Any) -> bytes:
    found = item(value)
    return found.encode() if isinstance(found, str) else found


def each(items: Any, call: Any) -> list[Any]:
    """One reply for each item, up to the first that is refused."""
    replies: list[Any] = []
    for value in items:
        try:
            replies.append(call(value))
        except ValueError as error:
            return [*replies, {"error": str(error)}]
    return replies


def number(value: float) -> Any:
    """A number as the files have it. JSON lacks some of them."""
    return value if value - value == 0 else str(float(value))


def replay(sketch: Any, case: Any, batch: Any, single: Any) -> None:
    """Carries the steps out, one item at a time, and each that looks also in a batch, if there is one."""
    for step in case["steps"]:
        (name,) = step.keys() - BESIDE
        options = {key: step[key] for key in ("at_ms", "ttl_ms") if key in step}
        reply = single(sketch, name, step[name], options)
        assert reply == step.get("reply"), (case["name"], step)
        many = batch(sketch, name, step[name], options)
        assert many is None or list(many) == step["reply"], (case["name"], step)


def check_bytes(sketch: Any, case: Any) -> None:
    """Its bytes are those of the case, and make an equal object."""
    kind = type(sketch)
    load = bytes.fromhex(case.get("load", case["dump"]))
    assert sketch.to_bytes() == load
    for form in ("load", "dump"):
        if form in case:
            assert kind.from_bytes(bytes.fromhex(case[form])) == sketch


def check_chunks(sketch: S, case: Any) -> None:
    # The files have no chunks of a cuckoo filter without items.
    if "chunks" not in case:
        assert len(sketch) == 0
        return
    pairs = [(cursor, bytes.fromhex(chunk)) for cursor, chunk in case["chunks"]]
    assert list(sketch.chunks()) == pairs
    assert type(sketch).from_chunks(pairs) == sketch


def make_bloom(create: Any) -> Bloom:
    if "dump" in create:
        return Bloom.from_bytes(bytes.fromhex(create["dump"]))
    options: dict[str, Any] = {
        "expansion": create["expansion"] or None,
        "seed": bytes.fromhex(create["seed"]),
    }
    capacity, error_rate = create["capacity"], create["error_rate"]
    if create.get("counting"):
        return Bloom.counting(capacity, error_rate, **options)
    if "window_ms" in create:
        options |= {name: create[name] for name in ("window_ms", "periods")}
        return Bloom.window(capacity, error_rate, **options)
    if create.get("scale_to") == capacity:
        return Bloom.scaled_to(capacity, error_rate, **options)
    return Bloom(capacity, error_rate, **options)


@cases("bloom")
def test_bloom(case: Any) -> None:
    def single(sketch: Any, name: str, argument: Any, options: Any) -> Any:
        if name == "cardinality":
            return sketch.card(**options)
        return each(argument, lambda value: getattr(sketch, name)(item(value), **options))

    def batch(sketch: Any, name: str, argument: Any, options: Any) -> Any:
        return sketch.contains_many(map(item, argument), **options) if name == "contains" else None

    sketch = make_bloom(case["create"])
    replay(sketch, case, batch, single)
    check_bytes(sketch, case)
    check_chunks(sketch, case)


@cases("cuckoo")
def test_cuckoo(case: Any) -> None:
    def single(sketch: Any, name: str, argument: Any, _: Any) -> Any:
        call = sketch.__contains__ if name == "contains" else getattr(sketch, name)
        return each(argument, lambda value: call(item(value)))

    def batch(sketch: Any, name: str, argument: Any, _: Any) -> Any:
        return sketch.contains_many(map(item, argument)) if name == "contains" else None

    sketch = CuckooFilter(**case["create"])
    replay(sketch, case, batch, single)
    check_bytes(sketch, case)
    check_chunks(sketch, case)


@cases("count-min")
def test_count_min(case: Any) -> None:
    def single(sketch: Any, name: str, argument: Any, _: Any) -> Any:
        if name == "increment":
            return each(argument, lambda pair: sketch.add(item(pair[0]), pair[1]))
        return each(argument, lambda value: sketch.query(item(value)))

    def batch(sketch: Any, name: str, argument: Any, _: Any) -> Any:
        return sketch.query_many(map(item, argument)) if name == "query" else None

    create = case["create"]
    if "width" in create:
        sketch = CountMin(**create)
    else:
        sketch = CountMin.from_rates(create["error_rate"], create["probability"])
    replay(sketch, case, batch, single)
    check_bytes(sketch, case)


@cases("top-k")
def test_top_k(case: Any) -> None:
    def single(sketch: Any, name: str, argument: Any, _: Any) -> Any:
        if name == "list":
            return sketch.list()
        if name == "contains":
            return each(argument, lambda value: item(value) in sketch)
        pairs = argument if name == "increment" else [(value, 1) for value in argument]
        return each(pairs, lambda pair: sketch.add(item(pair[0]), pair[1]))

    def batch(sketch: Any, name: str, argument: Any, _: Any) -> Any:
        return sketch.contains_many(map(item, argument)) if name == "contains" else None

    # Items come back as bytes.
    for step in case["steps"]:
        if "list" in step:
            step["reply"] = [(raw(name), count) for name, count in step["reply"]]
        elif "contains" not in step:
            step["reply"] = [
                left if left is None or "error" in left else raw(left) for left in step["reply"]
            ]
    sketch = TopK(**case["create"])
    replay(sketch, case, batch, single)
    check_bytes(sketch, case)


@cases("t-digest")
def test_t_digest(case: Any) -> None:
    names = {"reverse_rank": "rev_rank", "by_reverse_rank": "by_rev_rank"}

    def single(sketch: Any, name: str, argument: Any, _: Any) -> Any:
        if name in ("min", "max"):
            return number(getattr(sketch, name))
        if name == "add":
            return sketch.update(argument)
        if name == "trimmed_mean":
            return number(sketch.trimmed_mean(*argument))
        return each(argument, lambda value: number(getattr(sketch, names.get(name, name))(value)))

    def batch(sketch: Any, name: str, argument: Any, _: Any) -> Any:
        return map(number, sketch.quantiles(argument)) if name == "quantile" else None

    sketch = TDigest(**case["create"])
    replay(sketch, case, batch, single)
    check_bytes(sketch, case)


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
    assert names == {"hash", "bloom", "cuckoo", "count-min", "top-k", "t-digest"}
