import sys
from redis import Redis


class Database:
    def __init__(self):
        self.users, self.asked = {}, 0

    def create(self, id, user):
        self.users[id] = user

    def find(self, id):
        self.asked += 1
        return self.users.get(id)


server = Redis("127.0.0.1", int(sys.argv[1]))
server.execute_command("BF.RESERVE", "users", 0.001, 2000)
database = Database()
for id in range(2000):
    create(server, database, id, b"user %d" % id)

# Each is fetched from the database once, and then from the cache.
for _ in range(2):
    for id in range(2000):
        assert find(server, database, id) == b"user %d" % id
assert database.asked == 2000

# Five are let through at the requested rate; four deviations more are hardly ever.
database.asked = 0
for id in range(2000, 7000):
    assert find(server, database, id) is None
assert database.asked <= 14, database.asked
