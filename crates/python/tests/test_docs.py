"""The examples run, and the types are what the stubs say."""

from __future__ import annotations

import doctest
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis
import valkeybloom
import valkeybloom.asyncio

TOP = Path(__file__).parents[3]
CLASSES = [valkeybloom.Bloom, valkeybloom.CuckooFilter, valkeybloom.CountMin, valkeybloom.TopK, valkeybloom.TDigest]
NEARS = [valkeybloom.Near, valkeybloom.asyncio.Near, valkeybloom.Once, valkeybloom.asyncio.Once]


def test_examples_in_docstrings(server: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (redis.Redis, redis.asyncio.Redis):
        monkeypatch.setattr(kind, "__init__", connecting(kind.__init__, server))
    with redis.Redis() as client:
        client.flushall()
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    for thing in (valkeybloom, valkeybloom.asyncio, valkeybloom.template, valkeybloom.Near, valkeybloom.Once, *CLASSES):
        for test in finder.find(thing):
            runner.run(test)
    assert runner.summarize().failed == 0 and runner.tries > 50


def test_everything_public_has_a_docstring_and_a_signature() -> None:
    for one in (*CLASSES, *NEARS):
        assert inspect.signature(one).parameters and len(inspect.getdoc(one) or "") > 200
        own = {name: member for base in one.__mro__[:-1] for name, member in vars(base).items()}
        for name, member in own.items():
            if not name.startswith("_"):
                assert inspect.getdoc(member), f"{one.__name__}.{name}"
                if callable(getattr(one, name)):
                    assert "..." not in str(inspect.signature(getattr(one, name)))


@pytest.mark.parametrize("page", ["docs/python.md", "docs/once.md", "docs/recipes.md", "docs/near.md", "crates/python/README.md"])
def test_examples_in_pages(
    page: str, server: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (TOP / page).read_text()
    # What a program prints stands below it.
    fenced = r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?"
    blocks = [found for found in re.findall(fenced, text, re.MULTILINE | re.DOTALL) if "from valkeybloom" in found[0]]
    # Scripts are run below.
    blocks = [found for found in blocks if not found[0].startswith("#!")]
    assert blocks
    monkeypatch.chdir(tmp_path)
    for kind in (redis.Redis, redis.asyncio.Redis):
        monkeypatch.setattr(kind, "__init__", connecting(kind.__init__, server))
    with redis.Redis() as client:
        client.flushall()
    names: dict[str, Any] = {}
    for block, printed in blocks:
        # What a line returns stands behind it.
        checked = re.sub(r"^(\S[^\n#=]*\S) +# (True|False|\d+|\[.*\])$", r"assert (\1) == \2", block, flags=re.MULTILINE)
        exec(compile(checked, page, "exec"), names)
        assert capsys.readouterr().out == printed
    for near in names.values():
        # A lookup that asks a stopped server fails after one attempt.
        if isinstance(near, valkeybloom.Near):
            options = near._client.get_connection_kwargs()  # type: ignore[attr-defined]
            assert options["socket_timeout"] == 1 and options["retry"] is None


def test_the_script_for_clickhouse(tmp_path: Path) -> None:
    [script] = re.findall(r"^```python\n(#!.*?)^```", (TOP / "docs/recipes.md").read_text(), re.MULTILINE | re.DOTALL)
    seen = valkeybloom.Bloom(1000, 0.000001)
    seen.update(["a\tb", ""])
    seen.save(tmp_path / "seen.bloom")
    run = [sys.executable, "-c", script, tmp_path / "seen.bloom"]
    rows = b"3\na\tb\nc\n\n" + b"1\na\tb\n"
    assert subprocess.run(run, input=rows, stdout=subprocess.PIPE, timeout=60).stdout == b"1\n0\n1\n1\n"


PLANS = json.loads((TOP / "crates/planner/tests/python.json").read_text())


@pytest.mark.parametrize(("command", "line"), [plan[1:] for plan in PLANS])
def test_a_plan_has_the_line_of_its_command(command: str, line: str, server: int) -> None:
    with redis.Redis(port=server) as client:
        client.flushall()
        client.execute_command(*command.split(" "))
        [key] = client.keys()
        made = valkeybloom.fetch(client, key)
    assert parameters(eval(line, vars(valkeybloom))) == parameters(made)


def parameters(of: valkeybloom.Sketch) -> dict[str, str]:
    names = [name for name, member in vars(type(of)).items() if inspect.isgetsetdescriptor(member)]
    # Seeds are chosen at random, and a copy may be allocated in another way.
    names = [name for name in names if name not in ("seed", "nbytes")]
    assert names
    # As texts, for the smallest of no values is not even equal to itself.
    return {"repr": repr(of), **{name: repr(getattr(of, name)) for name in names}}


def connecting(init: Any, port: int) -> Any:
    def connect(self: Any, **options: Any) -> None:
        init(self, **{"port": port, **options})

    return connect


TYPED = '''
import asyncio
from datetime import timedelta
import numpy as np
import pyarrow as pa
import polars as pl
import pandas as pd
import redis
import redis.asyncio
import valkey
from valkeybloom import Bloom, CountMin, CuckooFilter, Near, NearStats, TDigest, TopK, fetch, store
import valkey.asyncio
from valkeybloom.asyncio import Near as AsyncNear, fetch as fetch_async

f = Bloom(1000, 0.01, expansion=None, seed=bytes(32))
new: memoryview = f.add_many(pl.Series(["a"]).cast(pl.Categorical), at_ms=None)
summed: CountMin = CountMin.merged([(CountMin(5, 5), 1), (CountMin(5, 5), 2)])
a: bool = f.add("a", ttl_ms=5) and f.add(b"a", at_ms=3) and f.add(5) and f.add(memoryview(b"x"))
n: int = f.update(["a", b"b", 3]) + f.update(np.arange(5)) + f.update(str(i) for i in range(3)) + len(f)
n = f.update({"a", "b"}) + f.update(memoryview(b"xy"))
m: memoryview = f.contains_many(pl.Series(["a"]))
g: Bloom = f | Bloom.window(10, 0.1, window_ms=10, periods=2) | Bloom.scaled_to(9, 0.1) | f.copy()
f |= g
h: Bloom = Bloom.from_chunks(f.chunks())
c = CountMin.from_rates(0.1, 0.1)
c.update(["a"], np.array([1]))
left: bytes | None = TopK(3).add("a")
top: list[tuple[bytes, int]] = TopK(3).list()
t = TDigest()
t.add(1, 2.5)
t.update(np.arange(3.0))
q: list[float] = t.quantiles([0.5])
store(redis.Redis(), "key", f, replace=True, ttl=timedelta(hours=1))
store(valkey.Valkey(), b"key", c, merge=True, ttl=1.5)
got = fetch(redis.Redis(), "key")
if isinstance(got, Bloom):
    print("a" in got)
with Near(redis.Redis(), b"key", max_age=timedelta(seconds=5), confirm=True, refresh=60, reader=valkey.Valkey()) as near:
    a = "a" in near or near.contains(b"a") or near.add(5) or near.wait(1.5)
    n = near.update(pa.array(["a"])) + near.stats.asked
    m = near.contains_many(np.arange(5))
    age: float | None = near.age
    state: str = near.state
    stats: NearStats = near.stats
    copy: Bloom | None = near.copy()

async def main() -> None:
    await fetch_async(redis.asyncio.Redis(), "key")
    near = AsyncNear(redis.asyncio.Redis(), b"key", max_age=timedelta(seconds=5), missing="error", reader=valkey.asyncio.Valkey())
    async with near:
        a: bool = await near.contains("a") or await near.add(5) or await near.wait(1.5)
        n: int = await near.update(pa.array(["a"])) + near.stats.asked
        m: memoryview = await near.contains_many(np.arange(5))
    near.close()
'''

WRONG = '''
from valkeybloom import Bloom, CountMin, Near, TDigest, TopK
f = Bloom(1000, 0.01)
f.add(1.5)
f.add(None)
f.update([None])
f.update(5)
Bloom("10", 0.1)
f | 5
f.seed = b""
CountMin(5, 5).add("a", "b")
TopK(3).add("a") + 1
TDigest().update(["a"])
1.5 in f
Near(5, "key")
'''


def mypy(path: Path, text: str) -> str:
    path.write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", str(path)]
    return subprocess.run(command, capture_output=True, text=True, cwd=path.parent, timeout=600).stdout


@pytest.mark.once
def test_types(tmp_path: Path) -> None:
    found = mypy(tmp_path / "typed.py", TYPED)
    assert found.startswith("Success"), found
    found = mypy(tmp_path / "wrong.py", WRONG)
    lines = {int(number) for number in re.findall(r"wrong.py:(\d+): error", found)}
    assert lines >= {*range(4, 13), 15}, found
    command = [sys.executable, "-m", "mypy", "--strict", "-p", "valkeybloom"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stdout


@pytest.mark.once
def test_stubs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "valkeybloom"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stdout


def test_the_package_is_quickly_imported() -> None:
    program = "import time; start = time.process_time(); import valkeybloom; print(time.process_time() - start)"
    best = min(float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(5))
    assert best < 0.02
