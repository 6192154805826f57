"""What all proxies of the tests begin with."""

from __future__ import annotations

import socket
import threading


class Listener:
    """Accepts connections for a server, and connects to it for each of them."""

    refuses = False

    def __init__(self, target: int) -> None:
        self.target = target
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port: int = self.listening.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                one, _ = self.listening.accept()
            except OSError:
                return
            try:
                if self.refuses:
                    raise OSError
                other = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                one.close()
                continue
            self.serve(one, other)

    def serve(self, one: socket.socket, other: socket.socket) -> None:
        """Begins to pass on what a client and the server send."""
        raise NotImplementedError

    def close(self) -> None:
        with_shutdown(self.listening)


def with_shutdown(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()
