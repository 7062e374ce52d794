"""The settings that let Connect read typed events: Avro in Confluent's frame, with schemas in Apicurio, by Apicurio's converter."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator

from railgun.sinks.secrets import SafeUrl

AVRO_CONVERTER: Final = "io.apicurio.registry.utils.converter.AvroConverter"
# Events are published by Confluent's API of the registry, and the converter asks Apicurio's own.
_ADDRESS: Final = re.compile(r"(https?://[^\s?#]+)/apis/(?:ccompat/v\d+|registry/v2)/?")
_OWN_API: Final = "/apis/registry/v2"
_YEAR: Final = str(365 * 24 * 3600 * 1000)
_UNFRAMED: Final = "the payload is not a framed event"
# What the converter raises says little to somebody who does not know its code. Exception -> a part of its message, and what it means.
_MEANINGS: Final = {
    "java.lang.IllegalStateException": ("artifact reference cannot be null", _UNFRAMED),
    "java.lang.ArrayIndexOutOfBoundsException": ("length 0", _UNFRAMED),  # an empty payload
    "java.nio.BufferUnderflowException": ("", _UNFRAMED),
    "java.io.UncheckedIOException": ("EOFException", "the payload ends before its schema does"),
    "io.apicurio.registry.rest.client.exception.RestClientException": (
        "",
        "the registry does not answer, or refuses Connect",
    ),
}


def avro_converter(registry: str) -> dict[str, str]:
    """The settings of the converter for values, for a registry whose address is a :data:`RegistryUrl`."""
    settings = {
        "url": registry,
        "as-confluent": "true",  # an id of four bytes
        "use-id": "contentId",  # and the id that Confluent's API gives out
        "headers.enabled": "false",  # the frame alone names the schema: headers are the publisher's
        # What an id names never changes. With the default of 30 seconds a registry that is down makes dead letters of known schemas.
        "check-period-ms": _YEAR,
    }
    named = {f"value.converter.apicurio.registry.{name}": value for name, value in settings.items()}
    return {"value.converter": AVRO_CONVERTER, **named}


def meaning_of(exception: str, message: str) -> str | None:
    """What an exception of the converter means, if its own text does not say it."""
    part, meaning = _MEANINGS.get(exception, ("", None))
    return meaning if part in message else None


def _own_address(value: str) -> str:
    """The address of Apicurio's own API, from that or from the one of Confluent's API."""
    if not value:
        return value
    found = _ADDRESS.fullmatch(value)
    if found is None:
        raise ValueError(
            "is not a valid registry of a sink: it is Apicurio's, as in http://host:8080/apis/ccompat/v7. "
            "For another one, leave it out and give its value.converter in settings"
        )
    return found[1] + _OWN_API


RegistryUrl = Annotated[SafeUrl, AfterValidator(_own_address)]
