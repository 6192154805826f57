import random
import sys
from threading import Lock, Thread
from redis import Redis

NAMES = [f"name{n}" for n in range(300)]


class Database:
    def __init__(self):
        self.lock, self.owners, self.asked = Lock(), {}, 0

    def is_taken(self, name):
        with self.lock:
            self.asked += 1
            return name in self.owners

    def insert_if_absent(self, name, user):
        with self.lock:
            return self.owners.setdefault(name, user) == user


def connect():
    return Redis("127.0.0.1", int(sys.argv[1]))


def sign_up(user):
    server, order = connect(), random.Random(user).sample(NAMES, len(NAMES))
    wins[user] = [name for name in order if take(server, database, name.upper(), user)]


connect().execute_command("BF.RESERVE", "names", 0.0001, 10_000_000)
database, wins = Database(), {}
threads = [Thread(target=sign_up, args=(user,)) for user in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sorted(name for won in wins.values() for name in won) == sorted(NAMES)
assert all(database.owners[name] == user for user, won in wins.items() for name in won)

# The database is not asked for a name that nobody has.
database.asked = 0
assert all(take(connect(), database, f"new{n}", "someone") for n in range(100))
assert database.asked == 0, database.asked
