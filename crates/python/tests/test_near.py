"""`Near`: copies that answer as the server does, whatever happens to its filter."""

from __future__ import annotations

import math
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import redis
from conftest import CLIENTS, running, wait
from following import QUICK, Gate, calls, equals, items
from test_threads import together
from valkeybloom import Bloom, Near, fetch


def test_a_copy_answers_as_the_server_does(server: int) -> None:
    for library in CLIENTS.values():
        for protocol in (2, 3):
            for decode in (False, True):
                kind = library.Redis if library is redis else library.Valkey
                with kind(port=server, protocol=protocol, decode_responses=decode) as client:
                    client.flushall()
                    client.execute_command("BF.RESERVE", "seen", 0.01, 100_000)
                    client.execute_command("BF.MADD", "seen", *items(1000))
                    with Near(client, b"seen", **QUICK) as near:
                        assert near.wait(30) and near.state == "following" and 0 <= (near.age or 0) < 60
                        asked = items(2000)
                        answers = [bool(answer) for answer in client.execute_command("BF.MEXISTS", "seen", *asked)]
                        assert list(near.contains_many(asked)) == answers
                        assert [item in near for item in asked] == answers == [near.contains(item) for item in asked]
                        client.execute_command("BF.MADD", "seen", *items(3000, 2000))
                        wait(lambda: equals(near, client, "seen"))
                        assert all(near.contains_many(items(3000, 2000)))
                        stats = near.stats
                        assert (stats.fetches, stats.resyncs, stats.errors, stats.asked) == (1, 0, 0, 0)
                        assert stats.polls > 1 and 2900 < stats.items <= 3000 and stats.bytes > 16 * stats.items
                        assert stats.last_error is None
                        assert re.match(r"<Near b'seen' following, \d\.\d+ s old>$", repr(near))
                        assert repr(stats).startswith(f"<NearStats polls={stats.polls} ")
                    assert near.state == "closed" and near.age is None and near.copy() is None


def test_items_and_batches_are_those_of_a_filter(client: Any) -> None:
    batches: list[Any] = [
        ["a", b"b", bytearray(b"c"), memoryview(b"d"), 5, -(10**30), "é", "", b"\0\xff"],
        np.arange(10, 13),
        np.array([b"xy", b"z"]),
        pa.array(["arrow", "ö"]),
        pa.chunked_array([[b"1", b"2"], [b"3"]]),
        {"set"},
        memoryview(np.arange(65, 68)),
        (),
    ]
    for options in ({}, {"confirm": True}):
        client.delete("items")
        with Near(client, "items", missing="create", **QUICK, **options) as near:
            assert near.wait(30) and near.state == "missing"
            plain = Bloom(1000, 1e-9)
            for batch in batches:
                assert not any(near.contains_many(batch))
                assert list(near.add_many(batch)) == list(plain.add_many(batch))
                assert near.update(batch) == 0 and all(near.contains_many(batch))
                found = near.contains_many(batch)
                assert found.format == "?" and len(found) == len(plain.contains_many(batch))
            generated = (str(number) for number in range(20, 25))
            assert near.update(generated) == 5
            wait(lambda: equals(near, client, "items"))
            assert client.execute_command("BF.CARD", "items") == len(plain) + 5
            before = calls(client, "bf.mexists")
            for wrong, text in ((["a", None], "item 1"), ([True], "not bool"), ([1.5], "not float"), ("t", "not one item")):
                for call in (near.update, near.add_many, near.contains_many):
                    with pytest.raises(TypeError, match=text):
                        call(wrong)  # type: ignore[operator]
            for wrong in (None, 1.5, True, ["a"]):
                for call in (near.add, near.contains, near.__contains__):
                    with pytest.raises(TypeError, match="str, bytes or int"):
                        call(wrong)  # type: ignore[operator]
            assert calls(client, "bf.mexists") == before


