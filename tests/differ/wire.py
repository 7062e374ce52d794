"""A client of the NATS protocol, sync and raw: headers travel exactly as given, and nothing is read into an answer."""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

from tests.differ.frames import Frame, header_block

_START_SECONDS: Final = 60.0
_CONNECT: Final = {
    "verbose": False,
    "pedantic": False,
    "lang": "python",
    "version": "0",
    "headers": True,
    "no_responders": True,
}


class NatsWire:
    """One connection to a nats-server on loopback; it waits for a server that is still starting."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("nats://").partition(":")
        self._socket = _connected(host, int(port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self._sids = itertools.count(1)
        self._line(time.monotonic() + _START_SECONDS)  # INFO
        self._socket.sendall(b"CONNECT " + json.dumps(_CONNECT).encode() + b"\r\n")

    def close(self) -> None:
        self._socket.close()

    def request(
        self,
        subject: str,
        payload: bytes,
        headers: Sequence[tuple[str, str]],
        complete: Callable[[list[Frame]], bool],
        timeout: float,
    ) -> list[Frame]:
        """All that comes to the reply address until it is complete or the time is over."""
        sid = next(self._sids)
        inbox = f"_INBOX.differ.{sid}"
        self._socket.sendall(f"SUB {inbox} {sid}\r\n".encode() + _published(subject, inbox, payload, headers))
        deadline = time.monotonic() + timeout
        frames: list[Frame] = []
        try:
            while not complete(frames):
                frame = self._frame(sid, deadline)
                if frame is not None:
                    frames.append(frame)
        except TimeoutError:
            pass  # silence is an answer too
        self._socket.sendall(f"UNSUB {sid}\r\n".encode())
        return frames

    def _frame(self, sid: int, deadline: float) -> Frame | None:
        """The next protocol message if it is one for this subscription. Raises TimeoutError."""
        words = self._line(deadline).decode().split(" ")
        match words[0]:
            case "MSG":
                block, body = b"", self._bytes(int(words[-1]), deadline)
            case "HMSG":
                whole = self._bytes(int(words[-1]), deadline)
                block, body = whole[: int(words[-2])], whole[int(words[-2]) :]
            case "PING":
                self._socket.sendall(b"PONG\r\n")
                return None
            case "-ERR":
                raise ConnectionError(" ".join(words))
            case _:
                return None
        if int(words[2]) != sid:
            return None  # late, for an answer that was complete
        fixed = 4 if words[0] == "MSG" else 5
        reply = words[3] if len(words) > fixed else ""
        status, description, headers = header_block(block)
        return Frame(body, headers, status, description, words[1], reply)

    def _line(self, deadline: float) -> bytes:
        while b"\r\n" not in self._buffer:
            self._receive(deadline)
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _bytes(self, count: int, deadline: float) -> bytes:
        while len(self._buffer) < count + 2:
            self._receive(deadline + _START_SECONDS)  # it has begun: the rest must come
        found, self._buffer = self._buffer[:count], self._buffer[count + 2 :]
        return found

    def _receive(self, deadline: float) -> None:
        self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
        received = self._socket.recv(65_536)
        if not received:
            raise ConnectionError("nats-server closed the connection")
        self._buffer += received


def _connected(host: str, port: int) -> socket.socket:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return socket.create_connection((host, port), timeout=_START_SECONDS)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _published(subject: str, reply: str, payload: bytes, headers: Sequence[tuple[str, str]]) -> bytes:
    if not headers:
        return f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n"
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    block = f"NATS/1.0\r\n{lines}\r\n".encode()
    sizes = f"{len(block)} {len(block) + len(payload)}"
    return f"HPUB {subject} {reply} {sizes}\r\n".encode() + block + payload + b"\r\n"
