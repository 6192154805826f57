"""What `valkeybloom unique` takes beside other programs that remove the duplicates of lines, and of JSON lines by a field.

Usage: unique.py PROGRAM FOLDER. `UNIQUE_LINES` is the number of lines, 20 million by default. All files are read once before
they are measured, so they are in the page cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PROGRAM, FOLDER = sys.argv[1], Path(sys.argv[2])
LINES = int(os.environ.get("UNIQUE_LINES", 20_000_000))
ROUNDS = 3
#: No program runs again after it has taken so many seconds in all.
ENOUGH = 30

# Runs a program in a process of its own, because the most memory is that of all children.
MEASURE = """import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)"""

DUCKDB = """import duckdb
duckdb.sql('''copy (select distinct column0 from read_csv('{0}', header=false, columns={{'column0': 'varchar'}}, delim='',
    quote='', escape='')) to '{1}' (header false, quote '', escape '')''')"""
POLARS = """import polars
lines = polars.scan_csv('{0}', has_header=False, separator='\\x01', quote_char=None)
lines.unique(maintain_order={2}).sink_csv('{1}', include_header=False, quote_style='never')"""


def numbers(share: float) -> Iterator[int]:
    """Returns numbers of which a share has come before, far or near."""
    different, state = 0, 1
    for _ in range(LINES):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        if different and (state >> 32) < share * 2**32:
            yield (state >> 11) % different
        else:
            different += 1
            yield different - 1


def write(path: Path, template: bytes, share: float) -> None:
    """Writes a line for each number."""
    with path.open("wb", 1 << 20) as file:
        for number in numbers(share):
            file.write(template % (number * 2654435761 % 2**40, number))


def run(name: str, argv: list[str], source: Path, keeps_order: bool) -> None:
    """Prints a row: the shortest time of several runs, the most memory, and the number of records that were kept."""
    out, seconds = FOLDER / "out", []
    while len(seconds) < ROUNDS and sum(seconds) < ENOUGH:
        out.unlink(missing_ok=True)
        start = time.perf_counter()
        with out.open("wb") as to:
            done = subprocess.run([sys.executable, "-c", MEASURE, *argv], stdout=to, stderr=subprocess.PIPE, check=False,
                                  env={**os.environ, "LC_ALL": "C"})
        seconds.append(time.perf_counter() - start)
        if done.returncode:
            print(f"| {name} | failed: {done.stderr.decode().splitlines()[-1]} | | | |")
            return
    memory = int(done.stderr.split()[-1]) / 1024
    with out.open("rb") as file:
        kept = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))
    best = min(seconds)
    speed = source.stat().st_size / best / 1e6
    order = "kept" if keeps_order else "lost"
    print(f"| {name} | {best:.2f} s | {speed:.0f} MB/s | {memory:.0f} MB | {kept:,} | {order} |", flush=True)


def lines(title: str, share: float) -> None:
    """Measures all programs with lines of about 40 bytes."""
    source, out = FOLDER / "lines", FOLDER / "out"
    write(source, b"https://x.org/%010x/page-%09d\n", share)
    print(f"\n{title}, {source.stat().st_size / 1e6:.0f} MB\n")
    print("| program | time | speed | memory | kept | order |\n|---|---|---|---|---|---|")
    one = ["taskset", "--cpu-list", "0"]
    unique = [PROGRAM, "unique", "--quiet", str(source)]
    run("valkeybloom unique", unique, source, True)
    run("valkeybloom unique, one processor", one + unique, source, True)
    run("valkeybloom unique --one-pass", [*unique, "--one-pass"], source, True)
    run("sort -u", ["sort", "-u", str(source)], source, False)
    run("awk '!s[$0]++'", ["awk", "!s[$0]++", str(source)], source, True)
    duckdb = DUCKDB.format(source, out)
    run("DuckDB distinct", [sys.executable, "-c", duckdb], source, False)
    for keeps in (False, True):
        polars = POLARS.format(source, out, keeps)
        run(f"polars unique(maintain_order={keeps})", [sys.executable, "-c", polars], source, keeps)


def documents(count: int) -> None:
    """Measures JSON lines of 1 kB by a field."""
    source = FOLDER / "rows.jsonl"
    text = b"word " * 180
    with source.open("wb", 1 << 20) as file:
        for number in range(count):
            file.write(b'{"id":%d,"url":"https://x.org/%d","text":"%d %s"}\n' % (number, number, number % (count * 9 // 10), text))
    print(f"\n{count:,} JSON lines of 1 kB, {source.stat().st_size / 1e6:.0f} MB\n")
    print("| program | time | speed | memory | kept | order |\n|---|---|---|---|---|---|")
    unique = [PROGRAM, "unique", "--quiet", "--field", "text", str(source)]
    run("valkeybloom unique --field text", unique, source, True)
    run("the same, one processor", ["taskset", "--cpu-list", "0", *unique], source, True)


if __name__ == "__main__":
    lines(f"{LINES:,} lines, a tenth of them duplicates", 0.1)
    lines(f"{LINES:,} lines, half of them duplicates", 0.5)
    documents(LINES // 20)
