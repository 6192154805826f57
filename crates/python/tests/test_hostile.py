"""Bytes from anywhere: they are an object, or they are refused, and the process goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import TOP

#: The first byte of an input says what the rest is. Some have strings after their lengths: of a dump behind its first byte,
#: of a header and its chunks.
CORPUS = """
import resource, sys
from pathlib import Path
from valkeybloom import *

# A forged length that were believed would end here.
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), -1))
CLASSES = (Bloom, CuckooFilter, CountMin, TopK, TDigest)
ITEMS = ["a", "", 5]
taken = refused = 0

def use(one):
    repr(one), one.nbytes, one == one, one.to_bytes(), one.copy()
    if isinstance(one, TDigest):
        one.quantiles([0, 0.3, 1]), one.cdf(5), one.rank(3), one.update([1.0, 2.0]), one.trimmed_mean(0, 1)
    elif isinstance(one, CountMin):
        one.query("a"), one.query_many(ITEMS)
    else:
        one.contains_many(ITEMS), "a" in one, len(one)
    if isinstance(one, TopK):
        one.list(), one.count("a")

def attempt(call, *arguments):
    global taken, refused
    try:
        one = call(*arguments)
    except (ValueError, MemoryError, OverflowError):
        refused += 1
        return
    taken += 1
    try:
        use(one)
        if not isinstance(one, TDigest):
            one.update(ITEMS)
    except (ValueError, MemoryError):
        pass

def attempt_all(data):
    for kind in CLASSES:
        attempt(kind.from_bytes, data)

for folder in sys.argv[1:]:
    for path in sorted(Path(folder).rglob("*")):
        if not path.is_file():
            continue
        data = path.read_bytes()
        rest, length = data[1:], int.from_bytes(data[1:3], "little")
        string, behind = data[3 : 3 + length], data[3 + length :]
        for one in (data, rest, b"\\2" + string):
            attempt_all(one)
        for header, chunk in ((data, rest), (rest, data), (string, behind[4:]), (string, behind)):
            for kind in (Bloom, CuckooFilter):
                attempt(kind.from_chunks, [(1, header)])
                for size in range(len(chunk)):
                    attempt(kind.from_chunks, [(1, header), (1 + len(chunk[size:]), chunk[size:])])
print(taken, refused)
"""


@pytest.mark.once
def test_the_inputs_of_the_fuzzer() -> None:
    folders = (str(TOP / "fuzz/corpus"), str(TOP / "fuzz/regressions"))
    command = [sys.executable, "-X", "faulthandler", "-c", CORPUS, *folders]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0 and "panicked" not in done.stderr, done.stderr
    taken, refused = map(int, done.stdout.split())
    assert taken > 10 and refused > 1000
