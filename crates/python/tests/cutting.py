"""A proxy that cuts connections."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from following import Listener, with_shutdown


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
