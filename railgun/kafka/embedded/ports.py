"""Loopback ports: which are free, which are taken. A free port is a hint, not a reservation."""

from __future__ import annotations

import socket
from typing import Final

LOOPBACK: Final = "127.0.0.1"
LAST_PORT: Final = 65_535


def free_port() -> int:
    """A port that was free a moment ago. Another process may take it first, so be ready to ask again."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now. Ports below 1024 are "taken" for ordinary users."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Java's server sockets do: connections of a stopped broker that linger in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def answers(port: int, timeout: float = 0.2) -> bool:
    """Whether something accepts connections on the port."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=timeout):
            return True
    except OSError:
        return False
