import sys
from threading import Thread
from redis import Redis

NOW = 1_000_000_000


def connect():
    return Redis("127.0.0.1", int(sys.argv[1]))


# Each hour of the day has the values 0 to 99, from four processes. The hour before it is not counted.
def process(first):
    server = connect()
    for value in range(first, 100, 4):
        for hour in range(24):
            observe(server, value, NOW - 3600 * hour)
        observe(server, 1_000_000, NOW - 3600 * 24)


threads = [Thread(target=process, args=(first,)) for first in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

server = connect()
for _ in range(2):
    median, most = quantiles(server, NOW, 0.5, 0.99)
    assert abs(median - 50) <= 1 and abs(most - 99) <= 1, (median, most)
assert server.execute_command("TDIGEST.MAX", "{latency}:day") == b"99"
assert server.execute_command("TDIGEST.RANK", "{latency}:day", 100) == [2400]
for hour in range(NOW // 3600 - 24, NOW // 3600 + 1):
    assert 25 * 3600 < server.execute_command("TTL", f"{{latency}}:{hour}") <= 26 * 3600
assert quantiles(server, NOW + 48 * 3600, 0.5) is None
