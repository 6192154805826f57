"""Bytes from anywhere: they are an object, or they are refused, and the process goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]

#: What both programs below need.
START = """
import pickle, random, resource, struct, sys
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

def end():
    print(taken, refused)
"""

# The first byte of an input says what the rest is. Some have strings after their lengths: of a dump behind its first byte,
# of a header and its chunks.
CORPUS = (
    START
    + """
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
end()
"""
)

MUTATIONS = (
    START
    + """
chance = random.Random(int(sys.argv[1]))
rounds = int(sys.argv[2])

def crc(data, table=[]):
    if not table:
        for byte in range(256):
            value = byte
            for _ in range(8):
                value = value >> 1 ^ (0x95AC9329AC4BC9B5 if value & 1 else 0)
            table.append(value)
    value = 0
    for byte in data:
        value = table[(value ^ byte) & 255] ^ value >> 8
    return value

def sealed(data):
    return data + struct.pack("<Q", crc(data))

hits, top, times = CountMin(5, 2), TopK(2, 5, 2), TDigest(5)
hits.update(["a", "b"]), top.update(["a", "b", "a"]), times.update(range(50))
filters = [
    Bloom(3, 0.1), Bloom(5, 0.1, expansion=None), Bloom.counting(3, 0.1),
    Bloom.window(3, 0.1, window_ms=10**9, periods=3), Bloom.scaled_to(3, 0.1), CuckooFilter(4),
    CuckooFilter(4, bucket_size=1, expansion=2),
]
for one in filters:
    one.update(ITEMS)
filters[3].add("late", ttl_ms=1)
start = [one.to_bytes() for one in (*filters, hits, top, times)]
pairs = [(type(one), list(one.chunks())) for one in filters]
assert sealed(start[-1][:-8]) == start[-1]

def mutated(data):
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        kind, at = chance.randrange(6), chance.randrange(len(data) + 1)
        if kind == 0:
            data[at:at + 1] = bytes([chance.randrange(256)])
        elif kind == 1:
            data[at:at + 1] = bytes([data[at % len(data)] ^ 1 << chance.randrange(8)]) if data else b""
        elif kind == 2:
            del data[at:at + chance.choice((1, 8, 100))]
        elif kind == 3:
            data[at:at] = chance.randbytes(chance.choice((1, 8)))
        elif kind == 4:
            number = chance.choice((0, 1, 2**31 - 1, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1))
            data[at:at + 8] = struct.pack(chance.choice("<>") + "Q", number)
        else:
            other = chance.choice(start)
            data[at:at + 20] = other[chance.randrange(len(other)):][:chance.choice((1, 20, 200))]
    return bytes(data)

for _ in range(rounds):
    kind = chance.randrange(10)
    if kind == 0:
        family, chunks = chance.choice(pairs)
        attempt(family.from_chunks, [(cursor, mutated(c) if chance.random() < 0.5 else c) for cursor, c in chunks])
    elif kind == 1:
        cursor = chance.choice((0, 1, 2, 2**32, 2**63, 2**64 - 1))
        family, chunks = chance.choice(pairs)
        attempt(family.from_chunks, [*chunks[:1], (cursor, mutated(chance.choice(start)))])
    elif kind == 2:
        family = chance.choice(CLASSES)
        attempt(pickle.loads, pickle.dumps(Unpickled(family, mutated(chance.choice(start)))))
    else:
        data = chance.choice(start)
        # Most mutations are of what is behind the checksum, so that it does not hide the rest.
        if data[:2] == b"\\x07\\x81":
            data = sealed(mutated(data[:-8])) if kind < 9 else mutated(data)
        else:
            data = mutated(data)
        attempt(chance.choice(CLASSES).from_bytes, data) if kind > 5 else attempt_all(data)
end()
"""
).replace(
    "chance = random",
    """
class Unpickled:
    def __init__(self, family, data):
        self.family, self.data = family, data

    def __reduce__(self):
        return self.family.from_bytes, (self.data,)

chance = random""",
    1,
)


def run(program: str, *arguments: str) -> tuple[int, int]:
    """Returns how many were taken and how many refused."""
    command = [sys.executable, "-X", "faulthandler", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr
    assert "panicked" not in done.stderr, done.stderr
    taken, refused = map(int, done.stdout.split())
    return taken, refused


@pytest.mark.once
def test_the_inputs_of_the_fuzzer() -> None:
    taken, refused = run(CORPUS, str(TOP / "fuzz/corpus"), str(TOP / "fuzz/regressions"))
    assert taken > 10 and refused > 1000


@pytest.mark.once
@pytest.mark.parametrize("seed", range(4))
def test_mutations(seed: int) -> None:
    rounds = int(os.environ.get("MUTATIONS", 1_000_000)) // 4
    taken, refused = run(MUTATIONS, str(seed), str(rounds))
    assert taken > rounds // 100 and refused > rounds // 10
