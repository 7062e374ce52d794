"""Names in Avro: of records, which are the subjects of a registry, and of the types and fields inside."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Final

from railgun.avro.errors import InvalidModel

ATTRIBUTE: Final = "__avro_name__"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def is_name(text: object) -> bool:
    """Whether Avro takes the text for a name without a namespace."""
    return isinstance(text, str) and _NAME.match(text) is not None


def record_name(model: type[Any]) -> str:
    """The full name of a model or an Enum in Avro: its ``__avro_name__``, or the name of the class.

    The attribute of a base class does not count: two classes of one name would be taken for versions of one another. Raises InvalidModel.
    """
    given = (
        getattr(model, ATTRIBUTE, None)
        if issubclass(model, Enum)  # an Enum hides it among its members' attributes, and has no subclasses
        else vars(model).get(ATTRIBUTE)
    )
    name = model.__name__ if given is None else given
    if not isinstance(name, str) or not all(is_name(part) for part in name.split(".")):
        raise InvalidModel(
            model=model.__name__,
            reason=f"{name!r} is not a valid Avro name: set {ATTRIBUTE} to letters, digits and _, with dots between",
        )
    return name
