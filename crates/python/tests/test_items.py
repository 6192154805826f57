"""Items and batches: whatever holds an item, its bytes are the same."""

from __future__ import annotations

import ctypes
import io
import itertools
import mmap
import pickle
import re
import signal
import sys
import uuid
from array import array as array_
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from samples import SEED, fresh, of, of_batch
from valkeybloom import Bloom, CountMin, CuckooFilter, TDigest, TopK

TEXTS = ["", "a", "é", "日本", "x" * 5000, "null\0inside", *map(str, range(-50, 500))]
NUMBERS = [0, 1, -1, 127, -128, 9999]


def test_an_item_is_its_bytes() -> None:
    for item, same in [
        ("é", "é".encode()),
        (b"\xff\0", bytearray(b"\xff\0")),
        (b"abc", memoryview(b"abc")),
        (b"ac", memoryview(b"abcd")[::2]),
        (42, "42"),
        (-7, b"-7"),
        (0, "0"),
        (2**64 - 1, "18446744073709551615"),
        (-(10**30), str(-(10**30))),
        (np.str_("text"), "text"),
        (np.bytes_(b"text"), "text"),
        (np.int64(3), 3),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.array([5])[0], "5"),
    ]:
        one, other = fresh(), fresh()
        assert one.add(item) and other.add(same) and one == other
        assert same in one and item in other and other.contains(item)
        others, top, hits = CuckooFilter(100), TopK(5), CountMin(100, 5)
        for sketch in (others, top, hits):
            sketch.add(item)
        assert same in others and same in top and hits.query(same) == 1


class Text(str):
    """A string that says it is another."""

    def encode(self, *_: Any) -> bytes:
        return b"other"

    def __str__(self) -> str:
        return "other"


class Number(int):
    def __repr__(self) -> str:
        return "other"

    __str__ = __repr__


def test_subclasses_are_what_they_hold() -> None:
    assert fresh().update([Text("a"), Number(5)]) == 2
    assert of([b"a", b"5"]) == of([Text("a"), Number(5)])  # type: ignore[list-item]


@pytest.mark.parametrize("item", [True, False, None, 1.0, [], ("a",), object(), np.bool_(True), np.float64(1), np.array([1, 2])])
def test_everything_else_is_no_item(item: Any) -> None:
    filter, other, hits, top = fresh(), CuckooFilter(10), CountMin(10, 2), TopK(2)
    for call in (
        filter.add, filter.contains, filter.__contains__, filter.remove, filter.count,
        other.add, other.add_new, other.__contains__, other.remove, other.count,
        hits.add, hits.query, top.add, top.count, top.__contains__,
    ):  # fmt: skip
        with pytest.raises(TypeError, match="an item is str, bytes or int, not "):
            call(item)
    with pytest.raises(TypeError, match="item 2: an item is str, bytes or int"):
        filter.update(["a", "b", item])
    assert not filter


def test_text_that_has_no_utf_8_is_refused() -> None:
    filter = fresh()
    with pytest.raises(UnicodeEncodeError):
        filter.add("\ud800")
    for items, text in (
        (["a", "\ud800"], "surrogates"),
        ((item for item in ["a", "\ud800"]), "surrogates"),
        (["a", 10**5000], "4300 digits"),
    ):
        with pytest.raises(ValueError, match=f"^item 1: .*{text}"):
            filter.update(items)
    assert not filter


