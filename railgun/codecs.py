"""Codecs for the keys and values of a bucket: ``rg.bucket("USERS", key_codec=codecs.Base64Keys())``.

Key codecs: :class:`PlainKeys` (the default), :class:`Base64Keys`, :class:`PathKeys`. Value codecs: :class:`PlainValues` (the
default), :class:`TextValues`, :class:`JsonValues`, :class:`ModelValues`, :class:`AvroValues`, :class:`Base64Values`,
:class:`ZlibValues`. A list of codecs is a chain: the first encodes first and decodes last. Your own need only the methods of
:class:`KeyCodec` or :class:`ValueCodec`.
"""

from railgun.client.buckets.codecs import Base64Keys, KeyChain, KeyCodec, PathKeys, PlainKeys
from railgun.client.buckets.value_codecs import (
    AvroValues,
    Base64Values,
    JsonValues,
    ModelValues,
    PlainValues,
    TextValues,
    ValueChain,
    ValueCodec,
    ZlibValues,
)

__all__ = [
    # keys
    "KeyCodec",
    "PlainKeys",
    "Base64Keys",
    "PathKeys",
    "KeyChain",
    # values
    "ValueCodec",
    "PlainValues",
    "TextValues",
    "JsonValues",
    "ModelValues",
    "AvroValues",
    "Base64Values",
    "ZlibValues",
    "ValueChain",
]