def test_what_is_written_is_read_at_once(client: Any) -> None:
    options = {"missing": "create", **QUICK}
    with Near(client, "own", **options) as near, Near(client, "own", confirm=True, **options) as confirming:
        for own in (near, confirming):
            for item in items(500, 1000 * (own is near)):
                assert own.add(item) and item in own and not own.add(item)
                assert own.contains_many([item]) == memoryview(b"\1")
        # More than are kept until the copy has them, in several commands.
        client.config_resetstat()
        many = [f"many {number}" for number in range(100_000)]
        assert near.update(many) > 98_000
        assert all(near.contains_many(many))
        assert calls(client, "bf.insert") == 10
        assert near.wait(30)
        wait(lambda: equals(near, client, "own"))
        before = calls(client, "bf.insert"), near.stats.asked
        assert near.update(many) == 0 and not any(near.add_many(many)) and all(near.contains_many(many))
        assert (calls(client, "bf.insert"), near.stats.asked) == before


def test_a_command_has_at_most_16_mebibytes_of_items(client: Any) -> None:
    client.execute_command("BF.RESERVE", "large", 1e-9, 100)
    with Near(client, "large", **QUICK) as near:
        assert near.wait(30)
        client.config_resetstat()
        large = [bytes([number]) * (6 << 20) for number in range(3)]
        assert (near.update(large), calls(client, "bf.insert")) == (3, 2)


def test_others_add_while_lookups_run(client: Any, server: int) -> None:
    client.execute_command("BF.RESERVE", "busy", 0.001, 100)
    ended = threading.Event()
    with Near(client, "busy", **QUICK) as near:
        near.wait(30)
        left = [3]
        lock = threading.Lock()

        def write(number: int) -> None:
            try:
                with redis.Redis(port=server) as own:
                    for start in range(0, 6000, 100):
                        own.execute_command("BF.MADD", "busy", *items(100, 10_000 * number + start))
            finally:
                with lock:
                    left[0] -= 1
                    if left[0] == 0:
                        ended.set()

        def read() -> None:
            claimed = np.zeros(6000, bool)
            while not ended.is_set():
                asked = near.stats.asked
                answers = np.asarray(near.contains_many(items(6000)))
                # Copies never deny what they have claimed. The server may know more.
                if near.stats.asked == asked:
                    assert (answers >= claimed).all()
                    claimed = answers

        together(*(lambda number=number: write(number) for number in range(3)), read, read, read)  # type: ignore[misc]
        wait(lambda: equals(near, client, "busy"))
        assert all(all(near.contains_many(items(6000, 10_000 * number))) for number in range(3))
        copy = near.copy()
        assert copy is not None and copy.filters > 5 and list(copy.chunks()) == list(fetch(client, "busy").chunks())  # type: ignore[union-attr]


def test_a_confirming_copy_sends_what_it_denies(client: Any) -> None:
    known = items(9000)
    client.execute_command("BF.RESERVE", "seen", 1e-6, 100_000)
    client.execute_command("BF.MADD", "seen", *known)
    stream = known + [f"new {number}" for number in range(1000)]
    random.Random(1).shuffle(stream)
    with Near(client, "seen", confirm=True, **QUICK) as near:
        assert near.wait(30)
        client.config_resetstat()
        assert [item for item in stream if item not in near] == [item for item in stream if item.startswith("new")]
        assert calls(client, "bf.exists") == near.stats.asked == 1000
        answers = near.contains_many(stream)
        assert [item for item, found in zip(stream, answers) if not found] == [i for i in stream if i.startswith("new")]
        assert (calls(client, "bf.exists"), calls(client, "bf.mexists")) == (1000, 1)
        assert sum(near.add(item) for item in stream) == 1000
        assert calls(client, "bf.insert") == 1000
    with Near(client, "seen", **QUICK) as near:
        assert near.wait(30)
        client.config_resetstat()
        assert all(item in near for item in stream) and "other" not in near
        assert calls(client, "bf.exists") == near.stats.asked == 0


