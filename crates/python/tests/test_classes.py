"""What the classes do, compared with sets and counters of Python, and with what is asked of the server's commands."""

from __future__ import annotations

import copy
import errno
import math
import os
import pickle
import random
import re
import shutil
import stat
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import valkeybloom
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


def test_a_filter_knows_what_a_set_knows() -> None:
    chance = random.Random(1)
    for make in (Bloom, Bloom.counting, Bloom.scaled_to):
        filter, known, wrong = make(50, 0.001, seed=SEED), set(), 0
        for _ in range(300):
            items = [str(chance.randrange(5000)) for _ in range(chance.choice([1, 3, 100]))]
            before = len(filter)
            if len(items) == 1:
                new = int(filter.add(items[0]))
            else:
                new = filter.update(items)
            missing = len(set(items) - known)
            wrong += missing - new
            assert 0 <= missing - new <= 5 and len(filter) - before == new
            known |= set(items)
            assert all(filter.contains_many(list(known)))
        assert wrong < 50
        others = [f"other{n}" for n in range(20_000)]
        claimed = sum(filter.contains_many(others))
        assert claimed < 20_000 * 0.0015 and filter.estimated_error_rate < 0.0015
        assert claimed == sum(item in filter for item in others) == sum(map(filter.contains, others))
        assert filter.filters > 2 and filter.capacity >= len(filter)


def test_equal_seeds_make_equal_filters() -> None:
    one, other = Bloom(100, 0.01, seed=SEED), Bloom(100, 0.01, seed=SEED)
    for item in "abc":
        one.add(item)
    assert one != other
    other.update(["c", "b", "a"])
    assert one == other and one.seed == other.seed == SEED and one.to_bytes() == other.to_bytes()
    assert Bloom(100, 0.01).seed != Bloom(100, 0.01).seed
    assert one != 5 and one is not None and (one == "a") is False


def test_a_filter_that_does_not_grow_is_full_at_last() -> None:
    filter = Bloom(10, 0.01, expansion=None)
    with pytest.raises(ValueError, match="^non scaling filter is full$"):
        filter.update(map(str, range(100)))
    assert len(filter) == 10 and filter.expansion is None and filter.filters == 1
    with pytest.raises(ValueError, match="^non scaling filter is full$"):
        for item in range(100, 200):
            filter.add(item)


def test_windows_forget() -> None:
    filter = Bloom.window(100, 1e-9, window_ms=DAY, periods=3)
    assert (filter.window_ms, filter.periods, filter.is_counting) == (DAY, 3, False)
    assert filter.add("a", at_ms=0) and not filter.add("a", at_ms=DAY - 1)
    assert filter.update(["b", "c"], at_ms=DAY) == 2
    assert filter.add("short", at_ms=DAY, ttl_ms=1)
    for at_ms, known in ((DAY, "abc"), (3 * DAY - 1, "abc"), (3 * DAY, "bc"), (4 * DAY, "")):
        assert [filter.contains(item, at_ms=at_ms) for item in "abc"] == [item in known for item in "abc"]
        assert list(filter.contains_many(list("abc"), at_ms=at_ms)) == [i in known for i in "abc"]
    assert [filter.card(at_ms=at_ms) for at_ms in (2 * DAY - 1, 2 * DAY, 9 * DAY)] == [4, 3, 0]
    assert [filter.contains("short", at_ms=at_ms) for at_ms in (2 * DAY - 1, 2 * DAY)] == [True, False]
    for wrong in (0, 3 * DAY + 1, -1):
        with pytest.raises(ValueError, match="ttl"):
            filter.add("x", at_ms=DAY, ttl_ms=wrong)
    # By the clock, all of that is long ago.
    assert "a" not in filter and len(filter) == 0
    assert filter.add("now") and "now" in filter and len(filter) == 1
    one = Bloom.window(100, 1e-9, window_ms=DAY, periods=3)
    other = Bloom.window(100, 1e-9, window_ms=DAY, periods=3, seed=one.seed)
    one.add("a", at_ms=0)
    other.add("b", at_ms=DAY)
    both = one.union(other, at_ms=DAY)
    assert both.contains("a", at_ms=DAY) and both.contains("b", at_ms=DAY)
    assert len(one | other) == 0
    with pytest.raises(ValueError, match="^filter was not made with WINDOW$"):
        Bloom(10, 0.1).add("a", ttl_ms=5)
    month = Bloom.window(10, 0.01, window_ms=60_000, periods=43_200)
    month.add("a", at_ms=30 * DAY)
    assert month.contains("a", at_ms=60 * DAY - 1) and not month.contains("a", at_ms=60 * DAY)
    assert month.capacity == 432_010 and month.nbytes < 2000


