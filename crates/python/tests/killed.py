"""Consumers that are killed at any moment, and a server that is killed once and restarts from its log.

The tests of `Once` call `run` with small sizes. As a program, it prints what happened with large ones:
killed.py [items [kills]]
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import random
import re
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import redis
from conftest import TOP, started
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from valkeybloom import Once

#: The number of consumers at the same time.
CONSUMERS = 16

#: What the recipe's stream and its counts are called.
LOG, GROUP, VIEWS = "{clicks}:log", "counters", "{clicks}:views"


def recipe(most: int) -> dict[str, Any]:
    """Returns the functions of the click log in docs/recipes.md, with another size of its batches."""
    blocks = re.findall(r"^```python\n(.*?)^```", (TOP / "docs/recipes.md").read_text(), re.MULTILINE | re.DOTALL)
    [block] = [block for block in blocks if "def count_views" in block]
    functions, _, rest = block.partition("server = redis.Redis()")
    assert rest and functions.count("count=1000") == 2
    names: dict[str, Any] = {}
    exec(compile(functions.replace("count=1000", f"count={most}"), "docs/recipes.md", "exec"), names)
    return names


def worked_in(folder: Path) -> Counter[str]:
    """Returns how often each item is in the databases of a folder."""
    worked = Counter[str]()
    for path in folder.glob("*.db"):
        with closing(sqlite3.connect(path)) as done:
            worked.update(item for (item,) in done.execute("SELECT item FROM work"))
    return worked


class Partitions:
    """A log in files, one for each consumer: a position is the number of a line."""

    def __init__(self, folder: Path, most: int) -> None:
        self.folder, self.most = folder, most

    def write(self, client: redis.Redis, lines: list[str]) -> None:
        for number in range(CONSUMERS):
            (self.folder / f"log-{number}").write_text("\n".join(lines[number::CONSUMERS]))

    def steps(self, lines: int) -> int:
        """Returns about how many batches there are."""
        return 2 * lines // self.most

    def database(self, number: int) -> sqlite3.Connection:
        return sqlite3.connect(self.folder / f"log-{number}.db", isolation_level=None)

    def step(self, client: redis.Redis, number: int, seed: int) -> Callable[[], bool]:
        """Returns what works on the next batch: in a database, together with its position, and before that in a file."""
        chance = random.Random(seed)
        lines = (self.folder / f"log-{number}").read_text().split()
        once, done = Once(client, "clicks", number), self.database(number)
        deeds = os.open(self.folder / f"log-{number}.deeds", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        done.execute("CREATE TABLE IF NOT EXISTS work (item)")

        def step() -> bool:
            (at,) = done.execute("PRAGMA user_version").fetchone()
            batch = lines[at : at + chance.randint(1, self.most)]
            new = [item for item, is_new in zip(batch, once.add(batch, at=at)) if is_new]
            os.write(deeds, "".join(f"{item}\n" for item in new).encode())
            done.execute("BEGIN")
            done.executemany("INSERT INTO work VALUES (?)", [(item,) for item in new])
            done.execute(f"PRAGMA user_version = {at + len(batch)}")
            done.execute("COMMIT")
            return bool(batch)

        return step

    def is_between(self, client: redis.Redis, number: int) -> bool:
        """Returns whether a consumer was killed after an addition, and before it committed its work."""
        with closing(self.database(number)) as done:
            (place,) = done.execute("PRAGMA user_version").fetchone()
        return (Once(client, "clicks", number).position() or 0) > place

    def worked(self, client: redis.Redis) -> Counter[str]:
        """Returns how often each item was worked on."""
        return worked_in(self.folder)

    def deeds(self) -> Counter[str]:
        """Returns how often each item was worked on where that is not committed with the position."""
        texts = ((self.folder / f"log-{number}.deeds").read_text() for number in range(CONSUMERS))
        return Counter(item for text in texts for item in text.split())


class Stream:
    """The stream of the recipe, and its work in the server."""

    #: The number of workers that two processes are.
    shared = 4

    def __init__(self, folder: Path, most: int) -> None:
        self.folder, self.most = folder, most

    def write(self, client: redis.Redis, lines: list[str]) -> None:
        client.xgroup_create(LOG, GROUP, id="0", mkstream=True)
        for begin in range(0, len(lines), 10_000):
            with client.pipeline(transaction=False) as pipeline:
                for line in lines[begin : begin + 10_000]:
                    pipeline.xadd(LOG, {"path": line})
                pipeline.execute()

    def steps(self, lines: int) -> int:
        return lines // self.most

    def step(self, client: redis.Redis, number: int, seed: int) -> Callable[[], bool]:
        count_views = recipe(self.most)["count_views"]
        return lambda: bool(count_views(client, self.worker(number)))

    def worker(self, number: int) -> str:
        """Returns the name of a worker. Some processes share one."""
        return f"worker-{number % (CONSUMERS - self.shared)}"

    def is_between(self, client: redis.Redis, number: int) -> bool:
        if self.shared <= number < CONSUMERS - self.shared:
            worker = self.worker(number)
            place = int(client.get(place_of(worker)) or 0)  # type: ignore[arg-type]
            return (Once(client, "clicks", worker).position() or 0) > place
        # Another process may be about to commit.
        return False

    def worked(self, client: redis.Redis) -> Counter[str]:
        views: Any = client.hgetall(VIEWS)
        return Counter({item.decode(): int(count) for item, count in views.items()})

    def deeds(self) -> None:
        """The recipe's work is all in its transaction."""


