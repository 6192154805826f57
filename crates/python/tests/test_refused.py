"""Parameters that are refused, and memory that there is not."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import valkeybloom
from valkeybloom import Bloom, CountMin, CuckooFilter, TDigest, TopK


FORGED = """
import resource
from valkeybloom import *
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, -1))
for one in (Bloom(1, 0.1, expansion=2**31), CuckooFilter(65536, expansion=32768)):
    forged = type(one).from_bytes(one.to_bytes())
    try:
        forged.update(range(100_000))
    except ValueError as error:
        print(str(error), forged.filters, forged.nbytes < 1 << 20)
grown = CuckooFilter(4, bucket_size=1)
try:
    grown.update(range(10_000))
except ValueError as error:
    print(error, grown.filters)
limit_growth(filter_bytes=100_000, cuckoo_filters=50)
try:
    grown.update(range(10_000, 11_000))
except ValueError as error:
    print(error, grown.filters)
small = Bloom(50_000, 0.01)
large = Bloom(200_000, 0.01)
large.update(range(200_000))
print(small.update(range(50_000)) > 40_000)
try:
    small.update(range(50_000, 100_000))
except ValueError as error:
    print(error, small.filters)
limit_growth()
print(small.update(range(50_000, 100_000)) > 40_000, small.filters)
"""


def test_no_addition_takes_all_memory() -> None:
    run = subprocess.run([sys.executable, "-c", FORGED], capture_output=True, text=True, timeout=300)
    memory = "the filter would exceed the limit on memory, which limit_growth sets for filters that grow"
    assert run.stdout.splitlines() == [
        f"{memory} 1 True", "Insufficient memory: operation exceeds cuckoo filter memory limit 1 True",
        "Maximum expansions reached 32", "Maximum expansions reached 50",
        "True", f"{memory} 1", "True 2",
    ], run.stderr  # fmt: skip


REFUSED = {
    "(capacity should be larger than 0)": lambda: Bloom(0, 0.1),
    "bad capacity": lambda: Bloom(-1, 0.1),
    "bad capacity ": lambda: Bloom(2**63, 0.1),
    "(0 < error rate range < 1)": lambda: Bloom(10, 1),
    "(0 < error rate range < 1) ": lambda: Bloom(10, 0.0),
    "(0 < error rate range < 1)  ": lambda: Bloom(10, math.nan),
    "bad expansion": lambda: Bloom(10, 0.1, expansion=-1),
    "bad expansion ": lambda: Bloom(10, 0.1, expansion=2**32),
    "invalid seed": lambda: Bloom(10, 0.1, seed=b"short"),
    "bad window": lambda: Bloom.window(10, 0.1, window_ms=-1, periods=2),
    "(window should be larger than 0)": lambda: Bloom.window(10, 0.1, window_ms=0, periods=2),
    "bad periods": lambda: Bloom.window(10, 0.1, window_ms=10, periods=60_001),
    "cannot use NONSCALING and SCALETO options together": lambda: Bloom.scaled_to(10, 0.1, expansion=None),
    "Capacity must be in the range [2 * BUCKETSIZE, 1073741824]": lambda: CuckooFilter(1),
    "BUCKETSIZE: value must be in the range [1, 255]": lambda: CuckooFilter(10, bucket_size=256),
    "EXPANSION: value must be in the range [0, 32768]": lambda: CuckooFilter(10, expansion=-1),
    "CMS: invalid width": lambda: CountMin(0, 5),
    "CMS: invalid depth": lambda: CountMin(5, 257),
    "CMS: CELL_SIZE must be 1, 2, 4 or 8": lambda: CountMin(5, 5, cell_size=3),
    "CMS: invalid overestimation value": lambda: CountMin.from_rates(1, 0.1),
    "CMS: invalid prob value": lambda: CountMin.from_rates(0.1, 0),
    "TopK: invalid k": lambda: TopK(0),
    "TopK: invalid width": lambda: TopK(1, 2**32),
    "TopK: invalid depth": lambda: TopK(1, 8, 33),
    "TopK: invalid decay value. must be '<= 1' & '> 0'": lambda: TopK(1, 8, 7, 1.1),
    "T-Digest: compression parameter needs to be a positive integer": lambda: TDigest(0),
    "T-Digest: allocation failed": lambda: TDigest(100_001),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_the_server_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text.strip())}$"):
        REFUSED[text]()


def test_parameters_of_other_types() -> None:
    for call, text in (
        (lambda: Bloom("10", 0.1), "^capacity is an integer, not str$"),
        (lambda: Bloom(1e6, 0.01), "^capacity is an integer, not float$"),
        (lambda: Bloom(0.01, 1_000_000), "^(capacity is an integer, not float|error_rate)"),
        (lambda: Bloom(True, 0.1), "^capacity is an integer, not bool$"),
        (lambda: Bloom(10, "0.1"), "^error_rate is a number, not str$"),
        (lambda: Bloom(10, 0.1, expansion=1.5), "^expansion is an integer, not float$"),
        (lambda: Bloom.window(10, 0.1, window_ms=1.5, periods=3), "^window_ms is an integer, not float$"),
        (lambda: Bloom(10, 0.1).add("a", ttl_ms=1.5), "^ttl_ms is an integer, not float$"),
        (lambda: Bloom(10, 0.1).contains("a", at_ms="now"), "^at_ms is an integer, not str$"),
        (lambda: CuckooFilter(None), "^capacity is an integer, not NoneType$"),
        (lambda: CountMin(0.01, 0.01), "^width is an integer, not float$"),
        (lambda: CountMin.from_rates("a", 0.01), "^error is a number, not str$"),
        (lambda: TopK(5, decay="x"), "^decay is a number, not str$"),
        (lambda: TDigest(1.5), "^compression is an integer, not float$"),
        (lambda: Bloom(10, 0.1, seed="x"), None), (lambda: Bloom(10), None), (lambda: Bloom(10, 0.1, 2), None),
        (lambda: CountMin(5, 5).add("a", 1.5), None), (lambda: TopK(1).add("a", "b"), None),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=text):
            call()
    assert Bloom(np.int64(10), np.float64(0.1), expansion=np.uint8(3)).expansion == 3


MEMORY = """
import resource
from valkeybloom import *
small = Bloom(1000, 0.01)
large = Bloom(150_000_000, 0.01)
resource.setrlimit(resource.RLIMIT_AS, (resource.getrlimit(resource.RLIMIT_AS)[0], -1))
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), -1))
for number, call in enumerate([
    lambda: Bloom(10**9, 0.01), lambda: Bloom(10**15, 0.01),
    lambda: Bloom.counting(10**9, 0.01).update(range(10**8)), lambda: Bloom.scaled_to(10**9, 0.01).update(range(10**8)),
    lambda: Bloom.window(10**9, 0.01, window_ms=1000, periods=5).update(range(10**8)),
    lambda: CuckooFilter(2**30), lambda: CountMin(10**9, 5), lambda: CountMin(10**17, 5), lambda: TopK(5, 10**8, 8),
    lambda: TopK(2**31, 2**31), large.copy, large.to_bytes, lambda: large | large.union(large), lambda: large == large,
    lambda: small.update(map(str, range(10**8))), lambda: small.update(["x" * 10_000_000] * 20), large.clear,
    lambda: TDigest().update(range(10**8)), lambda: large.save("/tmp/never"), lambda: CountMin(5, 5).update(range(10**8)),
]):
    try:
        call()
    except MemoryError:
        continue
    raise SystemExit(f"call {number} had enough memory")