def test_counters_take_back() -> None:
    filter = Bloom.counting(100, 1e-9)
    assert filter.is_counting and filter.update(["a", "a", "b"]) == 2
    assert filter.count("a") == 2 and filter.remove("a") and filter.count("a") == 1
    assert filter.remove("a") and not filter.remove("a") and "a" not in filter
    assert filter.update(["c"] * 1000) == 1 and filter.count("c") == 1000 and len(filter) == 2
    assert sum(filter.remove("c") for _ in range(1001)) == 1000
    one, other = (Bloom.counting(100, 0.001, seed=SEED) for _ in range(2))
    one.update(list("aab"))
    other.update(list("abbb"))
    both = one | other
    assert [both.count(item) for item in "abc"] == [2, 3, 0] and both | one == both
    for plain in (Bloom(10, 0.1), Bloom.window(10, 0.1, window_ms=10, periods=2), Bloom.scaled_to(10, 0.1)):
        for call in (lambda: plain.remove("a"), lambda: plain.count("a")):
            with pytest.raises(ValueError, match="^filter was not made with COUNTING$"):
                call()


def test_unions() -> None:
    one, other, third = (Bloom(20, 0.001, seed=SEED) for _ in range(3))
    one.update(range(100))
    other.update(range(50, 300))
    third.add("third")
    before = one.to_bytes()
    both = one | other
    assert all(both.contains_many(range(300))) and one.to_bytes() == before
    assert sum(both.contains_many(range(300, 20_300))) < 60
    all_three = one.union(other, third)
    assert all(all_three.contains_many([*range(300), "third"]))
    assert one | one == one and one.union() == one and one.union(one, one) == one
    same = one
    one |= other
    assert same is one and one == both
    one |= one
    assert one == both
    with pytest.raises(ValueError, match="^filters have different seeds: make them all with the seed of the first"):
        one | Bloom(20, 0.001)
    with pytest.raises(ValueError, match="^filters are of different kinds$"):
        one | Bloom.counting(20, 0.001, seed=SEED)
    with pytest.raises(ValueError, match="^error rates of the filters add up to 1 or more$"):
        rough, large = Bloom(20, 0.9, seed=SEED), Bloom(5000, 0.9, seed=SEED)
        rough.update(range(20))
        large.update(range(3000))
        rough | large
    for wrong in (5, None, {1}, CuckooFilter(10)):
        with pytest.raises(TypeError):
            one | wrong
        with pytest.raises(TypeError):
            one |= wrong
        with pytest.raises(TypeError):
            one.union(wrong)


def test_a_cuckoo_filter_is_a_bag() -> None:
    chance = random.Random(2)
    filter, bag = CuckooFilter(200, bucket_size=4), Counter[str]()
    for _ in range(2000):
        item = str(chance.randrange(300))
        if bag[item] and chance.random() < 0.5:
            assert filter.remove(item)
            bag[item] -= 1
        else:
            assert filter.add(item)
            bag[item] += 1
        assert filter.count(item) >= bag[item]
    assert len(filter) == bag.total() and filter.filters >= 1
    present = list(+bag)
    assert all(filter.contains_many(present)) and filter.update_new(present) == 0
    assert filter.update(present) == len(present)
    new = [f"new{n}" for n in range(100)]
    assert filter.update_new(new) > 80 and not filter.add_new(new[0])
    filter.compact()
    assert all(filter.contains_many([*present, *new]))
    assert (filter.bucket_size, filter.max_iterations, filter.expansion) == (4, 20, 1)
    full = CuckooFilter(4, bucket_size=2, expansion=0)
    with pytest.raises(ValueError, match="^Filter is full$"):
        full.update(range(100))
    assert len(full) == 4


