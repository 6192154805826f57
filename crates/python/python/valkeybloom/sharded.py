"""One Bloom filter over many keys of a cluster, for more items than a key or a machine can hold.

The filter `name` is the keys `name:0` … `name:N-1`, and an item belongs to the shard whose number is its CRC-32 modulo N.
Every client that follows this scheme finds the same items: docs/sharded.md of the project describes it.
"""

from __future__ import annotations

import math
from operator import index
from zlib import crc32

from ._core import COMMAND_BYTES, COMMAND_ITEMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ._types import Client, Command, Item, Items

__all__ = ["ShardedBloom", "Unanswered", "shard_capacity", "shard_of"]

#: The most nodes or shards that are waited for at the same time.
THREADS = 32

#: A missing answer.
NONE = 2


class Unanswered(Exception):
    """Raised if shards did not answer, with the answers of all others.

    `errors` has the error of each such shard, by its key. `answers` has True or False for each item, in order, and None
    for items without an answer. Those may have been added nevertheless; adding them again is harmless, except that they
    may then count as not new.
    """

    def __init__(self, errors: dict[str, Exception], answers: list[bool | None]) -> None:
        super().__init__(errors, answers)
        self.errors, self.answers = errors, answers

    def __reduce__(self) -> tuple[type[Unanswered], tuple[dict[str, Exception], list[bool | None]]]:
        # The errors of a client may have its connection, which can't be pickled.
        errors = {key: Exception(str(error)) for key, error in self.errors.items()}
        return Unanswered, (errors, self.answers)

    def __str__(self) -> str:
        return "; ".join(f"{key}: {error}" for key, error in self.errors.items())


def shard_capacity(capacity: int, shards: int) -> int:
    """Return the capacity of each shard of a filter for `capacity` items: an even share, and five standard deviations.

    >>> shard_capacity(1_000_000_000, 18)
    55591774
    """
    share = -(-capacity // shards)
    return share + math.ceil(5 * math.sqrt(share * (1 - 1 / shards)))


def shard_of(item: Item, shards: int) -> int:
    """Return the number of the shard that an item belongs to, from 0.

    >>> shard_of("item", 24)
    14
    """
    return crc32(encoded(item)) % shards


def encoded(item: Item) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, (bytes, bytearray, memoryview)):
        return bytes(item)
    try:
        if not isinstance(item, bool):
            return b"%d" % index(item)
    except TypeError:
        pass
    raise TypeError(f"an item is str, bytes or int, not {type(item).__name__}")


def iterated(items: Items) -> Iterator[Item]:
    """Iterates over a batch. Arrays of Arrow and numpy have elements of their own types, and know Python's."""
    if isinstance(items, (str, bytes, bytearray)) or (isinstance(items, memoryview) and items.itemsize == 1):
        raise TypeError("a batch of items is needed, not one item")
    # A frame of pandas would be the names of its columns.
    dimensions = getattr(items, "ndim", 1)
    if isinstance(dimensions, int) and dimensions != 1:
        raise TypeError(f"a batch has one dimension, not {dimensions}: pass a single column")
    for name in ("to_pylist", "tolist"):
        convert = getattr(items, name, None)
        if convert is not None:
            return iter(convert())
    return iter(items)  # type: ignore[arg-type]


