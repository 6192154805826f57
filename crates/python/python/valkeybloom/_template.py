"""Empty objects whose copies unite exactly, wherever they are filled."""

from __future__ import annotations

import zlib

from ._core import Bloom, CountMin, CuckooFilter, TDigest, TopK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ._types import Part

#: Why objects of a family can't be united.
APART: dict[type, str] = {
    TopK: "a Top-K list counts only the items that are frequent in its own part",
    CuckooFilter: "a cuckoo filter moves fingerprints to make room, so two of them have no common places",
}


class Template:
    """Makes empty objects. It can be pickled, and is small whatever the size of the objects."""

    __slots__ = ("_family", "_sizes", "_start")

    def __init__(self, family: type[Any], start: bytes, sizes: tuple[int, ...]) -> None:
        #: A large Bloom filter's first chunk, and the sizes of the others; else the bytes of an object, compressed.
        self._family, self._start, self._sizes = family, start, sizes

    def __call__(self) -> Any:
        if self._sizes:
            return Bloom.from_chunks(self._chunks())
        return self._family.from_bytes(zlib.decompress(self._start))

    def _chunks(self) -> Iterator[tuple[int, bytes]]:
        cursor = 1
        yield cursor, self._start
        for size in self._sizes:
            cursor += size
            yield cursor, bytes(size)

    def __reduce__(self) -> tuple[type[Template], tuple[type[Any], bytes, tuple[int, ...]]]:
        return Template, (self._family, self._start, self._sizes)

    def __repr__(self) -> str:
        return f"<template of {self._family.__name__}>"


def template(sketch: Part) -> Callable[[], Part]:
    """Return a function without arguments that makes empty objects like this one, in any process.

    It can be pickled, and is small whatever the size of the object: send it to the processes that build parts of one
    object. Parts of one template have one seed and one size, so they unite without loss: Bloom filters with `|`, the
    others with `CountMin.merged` and `TDigest.merged`. The items of `sketch` do not matter, so the template of an object
    that `fetch` returned makes parts that can be merged into its key.

    Raises ValueError for objects that can't be united, and says why.

    >>> import pickle
    >>> from valkeybloom import Bloom, template
    >>> new_part = pickle.loads(pickle.dumps(template(Bloom(1_000_000, 0.01))))
    >>> one, other = new_part(), new_part()
    >>> one.update(["a", "b"]), other.update(["b", "c"])
    (2, 2)
    >>> list((one | other).contains_many(["a", "b", "c", "d"]))
    [True, True, True, False]
    """
    family = type(sketch)
    if family in APART:
        raise ValueError(f"objects of {family.__name__} can't be united: {APART[family]}")
    if family not in (Bloom, CountMin, TDigest):
        raise TypeError(f"a sketch is needed, not {family.__name__}")
    empty = sketch.copy()
    empty.clear()
    # Of the Bloom filters, those that take memory for each item are small.
    if not isinstance(empty, Bloom) or empty.nbytes < 4096:
        return Template(family, zlib.compress(empty.to_bytes(), 1), ())
    chunks = empty.chunks()
    _, header = next(chunks)
    return Template(family, header, tuple(len(cells) for _, cells in chunks))
