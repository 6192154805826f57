"""What filters cost that many processes build: in Spark beside Spark's own filter, and sent to a server beside BF.MADD.

The figures of docs/builds.md. `BUILDS_ITEMS` is the number of items sent to a server.
"""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial, reduce
from multiprocessing import Pool, cpu_count
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import redis
from pyarrow.parquet import ParquetFile, ParquetWriter
from valkeybloom import Bloom, store, template

IN_SPARK, PARTS = 2_000_000, 4
SENT = int(os.environ.get("BUILDS_ITEMS", 100_000_000))
WIDTH, AT_ONCE = 25, 1_000_000
ROUNDS = 5

os.environ["PYSPARK_PYTHON"] = sys.executable


def ids(start: int, stop: int) -> pa.Array:
    """Returns different strings of 25 bytes."""
    return pc.utf8_lpad(pa.array(np.arange(start, stop)).cast(pa.string()), WIDTH, "0")


def write(folder: Path, count: int, files: int) -> list[str]:
    """Writes ids into files, and returns their paths."""
    folder.mkdir()
    paths = []
    for file in range(files):
        path, start, stop = folder / f"{file}.parquet", count * file // files, count * (file + 1) // files
        with ParquetWriter(path, pa.schema({"id": pa.string()}), use_dictionary=False) as writer:
            for begin in range(start, stop, AT_ONCE):
                writer.write_table(pa.table({"id": ids(begin, min(stop, begin + AT_ONCE))}))
        paths.append(str(path))
    return paths


def times(run: Callable[[], Any]) -> str:
    """Returns how long the first run takes, and the shortest of several others."""
    taken = []
    for _ in range(1 + ROUNDS):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return f"{min(taken[1:]):.2f} s, the first time {taken[0]:.2f} s"


def in_spark(folder: Path) -> None:
    from pyspark.sql import SparkSession

    write(folder / "spark", IN_SPARK, PARTS)
    builder = SparkSession.builder.master("local[2]")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # Each file is a partition.
    session.conf.set("spark.sql.files.openCostInBytes", str(1 << 30))
    table = session.read.parquet(str(folder / "spark"))
    assert table.rdd.getNumPartitions() == PARTS
    new_part = template(Bloom(IN_SPARK, 0.01))

    def fill(batches: Any) -> Any:
        part = new_part()
        for batch in batches:
            part.update(batch["id"])
        yield pa.RecordBatch.from_pydict({"part": [part.to_bytes()]})

    def ours() -> Bloom:
        rows = table.mapInArrow(fill, "part binary").rdd
        united: Bloom = rows.map(lambda row: Bloom.from_bytes(row.part)).treeReduce(or_)
        return united

    def own() -> Any:
        return table._jdf.stat().bloomFilter("id", IN_SPARK, 0.01)

    print(f"{IN_SPARK} strings in {PARTS} partitions, on two cores:", flush=True)
    print(f"  PySpark, with parts: {times(ours)}", flush=True)
    print(f"  Spark's own filter in the JVM: {times(own)}", flush=True)
    seen = ours()
    assert all(seen.contains_many(ids(0, IN_SPARK))) and seen.filters == 1
    assert own().mightContainString(f"{5:0{WIDTH}}")
    session.stop()


def fill(new_part: Callable[[], Bloom], paths: list[str]) -> Bloom:
    part = new_part()
    for path in paths:
        for batch in ParquetFile(path).iter_batches(columns=["id"]):
            part.update(batch["id"])
    return part


class Cost:
    """What a server took while a block ran."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def figures(self) -> tuple[float, float, int]:
        cpu, stats = self.client.info("cpu"), self.client.info("stats")
        thread = cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"]
        return time.perf_counter(), thread, stats["total_net_input_bytes"]

    def __enter__(self) -> Cost:
        self.before = self.figures()
        return self

    def __exit__(self, *_: object) -> None:
        seconds, thread, sent = (after - before for after, before in zip(self.figures(), self.before))
        self.text = f"{seconds:.1f} s, {sent / 1e6:.0f} MB sent, {thread:.2f} s of the server's thread"


def usec(client: Any, command: str) -> str:
    """Returns how long the calls of a command took."""
    figures = {name.lower(): figures for name, figures in client.info("commandstats").items()}[f"cmdstat_{command}"]
    return f"{figures['calls']} {command} in {figures['usec'] / 1000:.1f} ms"


def to_a_server(folder: Path) -> None:
    port = 16_399
    command = [
        os.environ["VALKEY_SERVER"], "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder),
        "--loadmodule", os.environ["VALKEYBLOOM_SO"], "bf.bloom-filter-max-memory-usage", str(1 << 34),
    ]  # fmt: skip
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port, socket_timeout=None)
    try:
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                assert server.poll() is None
                time.sleep(0.05)
        print(f"{SENT} strings in {PARTS} files, to a server:", flush=True)
        paths = write(folder / "sent", SENT, PARTS)
        workers = cpu_count()
        new_part = template(Bloom(SENT * 21 // 20, 0.01))
        before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        with Cost(client) as cost:
            start = time.perf_counter()
            with Pool(workers) as pool:
                parts = pool.imap(partial(fill, new_part), [paths[n::workers] for n in range(workers)])
                seen = reduce(or_, parts)
                pool.close()
                pool.join()
            built = time.perf_counter() - start
            store(client, "seen", seen)
        processors = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        print(f"  built in {built:.1f} s, stored in all: {cost.text}; {seen.nbytes / 1e6:.0f} MB", flush=True)
        print(f"  the workers took {processors - before:.1f} s of processors", flush=True)
        store(client, "live", new_part())
        client.execute_command("BF.MADD", "live", *range(1000))
        client.config_resetstat()
        with Cost(client) as cost:
            store(client, "live", seen, merge=True)
        print(f"  merged into a live key: {cost.text}; {usec(client, 'bf.merge')}", flush=True)
        del seen

        client.delete("live")
        client.execute_command("BF.RESERVE", "added", 0.01, SENT * 21 // 20)
        with Cost(client) as cost:
            madd(port)
        print(f"  added by BF.MADD: {cost.text}", flush=True)
        assert client.execute_command("BF.CARD", "added") > SENT * 0.99
    finally:
        server.kill()
        server.wait()


def madd(port: int) -> None:
    """Adds all items in commands of 10,000, with some in flight. They are encoded in advance, so the client is no limit."""
    each, key = 10_000, b"added"
    head = b"*%d\r\n$7\r\nBF.MADD\r\n$%d\r\n%s\r\n" % (each + 2, len(key), key)
    # Lines that have the length and the item.
    line = np.dtype([("length", "S5"), ("item", f"S{WIDTH}"), ("end", "S2")])
    lines = np.empty(AT_ONCE, line)
    lines["length"], lines["end"] = b"$%d\r\n" % WIDTH, b"\r\n"
    reply = len(b"*%d\r\n" % each) + each * len(b":1\r\n")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for begin in range(0, SENT, AT_ONCE):
            lines["item"] = ids(begin, begin + AT_ONCE).cast(pa.binary(WIDTH)).to_numpy(zero_copy_only=False)
            for first in range(0, AT_ONCE, each):
                connection.sendall(head)
                connection.sendall(memoryview(lines[first : first + each]).cast("B"))
            left = AT_ONCE // each * reply
            while left:
                left -= len(connection.recv(min(left, 1 << 20)))


if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp())
    try:
        in_spark(folder)
        to_a_server(folder)
    finally:
        shutil.rmtree(folder)