def test_counts_are_never_too_low() -> None:
    chance = random.Random(3)
    for cell_size in (1, 2, 4, 8):
        hits, truth = CountMin(500, 5, cell_size=cell_size), Counter[str]()
        for _ in range(20):
            items = [str(chance.randrange(100)) for _ in range(10)]
            counts = [chance.randrange(3) for _ in items]
            hits.update(items, counts)
            for item, count in zip(items, counts, strict=True):
                truth[item] += count
        item = "again"
        assert hits.add(item) == 1 and hits.add(item, 2) == 3 and hits.add(item, -1) == 2
        truth[item] = 2
        asked = list(truth)
        found = list(hits.query_many(asked))
        assert found == [hits.query(item) for item in asked]
        assert all(count >= truth[item] for item, count in zip(asked, found, strict=True))
        assert sum(count > truth[item] for item, count in zip(asked, found, strict=True)) < 5
        assert hits.total == truth.total()
        assert (hits.width, hits.depth, hits.cell_size) == (500, 5, cell_size)
    for batch in (np.array([5, 6]), [5, 6], (5, 6), np.array([5, 6], dtype="u1"), iter([5, 6])):
        hits = CountMin(500, 5)
        hits.update(["a", "b"], batch)
        assert (hits.query("a"), hits.query("b")) == (5, 6)
    for counts in ([1], [1, 2, 3], []):
        with pytest.raises(ValueError, match="more or fewer numbers than items"):
            hits.update(["a", "b"], counts)
    assert hits.query("a") == 5
    with pytest.raises(ValueError, match="^CMS: INCRBY underflow$"):
        hits.add("a", -6)
    with pytest.raises(ValueError, match="^CMS: INCRBY overflow$"):
        CountMin(10, 1).add("a", 2**40)
    with pytest.raises(ValueError):
        hits.add("a", -(2**63))
    for large in (2**63, -(2**63) - 1):
        with pytest.raises(ValueError, match="^a number is too large"):
            hits.add("a", large)
        with pytest.raises(ValueError, match="^a number is too large"):
            hits.update(["a"], [large])
        with pytest.raises(ValueError, match="^a number is too large"):
            TopK(5).add("a", large)
        with pytest.raises(ValueError, match="^a number is too large"):
            CountMin.merged([(hits, large)])
    for wrong in ([1.5, 2], ["a", "b"], None):
        if wrong is not None:
            with pytest.raises(TypeError):
                hits.update(["a", "b"], wrong)


def test_nothing_can_not_be_merged() -> None:
    for merge in (CountMin.merged, TDigest.merged):
        with pytest.raises(ValueError, match="^there is nothing to merge$"):
            merge([])


def test_weighted_sums() -> None:
    one, other = CountMin(100, 3), CountMin(100, 3)
    one.add("a", 5)
    other.update(["a", "b"])
    merged = CountMin.merged([(one, 2), (other, 10), (one, -1)])
    assert merged.query("a") == 15 and merged.query("b") == 10 and merged.total == 25
    with pytest.raises(ValueError, match="^CMS: width/depth is not equal$"):
        CountMin.merged([(one, 1), (CountMin(10, 3), 1)])
    with pytest.raises(ValueError, match="^CMS: MERGE overflow$"):
        CountMin.merged([(one, -1)])
    assert CountMin.merged([[one, 2], [other, 10], [one, -1]]) == merged
    # On an object it would seem to change it.
    assert not any(hasattr(of, "merge") for of in (one, TDigest(), TopK(3), Bloom(10, 0.1), CuckooFilter(10)))
    for wrong in ([], [one], [(one, "a")], [(1, 1)], 5, [(one,)], [(one, 1, 1)]):
        with pytest.raises((TypeError, ValueError)):
            CountMin.merged(wrong)
    assert CountMin.from_rates(0.001, 0.002).depth == 9


