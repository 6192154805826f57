"""As much of redis-py as the pages use, so that tests need no package."""

import socket
from urllib.parse import urlsplit


class RedisError(Exception):
    pass


class ResponseError(RedisError):
    pass


class Redis:
    def __init__(self, host, port):
        self.connection = socket.create_connection((host, port), timeout=60)
        self.replies = self.connection.makefile("rb")

    @classmethod
    def from_url(cls, url):
        address = urlsplit(url)
        return cls(address.hostname, address.port)

    def execute_command(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        request = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        self.connection.sendall(b"*%d\r\n%s" % (len(words), request))
        reply = self.read()
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    def delete(self, *keys):
        return self.execute_command("DEL", *keys)

    def read(self):
        line = self.replies.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            return ResponseError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            length = int(rest)
            return None if length < 0 else self.replies.read(length + 2)[:-2]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        assert kind == b"+", line
        return rest

    def close(self):
        self.replies.close()
        self.connection.close()
