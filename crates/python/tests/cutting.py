"""What the tests of `Once` share: a proxy that cuts connections, and consumers that are killed."""

from __future__ import annotations

import os
import random
import signal
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import redis
from following import Listener, with_shutdown
from valkeybloom import Once


class Cutter(Listener):
    """Passes connections on to a server, and cuts some at a command: before it, after it, or within its reply."""

    def __init__(self, target: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.cuts = {"before": 0, "after": 0, "within": 0}
        self.lock = threading.Lock()
        super().__init__(target)

    def serve(self, one: socket.socket, other: socket.socket) -> None:
        cuts: list[str] = []
        for part, ends in ((self.ask, (one, other)), (self.answer, (other, one))):
            threading.Thread(target=part, args=(*ends, cuts), daemon=True).start()

    def ask(self, one: socket.socket, other: socket.socket, cuts: list[str]) -> None:
        try:
            while data := one.recv(1 << 16):
                cut = self.choose() if b"BF." in data else None
                if cut == "before":
                    # The server may get half of it.
                    other.sendall(data[: len(data) // 2])
                    break
                cuts += [cut] if cut else []
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            with_shutdown(end)

    def answer(self, other: socket.socket, one: socket.socket, cuts: list[str]) -> None:
        try:
            while data := other.recv(1 << 16):
                if cuts:
                    one.sendall(data[: len(data) // 2] if cuts[0] == "within" else b"")
                    break
                one.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            with_shutdown(end)

    def choose(self) -> str | None:
        with self.lock:
            cut = self.random.choice([*self.cuts, *[None] * 5])
            if cut is not None:
                self.cuts[cut] += 1
            return cut


@contextmanager
def cutter_of(port: int, seed: int) -> Iterator[Cutter]:
    cutter = Cutter(port, seed)
    try:
        yield cutter
    finally:
        cutter.close()


class Mortal:
    """A client of a process that is killed before a command, or after it."""

    def __init__(self, client: Any, dies: Any) -> None:
        self.client, self.dies = client, dies

    def execute_command(self, *words: Any, **options: Any) -> Any:
        self.dies()
        reply = self.client.execute_command(*words, NEVER_DECODE=[], **options)
        self.dies()
        return reply


def consume(port: int, partition: Path, seed: int, one_in: int) -> None:
    """Works on each new item of a partition. The work and the position are committed in one step, to a file beside it."""
    chance = random.Random(seed)

    def dies() -> None:
        if chance.randrange(one_in) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    lines = partition.read_text().split()
    once = Once(Mortal(redis.Redis(port=port), dies), "clicks", partition.name)
    with closing(sqlite3.connect(partition.with_suffix(".db"), isolation_level=None)) as done:
        done.execute("CREATE TABLE IF NOT EXISTS work (item)")
        (at,) = done.execute("PRAGMA user_version").fetchone()
        while at < len(lines):
            batch = lines[at : at + chance.randint(1, 100)]
            try:
                new = once.add(batch, at=at)
            except redis.ConnectionError:
                continue
            at += len(batch)
            done.execute("BEGIN")
            done.executemany("INSERT INTO work VALUES (?)", [(item,) for item, is_new in zip(batch, new) if is_new])
            dies()
            done.execute(f"PRAGMA user_version = {at}")
            done.execute("COMMIT")
            dies()