def test_the_most_frequent_items_are_listed() -> None:
    top = TopK(5, 200, 5)
    words = [str(n) for n in range(50) for _ in range(n * n)]
    random.Random(4).shuffle(words)
    left = top.update(words)
    assert [item for item, _ in top.list()] == [b"49", b"48", b"47", b"46", b"45"]
    assert all(abs(count - int(item) ** 2) < 60 for item, count in top.list())
    assert set(left) <= {str(n).encode() for n in range(50)} and len(top) == 5
    assert "49" in top and 49 in top and "1" not in top and top.count(49) > 2000
    assert list(top.contains_many(["49", "1"])) == [True, False]
    assert (top.k, top.width, top.depth, top.decay) == (5, 200, 5, 0.9)
    few = TopK(1)
    assert few.add("a", 3) is None and few.add("b", 100) == b"a"
    few.update(["c", "b"], [0, 5])
    for wrong in (-1, 100_001):
        with pytest.raises(ValueError, match="^TopK: increment must be an integer greater or equal to 0 and smaller"):
            few.add("a", wrong)
        with pytest.raises(ValueError, match="^TopK: increment"):
            few.update(["a", "b"], [1, wrong])
    assert few.list() == [(b"b", 105)]


def test_quantiles() -> None:
    values = np.random.default_rng(5).normal(size=50_000)
    for batch in (values, values.tolist(), iter(values), values.astype("f4"), values[::-1]):
        times = TDigest(200)
        times.update(batch)
        assert len(times) == 50_000
        for share in (0.001, 0.1, 0.5, 0.9, 0.999):
            value = times.quantile(share)
            assert abs(float(np.mean(values <= value)) - share) < 0.003
            assert abs(times.cdf(value) - share) < 0.01
        assert times.min == pytest.approx(values.min()) and times.max == pytest.approx(values.max())
    assert times.quantiles([0.0, 1.0]) == [times.min, times.max]
    assert abs(times.trimmed_mean(0.1, 0.9)) < 0.02
    assert times.rank(-100) == -1 and times.rev_rank(-100) == 50_000
    assert times.by_rank(0) == times.min and times.by_rev_rank(0) == times.max
    assert times.by_rank(10**9) == math.inf and times.by_rev_rank(10**9) == -math.inf
    empty = TDigest()
    assert all(map(math.isnan, (empty.min, empty.max, empty.quantile(0.5), empty.cdf(1), empty.trimmed_mean(0, 1))))
    assert empty.rank(1) == -2 and empty.compression == 100
    for wrong in (math.nan, math.inf, -math.inf):
        for call in (lambda: times.add(1, wrong), lambda: times.update([1, wrong])):
            with pytest.raises(ValueError, match="^T-Digest: val parameter needs to be a finite number$"):
                call()
    assert len(times) == 50_000
    for wrong in ("a", None, [1]):
        with pytest.raises(TypeError):
            times.add(wrong)
    for call in (lambda: times.quantile(-0.1), lambda: times.quantile(math.nan), lambda: times.trimmed_mean(0.5, 0.5)):
        with pytest.raises(ValueError, match="^T-Digest: "):
            call()
    merged = TDigest.merged([times, empty, times])
    assert len(merged) == 100_000 and merged.compression == 200
    assert TDigest.merged([times], compression=50).compression == 50
    for compression in (0, 100_001):
        with pytest.raises(ValueError):
            TDigest.merged([times], compression=compression)


