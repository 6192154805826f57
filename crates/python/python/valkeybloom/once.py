"""`Once`: additions whose answers the server can repeat."""

from __future__ import annotations

from operator import index

from ._core import LACKING, Addition, Receipts, Refusal
from ._exchange import encoded, is_loss, options, routing
from ._server import _run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from ._types import Client, Exchange, Items, Key

__all__ = ["Forgotten", "Once"]

#: The codes that clients strip from a server's errors, by the names of their exceptions. The usual one is first.
CODES = {
    "AuthenticationError": ("WRONGPASS", "NOAUTH"),
    "ClusterCrossSlotError": ("CROSSSLOT",),
    "MovedError": ("MOVED",),
    "NoPermissionError": ("NOPERM",),
}

#: The largest position.
LAST_POSITION = 2**63 - 1


class Forgotten(LookupError):
    """A receipt has no answer for a position, so nothing was added. It has answers from `first` to `end`, without `end`."""

    def __init__(self, text: str, first: int, end: int) -> None:
        super().__init__(text)
        self.first, self.end = first, end

    def __reduce__(self) -> tuple[type[Self], tuple[str, int, int]]:
        return type(self), (str(self), self.first, self.end)


def text_of(error: BaseException) -> str:
    """Returns the text of an error, or the name of its class if it has none, or if making it raises another error."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return (text or type(error).__name__).encode("utf-8", "replace").decode().rstrip()


def refusal(error: Exception) -> str | None:
    """Returns the text of a server's error, with the code that the client has stripped. None if there is no reply."""
    text = text_of(error)
    for base in type(error).__mro__:
        if codes := CODES.get(base.__name__):
            return text if text.startswith(codes) else f"{stripped(error, text, codes)} {text}"
    return None if is_loss(error) else text


def stripped(error: Exception, text: str, codes: tuple[str, ...]) -> str:
    """Returns the code that a client has stripped. redis-py has it in `status_code` since version 7.2."""
    code = getattr(error, "status_code", None)
    if code in codes:
        return str(code)
    # Texts of NOAUTH.
    return codes[-1] if text.startswith(("Authentication required", "HELLO must be called")) else codes[0]


def require_retry(addition: Addition, error: Exception) -> None:
    """Raises the error of a command, or a clearer one, unless the call goes on without receipts."""
    text = refusal(error)
    if text is None:
        raise error
    match addition._refuse(text):
        case Refusal.Without():
            return
        case Refusal.Forgotten(first, end):
            raise Forgotten(text, first, end) from error
        case Refusal.Lacking():
            raise ValueError(LACKING) from error
    raise error


def unexpected(command: str) -> TypeError:
    return TypeError(f"the client returned something other than a reply to {command}")


def is_one(command: str, reply: Any) -> bool:
    """Returns whether a reply is 1 or true."""
    try:
        answer = index(reply)
    except TypeError:
        raise unexpected(command) from None
    if answer not in (0, 1):
        raise unexpected(command)
    return answer == 1


def answers_in(command: str, replies: Any, count: int) -> tuple[list[bool], Exception | None]:
    """Returns the answers among the replies to a batch, and the refusal after them, if there is one."""
    if not isinstance(replies, (list, tuple)) or len(replies) > count:
        raise unexpected(command)
    answers: list[bool] = []
    for reply in replies:
        if isinstance(reply, Exception):
            return answers, reply
        answers.append(is_one(command, reply))
    if len(answers) != count:
        raise ValueError("the client returned too few replies")
    return answers, None


def adding(
    receipts: Receipts,
    addition: Addition,
    result: Callable[[Addition], Any],
    take: Callable[[Addition, list[bool]], None] = Addition._take,
) -> Exchange:
    """Sends the commands of a call, whose answers go to `take`. Returns the result of the whole call."""
    is_delivered = False
    try:
        while (command := addition._command()) is not None:
            words, count = command
            try:
                replies = yield words
            except Exception as error:
                require_retry(addition, error)
                continue
            answers, refused = answers_in(words[0], replies, count)
            take(addition, answers)
            if refused is not None:
                addition._refuse_item()
                raise refused
        found = result(addition)
        is_delivered = True
        return found
    finally:
        receipts._end(addition, is_delivered)


