"""Names for what functions take, for type checkers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, SupportsFloat, SupportsIndex, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import Buffer


class ArrowArray(Protocol):
    """An array of Arrow: of pyarrow, polars, nanoarrow."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...


class ArrowStream(Protocol):
    """Arrays of Arrow in chunks, or a table of one column: of pyarrow, polars, pandas, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


#: An item: text is its UTF-8, and a number its decimal digits.
Item: TypeAlias = "str | bytes | bytearray | memoryview | int"

#: A batch of items.
Items: TypeAlias = "Iterable[Item] | Buffer | ArrowArray | ArrowStream"

#: A batch of whole numbers.
Counts: TypeAlias = "Iterable[SupportsIndex] | Buffer | ArrowArray | ArrowStream"

#: A batch of numbers.
Values: TypeAlias = "Iterable[SupportsFloat | SupportsIndex] | Buffer | ArrowArray | ArrowStream"
