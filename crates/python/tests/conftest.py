"""Servers with the module, and what several files of tests share."""

from __future__ import annotations

import binascii
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
import valkey

CLIENTS = {"redis": redis, "valkey": valkey}

#: The top of the repository.
TOP = Path(__file__).parents[3]


#: Ports to try. They lie below those of outgoing connections, and so does the cluster bus, 10000 above.
PORTS = (10_000 + number % 10_000 for number in itertools.count(os.getpid() * 97))


def needed(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        pytest.fail(f"{name} is not set: run ./build.sh python")
    return value


def started(
    folder: Path, *options: str, module: bool = True, port: int | None = None
) -> tuple[subprocess.Popen[bytes], int]:
    """Starts a server, with the module or without it, and returns it with its port once it answers."""
    for port in PORTS if port is None else (port,):
        command = [
            needed("VALKEY_SERVER"), "--port", str(port), "--bind", "127.0.0.1", "--save", "",
            "--dir", str(folder), "--enable-debug-command", "yes", *options,
            *(("--loadmodule", needed("VALKEYBLOOM_SO")) if module else ()),
        ]  # fmt: skip
        with (folder / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        with redis.Redis(port=port, socket_timeout=5) as client:
            while process.poll() is None:
                try:
                    # Another program may have the port.
                    if client.info("server")["process_id"] == process.pid:
                        return process, port
                except redis.RedisError:
                    pass
                time.sleep(0.05)
        text = (folder / "log").read_text()
        assert "Address already in use" in text, text
    pytest.fail(f"the port {port} is in use")


@contextmanager
def running(folder: Path, *options: str, module: bool = True) -> Iterator[int]:
    """Runs a server on a port of its own, with the module or without it."""
    process, port = started(folder, *options, module=module)
    try:
        yield port
        # Tests may kill it.
        assert process.poll() in (None, -signal.SIGKILL), (folder / "log").read_text()
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with running(tmp_path_factory.mktemp("server")) as port:
        yield port


@pytest.fixture
def client(server: int) -> Iterator[redis.Redis]:
    """A client of a server without keys."""
    with redis.Redis(port=server) as client:
        client.flushall()
        yield client


@contextmanager
def joined(folder: Path, *options: str) -> Iterator[list[int]]:
    """Runs three servers with a third of the slots each, on ports of their own."""
    with ExitStack() as stack:
        ports = []
        for number in range(3):
            own = folder / f"node{number}"
            own.mkdir()
            ports.append(stack.enter_context(running(own, "--cluster-enabled", "yes", *options)))
        nodes = [redis.Redis(port=port, decode_responses=True) for port in ports]
        for number, node in enumerate(nodes):
            first, last = 16384 * number // 3, 16384 * (number + 1) // 3 - 1
            node.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
            node.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            node.execute_command("CLUSTER", "MEET", "127.0.0.1", ports[0])
        wait(lambda: all("cluster_state:ok" in str(n.execute_command("CLUSTER", "INFO")) for n in nodes))
        wait(lambda: all(len(n.execute_command("CLUSTER", "SLOTS")) == 3 for n in nodes))
        for node in nodes:
            node.close()
        yield ports


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Three servers that are one cluster. Returns the port of one of them."""
    with joined(tmp_path_factory.mktemp("cluster")) as ports:
        yield ports[0]


def slot_of(key: bytes) -> int:
    """Returns the slot of a key in a cluster."""
    start = key.find(b"{")
    end = key.find(b"}", start + 1)
    if start >= 0 and end > start + 1:
        key = key[start + 1 : end]
    return binascii.crc_hqx(key, 0) % 16384


def wait(until: Callable[[], bool], seconds: int = 30) -> None:
    """Waits for what a server or another process does by itself."""
    for _ in range(20 * seconds):
        if until():
            return
        time.sleep(0.05)
    pytest.fail(f"it did not happen within {seconds} seconds")
