"""`Near` while servers stall and end, slots move, and nobody closes it."""

from __future__ import annotations

import gc
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
import valkey
import valkeybloom.near
from conftest import CLIENTS, joined, running, slot_of, wait
from following import QUICK, Gate, calls, equals, fail_once, impatient, is_found, items, proxy_of, thread_of
from test_threads import together
from valkeybloom import Near


def test_no_copy_answers_beyond_its_age(client: Any, server: int) -> None:
    client.execute_command("BF.ADD", "seen", "old")
    with proxy_of(server) as proxy:
        through = impatient(proxy.port)
        for name, fail in (("stalled", proxy.flows.clear), ("cut", proxy.cut)):
            with Near(through, "seen", every=0.01, max_age=0.5) as near:
                assert near.wait(30)
                proxy.refuses = name == "cut"
                fail()
                client.execute_command("BF.ADD", "seen", name)

                def look(near: Near = near, item: str = name) -> None:
                    while True:
                        # It only gets older, so the lookup is of a copy at least as old.
                        age = near.age
                        try:
                            found = near.contains_many(["old", item])
                            assert "old" in near
                        except redis.RedisError:
                            assert age is not None
                            if age >= 0.5:
                                return
                        else:
                            assert age is not None and age < 0.5 and found[0]

                together(look, look, look)
                assert near.stats.asked and near.state == "stale"
                for call in (near.add, near.contains, lambda item: near.update([item])):
                    with pytest.raises(redis.RedisError):
                        call("other")
                assert near.wait(0) is False
                proxy.refuses = False
                proxy.flows.set()
                assert near.wait(30)
                wait(lambda near=near, item=name: is_found(near, item))  # type: ignore[misc]
                assert near.stats.errors and near.stats.last_error
        through.close()


def test_a_server_that_ends_and_another_one(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(3)]
    for folder in folders:
        folder.mkdir()
    with running(folders[0]) as first, proxy_of(first) as proxy:
        through = impatient(proxy.port)
        with Near(through, "seen", every=0.01, max_age=0.3, missing="create") as near:
            assert near.add("first") and near.wait(30) and "first" in near
            with redis.Redis(port=first) as client:
                os.kill(client.info("server")["process_id"], signal.SIGKILL)
            with pytest.raises(redis.RedisError):
                while "first" in near:
                    pass
            with running(folders[1]) as second, redis.Redis(port=second) as client:
                client.execute_command("BF.MADD", "seen", "second")
                proxy.target = second
                wait(lambda: equals(near, client, "seen"))
                wait(lambda: is_found(near, "second") and not is_found(near, "first"))
                assert near.stats.resyncs == 1
                os.kill(client.info("server")["process_id"], signal.SIGKILL)
            with running(folders[2]) as third:
                proxy.target = third
                wait(lambda: near.state == "missing")
                assert near.wait(30) and not is_found(near, "second")
        through.close()


def test_a_dropped_copy_ends_its_thread(client: Any) -> None:
    near = Near(client, "seen", **QUICK)
    thread = thread_of(near)
    assert near.wait(30)
    del near
    thread.join(30)
    assert not thread.is_alive()

    # Also while it sleeps for long, and as part of a cycle.
    circle: list[Any] = [Near(client, "seen", every=3000, max_age=6000)]
    circle.append(circle)
    thread = thread_of(circle[0])
    assert circle[0].wait(30)
    del circle
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()

    # Also while a command is held up.
    gate = Gate(client)
    near = Near(gate, "seen", **QUICK)
    thread = thread_of(near)
    assert near.wait(30)
    with gate.held():
        del near
        gc.collect()
    thread.join(30)
    assert not thread.is_alive()


def test_a_close_does_not_wait_for_the_server(client: Any) -> None:
    client.execute_command("BF.RESERVE", "seen", 0.01, 1000)
    gate = Gate(client)
    near = Near(client, "seen", reader=gate, **QUICK)
    thread = thread_of(near)
    assert near.wait(30) and near.add("a")
    with gate.held():
        near.close()
        assert near.state == "closed" and near.age is None and near.copy() is None
        # The server answers.
        asked = near.stats.asked
        assert "a" in near and "b" not in near and near.stats.asked == asked + 2
        assert near.add("b") and near.update(["b", "c"]) == 1
        with pytest.raises(ValueError, match="^the copy is closed$"):
            near.wait()
        near.close()
    thread.join(30)
    assert not thread.is_alive() and near.state == "closed" and thread_of(near) is thread

    # A thread that waits is woken.
    gate.open.clear()
    near = Near(gate, "seen", **QUICK)

    def close() -> None:
        assert gate.waiting.wait(30)
        near.close()

    def until_closed() -> None:
        with pytest.raises(ValueError, match="closed"):
            near.wait()

    together(until_closed, until_closed, close)
    gate.open.set()
    thread_of(near).join(30)