class Database(Stream):
    """The stream of the recipe, and its work in a database of each worker, as the page describes it."""

    def step(self, client: redis.Redis, number: int, seed: int) -> Callable[[], bool]:
        given, worker = recipe(self.most)["given"], self.worker(number)
        place = place_of(worker)
        done = sqlite3.connect(self.folder / f"{worker}.db", timeout=60, isolation_level=None)
        done.execute("CREATE TABLE IF NOT EXISTS work (item)")

        def step() -> bool:
            at, entries = given(client, worker, place)
            if not entries:
                client.xreadgroup(GROUP, worker, {LOG: ">"}, count=self.most)
                at, entries = given(client, worker, place)
            paths = [fields[b"path"].decode() for _, fields in entries]
            new, end = Once(client, "clicks", worker).add(paths, at=at), at + len(entries)
            done.execute("BEGIN IMMEDIATE")
            (held,) = done.execute("PRAGMA user_version").fetchone()
            work = [(path,) for position, path, is_new in zip(range(at, end), paths, new) if is_new and position >= held]
            done.executemany("INSERT INTO work VALUES (?)", work)
            done.execute(f"PRAGMA user_version = {max(held, end)}")
            done.execute("COMMIT")
            with client.pipeline() as commit:
                commit.watch(place)
                if entries and int(commit.get(place) or 0) == at:  # type: ignore[arg-type]
                    commit.multi()
                    commit.set(place, end)
                    commit.xack(LOG, GROUP, *[id for id, _ in entries])
                    commit.execute()
            return bool(entries)

        return step

    def worked(self, client: redis.Redis) -> Counter[str]:
        return worked_in(self.folder)


def place_of(worker: str) -> str:
    return f"{{clicks}}:place:{worker}"


#: The sources, and the most items of a batch of the program.
SOURCES: dict[str, tuple[Any, int]] = {"files": (Partitions, 100), "stream": (Stream, 1000), "database": (Database, 1000)}


def consume(port: int, source: Any, number: int, seed: int, steps: int | None, plea: Any) -> None:
    """Works until nothing is left. A consumer that may take only some steps asks to be killed then."""
    with redis.Redis(port=port, retry=Retry(ConstantBackoff(0.01), 3)) as client:
        step, count, took, is_left = source.step(client, number, seed), 0, 0.0, True
        while is_left:
            if count == steps:
                plea.send(took)
            began = time.monotonic()
            try:
                is_left = step()
            except (redis.ConnectionError, redis.TimeoutError, redis.WatchError):
                continue
            count, took = count + 1, time.monotonic() - began
        if steps is not None:
            if count <= steps:
                plea.send(took)
            signal.pause()


def run(folder: Path, kind: str, items: int, kills: int, most: int, seed: int = 9) -> dict[str, Any]:
    """Kills consumers at random, and requires that each item was worked on once. Returns what happened."""
    chance, began = random.Random(seed), time.monotonic()
    # Half of them occur once more.
    distinct = [f"/{number}" for number in range(items)]
    lines = distinct + chance.choices(distinct, k=items // 2)
    chance.shuffle(lines)
    (folder / "server").mkdir()
    persistent = ("--appendonly", "yes", "--appendfsync", "always")
    process, port = started(folder / "server", *persistent)
    processes = multiprocessing.get_context("forkserver")
    # The fork server does not search the tests' folder.
    processes.set_forkserver_preload(["pytest", "redis", "valkeybloom"])
    source, runs, begun, happened = SOURCES[kind][0](folder, most), {}, 0, Counter[str]()
    every = 2 * source.steps(len(lines)) // (kills + CONSUMERS)

    def start(number: int) -> None:
        nonlocal begun
        begun += 1
        plea, far = processes.Pipe(duplex=False)
        steps = chance.randrange(1, every + 1) if begun <= kills else None
        one = processes.Process(target=consume, args=(port, source, number, seed + begun, steps, far))
        one.start()
        far.close()
        runs[plea] = (number, one)

    try:
        with redis.Redis(port=port) as client:
            # A false positive is improbable.
            client.execute_command("BF.RESERVE", "clicks", 1e-9, 2 * items)
            source.write(client, lines)
            for number in range(CONSUMERS):
                start(number)
            while runs:
                ready: list[Any] = multiprocessing.connection.wait(list(runs))
                for plea in ready:
                    number, one = runs.pop(plea)
                    try:
                        # At any moment of the next step.
                        time.sleep(chance.random() * plea.recv())
                    except EOFError:
                        one.join()
                        assert one.exitcode == 0
                        continue
                    one.kill()
                    one.join()
                    assert one.exitcode == -signal.SIGKILL
                    plea.close()
                    happened["kills"] += 1
                    happened["between addition and commit"] += source.is_between(client, number)
                    start(number)
                    if happened["kills"] == kills // 4:
                        client.bgrewriteaof()
                    if happened["kills"] == kills // 2:
                        process.kill()
                        process.wait(30)
                        process, _ = started(folder / "server", *persistent, port=port)
                        happened["restarts"] += 1
            worked = source.worked(client)
    finally:
        for _, one in runs.values():
            one.kill()
        process.kill()
        process.wait(30)
    assert {item: worked[item] for item in distinct if worked[item] != 1} == {}
    assert len(worked) == items and happened["kills"] == kills and happened["restarts"] == 1
    if (deeds := source.deeds()) is not None:
        assert set(deeds) == set(distinct)
        happened["worked on again where the position is committed later"] = deeds.total() - items
    return {"lines": len(lines), "items": items, **happened, "seconds": round(time.monotonic() - began)}


def main(items: int = 1_000_000, kills: int = 100) -> None:
    for kind, (_, most) in SOURCES.items():
        with tempfile.TemporaryDirectory() as folder:
            happened = run(Path(folder), kind, items, kills, most)
        print(f"{kind}:", ", ".join(f"{count} {what}" for what, count in happened.items()), flush=True)


if __name__ == "__main__":
    main(*[int(word) for word in sys.argv[1:]])