def test_a_missing_key_is_what_the_program_says(client: Any) -> None:
    gate = Gate(client)
    for confirm in (False, True):
        with Near(client, "seen", confirm=confirm, **QUICK) as near:
            assert near.wait(30) and near.state == "missing" and "a" not in near
            for call in (lambda: near.add("a"), lambda: near.update(["a", "b"])):
                with pytest.raises(redis.ResponseError, match="not found"):
                    call()
        for reader in (client, gate):
            near = Near(client, "seen", confirm=confirm, missing="error", reader=reader, **QUICK)
            if reader is client:
                for call in (lambda: near.wait(30), lambda: "a" in near, lambda: near.contains_many(["a", "b"])):
                    with pytest.raises(KeyError, match="seen"):
                        call()
                with pytest.raises(redis.ResponseError, match="not found"):
                    near.add("a")
                near.close()
            # The server answers, which does not say whether there is a filter.
            for call in (lambda: "a" in near, lambda: near.contains_many(["a", "b"])):
                with pytest.raises(KeyError, match="seen"):
                    call()
            near.close()
        assert client.dbsize() == 0
    with Near(client, "seen", missing="error", **QUICK) as near, Near(client, "seen", missing="create", **QUICK) as creating:
        assert creating.wait(30) and "a" not in creating and creating.add("a") and creating.update(["a", "b"]) == 1
        wait(lambda: near.state == "following")
        assert near.wait(30) and list(near.contains_many(["a", "c"])) == [True, False] and "c" not in near
        assert near.add("c") and near.update(["c", "d"]) == 1
        # A server that lost its data.
        client.flushall()
        wait(lambda: near.state == "missing")
        for call in (lambda: "a" in near, lambda: near.wait(30)):
            with pytest.raises(KeyError, match="seen"):
                call()
    with pytest.raises(ValueError, match="^bad missing$"):
        Near(client, "seen", missing="none")  # type: ignore[arg-type]


def test_a_user_without_rights(client: Any, server: int) -> None:
    client.execute_command("BF.ADD", "seen", "a")
    for library in CLIENTS.values():
        kind = library.Redis if library is redis else library.Valkey
        rights = {
            "unread": ("~*", "+@all", "-bf.read"),
            "keyless": ("~other", "+@all"),
            "fetching": ("~*", "+@all", "-bf.scandump"),
        }
        for name, rules in rights.items():
            client.execute_command("ACL", "SETUSER", name, "on", ">secret", *rules)
            with kind(port=server, username=name, password="secret") as user, Near(user, "seen", **QUICK) as near:
                with pytest.raises(ValueError, match="(?i)no permissions"):
                    near.wait(30)
                assert near.state == "refused" and near.age is None
                if name != "keyless":
                    assert "a" in near and "b" not in near and near.stats.asked == 2
                else:
                    with pytest.raises(library.exceptions.NoPermissionError):
                        near.contains("a")
        with (
            kind(port=server, username="unread", password="secret") as user,
            Near(user, "seen", refresh=0.05, **QUICK) as near,
        ):
            assert near.wait(30) and "a" in near and "later" not in near
            client.execute_command("BF.ADD", "seen", f"later {kind}")
            wait(lambda: f"later {kind}" in near)
            assert near.stats.fetches > 1 and near.stats.polls == near.stats.asked == 0
            assert equals(near, client, "seen")
        wrong = kind(port=server, username="unread", password="wrong", retry=None)
        with wrong as user, Near(user, "seen", **QUICK) as near:
            with pytest.raises(ValueError, match="^WRONGPASS invalid username-password pair"):
                near.wait(30)
            with pytest.raises(library.exceptions.AuthenticationError):
                near.contains("a")
    client.execute_command("ACL", "DELUSER", *rights)


@pytest.mark.parametrize("library", CLIENTS.values())
def test_a_client_that_does_not_log_in(tmp_path: Path, library: Any) -> None:
    kind = library.Redis if library is redis else library.Valkey
    with running(tmp_path) as port:
        with kind(port=port) as client:
            client.config_set("requirepass", "secret")
        for protocol, text in ((2, "NOAUTH Authentication required"), (3, "NOAUTH HELLO must be called")):
            with kind(port=port, protocol=protocol, retry=None) as own, Near(own, "seen", **QUICK) as near:
                with pytest.raises(ValueError, match=f"^{text}"):
                    near.wait(30)
                assert near.state == "refused"


