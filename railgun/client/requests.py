"""Requests on their way: sent with a number, ended by the answer that carries it."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from railgun.api.names import ApiName
from railgun.client.calls import Calls, PendingCall
from railgun.client.consuming.ack_box import AckBox
from railgun.client.consuming.fetch import WaitingPull
from railgun.client.transport import Delivered
from railgun.errors import RailgunError, RequestTimeout
from railgun.model.headers import HeaderList
from railgun.protocol.commands import REQUEST, AckRun, ApiRequest

if TYPE_CHECKING:
    from railgun.client.connection.connection import Connection

logger = logging.getLogger(__name__)


class Requests:
    """Sends the requests of one connection; ``calls`` has those that wait. Thread-safe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.calls = Calls()

    def begin(
        self, partition: int, name: ApiName, body: bytes, headers: HeaderList | None, timeout: float
    ) -> PendingCall:
        """Send one request. What waits in the lanes leaves before it, so that it sees what this client published."""
        self._connection.check()
        self._connection.packer.push()
        number = self._connection.packer.take_number()
        call = self.calls.add(number, timeout)
        try:
            self._send(partition, number, name, body, headers, partial(self._delivered, number, call))
        except BaseException:
            self.calls.forget(number)
            raise
        return call

    def confirm(self, box: AckBox, run: AckRun, timeout: float) -> PendingCall:
        """Send an acknowledgement behind all that wait; the call ends once they are durable. One that fails is not sent again."""
        self._connection.check()
        number = self._connection.packer.take_number()
        call = self.calls.add(number, timeout)
        told = partial(self._delivered, number, call)
        try:
            with box.sending:  # what was said before is sent before it
                self._connection.consuming.tell(
                    box.address, box=box, acks=box.take(), once=[run], request=number, delivered=told
                )
        except BaseException:
            self.calls.forget(number)
            raise
        return call

    def pull(
        self,
        partition: int,
        name: ApiName,
        body: bytes,
        headers: HeaderList,
        waiting: WaitingPull,
        timeout: float,
    ) -> PendingCall:
        """Send a raw request that is answered with leases; an ordinary answer to it ends it as well."""
        self._connection.check()
        self._connection.packer.push()
        number = waiting.ticket.id
        call = self.calls.add(number, timeout)
        call.when_done(lambda: waiting.failed(call.error or RequestTimeout("answered without messages")))
        send = partial(self._send, partition, number, name, body, headers, waiting.sent)
        waiting.ticket.again = send
        self._connection.consuming.book.add(waiting.ticket)
        send()
        return call

    def say(self, partition: int, name: ApiName) -> None:
        """Send a request whose answer nobody waits for."""
        try:
            number = self._connection.packer.take_number()
            self._send(partition, number, name, b"", None, lambda error: None)
        except RailgunError as error:
            logger.warning("%s could not be sent: %s", name.text, error)

    def _send(
        self,
        partition: int,
        number: int,
        name: ApiName,
        body: bytes,
        headers: HeaderList | None,
        delivered: Delivered,
    ) -> None:
        client = self._connection.client
        value = ApiRequest(client, number, name.text, name.stream, headers or [], body).encode()
        self._connection.transport.send(partition, name.stream.encode("utf-8"), REQUEST, value, delivered)

    def _delivered(self, number: int, call: PendingCall, error: RailgunError | None) -> None:
        call.delivered = error is None
        if error is not None:
            self.calls.end(number, None, error)