ARRAYS: dict[str, Callable[[list[str]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "dict": dict.fromkeys,
    "iterator": iter,
    "generator": lambda items: (item for item in items),
    "bytes": lambda items: [item.encode() for item in items],
    "numpy U": lambda items: np.array([i for i in items if "\0" not in i]),
    "numpy O": lambda items: np.array(items, dtype=object),
    "pyarrow": pa.array,
    "pyarrow binary": lambda items: pa.array([i.encode() for i in items], pa.binary()),
    "pyarrow large": lambda items: pa.array(items, pa.large_string()),
    "pyarrow large binary": lambda items: pa.array([i.encode() for i in items], pa.large_binary()),
    "pyarrow view": lambda items: pa.array(items, pa.string_view()),
    "pyarrow binary view": lambda items: pa.array([i.encode() for i in items], pa.binary_view()),
    "pyarrow chunks": lambda items: pa.chunked_array([[], items[:7], [], items[7:], []], pa.string()),
    "pyarrow chunks of views": lambda items: pa.chunked_array([items[:7], items[7:]], pa.string_view()),
    "pyarrow dictionary": lambda items: pa.array(["no", *items]).dictionary_encode()[1:],
    "pyarrow dictionary of views": lambda items: pa.DictionaryArray.from_arrays(
        pa.array(range(len(items)), pa.uint16()), pa.array(items, pa.string_view())
    ),
    "pyarrow dictionaries": lambda items: pa.chunked_array([items[:7], items[7:]]).dictionary_encode(),
    "pyarrow runs": lambda items: pa.RunEndEncodedArray.from_arrays(
        pa.array(range(2, len(items) + 3), pa.int16()), pa.array(["no", *items])
    )[2:],
    "pyarrow runs of runs": lambda items: pa.chunked_array(
        [pc.run_end_encode(pa.array(part), run_end_type=pa.int64()) for part in (items[:7], items[7:])]
    ),
    "pyarrow batch": lambda items: pa.record_batch({"a": pa.array(items)}),
    "pyarrow table": lambda items: pa.table({"a": pa.chunked_array([items[:9], items[9:]])}),
    "pyarrow struct": lambda items: pa.StructArray.from_arrays([pa.array(["no", *items, "no"])], ["a"])[1:-1],
    "polars": pl.Series,
    "polars categorical": lambda items: pl.Series(items, dtype=pl.Categorical),
    "polars enum": lambda items: pl.Series(items, dtype=pl.Enum(items)),
    "polars frame": lambda items: pl.DataFrame({"a": items}),
    "pandas": pd.Series,
    "pandas category": lambda items: pd.Series(items, dtype="category"),
    "pandas of arrow": lambda items: pd.Series(items, dtype=pd.ArrowDtype(pa.string())),
    "pandas frame": lambda items: pd.DataFrame({"a": items}),
    "duckdb": lambda items: duckdb.from_arrow(pa.table({"a": items})),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_batches_of_text(kind: str) -> None:
    texts = [text for text in TEXTS if kind != "numpy U" or "\0" not in text]
    expected = of([text.encode() for text in texts])
    filter = fresh()
    assert filter.update(ARRAYS[kind](texts)) == len(texts)
    assert filter == expected
    found = list(filter.contains_many(ARRAYS[kind](texts)))
    assert found == [True] * len(texts)
    # Every second item is in the filter, and the answers are in the order of the items.
    if kind not in ("set", "iterator", "generator"):
        some = of([text.encode() for text in texts[::2]])
        assert list(some.contains_many(ARRAYS[kind](texts))) == [text in some for text in texts]


def test_batches_without_items() -> None:
    for batch in (
        [], (), {}, iter([]), np.array([], dtype="i4"), np.array([], dtype="S3"), pa.array([], pa.string()),
        pa.array([], pa.large_binary()), pa.array([], pa.string_view()), pa.array([], pa.int8()),
        pa.chunked_array([], pa.string()), pl.Series([], dtype=pl.String), pl.Series([], dtype=pl.Int32),
        pa.table({"a": pa.array([], pa.string())}), pa.nulls(0), pd.Series([], dtype="str"),
    ):  # fmt: skip
        filter = of([b"a"])
        assert filter.update(batch) == 0
        assert len(filter.contains_many(batch)) == 0


@pytest.mark.parametrize("step", [1, 2, -1, -3])
@pytest.mark.parametrize("kind", ["b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", ">i4", ">u8", "<i2"])
def test_batches_of_numbers(kind: str, step: int) -> None:
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    numbers = [n for n in [*NUMBERS, low, high] if low <= n <= high]
    array = np.array(numbers * 400, dtype=kind)
    expected = of([b"%d" % n for n in array[::step].tolist()])
    for batch in (array[::step], memoryview(array[::step])):
        filter = fresh()
        if isinstance(batch, memoryview) and batch.itemsize == 1:
            # It may be an item, as `bytes` are.
            with pytest.raises(TypeError, match="^a batch of items is needed, not one item$"):
                filter.update(batch)
            continue
        filter.update(batch)
        assert filter == expected
    native = array[::step].astype(array.dtype.newbyteorder("="))
    for batch in (
        pa.array(native), pl.Series(native.copy()), pd.Series(native), pa.array(native).dictionary_encode(),
        pd.Series(native, dtype="category"), pc.run_end_encode(pa.array(native)), [*native],
    ):  # fmt: skip
        filter = fresh()
        filter.update(batch)
        assert filter == expected
    assert fresh().update(array[:0]) == 0


def test_bytes_of_a_fixed_width() -> None:
    texts = [b"a", b"bc", b"", b"d\0e"]
    assert of(texts) == of_batch(np.array(texts)) == of_batch(np.array(texts)[::-1])
    wide = [b"abc", b"d\0\0", b"\0\0\0"]
    assert of(wide) == of_batch(pa.array(wide, pa.binary(3)))
    assert of(wide[1:]) == of_batch(pa.array(wide, pa.binary(3))[1:])
    assert of([b""]) == of_batch(pa.array([b""] * 3, pa.binary(0)))


def test_slices_of_arrays() -> None:
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        array = pa.array(TEXTS, kind)
        for start, end in ((0, 3), (5, 400), (len(TEXTS), len(TEXTS)), (549, 556)):
            part = array[start:end]
            assert of_batch(part) == of([t.encode() for t in TEXTS[start:end]])


@pytest.mark.parametrize("index", [0, 1, 6, 7, 8, 40])
def test_a_null_is_refused_with_its_index(index: int) -> None:
    items: list[str | None] = [str(n) for n in range(50)]
    items[index] = None
    numbers = [None if item is None else int(item) for item in items]
    for batch in (
        pa.array(items),
        pa.array(["before", *items])[1:],
        pa.array(items, pa.string_view()),
        pa.array(items, pa.large_string()),
        pa.chunked_array([items[:5], items[5:]]),
        pa.array(items).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array(range(50)), pa.array(items)),
        pc.run_end_encode(pa.array(items)),
        pd.Series(items, dtype="category"),
        pl.Series(items, dtype=pl.Categorical),
        pa.array(numbers),
        pl.Series(items),
        pl.Series(numbers),
        pd.Series(items),
        pa.table({"a": items}),
        pa.StructArray.from_arrays([pa.array(map(str, range(50)))], ["a"], mask=pa.array([i is None for i in items])),
        pa.StructArray.from_arrays([pa.array(items)], ["a"], mask=pa.array([n > index for n in range(50)])),
        pa.StructArray.from_arrays([pa.array(items)], ["a"], mask=pa.array([n == index for n in range(50)])),
    ):
        filter = fresh()
        with pytest.raises(ValueError, match=f"^item {index} is null$"):
            filter.update(batch)
        with pytest.raises(ValueError, match=f"^item {index} is null$"):
            filter.contains_many(batch)
        assert not filter
    with pytest.raises(ValueError, match="^item 0 is null$"):
        fresh().update(pa.nulls(3))


@pytest.mark.parametrize("index", [0, 1, 49])
def test_a_masked_element_is_null(index: int) -> None:
    numbers = np.ma.masked_equal(np.arange(50), index)
    arrays = [
        numbers,
        np.ma.masked_array(np.arange(100)[::-2], mask=numbers.mask),
        np.ma.masked_array([b"%d" % n for n in range(50)], mask=numbers.mask),
        np.ma.masked_array([str(n) for n in range(50)], mask=numbers.mask),
        np.ma.masked_array([str(n) for n in range(50)], mask=numbers.mask, dtype=object),
    ]
    sketches = [fresh(), CuckooFilter(100), CountMin(100, 4), TopK(3)]
    for array in arrays:
        for sketch in sketches:
            empty = sketch.copy()
            calls = [sketch.update, getattr(sketch, "contains_many", sketch.update)]
            for call in calls:
                with pytest.raises(ValueError, match=f"^item {index} is null$"):
                    call(array)
            assert sketch == empty
    digest, hits, top = TDigest(), CountMin(100, 4), TopK(3)
    for call in (
        lambda: digest.update(numbers),
        lambda: digest.update(numbers.astype(float)),
        lambda: hits.update(range(50), numbers),
        lambda: top.update(range(50), numbers),
        lambda: hits.query_many(numbers),
    ):
        with pytest.raises(ValueError, match=f"^item {index} is null$"):
            call()
    assert not len(digest) and hits == CountMin(100, 4) and not top.list()
    # Without masked elements, it is an array like others.
    for mask in (np.ma.nomask, [False] * 50):
        assert fresh().update(np.ma.masked_array(np.arange(50), mask=mask)) == 50


def test_arrays_without_width_have_empty_items() -> None:
    array = np.zeros(3, dtype={"names": [], "formats": [], "itemsize": 0})
    with pytest.raises(TypeError):
        fresh().update(array)
    assert of([b""]) == of_batch(np.zeros(3, dtype="S1").astype("S0"))
    wide = np.zeros(3, dtype="S1").view("V1")
    with pytest.raises(TypeError):
        fresh().update(wide)


def test_objects_may_have_methods_of_others() -> None:
    class Items(list[str]):
        def collect(self) -> None:
            raise AssertionError("it has another purpose")

        mask = validate = tolist = ndim = collect

    class Frame:
        def __init__(self, array: pa.Array) -> None:
            self.array = array

        def validate(self, schema: Any) -> None:
            raise AssertionError("it has another purpose")

        def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
            return self.array.__arrow_c_array__(requested_schema)

    assert of_batch(Frame(pa.array(["a", "b"]))) == of_batch(Items("ab")) == of([b"a", b"b"])


@pytest.mark.parametrize(
    "batch",
    [
        "text", b"bytes", bytearray(b"bytes"), memoryview(b"bytes"), 5, None, 1.5,
        np.arange(3.0), np.array([True]), np.array([1j]), np.array([["a"]]), np.zeros((2, 2), dtype="i4"), np.array(5),
        np.array(["2020-01-01"], dtype="M8[D]"), np.array([(1, 2)], dtype="i4,i4"),
        pa.array([1.5]), pa.array([True]), pa.array([["a"]]), pa.array([1.5]).dictionary_encode(),
        pa.table({"a": ["x"], "b": ["y"]}), pl.Series([1.5]), pl.LazyFrame({"a": ["x"]}), [["a"]], [1.5],
    ],
)  # fmt: skip
def test_what_is_no_batch(batch: Any) -> None:
    filter = fresh()
    for call in (filter.update, filter.contains_many):
        with pytest.raises(TypeError):
            call(batch)
    assert not filter


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        (pl.LazyFrame({"a": ["x"]}), "a LazyFrame has no items before you call its collect()"),
        (memoryview(b"abc"), "a batch of items is needed, not one item"),
        (pa.array([1.5]), "an array of strings, bytes or integers is needed, not of Arrow's type float64"),
        (pl.Series([[1]]), "an array of strings, bytes or integers is needed, not of Arrow's type list"),
        (pa.array([True]), "an array of strings, bytes or integers is needed, not of Arrow's type bool"),
        (pa.array([0], pa.timestamp("ms", "UTC")), "an array of strings, bytes or integers is needed, not of Arrow's type timestamp"),
        (pa.array([1.5]).dictionary_encode(), "an array of strings, bytes or integers is needed, not of Arrow's type float64"),
    ],
)  # fmt: skip
def test_what_is_no_batch_is_named(batch: Any, text: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        fresh().update(batch)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"id": ["a1", "a2"], "views": [5, 7]}), pd.DataFrame({"id": ["a1", "a2"]}), pd.DataFrame({1: [5, 7]}),
        np.array([["a", "b"]]), np.array([["a"]], dtype=object), np.zeros((2, 1), dtype="i4"),
    ],
)  # fmt: skip
def test_a_table_is_not_the_names_of_its_columns(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame of pandas iterates over them, and has no Arrow interface without pyarrow."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    filter, digest, hits = fresh(), TDigest(), CountMin(100, 3)
    for call in (filter.update, filter.contains_many, filter.add_many, digest.update, lambda table: hits.update(["a"], table)):
        with pytest.raises(TypeError, match="^a batch has one dimension, not 2: pass a single column$"):
            call(table)
    assert not filter and not len(digest) and hits == CountMin(100, 3)
    # A column can be iterated.
    assert of_batch(pd.DataFrame({"id": ["a1", "a2"]})["id"]) == of([b"a1", b"a2"])


def test_a_number_that_can_not_be_read_is_named() -> None:
    for wrong, error, text in (("a", TypeError, "must be real number"), (10**400, ValueError, "a number is too large")):
        with pytest.raises(error, match=f"^item 2: {text}"):
            TDigest().update([1, 2, wrong])
    with pytest.raises(TypeError, match="^item 1: 'float' object"):
        CountMin(9, 2).update(["a", "b"], [1, 1.5])
    with pytest.raises(TypeError, match="LazyFrame has no items before you call"):
        TDigest().update(pl.LazyFrame({"a": [1]}))


def test_a_batch_is_all_there_or_not_at_all() -> None:
    # A shell's background processes ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def raises() -> Iterator[str]:
        yield from map(str, range(5000))
        raise RuntimeError("on purpose")

    class Liar:
        def __iter__(self) -> Iterator[str]:
            return raises()

        def __len__(self) -> int:
            return -1

    def interrupted() -> Iterator[str]:
        """Items of which none runs code of Python's. The first one brings a signal."""
        first = map(str, map(signal.raise_signal, [signal.SIGINT]))
        return itertools.chain(first, itertools.repeat("a", 500_000))

    filter, hits, top, other = fresh(), CountMin(100, 3), TopK(3), CuckooFilter(100)
    for sketch in (filter, hits, top, other):
        empty = sketch.copy()
        for batch in (raises(), Liar()):
            with pytest.raises(RuntimeError, match="on purpose"):
                sketch.update(batch)
        with pytest.raises(TypeError):
            sketch.update([*map(str, range(5000)), None])
        with pytest.raises(KeyboardInterrupt):
            sketch.update(interrupted())
        assert sketch == empty


def test_answers_are_a_view_of_bytes() -> None:
    filter = of([b"a"])
    answers = filter.contains_many(["a", "b"])
    assert answers.format == "?" and answers.itemsize == 1 and answers.readonly
    array = np.asarray(answers)
    assert array.dtype == bool and array.tolist() == [True, False]
    hits = CountMin(100, 3)
    hits.update(["a", "b", "a"])
    counts = np.asarray(hits.query_many(["a", "b", "c"]))
    assert counts.dtype == np.uint64 and counts.tolist() == [2, 1, 0]


def test_what_is_new_is_a_mask() -> None:
    """Each array is filtered as docs/python.md says."""
    items = ["a", "b", "a", "c", "b", "d"]
    filter = of([b"c"])
    mask = filter.add_many(items)
    assert mask.format == "?" and mask.readonly and filter == of([b"a", b"b", b"c", b"d"])
    array, frame = np.array(items), pd.DataFrame({"id": items})
    assert array[mask].tolist() == ["a", "b", "d"]
    assert pa.array(items).filter(pa.array(mask)).to_pylist() == ["a", "b", "d"]
    assert pa.table({"id": items}).filter(pa.array(mask))["id"].to_pylist() == ["a", "b", "d"]
    assert frame[np.asarray(mask)]["id"].tolist() == ["a", "b", "d"]
    assert frame.loc[np.asarray(mask), "id"].tolist() == ["a", "b", "d"]
    assert pl.DataFrame({"id": items}).filter(mask)["id"].to_list() == ["a", "b", "d"]
    assert pl.Series(items).filter(pl.Series(mask)).to_list() == ["a", "b", "d"]
    new = {"new": np.asarray(mask)}
    rows = duckdb.sql("SELECT frame.* FROM frame POSITIONAL JOIN new WHERE new")
    assert [id for (id,) in rows.fetchall()] == ["a", "b", "d"] and new
    assert list(CuckooFilter(100).add_new_many(items)) == [True, True, False, True, False, True]
    # Of the other kinds, too; and as single items.
    for make in (lambda: Bloom.window(100, 0.01, window_ms=10**9, periods=2, seed=SEED), lambda: Bloom.counting(100, 0.01, seed=SEED), lambda: Bloom.scaled_to(100, 0.01, seed=SEED)):
        one, other = make(), make()
        numbers = [n * n % 1000 for n in range(3000)]
        assert list(one.add_many(numbers)) == [other.add(number) for number in numbers]
    full, known = Bloom(3, 1e-9, expansion=None), Bloom(3, 1e-9, expansion=None)
    for call in (lambda: full.add_many(list("abcd")), lambda: known.update(list("abcd"))):
        with pytest.raises(ValueError, match="is full"):
            call()
    assert len(full) == len(known) == 3


def test_more_than_two_to_the_31_bytes() -> None:
    part = pa.array(["x" * (1 << 20)] * 1, pa.large_string())
    large = pa.concat_arrays([part] * 2049)
    assert large.nbytes > 2**31
    filter = fresh()
    assert filter.update(large) == 1
    assert filter.contains_many(large).tobytes() == b"\1" * 2049


def test_a_column_of_objects_is_a_list_of_them() -> None:
    keys = [uuid.UUID(int=number) for number in range(3)]
    column = pl.Series("key", keys, dtype=pl.Object)
    filter, digest = fresh(), TDigest()
    for call in (filter.update, filter.add_many, filter.contains_many, CountMin(9, 2).update, digest.update):
        with pytest.raises(TypeError, match="UUID"):
            call(column)
        with pytest.raises(TypeError, match="Series"):
            call(column.to_frame())
    assert not filter and not len(digest)
    # Its addresses, which Arrow has, are not items; what the objects are may be.
    texts = pl.Series("key", list(map(str, keys)), dtype=pl.Object)
    assert of_batch(texts) == of([str(key).encode() for key in keys])
    assert of_batch(np.array(list(map(str, keys)), dtype=object)) == of_batch(texts)
    assert of_batch(pd.Series(list(map(str, keys)), dtype=object)) == of_batch(texts)
    with pytest.raises(TypeError, match="UUID"):
        filter.update(np.array(keys, dtype=object))
    with pytest.raises(TypeError):
        filter.update((ctypes.py_object * 1)(keys[0]))
    # These have the names of such columns, and are not ones.
    assert of_batch(pl.Series(["a", "Object"], dtype=pl.Enum(["a", "Object"]))) == of([b"a", b"Object"])
    assert of_batch(pl.DataFrame({"Object": ["a"]})) == of([b"a"])


def test_plain_memory_is_one_item() -> None:
    with mmap.mmap(-1, 3) as mapped:
        for memory in (mapped, pickle.PickleBuffer(b"abc"), pa.py_buffer(b"abc"), io.BytesIO(b"abc").getbuffer()):
            for call in (fresh().update, fresh().contains_many):
                with pytest.raises(TypeError, match="^a batch of items is needed, not one item$"):
                    call(memory)
    # Arrays of small integers are batches of them.
    numbers = of([b"1", b"2"])
    for array in (np.array([1, 2], "u1"), np.array([1, 2], "i1"), array_("B", [1, 2]), array_("b", [1, 2]), (ctypes.c_uint8 * 2)(1, 2)):
        assert of_batch(array) == numbers


def test_a_field_of_records_is_no_mask() -> None:
    records = np.rec.array([(1, True), (2, False)], dtype=[("number", "i8"), ("mask", "?")])
    with pytest.raises(TypeError, match="^item 0: an item is str, bytes or int, not record$"):
        fresh().update(records)
    assert of_batch(records.number) == of([b"1", b"2"])