class OnceBase(Receipts):
    """The common part of `Once` and `valkeybloom.asyncio.Once`, which send the commands."""

    __slots__ = ("_client", "_consumer", "_key")

    _client: Client
    _consumer: bytes | None
    _key: bytes

    #: Whether the client is an asynchronous one.
    _is_async = False

    def __new__(cls, client: Client, key: Key, consumer: Key | None = None, begin: int | None = None) -> Self:
        require_kind(cls._is_async, client)
        name = encoded(client, key)
        if consumer is None and begin is not None:
            raise TypeError("begin is the first position of a consumer, which is missing")
        who = None if consumer is None else encoded(client, consumer, "consumer")
        first = require_position(begin)
        self = super().__new__(cls, name, who, first, is_on=True, creates=True, may_skip_receipts=False)
        self._client, self._key, self._consumer = client, name, who
        return self

    def __repr__(self) -> str:
        return f"<Once {self._key!r}{'' if self._consumer is None else f' of {self._consumer!r}'}>"

    def _begin_at(self, items: Items, at: int | None) -> Addition:
        if (at is None) != (self._consumer is None):
            raise TypeError("add needs at, the position of the first item" if at is None else "at is a consumer's position")
        return self._begin(items, require_position(at))

    def _adding(self, addition: Addition) -> Exchange:
        return adding(self, addition, Addition._answers)

    def _reading_position(self) -> Exchange:
        words = self._position_words()
        if words is None:
            return None
        head = yield words
        if not isinstance(head, bytes):
            raise unexpected(words[0])
        end = self._position_in(head)
        if end is None:
            raise ValueError("the consumer's key does not hold a receipt")
        return end


def require_kind(is_async: bool, *clients: Client) -> None:
    """Requires that clients are asynchronous ones, or that none is."""
    from inspect import iscoroutinefunction

    for one in clients:
        if iscoroutinefunction(one.execute_command) != is_async:
            kinds = ("an asynchronous", "a blocking") if is_async else ("a blocking", "an asynchronous")
            raise TypeError("{} client is needed, not {} one".format(*kinds))


def require_position(number: int | None) -> int:
    """Returns a position that a program passed, 0 without one."""
    if number is None:
        return 0
    found = index(number)
    if isinstance(number, bool) or not 0 <= found <= LAST_POSITION:
        raise ValueError(f"a position is a whole number from 0 to {LAST_POSITION}")
    return found


class Once(OnceBase):
    """Additions to a server's Bloom filter whose answers the server can repeat.

    `client` is one of redis-py or valkey-py, for a server or a cluster, or any object with a method `execute_command`
    that threads may call. `key` is the filter's. A missing filter is created with the server's default parameters.

    With a `consumer`, `add` needs the position of its first item in the consumer's input: an offset in a log, or the number
    of a line. Positions that were added before get the same answers again, and their items are not added. The answers are
    in a receipt on the server, `{key}:once:consumer`, which keeps the last 100,000. `begin` is the
    position of the first item that the consumer adds, if that is not 0. Add the batches of one consumer one after the
    other.

    Without a consumer, the object has receipts of its own. A client may send a command as often as it likes. If `add`
    raises, call it again with these items: it returns what the first call would have returned. Threads may share
    the object.

    >>> import redis
    >>> from valkeybloom import Once
    >>> client = redis.Redis()
    >>> once = Once(client, "clicks", "worker-7", begin=1200)
    >>> once.add(["/a", "/b", "/a"], at=1200)
    [True, True, False]
    >>> once.add(["/b", "/a", "/c"], at=1201)
    [True, False, True]
    >>> once.position()
    1204
    >>> Once(client, "names").add(["ann"])
    [True]
    """

    __slots__ = ()

    def add(self, items: Items, /, *, at: int | None = None) -> list[bool]:
        """Add a batch of items. Return for each whether it was new.

        A batch is one of those that `Bloom` takes. It is sent in commands of up to 10,000 items. With a consumer, `at` is
        the position of the first item.

        Raises `Forgotten` if the receipt has no answer for a position, and ValueError if the server has no receipts. If
        the server refuses an item, the client's exception is raised; the items before it are added, and the same call
        then gets their answers and continues after them.
        """
        addition = self._begin_at(items, at)
        answers: list[bool] = _run(Routed(self._client, self._key, addition), self._adding(addition))
        return answers

    def position(self) -> int | None:
        """Return the first position of the consumer without an answer, as the server has it. None without a consumer.

        If there is no receipt, it is where the consumer begins.
        """
        end: int | None = _run(Routed(self._client, self._key), self._reading_position())
        return end


class Routed:
    """A client that sends the commands of a call to the primary of a key's slot."""

    def __init__(self, client: Client, key: bytes, addition: Addition | None = None) -> None:
        self.client, self.key, self.plain = client, key, options(client)
        #: The call, if it adds items.
        self.addition = addition

    def repeats(self, error: Exception) -> bool:
        """Returns whether a command is sent once more: it has a receipt, and a client of a cluster has lost the reply.

        That client then finds the nodes again.
        """
        has_receipt = self.addition is not None and self.addition._has_receipts()
        return has_receipt and is_loss(error) and hasattr(self.client, "get_node_from_key")

    def execute_command(self, *words: Any, **_: Any) -> Any:
        try:
            return self.client.execute_command(*words, **routing(self.client, self.key, self.plain))
        except Exception as error:
            if not self.repeats(error):
                raise
        return self.client.execute_command(*words, **self.plain)
