"""The cluster under chaos that only publishes: four streams, and a log that is lost now and then."""

from __future__ import annotations

import random
from pathlib import Path

from confluent_kafka.admin import AdminClient

import railgun
from railgun.errors import ApiError, RailgunError, RequestTimeout
from tests.chaos.audit import differences, info_differences, read_log
from tests.chaos.cluster import TAKEOVER, Torment, TormentedCluster
from tests.support.waiting import wait_until

STREAMS = {"ORDERS": -1, "PAYMENTS": -1, "EVENTS": -1, "NEWEST": 50}  # name to max_msgs


class ChaosCluster(TormentedCluster):
    """Streams that are published to and, some of them, limited."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {name: {"max_msgs": max_msgs} for name, max_msgs in STREAMS.items()})

    def round(self, number: int, action: Torment, dice: random.Random) -> str:
        self.muster()
        return self.torment(number, action, dice)

    def audit(self) -> list[str]:
        """Everything that differs between acks, logs and infos."""
        wrong: list[str] = []
        with self.connect() as rg:
            for name, max_msgs in STREAMS.items():
                content = read_log(self.broker.bootstrap, self.names.log(name))
                found = differences(content, self.acked[name], whole=max_msgs < 0)
                found += info_differences(rg.stream(name).info(), content, max_msgs)
                wrong += [f"{name}: {one}" for one in found]
        return wrong

    def infos(self) -> dict[str, object]:
        with self.connect() as rg:
            return {name: rg.stream(name).info(subjects=">", deleted=True) for name in STREAMS}

    def delete_log(self, dice: random.Random) -> str:
        """A stream loses its log: it alone may fail, and it can be deleted and made again."""
        name = f"VICTIM{dice.randrange(1_000_000)}"
        with self.connect() as rg:
            rg.create_stream(name, subjects=[f"{name}.*"])
            rg.publish(f"{name}.a", b"before")
            admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
            admin.delete_topics([self.names.log(name)])[self.names.log(name)].result(30)
            wait_until(lambda: _is_refused(rg, name), f"publishes to {name} are refused", TAKEOVER)
            rg.delete_stream(name)
            rg.create_stream(name, subjects=[f"{name}.*"])
            ack = rg.publish(f"{name}.a", b"after")
            assert ack.sequence == 1, f"the new {name} begins with {ack.sequence}"
            rg.delete_stream(name)
        return f"deletion of the log of {name}"

    @property
    def torments(self) -> list[Torment]:
        return [*super().torments, self.delete_log]


def _is_refused(rg: railgun.Railgun, name: str) -> bool:
    try:
        rg.publish(f"{name}.a", b"lost", timeout=5.0)
    except RequestTimeout:
        return False
    except ApiError as error:
        return error.code == 503
    except RailgunError:
        return False
    return False