assert small.add("a") and "a" in small and not large.add("a") is None
print("all refused")
"""


def test_memory_beyond_what_there_is() -> None:
    run = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, timeout=300)
    assert (run.stdout, run.returncode) == ("all refused\n", 0), run.stderr


def test_a_number_out_of_range_is_a_value_error() -> None:
    huge = 10**400
    window = Bloom.window(10, 0.01, window_ms=1000, periods=3)
    for at in (-1, 2**63, huge):
        with pytest.raises(ValueError, match="^bad at_ms$"):
            window.add("a", at_ms=at)
        with pytest.raises(ValueError, match="^bad at_ms$"):
            window.update(["a"], at_ms=at)
    assert not window and window.add("a", at_ms=2**63 - 1)
    for limits in ({"filter_bytes": -1}, {"cuckoo_filters": -1}, {"filter_bytes": huge}):
        with pytest.raises(ValueError, match=f"^bad {next(iter(limits))}$"):
            valkeybloom.limit_growth(**limits)
    digest = TDigest()
    calls: list[Any] = [
        lambda: digest.add(huge), lambda: digest.update([huge]), lambda: digest.update(iter([1, -huge])),
        lambda: digest.quantile(huge), lambda: digest.quantiles([0.5, huge]), lambda: digest.cdf(huge), lambda: digest.rank(huge),
        lambda: digest.rev_rank(-huge), lambda: digest.trimmed_mean(0, huge), lambda: digest.by_rank(huge), lambda: digest.by_rank(-1),
        lambda: Bloom(10, huge), lambda: Bloom(huge, 0.01), lambda: Bloom(10, 0.1, expansion=huge), lambda: TopK(3, decay=huge),
        lambda: CountMin.from_rates(huge, 0.1), lambda: CountMin(10, 2).add("a", huge), lambda: TopK(3).add("a", -huge),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ValueError):
            call()
    assert not len(digest)