@pytest.mark.parametrize("code", ["NOAUTH", "WRONGPASS"])
def test_a_client_may_keep_the_code_of_an_error(code: str) -> None:
    class Refusing:
        def execute_command(self, *_: Any) -> None:
            raise redis.AuthenticationError(f"{code} who are you?")

    with Near(Refusing(), "seen", **QUICK) as near, pytest.raises(ValueError, match=f"^{code} who are you\\?$"):
        near.wait(30)


@pytest.mark.parametrize("timeout", [math.inf, 10**400, 1e300, 2.0**63], ids=["inf", "int", "float", "nanoseconds"])
def test_a_timeout_may_be_longer_than_timers_take(client: Any, timeout: float) -> None:
    gate = Gate(client)
    gate.open.clear()
    with Near(gate, "seen", **QUICK) as near, ThreadPoolExecutor() as pool:
        assert not near.wait(-timeout)
        waiting = pool.submit(near.wait, timeout)
        wait(lambda: waiting.running() or waiting.done())
        gate.open.set()
        assert waiting.result() and near.wait(-timeout)
        with pytest.raises(ValueError, match="^bad timeout$"):
            near.wait(math.nan)


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint8, np.float32, Fraction])
def test_times_are_numbers_of_any_kind(client: Any, kind: Any) -> None:
    from valkeybloom._exchange import milliseconds

    client.execute_command("BF.ADD", "seen", "a")
    with Near(client, "seen", every=kind(1), max_age=kind(60), refresh=kind(3)) as near:
        assert near.wait(kind(30)) and "a" in near and near.stats.asked == 0
    assert milliseconds(kind(100)) == 100_000


def test_a_time_of_another_unit_is_not_taken_for_seconds(client: Any) -> None:
    from valkeybloom._exchange import milliseconds

    time: Any = np.timedelta64(50, "ms")
    with Near(client, "seen") as near:
        for call in (near.wait, milliseconds, lambda every: Near(client, "seen", every=every)):
            with pytest.raises(TypeError):
                call(time)


def test_what_can_not_be_followed_is_refused_in_words(client: Any) -> None:
    client.execute_command("BF.RESERVE", "window", 0.01, 100, "WINDOW", 1000, "PERIODS", 3)
    client.execute_command("BF.RESERVE", "counters", 0.01, 100, "COUNTING")
    client.set("text", "value")
    rows = {
        "window": "^ERR filters with WINDOW, COUNTING or SCALETO have no feed$",
        "counters": "^ERR filters with WINDOW, COUNTING or SCALETO have no feed$",
        "text": "^WRONGTYPE Operation against a key holding the wrong kind of value$",
    }
    for key, text in rows.items():
        with Near(client, key, **QUICK) as near:
            with pytest.raises(ValueError, match=text.replace("ERR ", "(ERR )?")):
                near.wait(30)
            assert near.state == "refused" and near.copy() is None
            if key == "text":
                with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
                    near.contains("a")
            else:
                assert "a" not in near and near.add("a") and "a" in near

    class Plain:
        """A client of a server without BF.READ."""

        def execute_command(self, *words: Any, **options: Any) -> Any:
            if words[0] == "BF.READ":
                raise redis.ResponseError("unknown command 'BF.READ', with args beginning with: 'key' '$' ")
            return client.execute_command(*words, **options)

    client.execute_command("BF.ADD", "plain", "a")
    advice = "^unknown command 'BF.READ', with args.*; pass refresh= to follow a server without BF.READ$"
    with Near(Plain(), "plain", **QUICK) as near, pytest.raises(ValueError, match=advice):
        near.wait(30)
    with Near(Plain(), "plain", refresh=timedelta(milliseconds=20), **QUICK) as near:
        assert near.wait(30) and "a" in near and near.stats.asked == 0
        client.execute_command("BF.ADD", "plain", "b")
        wait(lambda: "b" in near)
        assert near.add("c") and "c" in near