@pytest.mark.parametrize("number", range(len(objects())))
def test_an_object_is_copied_whichever_way(number: int, tmp_path: Path) -> None:
    one = objects()[number]
    kind = type(one)
    path = tmp_path / "file"
    one.save(path)
    one.save(str(path))
    copies = [
        one.copy(), copy.copy(one), copy.deepcopy(one), kind.from_bytes(one.to_bytes()),
        kind.from_bytes(bytearray(one.to_bytes())), kind.from_bytes(memoryview(one.to_bytes())),
        kind.load(path), *(pickle.loads(pickle.dumps(one, protocol)) for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)),
    ]  # fmt: skip
    if hasattr(one, "chunks"):
        copies.append(kind.from_chunks(one.chunks()))
        copies.append(kind.from_chunks([*one.chunks(), (0, None)]))
        copies.append(kind.from_chunks((cursor, bytearray(chunk)) for cursor, chunk in one.chunks()))
    assert list(tmp_path.iterdir()) == [path]
    for other in copies:
        assert other == one and other is not one and not (other != one) and repr(other) == repr(one)
        (other.add if kind is not TDigest else other.update)("new" if kind is not TDigest else [5.0])
        other.add("more") if kind is not TDigest else other.add(7)
        assert other != one
        other.clear()
        assert other != one or not hasattr(one, "__len__") or len(one) == 0
    with pytest.raises(TypeError):
        hash(one)
    for compare in ("__lt__", "__ge__"):
        assert getattr(one, compare)(one) is NotImplemented
    assert one.nbytes > 0 and re.fullmatch(r"<\w+.*>", repr(one))
    for other in objects():
        if type(other) is not kind:
            assert one != other
            with pytest.raises(ValueError, match=", not a "):
                kind.from_bytes(other.to_bytes())


def test_late_items_move_no_others() -> None:
    now = 1000 * HOUR
    day = Bloom.window(1000, 1e-6, window_ms=HOUR, periods=24)
    for age in range(23, -1, -1):
        day.add(age, at_ms=now - age * HOUR)
    assert day.add("late", at_ms=now - 12 * HOUR) and day.update(["a", "b"], at_ms=now - 23 * HOUR) == 2
    for call in (day.add, day.update):
        with pytest.raises(ValueError, match="has expired"):
            call(["c"] if call == day.update else "c", at_ms=now - 25 * HOUR)
    day.add("new", at_ms=now)
    both = day.union(day, at_ms=now - 20 * HOUR)
    for one in (day, both):
        assert all(one.contains_many(range(24), at_ms=now)) and one.contains("late", at_ms=now)
        assert one.contains("late", at_ms=now + 11 * HOUR) and not one.contains("late", at_ms=now + 12 * HOUR)
        assert list(one.contains_many(["a", "c"], at_ms=now)) == [True, False]


def test_all_items_with_room_are_added_to_a_cuckoo_filter_from_any_batch() -> None:
    full = []
    for batch in (list(range(10_000)), np.arange(10_000), np.arange(10_000).astype("S"), pa.array(range(10_000))):
        full.append(CuckooFilter(4096, expansion=0, max_iterations=1))
        with pytest.raises(ValueError):
            full[-1].update(batch)
    assert len(full[0]) > 2048 and all(filter == full[0] for filter in full)


def test_an_emptied_object_is_a_new_one() -> None:
    for one in objects():
        if isinstance(one, TDigest):
            one.clear()
            assert one == TDigest(one.compression)
            continue
        one.clear()
        assert len(one) == 0 if hasattr(one, "__len__") else one.total == 0
        (one.update)(["a"])
        assert one.query("a") == 1 if isinstance(one, CountMin) else "a" in one
    plain = Bloom(100, 0.01, seed=SEED)
    plain.update(range(5000))
    plain.clear()
    assert plain == Bloom(100, 0.01, seed=SEED)


