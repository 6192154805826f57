import sys
from redis import Redis

server = Redis("127.0.0.1", int(sys.argv[1]))
reserve(server, "seen", 12, 10_000, 1e-9)
reserve(server, "seen", 12, 10_000, 1e-9)
items = [b"item %d" % n if n % 2 else f"item {n}" for n in range(1000)]
assert each(server, "BF.MADD", "seen", 12, items[:500]) == [True] * 500
assert each(server, "BF.MADD", "seen", 12, items) == [False] * 500 + [True] * 500
assert each(server, "BF.MEXISTS", "seen", 12, items) == [True] * 1000


def unanswered(name):
    try:
        answers = each(server, "BF.MADD", name, 3, items)
    except Unanswered as error:
        return str(error), error.answers
    raise AssertionError(f"{name}: {answers}")


# Three shards with room for 23 items each.
reserve(server, "full", 3, 30, 1e-9, "NONSCALING")
text, answers = unanswered("full")
assert answers.count(True) == 69 and False not in answers, answers
refusals = [f"full:{shard}: ERR non scaling filter is full: " for shard in range(3)]
assert all(refusal in text for refusal in refusals), text
assert all((repr(item) in text) == (answer is None) for item, answer in zip(items, answers)), text
assert each(server, "BF.MEXISTS", "full", 3, items) == [bool(answer) for answer in answers]

# A shard that refuses the whole command.
server.execute_command("SET", "text:1", "")
text, answers = unanswered("text")
assert text.startswith("text:1: WRONGTYPE "), text
assert all((repr(item) in text) == (answer is None) for item, answer in zip(items, answers)), text
