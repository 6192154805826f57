"""Threads: a batch is seen as a whole, locks do not block one another, and other threads run meanwhile."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from valkeybloom import Bloom, CountMin, CuckooFilter, TDigest, TopK

SEED = bytes(range(32))


def together(*runs: Callable[[], object]) -> None:
    """Runs all at once, and raises what one of them raised."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(runs))

    def run(one: Callable[[], object]) -> None:
        try:
            barrier.wait()
            one()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(one,), daemon=True) for one in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "threads wait for one another"
    if errors:
        raise errors[0]


def test_a_batch_is_seen_as_a_whole() -> None:
    hits, batch = CountMin(100_000, 2), np.arange(20_000)
    asked = np.array([0, 19_999])
    done = threading.Event()

    def write() -> None:
        for _ in range(50):
            hits.update(batch)
        done.set()

    def read() -> None:
        seen = 0
        while not done.is_set():
            first, last = hits.query_many(asked)
            assert first == last >= seen
            seen = first

    together(write, read, read)
    assert hits.query(0) == 50 and hits.total == 50 * 20_000


def test_all_additions_of_all_threads_are_there() -> None:
    bloom, cuckoo, hits, top, times = Bloom(100, 0.001), CuckooFilter(1000), CountMin(2000, 5), TopK(10), TDigest()

    def run(first: int) -> Callable[[], None]:
        def add() -> None:
            for number in range(first, first + 3000):
                for sketch in (bloom, cuckoo, hits, top):
                    sketch.add(number)
                times.add(number)
                assert number in bloom and number in cuckoo and hits.query(number) >= 1
            bloom.update(range(first, first + 3000))

        return add

    together(*(run(3000 * number) for number in range(4)))
    assert all(bloom.contains_many(range(12_000))) and all(cuckoo.contains_many(range(12_000)))
    assert len(cuckoo) == len(times) == hits.total == 12_000 and (times.min, times.max) == (0, 11_999)


def test_objects_that_are_merged_into_one_another() -> None:
    filters = [Bloom(100, 0.001, seed=SEED) for _ in range(3)]
    for number, filter in enumerate(filters):
        filter.update(range(1000 * number, 1000 * number + 1000))

    def run(start: int) -> Callable[[], None]:
        def merge() -> None:
            for step in range(100):
                one, other = filters[(start + step) % 3], filters[(start + 2 * step + 1) % 3]
                one |= other
                assert one == one.copy() or True
                one.union(other, one).add(step)
                assert (one == other) in (True, False)
                one.add(step)

        return merge

    together(*map(run, range(6)))
    assert all(filters[0].union(*filters).contains_many(range(3000)))


def test_other_threads_run_during_a_batch() -> None:
    filter, batch = Bloom(10_000_000, 0.01), np.arange(10_000_000)
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    def add() -> None:
        start = time.monotonic()
        filter.update(batch)
        end = time.monotonic()
        done.set()
        assert sum(start < tick < end for tick in ticks) > 10

    together(tick, add)


def test_a_thread_that_waits_lets_others_run() -> None:
    filter, batch = Bloom(10_000_000, 0.01), np.arange(5_000_000)
    running, done = threading.Event(), threading.Event()
    counted = [0]

    def batches() -> None:
        running.set()
        for _ in range(3):
            filter.update(batch)
        done.set()

    def single() -> None:
        running.wait()
        while not done.is_set():
            filter.add("one")

    def count() -> None:
        running.wait()
        while not done.is_set():
            counted[0] += 1
            time.sleep(0)

    together(batches, single, count)
    assert counted[0] > 100 and "one" in filter


EXITING = """
import sys, threading, time
import pyarrow as pa
from valkeybloom import Bloom, CountMin, Near, TDigest

running = threading.Barrier(9)

def slow(item):
    running.wait()
    while True:
        time.sleep(0.001)
        yield item

class Slow:
    def execute_command(self, *_, **__):
        if threading.current_thread().name.startswith("valkeybloom"):
            raise OSError
        list(slow(0))

    def wait(self, *_):
        list(slow(0))

    __arrow_c_array__ = __index__ = __float__ = __fspath__ = __buffer__ = wait

class Attributes(bytearray):
    def __getattr__(self, _):
        list(slow(0))

near, schema = Near(Slow(), "seen"), pa.schema({"a": pa.int64()})
rows = lambda: (pa.record_batch([[n]], schema) for n in slow(1))
calls = {
    "generator": lambda: Bloom(100, 0.01).update(slow("a")),
    "numbers": lambda: CountMin(9, 9).update(["a"], slow(1)),
    "doubles": lambda: TDigest().update(slow(0.5)),
    "chunks": lambda: Bloom.from_chunks(slow((0, b""))),
    "sketches": lambda: CountMin.merged(slow((CountMin(9, 9), 1))),
    "digests": lambda: TDigest.merged(slow(TDigest())),
    "array": lambda: Bloom(100, 0.01).contains_many(Slow()),
    "list": lambda: Bloom(100, 0.01).update([Slow()]),
    "batch": lambda: Bloom(100, 0.01).update(Attributes()),
    "item": lambda: Bloom(100, 0.01).add(Slow()),
    "whole": lambda: Bloom(Slow(), 0.01),
    "rate": lambda: Bloom(100, Slow()),
    "value": lambda: TDigest().add(Slow()),
    "path": lambda: Bloom.load(Slow()),
    "buffer": lambda: Bloom.from_bytes(Slow()),
    "stream": lambda: Bloom(100, 0.01).update(pa.RecordBatchReader.from_batches(schema, rows())),
    "in": lambda: "a" in near,
    "add": lambda: near.add("a"),
}
for _ in range(8):
    threading.Thread(target=calls[sys.argv[1]], daemon=True).start()
running.wait()
"""


CALLS = re.findall('^    "([a-z]+)": ', EXITING, re.MULTILINE)


@pytest.mark.parametrize("call", CALLS)
def test_an_interpreter_ends_while_threads_are_in_calls(call: str) -> None:
    """Daemon threads that Python ends in a call from Rust."""
    if call == "buffer" and sys.version_info < (3, 12):
        pytest.skip("only C has buffers")
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", EXITING, call], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
