"""A proxy that cuts connections.

As a program, it prints its port, and cuts connections to another one until it is terminated: cutting.py port. It needs no
packages.
"""

from __future__ import annotations

import random
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from listening import Listener, with_shutdown


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


if __name__ == "__main__":
    # Before there are threads.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    with cutter_of(int(sys.argv[1]), 7) as cutter:
        print(cutter.port, flush=True)
        signal.sigwait([signal.SIGTERM])
    if not all(cutter.cuts.values()):
        sys.exit(f"cuts of some kinds were not made: {cutter.cuts}")
