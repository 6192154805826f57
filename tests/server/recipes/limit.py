import sys
from threading import Thread
from redis import Redis

NOW = 1_000_000_000


def connect():
    return Redis("127.0.0.1", int(sys.argv[1]))


allowed = {}


def request(number):
    server = connect()
    for name in ("often", f"client{number}"):
        passed = sum(allow(server, name, NOW) for _ in range(60))
        allowed[name, number] = passed


threads = [Thread(target=request, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

# 480 requests came from the same client. Each of the others made 60, and all of them are allowed: the error is at most
# a thousandth of 960 requests.
assert sum(allowed["often", number] for number in range(8)) == 100
assert all(allowed[f"client{number}", number] == 60 for number in range(8)), allowed
# The next minute begins anew.
server = connect()
assert allow(server, "often", NOW + 60)
assert 0 < server.execute_command("TTL", f"requests:{NOW // 60}") <= 120
