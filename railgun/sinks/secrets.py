"""Secrets of a sink: references to where Connect finds them, and never the secrets themselves.

Connect keeps what it is given in a topic that each of its users can read, and its REST API shows it. So a secret that is written out
is refused before it leaves this process, and no error shows its value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator

#: ``${provider:path:key}`` or ``${provider:key}``, and nothing around it.
_REFERENCE: Final = re.compile(r"\$\{[A-Za-z][\w.-]*:[^{}]+\}")
_SECRET_WORDS: Final = (
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "user.info",  # of a schema registry: user:password
    "jaas",
    "api.key",
    "api_key",
    "apikey",
    "private.key",
    "private_key",
    "privatekey",
    "authorization",
    "access.key",
    "account.key",
    "keystore.key",
)
# What the last part of such a name says of the secret, without being it: where it comes from, or of which kind it is.
_ABOUT_SECRETS: Final = re.compile(
    r"[._-](?:source|url|uri|endpoint|type|mode|class|provider|location|path|file|algorithm|enabled?|ms)\Z"
)
_IN_URL: Final = re.compile(
    r"//[^/@\s]*:[^/@\s]*@"  # user:password@host
    r"|//[^@\s?]*:(?!\d{1,5}[/,])[^@\s?]*@"  # the same with a slash in the password, which is none behind a port
    r"|:(?:thin|oci8?):[^/@\s]+/[^@]+@"  # Oracle's user/password@; one in quotes may have blanks
    # … or a parameter: of an address, or of a list of them as the drivers of MySQL, SQL Server and Db2 take it
    r"|[?&;(,:]\s*[\w.]*(?:password|passwd|pwd|secret|token|(?:access|account|api|client)key)\s*=\s*(?!\$\{)[^\s&;,)]",
    re.IGNORECASE,
)
ADVICE: Final = "give a reference that Connect resolves, such as ${env:PG_PASSWORD} or ${file:/etc/connect/pg.properties:password}"


def is_reference(value: str) -> bool:
    """Whether the value only says where Connect finds the secret."""
    return _REFERENCE.fullmatch(value) is not None


def is_secret(setting: str) -> bool:
    """Whether a setting of that name holds a secret, as far as its name tells."""
    name = setting.lower()
    return any(word in name for word in _SECRET_WORDS) and _ABOUT_SECRETS.search(name) is None


def literal_secret(settings: Mapping[str, str]) -> str | None:
    """The name of a setting that holds a secret, written out; None if there is none. An empty value is not a secret."""
    for name, value in settings.items():
        if value and not is_reference(value) and (is_secret(name) or _IN_URL.search(value)):
            return name
    return None


def _referenced(value: str) -> str:
    if value and not is_reference(value):
        raise ValueError(f"a password is not a valid part of a sink's configuration: {ADVICE}")
    return value


def _without_password(value: str) -> str:
    if _IN_URL.search(value):
        raise ValueError(f"an address with a password in it is not a valid address of a sink: {ADVICE}")
    return value


SecretReference = Annotated[str, AfterValidator(_referenced)]
SafeUrl = Annotated[str, AfterValidator(_without_password)]
