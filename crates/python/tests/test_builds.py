"""The programs of docs/builds.md: killed in the middle, run again, and run while clients add."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import redis
from conftest import TOP, wait
from pyarrow import parquet
from valkeybloom import Bloom, CountMin, CuckooFilter, TDigest, TopK, fetch, store, template

PAGE = (TOP / "docs/builds.md").read_text()
FILES, IN_A_FILE, SHARED = 6, 5000, 500
ITEMS = [f"item {number}" for number in range(FILES * IN_A_FILE)]
LIVE = [f"live {number}" for number in range(1000)]
OTHERS = [f"other {number}" for number in range(20_000)]

PROGRAMS = ["multiprocessing and pyarrow", "Dask", pytest.param("PySpark", marks=pytest.mark.spark)]


def block(heading: str) -> str:
    """Returns the program of a section of the page."""
    found = re.search(rf"^## {heading}\n.*?^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a program's input: files that share items."""
    (tmp_path / "events").mkdir()
    for number in range(FILES):
        start = max(0, IN_A_FILE * number - SHARED)
        ids = pa.table({"id": ITEMS[start : IN_A_FILE * (number + 1)]})
        parquet.write_table(ids, tmp_path / f"events/{number}.parquet", row_group_size=1000)
    return tmp_path


class Proxy:
    """Forwards connections to a server, and holds what clients send from the `nth` occurrence of a word on."""

    def __init__(self, server: int, word: bytes, nth: int) -> None:
        self.server, self.word, self.left, self.seen, self.dropping = server, word, nth, b"", False
        self.held, self.released, self.lock = threading.Event(), threading.Event(), threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.server))
                for source, target, looks in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self.pump, args=(source, target, looks), daemon=True).start()

    def pump(self, source: socket.socket, target: socket.socket, looks: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if looks:
                    self.look(data)
                if not self.dropping:
                    target.sendall(data)
        # Either end may be closed already.
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def look(self, data: bytes) -> None:
        with self.lock:
            before, self.seen = self.seen.count(self.word), self.seen + data
            self.left -= self.seen.count(self.word) - before
            if self.left > 0:
                return
            self.held.set()
        self.released.wait()


@contextmanager
def started(folder: Path, heading: str, server: int, word: bytes = b"BF.LOADCHUNK", nth: int = 1) -> Iterator[Any]:
    """Runs a program of the page up to the point where it sends a word for the `nth` time."""
    proxy = Proxy(server, word, nth)
    program = block(heading).replace("redis.Redis()", f"redis.Redis(port={proxy.port})")
    assert str(proxy.port) in program
    (folder / "program.py").write_text(program)
    with (folder / "log").open("w") as log:
        # A session of its own: with the program, its workers are killed.
        process = subprocess.Popen(
            [sys.executable, "program.py"],
            cwd=folder,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        # Spark takes seconds to start, and on a busy machine many.
        wait(lambda: proxy.held.is_set() or process.poll() is not None, 120)
        assert proxy.held.is_set(), (folder / "log").read_text()

        def end() -> None:
            proxy.released.set()
            assert process.wait(120) == 0, (folder / "log").read_text()

        yield end
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        proxy.dropping = True
        proxy.released.set()
        proxy.listener.close()


@pytest.fixture
def client(server: int) -> Iterator[Any]:
    with redis.Redis(port=server) as client:
        client.flushall()
        yield client


def cells(filter: Any) -> list[bytes]:
    """Returns the bits of a filter, without its number of items."""
    return [chunk for _, chunk in filter.chunks()][1:]


def check(client: Any, items: list[str]) -> Bloom:
    """Checks that the filter has these items, and is like one that they were added to one by one."""
    seen = fetch(client, "seen")
    assert isinstance(seen, Bloom) and seen.filters == 1
    plain = template(seen)()
    plain.update(items)
    assert cells(seen) == cells(plain)
    assert abs(len(seen) - len(items)) < len(items) * 0.01
    assert all(client.execute_command("BF.MEXISTS", "seen", *items))
    assert sum(client.execute_command("BF.MEXISTS", "seen", *OTHERS)) < len(OTHERS) * 0.012
    return seen


@pytest.mark.parametrize("heading", PROGRAMS)
def test_a_build_is_killed_run_again_and_run_while_clients_add(heading: str, folder: Path, server: int, client: Any) -> None:
    # It is killed before it sends anything, and when a part of the cells is there.
    for nth in (1, 2):
        with started(folder, heading, server, nth=nth):
            client.execute_command("BF.MADD", "seen", *LIVE[:100])
            assert len(client.keys("*")) == nth
        assert client.execute_command("EXISTS", "seen") and client.ttl("seen") == -1
        check(client, LIVE[:100])
    (left,) = (key for key in client.keys("*") if key != b"seen")
    assert left.startswith(b"seen:valkeybloom-unfinished-") and 0 < client.pttl(left) <= 300_000
    client.pexpire(left, 1)
    wait(lambda: client.keys("*") == [b"seen"])

    # What clients add while it runs again is kept.
    with started(folder, heading, server, word=b"BF.SCANDUMP") as end:
        client.execute_command("BF.MADD", "seen", *LIVE[:200])
        end()
    with started(folder, heading, server, nth=2) as end:
        client.execute_command("BF.MADD", "seen", *LIVE)
        end()
    seen = check(client, ITEMS + LIVE)

    # Another run changes nothing.
    with started(folder, heading, server) as end:
        end()
    assert fetch(client, "seen") == seen
    assert client.keys("*") == [b"seen"]


def test_counts_and_quantiles(folder: Path, server: int, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).exponential(size=FILES * IN_A_FILE)
    for number in range(FILES):
        of = slice(IN_A_FILE * number, IN_A_FILE * (number + 1))
        table = pa.table({"path": [f"/{n % 100}" for n in range(of.start, of.stop)], "ms": values[of]})
        parquet.write_table(table, folder / f"events/{number}.parquet")
    program = block("Counts and quantiles").replace("redis.Redis()", f"redis.Redis(port={server})")
    (folder / "program.py").write_text(program)
    stored = []
    for _ in range(2):
        subprocess.run([sys.executable, "program.py"], cwd=folder, check=True, timeout=120)
        stored.append([fetch(client, key) for key in sorted(client.keys("*"))])
    # A second run replaces both keys by equal objects.
    assert stored[0] == stored[1]
    hits, times = stored[0]
    assert isinstance(hits, CountMin) and isinstance(times, TDigest)
    plain = template(hits)()
    plain.update([f"/{n % 100}" for n in range(len(values))])
    assert plain == hits and hits.query("/5") == len(values) // 100
    assert len(times) == len(values)
    for share in (0.01, 0.5, 0.99):
        assert abs((values <= times.quantile(share)).mean() - share) < 0.005


def test_a_template_makes_parts_that_unite_exactly() -> None:
    filters = [
        Bloom(10_000, 0.01),
        Bloom(10_000, 0.001, expansion=None),
        Bloom.counting(10_000, 1e-9),
        Bloom.window(10_000, 0.01, window_ms=3_600_000, periods=3),
        Bloom.scaled_to(10_000, 0.01),
    ]
    for whole in filters:
        whole.update(["items", "do not matter"])
        new_part = template(whole)
        parts = [new_part() for _ in range(4)]
        whole.clear()
        assert len(new_part()) == 0 and new_part().seed == whole.seed and new_part().capacity == whole.capacity
        for number, part in enumerate(parts):
            added = part.update(range(2000 * number, 2000 * (number + 1)))
            assert whole.update(range(2000 * number, 2000 * (number + 1))) <= added
        united = parts[0].union(*parts[1:])
        assert cells(united) == cells(whole)
    # A filter that has grown makes parts like its first filter.
    grown = Bloom(100, 0.01)
    grown.update(range(1000))
    assert template(grown)().capacity == 100
    assert template(template(grown)())() == template(grown)()


def test_the_template_of_a_peers_filter(client: Any) -> None:
    client.config_set("bf.bloom-new-filters", "redisbloom")
    try:
        client.execute_command("BF.RESERVE", "peer", 0.01, 1000)
        client.execute_command("BF.MADD", "peer", *range(100))
    finally:
        client.config_set("bf.bloom-new-filters", "own")
    peer = fetch(client, "peer")
    assert isinstance(peer, Bloom)
    one, other = template(peer)(), template(peer)()
    assert len(one) == 0 and one.seed is None
    one.update(range(300))
    other.update(range(300, 600))
    assert all((one | other).contains_many(range(600)))


def test_what_can_not_be_united_says_why(client: Any) -> None:
    first, refusals = Bloom(100, 0.01), [
        (lambda: first | Bloom(100, 0.01), "different seeds"),
        (lambda: first | Bloom.counting(100, 0.01, seed=first.seed), "different kinds"),
        (lambda: first | Bloom.window(100, 0.01, window_ms=10, periods=2, seed=first.seed), "different kinds"),
        (lambda: CountMin.merged([(CountMin(10, 5), 1), (CountMin(20, 5), 1)]), "width/depth is not equal"),
        (lambda: template(TopK(3)), "objects of TopK can't be united: a Top-K list counts only"),
        (lambda: template(CuckooFilter(10)), "objects of CuckooFilter can't be united: a cuckoo filter moves"),
        (lambda: store(client, "top", TopK(3), merge=True), "objects of TopK can't be merged"),
    ]  # type: tuple[Bloom, list[tuple[Callable[[], Any], str]]]
    for refused, reason in refusals:
        with pytest.raises(ValueError, match=reason):
            refused()
    with pytest.raises(TypeError, match="a sketch is needed, not int"):
        template(5)  # type: ignore[type-var]

