"""`Once` in a cluster whose slots move: no answer is lost, and no item is told or counted twice."""

from __future__ import annotations

import random
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
import valkey
from conftest import joined, slot_of, wait
from test_once import require_told_once
from test_threads import together
from valkeybloom import Once

#: Filters of their own slots.
KEYS = ["plain 1", "plain 2", "plain 3", "counting 1", "counting 2", "counting 3"]

#: The errors of a client that has tried for long enough.
LOST = tuple(
    getattr(library, name)
    for library in (redis.exceptions, valkey.exceptions)
    for name in ("ConnectionError", "TimeoutError", "ClusterError", "ClusterDownError")
)


class Nodes:
    """The nodes of a cluster, which move slots."""

    def __init__(self, ports: list[int]) -> None:
        self.ports = ports
        self.nodes = [redis.Redis(port=port, protocol=2, decode_responses=True) for port in ports]
        self.ids = [node.execute_command("CLUSTER", "MYID") for node in self.nodes]
        self.owners = {key: slot_of(key.encode()) * 3 // 16384 for key in KEYS}

    def errors(self, code: str) -> int:
        """Returns how many replies had a code."""
        stats = [node.info("errorstats").get(f"errorstat_{code}", {"count": 0}) for node in self.nodes]
        return sum(int(stat["count"]) for stat in stats)

    def move_key_by_key(self, slot: int, source: int, target: int) -> None:
        near, far = self.nodes[source], self.nodes[target]
        far.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", self.ids[source])
        near.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", self.ids[target])
        while keys := near.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1):
            near.execute_command("MIGRATE", "127.0.0.1", self.ports[target], "", 0, 60000, "KEYS", *keys)
        for node in (far, near, self.nodes[3 - source - target]):
            node.execute_command("CLUSTER", "SETSLOT", slot, "NODE", self.ids[target])

    def move_at_once(self, slot: int, source: int, target: int) -> None:
        near = self.nodes[source]
        near.execute_command("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", self.ids[target])

        def is_done() -> bool:
            [newest, *_] = near.execute_command("CLUSTER", "GETSLOTMIGRATIONS")
            state = dict(zip(newest[::2], newest[1::2]))["state"]
            assert state not in ("failed", "cancelled"), newest
            return bool(state == "success")

        wait(is_done)

    def move(self, key: str, at_once: bool) -> None:
        """Moves the slot of a key to the next node."""
        source = self.owners[key]
        target = self.owners[key] = (source + 1) % 3
        (self.move_at_once if at_once else self.move_key_by_key)(slot_of(key.encode()), source, target)


@pytest.mark.once
@pytest.mark.parametrize("at_once", [False, True])
def test_slots_move_while_items_are_added(tmp_path: Path, at_once: bool) -> None:
    with joined(tmp_path) as ports:
        nodes = Nodes(ports)
        if at_once and not nodes.nodes[0].execute_command("COMMAND", "INFO", "CLUSTER|MIGRATESLOTS"):
            return
        clients: list[Any] = [kind(host="127.0.0.1", port=ports[0]) for kind in (redis.RedisCluster, valkey.ValkeyCluster)]
        for key in KEYS:
            options = ["COUNTING"] if key.startswith("counting") else []
            clients[0].execute_command("BF.RESERVE", key, 1e-9, 100_000, *options)
        sent, told = ({key: Counter[str]() for key in KEYS} for _ in range(2))
        lock, is_done, tries = threading.Lock(), threading.Event(), Counter[str]()

        def add(number: int) -> None:
            chance, client = random.Random(number), clients[number % 2]
            own = {key: Once(client, key) for key in KEYS}
            positions = Counter[str]()
            while not is_done.is_set():
                key = chance.choice(KEYS)
                batch = [f"item {chance.randrange(50 + sent[key].total())}" for _ in range(chance.randint(1, 20))]
                if key.startswith("plain") and chance.random() < 0.5:
                    # At times with a new receipt.
                    if chance.random() < 0.1:
                        own[key] = Once(client, key)
                    call = partial(own[key].add, batch)
                else:
                    call = partial(Once(client, key, number).add, batch, at=positions[key])
                    positions[key] += len(batch)
                while True:
                    try:
                        new = call()
                        break
                    except LOST as error:
                        tries[type(error).__name__] += 1
                with lock:
                    sent[key].update(batch)
                    told[key].update(item for item, is_new in zip(batch, new, strict=True) if is_new)

        def move() -> None:
            try:
                moves = 0
                # Clients see each kind of redirection; slots that move as a whole have MOVED only.
                seen = ["MOVED"] if at_once else ["MOVED", "ASK", "TRYAGAIN"]
                while moves < 18 or not all(map(nodes.errors, seen)):
                    nodes.move(KEYS[moves % len(KEYS)], at_once)
                    moves += 1
                assert at_once is False or nodes.errors("TRYAGAIN") == nodes.errors("ASK") == 0
            finally:
                is_done.set()

        together(move, *[partial(add, number) for number in range(8)])
        for key in KEYS:
            require_told_once(clients[0], key, [list(sent[key])], told[key])
            if key.startswith("counting"):
                counts = {item: clients[0].execute_command("BF.COUNT", key, item) for item in sent[key]}
                assert counts == sent[key]
