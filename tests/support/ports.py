"""A port for a server that a test starts."""

import socket


def free_port() -> int:
    """A port on which no server listens, for now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
