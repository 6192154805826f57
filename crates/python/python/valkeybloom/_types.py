"""Names of parameter types, for type checkers."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Protocol, SupportsFloat, SupportsIndex, TypeAlias, TypeVar

from ._core import Bloom, CountMin, Follower, TDigest

if TYPE_CHECKING:
    from typing_extensions import Buffer
elif sys.version_info >= (3, 12):
    from collections.abc import Buffer
else:
    Buffer = memoryview


class ArrowArray(Protocol):
    """An Arrow array: of pyarrow, polars, nanoarrow."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any: ...


class ArrowStream(Protocol):
    """Arrow arrays in chunks, or a table of one column: of pyarrow, polars, pandas, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


class Client(Protocol):
    """A client of redis-py or valkey-py, also for a cluster, or any object that sends a command and returns its reply."""

    def execute_command(self, *args: Any, **options: Any) -> Any: ...


class AsyncClient(Protocol):
    """An asynchronous client of redis-py or valkey-py, also for a cluster, or any object that sends a command."""

    def execute_command(self, *args: Any, **options: Any) -> Awaitable[Any]: ...


#: A key: text is what the client encodes it as, and a number its decimal digits.
Key: TypeAlias = str | bytes | int

#: A command to send, and a generator that yields commands and is sent replies.
Command: TypeAlias = tuple[str | bytes | int, ...]
Exchange: TypeAlias = Generator[Command, Any, Any]

#: The words of a command: its name, and the rest as bytes.
Words: TypeAlias = tuple[str, *tuple[bytes, ...]]

#: The next step of a `Near`: a command to send, or the seconds to wait.
Step: TypeAlias = Words | float

#: The outcome of a command: a function that passes it to a copy.
Outcome: TypeAlias = Callable[[Follower], None]

#: An item: text is its UTF-8, and a number its decimal digits.
Item: TypeAlias = str | bytes | bytearray | memoryview | SupportsIndex

#: A batch of items.
Items: TypeAlias = Iterable[Item] | Buffer | ArrowArray | ArrowStream

#: A batch of whole numbers.
Counts: TypeAlias = Iterable[SupportsIndex] | Buffer | ArrowArray | ArrowStream

#: A batch of numbers.
Values: TypeAlias = Iterable[SupportsFloat | SupportsIndex] | Buffer | ArrowArray | ArrowStream

#: An object that others of its family can be united with.
Part = TypeVar("Part", Bloom, CountMin, TDigest)
