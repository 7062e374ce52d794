"""A client of the wire format and nothing else: what a worker does is shown without the facade."""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from railgun.kafka.settings import KafkaSettings
from railgun.model.headers import COMMAND_KIND
from railgun.protocol.commands import ApiRequest, PublishPack
from railgun.protocol.replies import PackReply, ReplyBatch
from railgun.protocol.routing import partition_of
from railgun.protocol.topics import Names


class RawClient:
    """Sends commands and waits for their answers; for tests, from one thread."""

    def __init__(self, bootstrap: str, prefix: str, partitions: int, timeout: float = 20.0) -> None:
        self.names = Names(prefix)
        self.kafka = KafkaSettings(bootstrap)
        self.partitions = partitions
        self.timeout = timeout
        self.client = uuid.uuid4().hex
        self._requests = itertools.count(1)
        self._producer = Producer(self.kafka.producer())
        self._consumer = Consumer(self.kafka.consumer())
        self._answers: dict[int, list[Any]] = {}
        self._packs: dict[int, PackReply] = {}
        self.epochs: dict[int, int] = {}
        places = []
        for partition in range(partitions):  # the position is fixed before the first command
            place = TopicPartition(self.names.replies, partition)
            _, place.offset = self._consumer.get_watermark_offsets(place, timeout=10)
            places.append(place)
        self._consumer.assign(places)

    def close(self) -> None:
        self._producer.flush(5)
        self._consumer.close()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------ sending

    def send(
        self,
        partition: int,
        value: bytes | None,
        key: bytes = b"",
        kind: str | None = None,
        headers: Sequence[Any] = (),
    ) -> None:
        """Any record into ``commands``."""
        own = [] if kind is None else [(COMMAND_KIND, kind.encode())]
        self._producer.produce(self.names.commands, value, key, partition, headers=[*headers, *own])
        self._producer.poll(0)

    def send_pack(
        self,
        stream: str,
        payloads: Sequence[bytes],
        *,
        ids: Sequence[str] = (),
        subject: str = "",
        answered: bool = True,
    ) -> int:
        """Publish without waiting; the number to wait for with :meth:`pack_reply`."""
        first = next(self._requests)
        for _ in payloads[1:]:
            next(self._requests)
        subjects = [subject or f"{stream}.new"] * len(payloads)
        client = self.client if answered else ""
        pack = PublishPack(stream, client, first, subjects, list(ids), [], list(payloads))
        self.send(partition_of(stream, self.partitions), pack.encode(), stream.encode(), "pack")
        return first

    # ------------------------------------------------------------ asking

    def publish(self, stream: str, *payloads: bytes, ids: Sequence[str] = ()) -> PackReply:
        return self.pack_reply(self.send_pack(stream, payloads, ids=ids))

    def pack_reply(self, first: int) -> PackReply:
        self._wait(lambda: first in self._packs)
        return self._packs.pop(first)

    def request(
        self, api: str, body: dict[str, Any] | None = None, *, stream: str = "", partition: int | None = None
    ) -> Any:
        """The JSON of the first answer."""
        number = next(self._requests)
        raw = b"" if body is None else json.dumps(body).encode()
        if partition is None:
            partition = partition_of(stream, self.partitions) if stream else 0
        request = ApiRequest(self.client, number, api, stream, [], raw)
        self.send(partition, request.encode(), stream.encode(), "request")
        self._wait(lambda: number in self._answers)
        return json.loads(self._answers.pop(number)[0].body)

    def create_stream(self, name: str, **config: Any) -> Any:
        fields = {"name": name, "subjects": [f"{name}.*"], **config}
        return self.request(f"STREAM.CREATE.{name}", fields)

    def info(self, name: str) -> Any:
        return self.request(f"STREAM.INFO.{name}", {}, stream=name)

    def _wait(self, reached: Any) -> None:
        deadline = time.monotonic() + self.timeout
        while not reached():
            if time.monotonic() > deadline:
                raise TimeoutError("the worker did not answer")
            self._take(self._consumer.poll(0.2))

    def _take(self, message: Message | None) -> None:
        if message is None or message.error() is not None:
            return
        batch = ReplyBatch.decode(message.value() or b"")
        self.epochs[batch.shard] = batch.epoch
        if message.key() == self.client.encode():
            self._answers |= {answer.request: answer.frames for answer in batch.answers}
            self._packs |= {pack.first_request: pack for pack in batch.packs}

    # ------------------------------------------------------------ looking

    def records(self, topic: str, partition: int = 0) -> list[Message]:
        """Every committed record of a partition, up to its present end."""
        consumer = Consumer(self.kafka.consumer(enable_partition_eof=True))
        found: list[Message] = []
        try:
            consumer.assign([TopicPartition(topic, partition, 0)])
            deadline = time.monotonic() + self.timeout
            while time.monotonic() < deadline:
                for message in consumer.consume(5000, 0.2):
                    error = message.error()
                    if error is None:
                        found.append(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return found
        finally:
            consumer.close()
        raise TimeoutError(f"{topic} could not be read to its end")