def test_wrong_arguments_are_refused(client: Any) -> None:
    rows: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"every": 0}, ValueError, "^bad every$"),
        ({"every": -1}, ValueError, "^bad every$"),
        ({"every": float("nan")}, ValueError, "^bad every$"),
        ({"max_age": float("inf")}, ValueError, "^bad max_age$"),
        ({"max_age": timedelta(0)}, ValueError, "^bad max_age$"),
        ({"refresh": 0}, ValueError, "^bad refresh$"),
        ({"every": 2}, ValueError, r"^\(max_age should be larger than every\)$"),
        ({"reader": redis.asyncio.Redis()}, TypeError, "^a blocking client is needed, not an asynchronous one$"),
        ({"every": "a"}, AttributeError, "total_seconds"),
    ]
    for options, kind, text in rows:
        with pytest.raises(kind, match=text):
            Near(client, "seen", **options)
    with pytest.raises(TypeError, match="not an asynchronous one"):
        Near(redis.asyncio.Redis(), "seen")
    with pytest.raises(AttributeError, match="execute_command"):
        Near(5, "seen")  # type: ignore[arg-type]


def test_what_is_no_reply_is_not_taken_for_one(client: Any) -> None:
    class Odd:
        reply: Any = None

        def execute_command(self, *_: Any, **__: Any) -> Any:
            return self.reply

    odd = Odd()
    pieces: list[Any] = [[1, b""], [1, None, b"id"], [-1, b""], [1, b"", "id"], [1, b"", b"id", b""]]
    for reply in (None, [], [b"1", b"2"], ["0-0", 1, b""], *pieces, [b"a", -1, b""], [b"a", 2**64, b""], client.pipeline()):
        odd.reply = reply
        with Near(odd, "seen", every=0.01) as near:
            wait(lambda near=near: near.stats.errors > 0)  # type: ignore[misc]
            assert near.wait(timedelta(0)) is False and near.state == "syncing"
            assert near.stats.last_error == f"execute_command returned {type(reply).__name__}, not the reply of BF.READ"
            with pytest.raises(TypeError):
                near.contains("a")
            with pytest.raises((TypeError, ValueError)):
                near.add("a")
            with pytest.raises((TypeError, ValueError)):
                near.contains_many(["a", "b", "c"])
    odd.reply = [1, 0]
    with Near(odd, "seen", every=0.01) as near, pytest.raises(ValueError, match="^the client returned too few replies$"):
        near.contains_many(["a", "b", "c"])


def test_an_error_without_a_text_is_one_like_others() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("on purpose")

    class Failing:
        error: Exception = Mute()

        def execute_command(self, *_: Any, **__: Any) -> Any:
            raise self.error

    failing = Failing()
    with Near(failing, "seen", every=0.01) as near:
        for error, text in ((Mute(), "Mute"), (Exception(), "Exception"), (Exception("\ud800"), "?"), (Mute(), "Mute")):
            failing.error = error
            wait(lambda text=text: near.stats.last_error == text)  # type: ignore[misc]
            with pytest.raises(type(error)):
                near.contains("a")


def test_a_full_filter_refuses_items(client: Any) -> None:
    client.execute_command("BF.RESERVE", "full", 1e-9, 10, "NONSCALING")
    with Near(client, "full", **QUICK) as near:
        assert near.wait(30)
        with pytest.raises(redis.ResponseError, match="non scaling filter is full"):
            near.update(items(20))
        assert list(near.contains_many(items(20))) == [True] * 10 + [False] * 10
        with pytest.raises(redis.ResponseError, match="non scaling filter is full"):
            near.add("other")
        # The call that was refused told nobody that this item was new.
        assert near.add("item 0") and not near.add("item 0") and "other" not in near
        wait(lambda: equals(near, client, "full"))


def test_a_copy_is_not_pickled(client: Any) -> None:
    import copy
    import pickle

    with Near(client, "seen") as near:
        for call in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="pickle"):
                call(near)
