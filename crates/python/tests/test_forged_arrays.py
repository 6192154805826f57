"""Arrays that lie about their memory, and objects that only seem to have some."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from samples import fresh, of, of_batch


def test_arrays_whose_offsets_lie() -> None:
    data = pa.py_buffer(b"redgreenblue")
    for kind, code in ((pa.string(), "i4"), (pa.large_string(), "i8"), (pa.binary(), "i4")):
        for offsets in ([0, 3, 2], [0, 3, 1_000_000_000], [5, 4, 3], [0, 13, 12]):
            buffers = [None, pa.py_buffer(np.array(offsets, dtype=code)), data]
            filter = fresh()
            # pyarrow looks at the last offset alone.
            with pytest.raises(ValueError):
                filter.update(pa.Array.from_buffers(kind, 2, buffers))
            with pytest.raises(ValueError):
                filter.update(pa.chunked_array([pa.Array.from_buffers(kind, 2, buffers)]))
            assert not filter


class Schema(ctypes.Structure):
    _fields_ = [
        ("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_char_p), ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64), ("children", ctypes.c_void_p), ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p),
    ]  # fmt: skip


class Array(ctypes.Structure):
    _fields_ = [
        ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64), ("n_children", ctypes.c_int64), ("buffers", ctypes.c_void_p),
        ("children", ctypes.c_void_p), ("dictionary", ctypes.c_void_p), ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]  # fmt: skip


def capsule(pointer: Any, name: bytes) -> Any:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(pointer), name, None)


class Forged:
    """An array with any numbers in its fields."""

    NAMES = (b"arrow_schema", b"arrow_array")

    def __init__(self, format: bytes | None, memory: list[Any], **fields: int) -> None:
        self.data = [b if b is None else ctypes.create_string_buffer(bytes(b), max(len(bytes(b)), 1)) for b in memory]
        addresses = [None if b is None else ctypes.addressof(b) for b in self.data]
        self.buffers = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        self.schema = Schema(format=format, release=1)
        default = {"length": 2, "n_buffers": len(memory), "buffers": ctypes.addressof(self.buffers), "release": 1}
        self.array = Array(**{**default, **fields})

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return capsule(self.schema, self.NAMES[0]), capsule(self.array, self.NAMES[1])


class Misnamed(Forged):
    NAMES = (b"arrow_schema", b"other")


def views(*views: tuple[int, int, int]) -> bytes:
    parts = (np.array([length, 0, buffer, offset], dtype="i4").tobytes() for length, buffer, offset in views)
    return b"".join(parts)


def test_forged_arrays_are_refused() -> None:
    offsets, large = np.array([0, 3, 8], dtype="i4"), np.array([0, 3, 8], dtype="i8")
    strings = [None, offsets, b"redgreen"]
    assert of_batch(Forged(b"u", strings)) == of([b"red", b"green"])
    assert of_batch(Forged(b"U", [None, large, b"redgreen"])) == of([b"red", b"green"])
    long = b"a string in a buffer"
    sizes = np.array([len(long)], dtype="i8")
    assert of_batch(Forged(b"vz", [None, views((20, 0, 0), (18, 0, 2)), long, sizes])) == of([long, long[2:]])
    two = 2**62
    forged = [
        *(Forged(b"u", strings, length=n) for n in (-1, -two, 2**63 - 1, two)),
        *(Forged(b"u", strings, offset=n) for n in (-1, -two, 2**63 - 1, two)),
        *(Forged(b"u", strings, n_buffers=n) for n in (-1, 0, 1, 2)),
        Forged(b"u", strings, buffers=0),
        Forged(b"u", strings, release=0),
        Forged(b"u", [None, None, None]),
        Forged(b"u", [None, offsets, None]),
        Forged(b"u", [None, np.array([0, 5, 3], dtype="i4"), b"redgreen"]),
        Forged(b"u", [None, np.array([0, -5, 3], dtype="i4"), b"redgreen"]),
        Forged(b"U", [None, np.array([0, -5, -(2**63)], dtype="i8"), b"redgreen"]),
        Forged(b"U", [None, np.array([2**62, 3, 5], dtype="i8"), b"redgreen"]),
        Forged(b"vu", [None, views((20, 1, 0)), long, sizes], length=1),
        Forged(b"vu", [None, views((21, 0, 0)), long, sizes], length=1),
        Forged(b"vu", [None, views((-1, 0, 0)), long, sizes], length=1),
        Forged(b"vu", [None, views((20, -1, 0)), long, sizes], length=1),
        Forged(b"vu", [None, views((20, 0, -1)), long, sizes], length=1),
        Forged(b"vu", [None, views((20, 0, 0)), long, np.array([-1], dtype="i8")], length=1),
        Forged(b"vu", [None, views((20, 0, 0))], length=1),
        Forged(b"vu", [None, None, None], length=1),
        Forged(b"l", [None, None]),
        Forged(b"l", [None]),
        Forged(b"w:9223372036854775807", [None, b"ab"]),
        Forged(b"w:99999999999999999999", [None, b"ab"]),
        Forged(b"w:-1", [None, b"ab"]),
        Forged(b"+s", [None]),
        Forged(b"+s", [None], n_children=1),
        Forged(b"+s", [None], n_children=-1),
        Forged(b"", strings),
        Forged(None, strings),
        Forged(b"\xff\xfe", strings),
        Misnamed(b"u", strings),
    ]
    for number, array in enumerate(forged):
        filter = fresh()
        with pytest.raises((ValueError, TypeError, MemoryError)):
            filter.update(array)
            pytest.fail(f"array {number} was taken")
        assert not filter


def test_methods_that_give_no_arrays() -> None:
    for value in (None, 5, (), (1, 2), (1, 2, 3), "ab"):
        for name in ("__arrow_c_array__", "__arrow_c_stream__"):
            batch = type("Batch", (), {name: lambda self, value=value: value})()
            with pytest.raises((TypeError, ValueError)):
                fresh().update(batch)

    class Raises:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            raise KeyError("on purpose")

    with pytest.raises(KeyError, match="on purpose"):
        fresh().update(Raises())


def test_what_has_no_arrays_without_another_package_is_iterated() -> None:
    class Series:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            raise ImportError("pyarrow is needed")

        def __iter__(self) -> Iterator[str]:
            return iter(["a", "b"])

    assert of_batch(Series()) == of([b"a", b"b"])


def test_a_stream_that_fails_and_one_that_was_read() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": ["x", "y"]})
        raise KeyError("on purpose")

    schema = pa.schema({"a": pa.string()})
    filter = fresh()
    with pytest.raises(ValueError, match="on purpose"):
        filter.update(pa.RecordBatchReader.from_batches(schema, batches()))
    assert not filter
    reader = pa.RecordBatchReader.from_batches(schema, [pa.record_batch({"a": ["x", "y"]})])
    assert filter.update(reader) == 2
    gc.collect()
