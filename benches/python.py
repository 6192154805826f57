"""What the Python package's calls cost, beside those of other packages, in one run.

Each figure is the best of several rounds, in millions of items a second of processor time, of strings of 25 bytes. A row
may name a goal.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import fastbloom_rs
import pyarrow as pa
import pybloomfilter
import rbloom
from valkeybloom import Bloom

N = 1_000_000
ROUNDS = 5

chance = random.Random(1)
ITEMS = [f"{chance.getrandbits(82):025d}" for _ in range(N)]
OTHERS = [f"x{chance.getrandbits(78):024d}" for _ in range(N)]
MIXED = [item for pair in zip(ITEMS[: N // 2], OTHERS[: N // 2]) for item in pair]
ARROW, ARROW_MIXED = pa.array(ITEMS), pa.array(MIXED)
FEW = N // 10
ARROW_FEW = pa.array(ITEMS[:FEW])


def portable(item: str) -> int:
    """A hash for rbloom that is the same in every process."""
    return int.from_bytes(item.encode()[:16], "little", signed=True)


def each(call: Callable[[Any], Any], items: list[str]) -> None:
    for item in items:
        call(item)


def contained(filter: Any, items: list[str]) -> None:
    for item in items:
        item in filter


class Rows:
    """The table, a row for each call of a package."""

    def __init__(self, wanted: list[str]) -> None:
        self.wanted, self.missed = wanted, 0

    def measure(
        self,
        package: str,
        call: str,
        run: Callable[[Any], Any],
        make: Callable[[], Any],
        items: int = N,
        goal: float | None = None,
    ) -> None:
        name = f"{package} {call}"
        if self.wanted and not any(word in name for word in self.wanted):
            return
        best = float("inf")
        for _ in range(ROUNDS):
            filter = make()
            start = time.process_time()
            run(filter)
            best = min(best, time.process_time() - start)
        speed = items / best / 1e6
        note = "" if goal is None else f"{goal:6.0f} {'reached' if speed >= goal else 'missed'}"
        self.missed += goal is not None and speed < goal
        print(f"{package:20} {call:34} {speed:8.1f} {note}".rstrip(), flush=True)


def of(make: Callable[[], Any], fill: Callable[[Any], Any]) -> Callable[[], Any]:
    """Returns what returns a filled filter."""
    filter = make()
    fill(filter)
    return lambda: filter


def update(items: Any) -> Callable[[Any], Any]:
    return lambda filter: filter.update(items)


def measure_ours(rows: Rows) -> None:
    def ours() -> Bloom:
        return Bloom(N, 0.01)

    def small() -> Bloom:
        return Bloom(FEW, 0.01)

    def measure(*call: Any, goal: float) -> None:
        rows.measure("valkeybloom", *call, goal=goal)

    full = of(ours, update(ITEMS))
    measure("add", lambda f: each(f.add, ITEMS), ours, goal=12)
    measure("in", lambda f: contained(f, MIXED), full, goal=12)
    measure("update, a list", update(ITEMS), ours, goal=25)
    measure("contains_many, a list", lambda f: f.contains_many(MIXED), full, goal=25)
    measure("update, Arrow, in cache", update(ARROW_FEW), small, FEW, goal=35)
    cached = of(small, update(ARROW_FEW))
    measure("contains_many, Arrow, in cache", lambda f: f.contains_many(ARROW_MIXED), cached, goal=50)
    large = of(lambda: Bloom(100_000_000, 0.01), lambda f: f.update(range(2 * N)))
    parts = iter([pa.array([f"{part}{item[1:]}" for item in ITEMS]) for part in range(1, 1 + ROUNDS)])
    measure("update, Arrow, 120 MB", lambda f: f.update(next(parts)), large, goal=15)
    present = of(large, update(ARROW))
    measure("contains_many, Arrow, 120 MB", lambda f: f.contains_many(ARROW_MIXED), present, goal=20)


def measure_rbloom(rows: Rows, name: str, *hash_function: Callable[[Any], int]) -> None:
    def theirs() -> Any:
        return rbloom.Bloom(N, 0.01, *hash_function)

    rows.measure(name, "add", lambda f: each(f.add, ITEMS), theirs)
    rows.measure(name, "in", lambda f: contained(f, MIXED), of(theirs, update(ITEMS)))
    rows.measure(name, "update, a list", update(ITEMS), theirs)


def measure_fastbloom(rows: Rows) -> None:
    def fast() -> Any:
        return fastbloom_rs.BloomFilter(N, 0.01)

    def measure(*call: Any) -> None:
        rows.measure("fastbloom-rs", *call)

    full = of(fast, lambda f: f.add_str_batch(ITEMS))
    measure("add", lambda f: each(f.add_str, ITEMS), fast)
    measure("in", lambda f: contained(f, MIXED), full)
    measure("update, a list", lambda f: f.add_str_batch(ITEMS), fast)
    measure("contains_many, a list", lambda f: f.contains_str_batch(MIXED), full)
    large = of(lambda: fastbloom_rs.BloomFilter(100_000_000, 0.01), lambda f: f.add_str_batch(OTHERS))
    measure("update, a list, 120 MB", lambda f: f.add_str_batch(ITEMS), large)
    measure("contains_many, a list, 120 MB", lambda f: f.contains_str_batch(MIXED), large)


def measure_pybloomfilter(rows: Rows) -> None:
    def theirs() -> Any:
        return pybloomfilter.BloomFilter(N, 0.01)

    rows.measure("pybloomfiltermmap3", "add", lambda f: each(f.add, ITEMS), theirs)
    rows.measure("pybloomfiltermmap3", "in", lambda f: contained(f, MIXED), of(theirs, update(ITEMS)))
    rows.measure("pybloomfiltermmap3", "update, a list", update(ITEMS), theirs)


def main() -> None:
    rows = Rows(sys.argv[1:])
    print(f"{'package':20} {'call':34} {'M/s':>8} {'goal':>6}")
    measure_ours(rows)
    measure_rbloom(rows, "rbloom")
    measure_rbloom(rows, "rbloom, portable", portable)
    measure_fastbloom(rows)
    measure_pybloomfilter(rows)
    program = "import time; start = time.perf_counter(); import valkeybloom; print(time.perf_counter() - start)"
    imports = min(float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(10))
    print(f"\nimport valkeybloom: {1000 * imports:.1f} ms (goal: less than 10)")
    if "WHEEL" in os.environ:
        print(f"wheel: {os.path.getsize(os.environ['WHEEL']) / 1e6:.2f} MB (goal: less than 1)")
    print(f"goals missed: {rows.missed}")


if __name__ == "__main__":
    main()