@pytest.mark.parametrize("error", [MemoryError, SystemExit])
@pytest.mark.parametrize("step", ["_next", "_take_news", "_take_chunk"])
def test_a_step_that_fails_is_repeated(
    client: Any, monkeypatch: pytest.MonkeyPatch, step: str, error: type[BaseException]
) -> None:
    client.execute_command("BF.ADD", "seen", "a")
    fail_once(monkeypatch, Near, step, error)
    with Near(client, "seen", **QUICK) as near:
        thread = thread_of(near)
        assert near.wait(30) and near.state == "following" and "a" in near
        # Without the rest, a call to wait would have started another thread.
        assert thread.is_alive() and thread_of(near) is thread


def test_a_wait_ends_if_the_copy_answers_and_the_next_step_fails(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client.execute_command("BF.ADD", "seen", "a")
    step, is_ready, gate = Near._next, Near._is_ready, Gate(client)
    gate.open.clear()

    def failing(near: Near) -> Any:
        if near.state == "following":
            raise MemoryError
        return step(near)

    def opening(near: Near) -> bool:
        ready = is_ready(near)
        gate.open.set()
        return ready

    monkeypatch.setattr(Near, "_next", failing)
    monkeypatch.setattr(Near, "_is_ready", opening)
    with Near(gate, "seen", **QUICK) as near:
        together(near.wait)


def test_an_error_that_can_not_be_read_does_not_end_the_thread(client: Any) -> None:
    class AuthenticationError(Exception):
        @property
        def status_code(self) -> str:
            raise RuntimeError("on purpose")

    class Failing:
        error: Exception | None = AuthenticationError("without its code")

        def execute_command(self, *words: Any, **options: Any) -> Any:
            if self.error is None:
                return client.execute_command(*words, **options)
            error, self.error = self.error, None
            raise error

    with Near(Failing(), "seen", **QUICK) as near:
        thread = thread_of(near)
        assert near.wait(30) and thread.is_alive() and thread_of(near) is thread


@pytest.mark.parametrize("kind", [SystemExit, BaseException])
def test_an_error_that_is_no_exception_does_not_end_the_thread(client: Any, kind: type[BaseException]) -> None:
    client.execute_command("BF.ADD", "seen", "a")
    gate, fails = Gate(client), [True]

    class Failing:
        def execute_command(self, *words: Any, **options: Any) -> Any:
            reply = gate.execute_command(*words)
            if fails:
                raise kind(fails.pop())
            return reply

    gate.open.clear()
    with Near(Failing(), "seen", **QUICK) as near, ThreadPoolExecutor() as pool:
        thread = thread_of(near)
        waiting = pool.submit(near.wait, 30)
        assert gate.waiting.wait(30)
        gate.open.set()
        assert waiting.result() and thread.is_alive() and thread_of(near) is thread
        assert (near.stats.errors, near.stats.last_error) == (1, "True")


def test_rounds_leave_no_threads_memory_or_files(client: Any) -> None:
    client.execute_command("BF.RESERVE", "seen", 0.01, 1_000_000)

    def turn() -> None:
        with Near(client, "seen", **QUICK) as near:
            assert near.wait(30) and "a" not in near
        thread_of(near).join(30)
        other = Near(client, "seen", **QUICK)
        thread = thread_of(other)
        assert other.wait(30) and not any(other.contains_many(["a", "b"]))
        del other
        thread.join(30)

    def figures() -> tuple[int, int, int]:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return threading.active_count(), len(os.listdir("/proc/self/fd")), pages * 4096

    for _ in range(20):
        turn()
    threads, files, memory = figures()
    for _ in range(100):
        turn()
    now = figures()
    assert now[0] <= threads and now[1] <= files + 1
    # The allocator keeps some memory for each thread. A leak of one copy in each round would be 120 MB.
    assert now[2] - memory < 60_000_000


def test_a_replica_is_read(tmp_path: Path, client: Any, server: int) -> None:
    with running(tmp_path, "--replicaof", "127.0.0.1", str(server)) as port, redis.Redis(port=port) as replica:
        wait(lambda: replica.info("replication")["master_link_status"] == "up")
        client.execute_command("BF.RESERVE", "seen", 1e-9, 10_000)
        wait(lambda: bool(replica.exists("seen")))
        with Near(client, "seen", reader=replica, **QUICK) as near:
            assert near.wait(30)
            client.config_resetstat()
            # What was written is found before the replica has it.
            assert all(near.add(item) and item in near for item in items(1000))
            assert near.stats.asked == calls(client, "bf.read") == 0
            wait(lambda: equals(near, client, "seen"))
            replica.execute_command("REPLICAOF", "NO", "ONE")
            client.execute_command("BF.ADD", "seen", "only there")
            assert "only there" not in near and near.stats.asked == 0
        # Its primary is gone, so it never gets what is written. The copy asks the server that has it.
        replica.execute_command("REPLICAOF", "127.0.0.1", "1")
        with Near(client, "seen", reader=replica, every=0.01, max_age=0.5) as near:
            assert near.wait(30) and near.add("mine") and near.add("own")

            def is_asked() -> bool:
                was_fresh, asked = near._is_fresh(), near.stats.asked
                assert "mine" in near and list(near.contains_many(["own", "mine"])) == [True, True]
                return was_fresh and near._is_fresh() and near.stats.asked == asked + 3

            wait(is_asked)
            assert not near.add("mine")


def test_lookups_keep_no_memory(client: Any) -> None:
    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    client.execute_command("BF.ADD", "seen", "a")
    with Near(client, "seen", **QUICK) as near, Near(client, "seen", confirm=True, **QUICK) as confirming:
        assert near.wait(30) and confirming.wait(30)
        rounds: dict[int, Any] = {
            300_000: lambda: ("a" in near, b"b" in near, 5 in near),
            100_000: lambda: (near.contains_many(["a", b"b", 3]), near.add("a"), near.update(["a"])),
            50_000: lambda: (near.stats, near.state, near.age, repr(near), near.copy()),
            3_000: lambda: ("b" in confirming, confirming.contains_many(["a", "b"]), confirming.wait(1)),
        }
        for count, run in rounds.items():
            for _ in range(count // 20):
                run()
            before = resident()
            for _ in range(count):
                run()
            # A leak of eight bytes a round would be more, or of a poll's objects.
            assert resident() - before < max(500_000, 8 * count)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_slot_that_moves_is_followed(name: str, tmp_path: Path) -> None:
    kind = "RedisCluster" if name == "redis" else "ValkeyCluster"
    with joined(tmp_path) as ports:
        # valkey-py does not follow slots with version 3 of the protocol.
        protocol = 3 if name == "redis" else 2
        client = getattr(CLIENTS[name], kind)(host="127.0.0.1", port=ports[0], protocol=protocol, decode_responses=True)
        slot = slot_of(b"moving")
        at = slot * 3 // 16384
        nodes = [redis.Redis(port=port, decode_responses=True) for port in ports]
        source, target = nodes[at], nodes[(at + 1) % 3]
        target_port = ports[(at + 1) % 3]
        source_id, target_id = (node.execute_command("CLUSTER", "MYID") for node in (source, target))
        with Near(client, "moving", missing="create", **QUICK) as near, Near(client, "missing", **QUICK) as missing:
            assert near.update(items(5000)) > 4900 and near.wait(30) and missing.wait(30)
            wait(lambda: equals(near, client, "moving"))
            assert calls(source, "bf.read") and not calls(target, "bf.scandump")
            plain = redis.Redis if name == "redis" else valkey.Valkey
            with plain(port=target_port) as node, Near(node, "moving") as lost:
                with pytest.raises(ValueError, match="^MOVED .*; use a cluster client$"):
                    lost.wait(30)
            target.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
            source.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
            # The receipts of additions are in the slot, too.
            for key in source.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100):
                source.execute_command("MIGRATE", "127.0.0.1", target_port, key, 0, 30_000)
            # ASK
            client.execute_command("BF.ADD", "moving", "asking")
            wait(lambda: "asking" in near)
            for node in (target, source):
                node.execute_command("CLUSTER", "SETSLOT", slot, "NODE", target_id)
            # MOVED
            client.execute_command("BF.ADD", "moving", "moved")
            wait(lambda: "moved" in near and near.wait(30) and equals(near, client, "moving"))
            assert all(near.contains_many(items(5000)))
            assert client.get_node_from_key("moving").port == target_port and calls(target, "bf.scandump")
            assert missing.state == "missing" and missing.stats.errors <= 1
        for node in nodes:
            node.close()
        client.close()


@pytest.mark.once
@pytest.mark.parametrize("name", CLIENTS)
def test_a_failover_is_followed(name: str, tmp_path: Path) -> None:
    kind, error = ("RedisCluster", redis.RedisError) if name == "redis" else ("ValkeyCluster", valkey.ValkeyError)
    options = ("--cluster-node-timeout", "1000")
    spare = tmp_path / "spare"
    spare.mkdir()
    with joined(tmp_path, *options) as ports, running(spare, "--cluster-enabled", "yes", *options) as port:
        primary, replica = ports[slot_of(b"moving") * 3 // 16384], redis.Redis(port=port, decode_responses=True)
        with redis.Redis(port=primary, decode_responses=True) as node:
            own, process = node.execute_command("CLUSTER", "MYID"), node.info("server")["process_id"]
        replica.execute_command("CLUSTER", "MEET", "127.0.0.1", primary)
        wait(lambda: own in str(replica.execute_command("CLUSTER", "NODES")))
        replica.execute_command("CLUSTER", "REPLICATE", own)
        wait(lambda: replica.info("replication").get("master_link_status") == "up")
        client = getattr(CLIENTS[name], kind)(host="127.0.0.1", port=ports[0], socket_timeout=5)
        with Near(client, "moving", every=0.01, max_age=60, missing="create") as near:
            assert near.update(items(5000)) > 4900 and near.wait(30)
            with redis.Redis(port=primary) as node:
                sent = node.info("replication")["master_repl_offset"]
            wait(lambda: replica.info("replication")["slave_repl_offset"] >= sent)
            os.kill(process, signal.SIGKILL)
            wait(lambda: replica.info("replication")["role"] == "master")

            def is_added() -> bool:
                try:
                    client.execute_command("BF.ADD", "moving", "after")
                    return equals(near, client, "moving")
                except error:
                    return False

            wait(is_added, 120)
            assert all(near.contains_many(["after", *items(5000)])) and near.stats.resyncs
        replica.close()
        client.close()


def as_in_a_child(near: Near) -> None:
    """Takes away the thread, as a fork does."""
    assert near._driver is not None
    near._driver.thread = threading.Thread()


def test_a_copy_that_a_child_closed_does_not_wait(client: Any) -> None:
    with ThreadPoolExecutor() as pool, Near(client, "seen", **QUICK) as near:
        as_in_a_child(near)
        assert near._driver is not None
        # As the thread did at the moment of the fork.
        with near._driver.changed:
            near.close()
            with pytest.raises(ValueError, match="^the copy is closed$"):
                pool.submit(near.wait).result(30)


class Noted:
    """A lock that notes who has reached it."""

    def __init__(self, lock: Any) -> None:
        self.lock, self.reached = lock, threading.Semaphore(0)

    def __enter__(self) -> None:
        self.reached.release()
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def test_one_of_two_calls_in_a_child_starts_the_thread(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client.execute_command("BF.ADD", "seen", "a")
    gate, lock, start = Gate(client), Noted(valkeybloom.near.starting), threading.Thread.start
    begun = threading.Event()
    workers: list[threading.Thread] = []

    def starting(thread: threading.Thread) -> None:
        if thread.name.startswith("valkeybloom-near-"):
            workers.append(thread)
            begun.set()
            # Until the other call, too, has found that no thread runs.
            for _ in range(2 if len(workers) == 1 else 0):
                assert lock.reached.acquire(timeout=30)
        start(thread)

    gate.open.clear()
    with ThreadPoolExecutor() as pool, Near(client, "seen", reader=gate, **QUICK) as near:
        as_in_a_child(near)
        monkeypatch.setattr(valkeybloom.near, "starting", lock)
        monkeypatch.setattr(threading.Thread, "start", starting)
        waiting = pool.submit(near.wait, 30)
        assert begun.wait(30)
        assert pool.submit(near.contains, "a").result(30)
        gate.open.set()
        assert len(workers) == 1 and waiting.result() and thread_of(near) is workers[0]


def test_a_close_wakes_a_call_that_starts_the_thread(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, is_ready, close = Gate(client), Near._is_ready, Near._close
    gate.open.clear()
    checked = threading.Event()

    def checking(near: Near) -> bool:
        try:
            return is_ready(near)
        finally:
            checked.set()

    def closing(near: Near) -> None:
        # Until the thread is at a command, and the other call waits, which gives the lock back.
        if not checked.is_set():
            waiting.append(pool.submit(near.wait))
            assert checked.wait(30) and gate.waiting.wait(30)
            with near._driver.changed:  # type: ignore[union-attr]
                pass
        close(near)

    waiting: list[Any] = []
    with ThreadPoolExecutor() as pool:
        near = Near(gate, "seen", **QUICK)
        assert gate.waiting.wait(30)
        gate.waiting.clear()
        as_in_a_child(near)
        monkeypatch.setattr(Near, "_is_ready", checking)
        monkeypatch.setattr(Near, "_close", closing)
        near.close()
        try:
            with pytest.raises(ValueError, match="^the copy is closed$"):
                waiting[0].result(30)
        finally:
            gate.open.set()