class ShardedBloom:
    """A Bloom filter over many keys, with any number of clients.

    `client` is one of redis-py or valkey-py, of a cluster or of one server. The name has no braces, and the number of
    shards belongs to the filter: with another number it is another filter. Nothing is sent to create the object: `reserve`
    creates the shards.

    A batch is sent as one command for each shard, in one pipeline for each node, to all nodes at the same time. Large
    batches are best: a few thousand items for each shard. A batch with more than 10,000 items for one shard is sent in
    pieces, while it is read. Items are those of `Bloom`.

    If a shard can't be reached, or refuses items, `Unanswered` is raised with the answers of all others. Commands follow
    slots that move. After a lost connection they are sent again, as often as the client's settings allow; an item that
    was new may then count as known.

    >>> seen = ShardedBloom.reserve(client, "seen", 24, 1_000_000, 0.01)
    >>> seen.add("a")
    True
    >>> seen.update(["a", "b", 3])
    2
    >>> "b" in seen, b"3" in seen, "c" in seen
    (True, True, False)
    >>> list(seen.contains_many(["a", "c"]))
    [True, False]
    """

    def __init__(self, client: Client, name: str, shards: int) -> None:
        if "{" in name or "}" in name:
            raise ValueError("the name of a sharded filter has no braces")
        if shards < 1:
            raise ValueError("shards must be larger than 0")
        self._client: Any = client
        self._keys = tuple(f"{name}:{shard}" for shard in range(shards))

    @classmethod
    def reserve(
        cls,
        client: Client,
        name: str,
        shards: int,
        capacity: int,
        error_rate: float,
        *,
        expansion: int | None = 2,
    ) -> ShardedBloom:
        """Create the shards that do not exist, for `capacity` items in all, and return the filter.

        Existing shards stay as they are, so every client may call this on startup. With `expansion=None` the shards do
        not grow: each refuses items beyond its share of the capacity, to which five standard deviations are added.

        >>> ShardedBloom.reserve(client, "sold", 18, 10_000, 0.01, expansion=None).keys[:2]
        ('sold:0', 'sold:1')
        """
        if isinstance(error_rate, (int, float)) and not 0 < error_rate < 1:
            raise ValueError(f"error_rate is between 0 and 1, not {error_rate}")
        for name_of, number in (("shards", shards), ("capacity", capacity)):
            if not hasattr(number, "__index__"):
                raise TypeError(f"{name_of} is an integer, not {type(number).__name__}")
        if index(capacity) < index(shards):
            raise ValueError(f"capacity is {capacity}, less than the {shards} shards: are they swapped?")
        sharded = cls(client, name, shards)
        growth = ("NONSCALING",) if expansion is None else ("EXPANSION", expansion)
        # NX is left out, because valkey-bloom has no such word.
        options = (error_rate, shard_capacity(capacity, shards), *growth)
        replies = sharded._call({shard: ("BF.RESERVE", key, *options) for shard, key in enumerate(sharded._keys)})
        errors = {
            sharded._keys[shard]: reply
            for shard, reply in replies.items()
            if isinstance(reply, Exception) and not str(reply).endswith("item exists")
        }
        if errors:
            raise Unanswered(errors, [])
        return sharded

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the shards, in the order of their numbers."""
        return self._keys

    def add(self, item: Item, /) -> bool:
        """Add an item. Return whether it was new."""
        return bool(self._each(("BF.INSERT", "NOCREATE", "ITEMS"), (item,))[0])

    def update(self, items: Items, /) -> int:
        """Add a batch of items. Return how many were new: of equal items, only the first."""
        return sum(self._each(("BF.INSERT", "NOCREATE", "ITEMS"), iterated(items)))

    def add_many(self, items: Items, /) -> memoryview[bool]:
        """Add a batch of items. Return for each whether it was new: a memoryview of bool. Of equal items, only the first is."""
        return self._view(("BF.INSERT", "NOCREATE", "ITEMS"), items)

    def __contains__(self, item: Item, /) -> bool:
        return bool(self._each(("BF.MEXISTS",), (item,))[0])

    def contains_many(self, items: Items, /) -> memoryview[bool]:
        """Return for each item of a batch whether it was added: a memoryview of bool. Shards that do not exist have none."""
        return self._view(("BF.MEXISTS",), items)

    def _view(self, words: tuple[str, ...], items: Items) -> memoryview[bool]:
        return memoryview(self._each(words, iterated(items))).cast("?").toreadonly()

    def _each(self, words: tuple[str, ...], items: Iterable[Item]) -> bytearray:
        """Sends a command with items to their shards; the key goes after its name. Returns the answers, 0 or 1."""
        answers, errors = bytearray(), {}
        command, *options = words
        for batch in self._batches(items):
            answers.extend(bytes([NONE]) * sum(len(own) for _, own in batch.values()))
            # A shard that failed is not tried again: each attempt to reach a lost node takes long.
            batch = {shard: part for shard, part in batch.items() if self._keys[shard] not in errors}
            replies = self._call(
                {shard: (command, self._keys[shard], *options, *own) for shard, (_, own) in batch.items()}
            )
            for shard, reply in replies.items():
                positions, _ = batch[shard]
                if isinstance(reply, Exception):
                    reply = [reply]
                elif not isinstance(reply, list):
                    reply = [ValueError(f"{command} returned {type(reply).__name__}, not a list")]
                # A refusal ends a reply early, as its last element.
                elif len(reply) != len(positions) and not (reply and isinstance(reply[-1], Exception)):
                    reply = [ValueError(f"{command} returned {len(reply)} replies for {len(positions)} items")]
                for position, answer in zip(positions, reply):
                    if not isinstance(answer, Exception) and answer not in (0, 1):
                        answer = ValueError(f"{command} returned {answer!r}, not 0 or 1")
                    if isinstance(answer, Exception):
                        errors[self._keys[shard]] = answer
                        break
                    answers[position] = bool(answer)
        if errors:
            raise Unanswered(errors, [None if answer == NONE else bool(answer) for answer in answers])
        return answers

    def _batches(self, items: Iterable[Item]) -> Iterator[dict[int, tuple[list[int], list[bytes]]]]:
        """Yields for each shard its items of a batch, and their positions among all items."""
        batch: dict[int, tuple[list[int], list[bytes]]] = {}
        size = 0
        for position, item in enumerate(items):
            try:
                word = encoded(item)
            except (TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"item {position}: {error}") from None
            positions, own = batch.setdefault(crc32(word) % len(self._keys), ([], []))
            positions.append(position)
            own.append(word)
            size += len(word)
            if len(own) == COMMAND_ITEMS or size >= COMMAND_BYTES:
                yield batch
                batch, size = {}, 0
        if batch:
            yield batch

    def _call(self, commands: dict[int, Command]) -> dict[int, Any]:
        """Sends a command to each of these shards, at the same time. Returns each shard's reply, or its error, in order."""
        nodes: dict[str, tuple[Any, list[int]]] = {}
        for shard in commands:
            node = self._node(self._keys[shard])
            if node is not None:
                nodes.setdefault(getattr(node, "name", ""), (node, []))[1].append(shard)

        def send(node: Any, shards: list[int]) -> dict[int, Any]:
            try:
                pipeline = self._connection(node).pipeline(transaction=False)
                for shard in shards:
                    pipeline.execute_command(*commands[shard])
                return dict(zip(shards, pipeline.execute(raise_on_error=False)))
            except Exception:
                return {}

        # The client knows how to follow a slot that moves, and to find the nodes after a failure.
        def again(shard: int) -> Any:
            try:
                return self._client.execute_command(*commands[shard])
            except Exception as error:
                return error

        replies: dict[int, Any] = {}
        for some in at_once(send, nodes.values()):
            replies.update(some)
        failed = [shard for shard in commands if isinstance(replies.get(shard, LOST), Exception)]
        replies.update(zip(failed, at_once(again, [(shard,) for shard in failed])))
        return dict(sorted(replies.items()))

    def _node(self, key: str) -> Any:
        """Returns the node that a key is on, or None if the client does not know it."""
        find = getattr(self._client, "get_node_from_key", None)
        if find is None:
            return self._client
        try:
            return find(key)
        except Exception:
            return None

    def _connection(self, node: Any) -> Any:
        """Returns the client of a node."""
        if node is self._client:
            return node
        for name in ("get_redis_connection", "get_valkey_connection"):
            connect = getattr(self._client, name, None)
            if connect is not None:
                return connect(node)
        raise TypeError("a client of redis-py or valkey-py is needed")


#: Stands for the reply of a pipeline that broke off.
LOST = ConnectionError("the connection was lost")


def at_once(run: Any, arguments: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Calls a function with each of these arguments, in threads if there are several. Returns the results in order."""
    arguments = list(arguments)
    if len(arguments) < 2:
        return [run(*each) for each in arguments]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(len(arguments), THREADS)) as pool:
        return list(pool.map(lambda each: run(*each), arguments))
