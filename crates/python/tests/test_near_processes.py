"""`Near` in processes that fork, and in those that end."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

FORKING = """
import os, sys, threading, warnings
import redis
from valkeybloom import Near

warnings.simplefilter("ignore")
client = redis.Redis(port=int(sys.argv[1]))
# A child of redis-py 8 waits for this lock, even if another thread of the parent held it at the fork.
pool = client.connection_pool
os.register_at_fork(after_in_child=lambda: setattr(pool, "_lock", threading.RLock()))
near = Near(client, "seen", every=0.005, max_age=float(sys.argv[2]), missing="create")
closed = Near(client, "seen")
closed.close()
batch = [f"item {n}" for n in range(20_000)]
near.update(batch)
assert near.wait(30)
done = threading.Event()

def look():
    while not done.is_set():
        assert all(near.contains_many(batch))

threads = [threading.Thread(target=look, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()

def child(number):
    assert closed.state == "closed" and "item 0" in closed
    assert "item 0" in near and "never" not in near
    assert near.add(f"child {number}") and f"child {number}" in near
    assert near.wait(30) and all(near.contains_many(batch))
    other = redis.Redis(port=int(sys.argv[1]))
    other.execute_command("BF.ADD", "seen", f"other {number}")
    while f"other {number}" not in near:
        pass
    assert near._driver.thread.is_alive()
    if number % 5 == 0:
        grandchild = os.fork()
        if grandchild == 0:
            assert near.wait(30) and f"other {number}" in near
            near.close()
            assert "item 0" in near
            os._exit(0)
        assert os.waitpid(grandchild, 0)[1] == 0
    if number % 2:
        near.close()

children = []
for number in range(20):
    pid = os.fork()
    if pid == 0:
        try:
            child(number)
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
        os._exit(1)
    children.append(pid)
    if len(children) == 4:
        for pid in children:
            assert os.waitpid(pid, 0)[1] == 0
        children = []
done.set()
for thread in threads:
    thread.join()
assert near.wait(30) and near._driver.thread.is_alive()
while not all(near.contains_many([f"other {n}" for n in range(20)])):
    pass
print("all is well", end="")
"""


@pytest.mark.parametrize("max_age", ["60", "0.2"])
def test_children_of_a_fork_go_on(client: Any, server: int, max_age: str) -> None:
    command = [sys.executable, "-c", FORKING, str(server), max_age]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "all is well", "")


EXITING = """
import atexit, sys, threading
import redis

# Both before the threads end and after that.
answer = lambda: print("a" in near, "b" in near, end=" ")
atexit.register(answer)
from valkeybloom import Near

client = redis.Redis(port=int(sys.argv[1]))
held = threading.Event()

class Held:
    def execute_command(self, *words, **options):
        if held.is_set():
            waiting.set()
            threading.Event().wait()
        return client.execute_command(*words, **options)

waiting = threading.Event()
atexit.register(answer)
near = Near(client, "seen", every=0.002, missing="create")
nears = [Near(client, "seen", every=0.002, max_age=2 + n) for n in range(4)]
other = Near(client, "seen", reader=Held(), every=0.002)
assert near.add("a") and all(one.wait(30) for one in (near, other, *nears))
held.set()
assert waiting.wait(30)
"""


def test_an_interpreter_that_ends_ends_all_threads(client: Any, server: int) -> None:
    for _ in range(10):
        client.delete("seen")
        command = [sys.executable, "-c", EXITING, str(server)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "True False True False ", "")