def test_files_that_are_not_there_or_hold_something_else(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    filter = Bloom(10, 0.1)
    for call, number, path in (
        (Bloom.load, errno.ENOENT, tmp_path / "none"),
        (Bloom.load, errno.EISDIR, tmp_path),
        (filter.save, errno.ENOENT, tmp_path / "none" / "file"),
        (filter.save, errno.EISDIR, tmp_path / "folder"),
        (filter.save, errno.ELOOP, tmp_path / "loop"),
    ):
        with pytest.raises(OSError) as caught:
            call(path)
        error = caught.value
        assert (error.errno, error.filename) == (number, str(path)) and type(error) is type(OSError(number, ""))
        assert str(error) == f"[Errno {number}] {os.strerror(number)}: {str(path)!r}"
    (tmp_path / "text").write_text("text")
    for one in objects():
        with pytest.raises(ValueError, match="^not a valkeybloom file, and no bytes of an object$"):
            type(one).load(tmp_path / "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "loop", "text"]


def test_damage_to_a_file_is_noticed(tmp_path: Path) -> None:
    for one in objects():
        path = tmp_path / "file"
        # Files of earlier versions have these bytes.
        path.write_bytes(one.to_bytes())
        assert type(one).load(path) == one
        one.save(path)
        whole = path.read_bytes()
        for start in range(10, len(whole) - 8, 1 + len(whole) // 50):
            damaged = bytearray(whole)
            damaged[start] ^= 1
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match="checksum"):
                type(one).load(path)
    seen = Bloom(100_000, 0.01)
    seen.update(range(100_000))
    seen.save(path)
    with path.open("r+b") as file:
        file.seek(50_000)
        file.write(bytes(4096))
    with pytest.raises(ValueError, match="checksum"):
        Bloom.load(path)


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    target, chain, whole = tmp_path / "data" / "file", tmp_path / "chain", tmp_path / "whole"
    (tmp_path / "link").symlink_to("data/file")
    chain.symlink_to(tmp_path / "link")
    whole.symlink_to(target)
    # At first there is nothing at its end.
    for link in (chain, tmp_path / "link", whole):
        one = Bloom(100, 0.01)
        one.save(link)
        assert link.is_symlink() and target.is_file() and not target.is_symlink()
        assert Bloom.load(link) == one == Bloom.load(target)
    assert [path.name for path in target.parent.iterdir()] == ["file"]


def test_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    for mode in (0o600, 0o664):
        path.chmod(mode)
        Bloom(100, 0.01).save(path)
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    one = Bloom(100, 0.01)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    # Open at both ends, so that nobody waits for the other end.
    with open(os.open(fifo, os.O_RDWR | os.O_NONBLOCK), "rb") as end:
        # As a shell names the pipe of `>(…)`.
        for name in (fifo, Path(f"/dev/fd/{end.fileno()}")):
            one.save(name)
            saved = os.read(end.fileno(), 2**16)
            (tmp_path / "file").write_bytes(saved)
            assert Bloom.load(tmp_path / "file") == one
    assert fifo.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "file"]


SAVES = """
import sys
from valkeybloom import Bloom
one = Bloom.load(sys.argv[2])
for _ in range(200):
    one.save(sys.argv[1])
"""


def test_those_who_save_to_one_path_do_not_mix_their_files(tmp_path: Path) -> None:
    """Two threads, and two processes that are number 1 of their containers, where the system has those."""
    folder = tmp_path / "volume"
    folder.mkdir()
    path = folder / "file"
    objects = [Bloom(50_000 * number, 0.01) for number in range(1, 5)]
    for number, one in enumerate(objects):
        one.update(range(1000))
        one.save(tmp_path / f"source{number}")
    objects[0].save(path)
    contained = ["unshare", "--map-root-user", "--pid", "--fork"]
    if shutil.which("unshare") is None or subprocess.run([*contained, "true"], capture_output=True).returncode:
        contained = []
    processes = [
        subprocess.Popen([*contained, sys.executable, "-c", SAVES, path, tmp_path / f"source{number}"])
        for number in (0, 1)
    ]
    threads = [threading.Thread(target=lambda one=one: [one.save(path) for _ in range(200)]) for one in objects[2:]]
    for thread in threads:
        thread.start()
    while any(process.poll() is None for process in processes) or any(thread.is_alive() for thread in threads):
        assert Bloom.load(path) in objects
    assert [process.returncode for process in processes] == [0, 0]
    assert [file.name for file in folder.iterdir()] == ["file"]


def test_chunks_that_do_not_belong_together() -> None:
    one, other = Bloom(100, 0.01), Bloom(50_000_000, 0.01)
    pairs, many = list(one.chunks()), list(other.chunks())
    assert [cursor for cursor, _ in pairs][0] == 1 and len(many) > 10
    for wrong in (
        [], pairs[:1], pairs[1:], pairs[::-1], many[:5], [many[0], many[2]], [*pairs, *pairs], [pairs[0], many[1]],
        [(1, b"")], [(1, b"\xff" * 100)], [(5, b"x")], [pairs[0], (2**64 - 1, pairs[1][1])],
    ):  # fmt: skip
        with pytest.raises(ValueError):
            Bloom.from_chunks(wrong)
    # As redis-py returns BF.SCANDUMP, to its end.
    for filter in (one, CuckooFilter(10)):
        replies = [*map(list, filter.chunks()), [0, b""]]
        assert type(filter).from_chunks(replies) == filter
    for wrong in ([5], [(1,)], ["ab"], [(1, 5)], 5, [(b"a", b"b")]):
        with pytest.raises((TypeError, ValueError)):
            Bloom.from_chunks(wrong)
    for cursor in (-1, 2**64):
        with pytest.raises(ValueError, match="^bad cursor$"):
            Bloom.from_chunks([(cursor, b"")])
    for wrong in ([], [(1, b"short")], [*CuckooFilter(10).chunks(), (2**60, b"x")]):
        with pytest.raises(ValueError):
            CuckooFilter.from_chunks(wrong)


def test_chunks_are_those_of_one_moment() -> None:
    for one in (Bloom(1000, 0.01), Bloom.window(100, 0.01, window_ms=DAY, periods=3), CuckooFilter(1000)):
        one.update(range(800))
        before, chunks = one.copy(), one.chunks()
        first = next(chunks)
        one.update(range(800, 20_000))
        second = next(chunks, None)
        one.clear()
        assert type(one).from_chunks([first, *([second] if second else []), *chunks]) == before


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


def test_the_version_is_the_workspaces() -> None:
    workspace = (Path(__file__).parents[3] / "Cargo.toml").read_text()
    assert f'version = "{valkeybloom.__version__}"' in workspace


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


def test_bytes_of_any_class_are_decoded() -> None:
    window = Bloom.window(10, 0.01, window_ms=1000, periods=3)
    for one in (Bloom(10, 0.01), window, Bloom.counting(10, 0.01), CuckooFilter(10), CountMin(10, 2), TopK(3), TDigest(20)):
        one.add(1)
        for data in (one.to_bytes(), bytearray(one.to_bytes()), memoryview(one.to_bytes())):
            decoded = valkeybloom.decode(data)
            assert type(decoded) is type(one) and decoded == one
    for wrong in (b"", b"text", TopK(3).to_bytes()[:-1]):
        with pytest.raises(ValueError):
            valkeybloom.decode(wrong)
    for wrong in ("text", 5, None):
        with pytest.raises(TypeError):
            valkeybloom.decode(wrong)  # type: ignore[arg-type]


def test_files_may_have_any_name(tmp_path: Path) -> None:
    filter = Bloom(100, 0.01)
    filter.add("a")
    for name in ["x" * 226, "x" * 227, "x" * 255, "é" * 127, "x" + "漢" * 84, "\udcff" * 255]:
        for path in (tmp_path / name, os.fsencode(tmp_path / name), str(tmp_path / name)):
            for _ in range(2):
                filter.save(path)
                assert Bloom.load(path) == filter
            assert list(tmp_path.iterdir()) == [tmp_path / name]
        (tmp_path / name).unlink()
    with pytest.raises(OSError, match="File name too long"):
        filter.save(tmp_path / ("x" * 256))
    for wrong in (5, None, ["a"]):
        with pytest.raises(TypeError):
            filter.save(wrong)
