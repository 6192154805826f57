import sys
from threading import Thread
from redis import Redis

NOW = 1_000_000_000


def connect():
    return Redis("127.0.0.1", int(sys.argv[1]))


# Of 200 items, item n has 3 * (200 - n) views, in any part of the hour. Old views are not counted.
def view(first):
    server = connect()
    for number in range(first, 200, 4):
        for seen in range(3 * (200 - number)):
            count(server, f"item{number}", NOW - 300 * (seen % 12))
        count(server, f"old{number}", NOW - 3600 - 300)


threads = [Thread(target=view, args=(first,)) for first in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

server = connect()
shown = trending(server, NOW, 10)
assert len(shown) == 10, shown
# Counts of neighbours differ by half a percent, so only the order is not certain.
assert set(shown) <= {b"item%d" % number for number in range(20)}, shown
for part in range(NOW // 300 - 11, NOW // 300 + 1):
    assert 0 < server.execute_command("TTL", f"views:{part}") <= 3900
assert trending(server, NOW + 7200, 10) == []
