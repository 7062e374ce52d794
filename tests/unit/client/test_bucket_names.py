"""Names of buckets and keys, and the stream that a bucket is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgun import BucketConfig, Entry, StreamConfig
from railgun.client.buckets import layout, naming
from railgun.errors import BadBucket, InvalidKey
from railgun.model.bucket_entry import operation_of
from railgun.model.subjects import Filter

DOTTED = "-/_=.aZ0"


@pytest.mark.rule("KV-02", "KV-03")
@given(key=st.text(DOTTED + "*> ü", max_size=6), dotted=st.booleans())
def test_a_key_that_is_taken_makes_a_valid_subject(key: str, dotted: bool) -> None:
    taken = bool(key) and set(key) <= (set(DOTTED) if dotted else set(DOTTED) - {".", "="})
    if dotted:
        taken = taken and all(key.split("."))
    if not taken:
        with pytest.raises(InvalidKey):
            naming.check_key(key, key, dotted=dotted)
        return
    assert naming.check_key(key, key, dotted=dotted) == key
    subject = f"kv.B.{key}"
    assert Filter("kv.B.>" if dotted else "kv.B.*").matches(subject)
    assert naming.check_pattern(key, key, dotted=dotted) == key


@pytest.mark.rule("KV-05", "KV-06", "KV-08", "KV-09", "KV-10")
@given(
    config=st.builds(
        BucketConfig,
        bucket=st.text("ab_-9", min_size=1, max_size=5),
        description=st.none() | st.text(max_size=5),
        history=st.integers(1, 64),
        ttl=st.none() | st.integers(1, 1_000),
        max_value_size=st.sampled_from([-1, 10]),
        max_bytes=st.sampled_from([-1, 1_000]),
        storage=st.sampled_from(["file", "memory"]),
        stream_name=st.none() | st.just("OTHER"),
        subject_prefix=st.sampled_from(["kv", "$KV", "a.b"]),
        dotted_keys=st.booleans(),
        marker_deletes=st.booleans(),
        nats_mode=st.booleans(),
        limit_marker_ttl=st.none() | st.integers(1, 100),
        allow_msg_ttl=st.booleans(),
        metadata=st.none() | st.just({"team": "x"}),
    )
)
def test_a_bucket_is_found_again_in_its_stream(config: BucketConfig) -> None:
    stream = layout.stream_of(config)
    assert layout.bucket_of(stream) == config
    assert layout.bucket_of(stream, config.bucket) == config
    assert layout.bucket_of(StreamConfig.from_json(stream.to_json())) == config
    with pytest.raises(BadBucket):
        layout.bucket_of(stream, config.bucket + "x")


@pytest.mark.rule("KV-36")
def test_what_a_message_is() -> None:
    def of(**headers: str) -> str:
        return operation_of([(name.replace("_", "-"), value.encode()) for name, value in headers.items()])

    assert of() == of(KV_Operation="PUT") == of(other="DEL") == "PUT"
    assert of(KV_Operation="DEL") == of(Nats_Marker_Reason="Remove") == "DEL"
    assert (
        of(KV_Operation="PURGE")
        == of(Nats_Marker_Reason="MaxAge")
        == of(Nats_Marker_Reason="Purge")
        == "PURGE"
    )
    assert of(KV_Operation="DEL", Nats_Marker_Reason="MaxAge") == "DEL"


@pytest.mark.rule("KV-14")
def test_an_entry_in_other_forms() -> None:
    entry = Entry("B", "k", b"[1]", b"[1]", 7, 1_700_000_000_123_456_789)
    assert (entry.text, entry.json(), entry.is_value) == ("[1]", [1], True)
    assert entry.created.isoformat() == "2023-11-14T22:13:20.123456+00:00"
    with pytest.raises(AttributeError):
        entry.key = "x"  # type: ignore[misc]
