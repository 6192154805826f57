"""What the classes do, compared with sets and counters of Python, and with what is asked of the server's commands."""

from __future__ import annotations

import copy
import math
import pickle
import random
import re
from pathlib import Path

import numpy as np
import pytest
import valkeybloom
from samples import DAY, SEED, objects
from valkeybloom import Bloom, CountMin, CuckooFilter, TDigest, TopK


def test_a_filter_knows_what_a_set_knows() -> None:
    for make in (Bloom, Bloom.counting, Bloom.scaled_to):
        filter = make(50, 0.001, seed=SEED)
        assert (filter.update(range(200)), filter.update(range(100, 300)), filter.add("own")) == (200, 100, True)
        assert len(filter) == 301 and all(filter.contains_many(range(300))) and "own" in filter
        others = [f"other{n}" for n in range(20_000)]
        claimed = sum(filter.contains_many(others))
        assert claimed < 20_000 * 0.0015 and filter.estimated_error_rate < 0.0015
        assert claimed == sum(item in filter for item in others) == sum(map(filter.contains, others))
        assert filter.filters > 1 and filter.capacity >= len(filter)


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
    for wrong in (5, None, {1}, CuckooFilter(10)):
        with pytest.raises(TypeError):
            one | wrong
        with pytest.raises(TypeError):
            one |= wrong
        with pytest.raises(TypeError):
            one.union(wrong)


def test_a_cuckoo_filter_is_a_bag() -> None:
    filter = CuckooFilter(200, bucket_size=4)
    assert filter.update(["a", "b", "a"]) == 3 and filter.add("a") and filter.count("a") == 3 and len(filter) == 4
    assert filter.remove("a") and filter.remove("b") and not filter.remove("b") and filter.count("a") == 2
    assert filter.update_new(["a", "c"]) == 1 and list(filter.contains_many(["a", "b", "c"])) == [True, False, True]
    new = [f"new{n}" for n in range(100)]
    assert filter.update_new(new) > 80 and not filter.add_new(new[0])
    filter.compact()
    assert all(filter.contains_many(["a", "c", *new])) and filter.filters >= 1
    assert (filter.bucket_size, filter.max_iterations, filter.expansion) == (4, 20, 1)
    full = CuckooFilter(4, bucket_size=2, expansion=0)
    with pytest.raises(ValueError, match="^Filter is full$"):
        full.update(range(100))
    assert len(full) == 4


def test_counts() -> None:
    for cell_size in (1, 2, 4, 8):
        hits = CountMin(500, 5, cell_size=cell_size)
        hits.update(["a", "b", "a"], [2, 0, 1])
        hits.update(["b"])
        assert hits.add("again") == 1 and hits.add("again", 2) == 3 and hits.add("again", -1) == 2
        asked = ["a", "b", "again", "none"]
        assert list(hits.query_many(asked)) == [3, 1, 2, 0] == [hits.query(item) for item in asked]
        assert (hits.total, hits.width, hits.depth, hits.cell_size) == (6, 500, 5, cell_size)
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
        with pytest.raises(ValueError, match="^item 0: a number is too large"):
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


def test_chunks_that_do_not_belong_together() -> None:
    one, other = Bloom(100, 0.01), Bloom(50_000_000, 0.01)
    pairs, many = list(one.chunks()), list(other.chunks())
    assert [cursor for cursor, _ in pairs][0] == 1 and len(many) > 10
    for wrong in ([], pairs[:1], pairs[::-1], [many[0], many[2]], [*pairs, *pairs], [(1, b"\xff" * 100)]):
        with pytest.raises(ValueError):
            Bloom.from_chunks(wrong)
    cuckoo = list(CuckooFilter(10_000_000).chunks())
    for lacking in (cuckoo[:1], cuckoo[:-1], [cuckoo[0], *cuckoo[2:]]):
        with pytest.raises(ValueError, match="^the filter lacks chunks$"):
            CuckooFilter.from_chunks(lacking)
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


def test_chunks_are_those_of_one_moment() -> None:
    for one in (Bloom(1000, 0.01), Bloom.window(100, 0.01, window_ms=DAY, periods=3), CuckooFilter(1000)):
        one.update(range(800))
        before, chunks = one.copy(), one.chunks()
        first = next(chunks)
        one.update(range(800, 20_000))
        second = next(chunks, None)
        one.clear()
        assert type(one).from_chunks([first, *([second] if second else []), *chunks]) == before


def test_the_version_is_the_workspaces() -> None:
    workspace = (Path(__file__).parents[3] / "Cargo.toml").read_text()
    assert f'version = "{valkeybloom.__version__}"' in workspace


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
