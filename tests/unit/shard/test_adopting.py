"""A shard that adopts topics: every record once and in order, whatever is read, dropped or handed over to a new owner."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railgun.model import headers as h
from railgun.semantics.streams.adopting.topic_records import TopicSeen
from tests.support.adopting import SECOND, STREAM, TOPIC, Adopter
from tests.support.shards import Shards

MAPPED = {"topic": TOPIC, "subject": "o.{header:type}.{key}"}


def adopter(*counts: int, **fields: Any) -> Adopter:
    """A stream that has begun to copy a topic, whose partitions have so many records."""
    made = Adopter(len(counts))
    for partition, count in enumerate(counts):
        for number in range(count):
            made.topic.add(partition, b"%d/%d" % (partition, number))
    assert "error" not in made.make(**fields)
    made.look()
    return made


@pytest.mark.rule("TOP-01", "TOP-07")
def test_a_record_becomes_a_message() -> None:
    made = Adopter(2)
    made.make(topics=[MAPPED])
    made.topic.add(1, b"body", b"a.b", (("type", b"new"), ("mine", None), ("Railgun-Sequence", b"7")))
    made.topic.add(1, None, None)
    made.look()
    made.copy_all()
    first, second = made.message(1), made.message(2)
    assert (first.subject, first.payload) == ("o.new.a%2Eb", b"body")
    assert first.headers == [
        ("type", b"new"),
        ("mine", b""),
        (h.TOPIC_SOURCE, b"orders 1 0 1700000000000"),
        (h.TOPIC_KEY, b"a.b"),
    ]
    assert (second.subject, second.payload) == ("o.%-.%-", b"")
    assert second.headers == [(h.TOPIC_SOURCE, b"orders 1 1 1700000000000"), (h.TOPIC_NULL, b"1")]
    assert made.state.config.subjects == []


@pytest.mark.rule("TOP-08")
@settings(max_examples=150)
@given(st.data())
def test_every_record_is_stored_once_and_in_order(data: st.DataObject) -> None:
    """Any split of reads, with stale and repeated ones, dropped drains, new owners and limits on what may be read."""
    counts = data.draw(st.lists(st.integers(0, 12), min_size=1, max_size=3))
    made = Adopter(len(counts))
    for partition, count in enumerate(counts):
        for number in range(count):
            if data.draw(st.integers(0, 4)) == 0:
                made.topic.skip(partition)
            made.topic.add(partition, b"%d/%d" % (partition, number))
    full = data.draw(st.booleans())
    limits = {"max_msgs": 3, "discard": "new"} if full else {}
    made.make(**limits)
    taken: list[bytes] = []
    for _ in range(data.draw(st.integers(5, 40))):
        step = data.draw(
            st.sampled_from(["fetch", "fetch", "fetch", "abort", "restart", "look", "time", "purge"])
        )
        if step == "restart":
            made.restart(0)
        elif step == "look":
            made.look()
        elif step == "time":
            made.now += SECOND
            made.decide()
        elif step == "purge" and full:
            taken += made.texts()
            made.ask(f"STREAM.PURGE.{STREAM}")
        elif made.state.adopted.partitions(TOPIC):
            partition = data.draw(st.integers(0, len(counts) - 1))
            after = data.draw(st.none() | st.integers(0, len(made.topic.partitions[partition])))
            fetches = [made.fetch(partition, data.draw(st.integers(0, 5)), after)]
            fetches += fetches if data.draw(st.booleans()) else []
            made.decide(*fetches, commit=step != "abort")
    made.look()
    for _ in range(40):
        made.now += 11 * SECOND
        made.decide()
        made.copy_all()
        if full:
            taken += made.texts()
            made.ask(f"STREAM.PURGE.{STREAM}")
    taken += made.texts()
    for partition, count in enumerate(counts):
        mine = [one for one in taken if one.startswith(b"%d/" % partition)]
        assert mine == [b"%d/%d" % (partition, number) for number in range(count)]
        assert made.position(partition) == len(made.topic.partitions[partition])
    assert made.rejected == []


def test_a_fetch_behind_a_dropped_one_is_read_again() -> None:
    made = adopter(6)
    number = made.core.adopting.orders()[made.of].partitions[0].number
    made.decide(made.fetch(0, 2, after=3))
    assert made.texts() == []
    order = made.core.adopting.orders()[made.of].partitions[0]
    assert (order.number, order.offset) == (number + 1, 0)
    made.copy_all()
    assert len(made.texts()) == 6


@pytest.mark.rule("TOP-06")
def test_ids_are_seen_through() -> None:
    made = Adopter()
    made.make(topics=[{"topic": TOPIC, "message_id": "{header:id}"}])
    for number, found in enumerate([b"a", b"b", b"a", None]):
        made.topic.add(0, b"%d" % number, headers=(("id", found), (h.MSG_ID, b"same")))
    made.look()
    made.copy_all()
    assert made.texts() == [b"0", b"1", b"3"]  # the last has no such header, and its own id is new
    assert h.first(made.message(1).headers, h.MSG_ID) == b"a"


@pytest.mark.rule("TOP-09")
def test_a_record_that_can_not_be_stored_is_kept_and_passed() -> None:
    made = Adopter()
    made.make(max_msg_size=200)
    made.topic.add(0, b"x" * 300, b"large", (("mine", b"1"),))
    made.topic.add(0, b"fits")
    made.topic.add(0, b"no life time here", headers=((h.TTL, b"5s"),))
    made.look()
    made.copy_all()
    assert made.texts() == [b"fits"]
    large, timed = made.rejected
    assert (large.place, large.source.key, large.source.value) == ("orders/0/0", b"large", b"x" * 300)
    assert list(large.source.headers) == [("mine", b"1")]
    assert large.reason == f"passed over by the stream {STREAM}: message size exceeds maximum allowed"
    assert timed.place == "orders/0/2"
    (partition,) = made.info()["partitions"]
    assert partition["passed"] == 2
    assert partition["note"].startswith("2 not copied, the last was the record at offset 2: per-message TTL")


@pytest.mark.rule("TOP-09")
def test_a_record_that_fails_the_rules_is_refused_alone() -> None:
    made = adopter(3)
    parts = made.fetch(0).parts()
    assert [(one.after, one.reached, len(one.records)) for one in parts] == [(0, 1, 1), (1, 2, 1), (2, 3, 1)]
    made.decide(parts[0])
    made._deliver(made.core, made.core.refuse(parts[1], "ValueError: odd"))
    made.decide(parts[2])
    assert made.texts() == [b"0/0", b"0/2"]
    assert [(one.place, one.source.value) for one in made.rejected] == [("orders/0/1", b"0/1")]
    assert made.info()["partitions"][0]["position"] == 3


@pytest.mark.rule("TOP-10")
def test_a_full_stream_makes_the_topic_wait() -> None:
    made = adopter(5, max_msgs=2, discard="new")
    made.decide(made.fetch(0))
    assert made.texts() == [b"0/0", b"0/1"]
    assert made.core.adopting.orders()[made.of].partitions[0].most == 0
    assert made.info()["error"]["err_code"] == 10077
    made.ask(f"STREAM.MSG.DELETE.{STREAM}", {"seq": 1})
    order = made.core.adopting.orders()[made.of].partitions[0]
    assert (order.offset, order.most) == (2, 1)  # as many as there is room for
    made.copy_all()
    made.ask(f"STREAM.PURGE.{STREAM}")
    made.copy_all()
    assert made.texts() == [b"0/3", b"0/4"]
    assert "error" not in made.info()


@pytest.mark.rule("TOP-10")
def test_a_stream_whose_log_is_gone_makes_the_topic_wait() -> None:
    made = adopter(2)
    made.quarantined[made.state.topic] = "its log is gone"
    made.decide(made.fetch(0))
    assert made.info()["error"]["description"] == "insufficient resources: its log is gone"
    made.quarantined.clear()
    made.now += SECOND
    made.decide()
    made.copy_all()
    assert len(made.texts()) == 2


@pytest.mark.rule("TOP-11")
def test_records_that_kafka_removed_first_are_told() -> None:
    made = adopter(5)
    made.decide(made.fetch(0, 1))
    made.topic.low[0] = 3
    made.look()
    assert made.position(0) == 1  # its reader may still have them
    made.look(unreadable=(0,))
    made.copy_all()
    assert made.texts() == [b"0/0", b"0/3", b"0/4"]
    told = made.info()
    assert told["partitions"][0]["lost"] == 2
    assert "2 offsets from 1 on were removed by Kafka" in told["error"]["description"]


@pytest.mark.rule("TOP-11")
def test_a_partition_that_was_cut_back_is_believed_after_a_while() -> None:
    made = adopter(5)
    made.copy_all()
    del made.topic.partitions[0][3:]
    made.look(unreadable=(0,))
    made.now += 9 * SECOND
    made.look(unreadable=(0,))
    assert made.position(0) == 5
    made.now += 2 * SECOND
    made.look(unreadable=(0,))
    assert made.position(0) == 3
    made.topic.add(0, b"new")
    made.copy_all()
    assert made.texts()[-1] == b"new"
    assert "it was copied up to offset 5, but ends at 3" in made.info()["error"]["description"]


@pytest.mark.rule("TOP-12")
def test_a_topic_that_is_made_anew_is_copied_from_its_beginning() -> None:
    made = adopter(4, 1)
    made.decide(made.fetch(0, 2))
    stale = made.fetch(0, 2, after=2)
    made.topic.topic_id = "id-2"
    made.topic.partitions = [[], [], []]
    for partition in range(3):
        made.topic.add(partition, b"new %d" % partition)
    made.look(start="end")
    made.decide(stale)
    assert len(made.texts()) == 2
    made.copy_all()
    assert made.texts()[2:] == [b"new 0", b"new 1", b"new 2"]
    told = made.info()
    assert "was deleted and created anew" in told["error"]["description"]
    assert [one["lost"] for one in told["partitions"]] == [2, 1, 0]


@pytest.mark.rule("TOP-13")
def test_copying_begins_at_the_end_and_new_partitions_at_their_beginning() -> None:
    made = Adopter()
    made.topic.add(0, b"old")
    made.make(topics=[{"topic": TOPIC, "start": "end"}])
    made.look(start="end")
    made.topic.add(0, b"new")
    made.topic.partitions.append([])
    made.topic.add(1, b"added")
    made.restart(0)
    made.look(start="end")
    made.copy_all()
    assert sorted(made.texts()) == [b"added", b"new"]


@pytest.mark.rule("TOP-14")
def test_a_topic_that_comes_back_goes_on_where_it_was() -> None:
    made = adopter(4)
    made.decide(made.fetch(0, 2))
    late = made.fetch(0, 2, after=2)
    changed = made.ask(f"STREAM.UPDATE.{STREAM}", {"name": STREAM, "subjects": ["own.*"]})
    assert "topics" not in changed
    assert made.core.adopting.orders() == {}
    made.decide(late)
    assert len(made.texts()) == 2
    made.ask(
        f"STREAM.UPDATE.{STREAM}", {"name": STREAM, "topics": [{"topic": TOPIC, "subject": "again.{key}"}]}
    )
    made.look()
    made.copy_all()
    assert made.texts() == [b"0/0", b"0/1", b"0/2", b"0/3"]
    assert made.message(3).subject == "again.k"


@pytest.mark.rule("TOP-03", "TOP-15")
def test_what_is_wrong_with_a_topic_is_told_until_it_is_mended() -> None:
    made = Adopter()
    made.make()
    made.decide(TopicSeen(made.of, error="the topic orders does not exist"))
    assert made.info()["error"]["description"] == "the topic orders does not exist"
    made.topic.add(0, b"1")
    made.look()
    told = made.info()
    assert (told["topic"], told["subject"], told["lag"]) == (TOPIC, "orders.{key}", 1)
    assert "error" not in told
    made.copy_all()
    assert made.info()["lag"] == 0


@pytest.mark.rule("TOP-02", "TOP-03", "TOP-04")
@pytest.mark.parametrize(
    "topics, text",
    [
        ([{"topic": "a"}, {"topic": "a"}], "a stream can not have the same topic twice"),
        ([{"topic": f"t{number}"} for number in range(101)], "a stream can not have more than 100 topics"),
        ([{"topic": "a/b"}], "'a/b' is not a valid name of a Kafka topic"),
        ([{"topic": ""}], "'' is not a valid name of a Kafka topic"),
        ([{"topic": "railgun.log.A"}], "the topic railgun.log.A is railgun's own"),
        ([{"topic": "a", "subject": "{what}"}], "'{what}' is not a valid template"),
        ([{"topic": "a", "message_id": "{what}"}], "'{what}' is not a valid template"),
        ([{"topic": "a..b"}], "'a..b.{key}' is not a valid template of subjects"),
    ],
)
def test_topics_that_can_not_be_adopted(topics: list[dict[str, Any]], text: str) -> None:
    error = Adopter().make(topics=topics)["error"]
    assert error["err_code"] == 10052
    assert text in error["description"]


@pytest.mark.rule("TOP-02")
def test_a_mirror_adopts_nothing() -> None:
    assert "a mirror can not have topics" in Adopter().make(mirror={"name": "A"})["error"]["description"]


@pytest.mark.rule("TOP-03")
def test_there_are_no_topics_in_memory() -> None:
    shards = Shards(1)
    asked = shards.request("STREAM.CREATE.A", {"name": "A", "topics": [{"topic": "a"}]})
    shards.settle()
    assert "topics can not be adopted in memory" in shards.answer(asked)["error"]["description"]


@pytest.mark.parametrize(
    "topic, text",
    [
        ({"topic": "a", "start": "middle"}, "start"),
        ({"topic": "a", "offset": 3}, "offset"),
        ({"topic": "a", "opt_start_time": "yesterday"}, "opt_start_time"),
    ],
)
def test_odd_fields_of_a_topic_are_refused(topic: dict[str, Any], text: str) -> None:
    error = Adopter().make(topics=[topic])["error"]
    assert error["err_code"] == 10025
    assert text in error["description"]


def test_a_deleted_stream_leaves_no_position_behind() -> None:
    made = adopter(2)
    made.copy_all()
    made.ask(f"STREAM.DELETE.{STREAM}")
    made.settle()
    made.make()
    assert made.state.adopted.partitions(TOPIC) == {}
    made.look()
    made.copy_all()
    assert made.texts() == [b"0/0", b"0/1"]


def test_one_by_one_gives_what_columns_give() -> None:
    """A message id makes all records of a fetch go the slow way."""
    quick, slow = adopter(20, 3), adopter(20, 3)
    slow.topic.partitions[0][7] = slow.topic.partitions[0][7]._replace(headers=((h.MSG_ID, b"1"),))  # type: ignore[union-attr]
    for made in (quick, slow):
        made.copy_all()
    assert quick.texts() == slow.texts()
    assert [quick.message(n).subject for n in range(1, 24)] == [slow.message(n).subject for n in range(1, 24)]


@pytest.mark.rule("TOP-08")
def test_a_record_that_is_not_the_next_is_never_passed() -> None:
    """A stream may have become full at a record of the same fetch; whatever fails then, those between are not lost."""
    made = adopter(6)
    parts = made.fetch(0).parts()
    made._deliver(made.core, made.core.refuse(parts[3], "ValueError: odd"))
    assert (made.position(0), made.rejected) == (0, [])
    made.copy_all()
    assert len(made.texts()) == 6
    made._deliver(made.core, made.core.refuse(parts[3], "ValueError: odd"))
    assert made.rejected == []


@pytest.mark.rule("TOP-09")
@pytest.mark.parametrize("limits", [{"max_stream_bytes": 500}, {"max_store_bytes": 500}, {}])
def test_a_record_that_is_larger_than_the_stream_holds_up_no_others(limits: dict[str, int]) -> None:
    made = Adopter(**limits)
    assert "error" not in made.make(**({} if limits else {"max_bytes": 500, "discard": "new"}))
    made.topic.add(0, b"x" * 600)
    made.topic.add(0, b"fits")
    made.look()
    made.copy_all()
    assert made.texts() == [b"fits"]
    assert [one.place for one in made.rejected] == ["orders/0/0"]


@pytest.mark.rule("TOP-09")
def test_a_note_does_not_quote_all_of_a_record() -> None:
    made = Adopter()
    made.make(allow_rollup_hdrs=True)
    made.topic.add(0, b"", headers=((h.ROLLUP, b"z" * 50_000),))
    made.look()
    made.copy_all()
    assert len(made.info()["partitions"][0]["note"]) < 1_000
    assert len(made.rejected) == 1


@pytest.mark.rule("TOP-11")
def test_a_reader_that_began_anew_where_records_are_gone_goes_on_at_the_position() -> None:
    made = adopter(6)
    made.decide(made.fetch(0, 5))
    assert made.core.adopting.orders()[made.of].partitions[0].offset == 0
    made.topic.low[0] = 4
    made.look(unreadable=(0,))
    order = made.core.adopting.orders()[made.of].partitions[0]
    assert (order.number, order.offset) == (2, 5)
    made.look(unreadable=(0,))  # told again of the same order: it is not repeated without end
    assert made.core.adopting.orders()[made.of].partitions[0] == order
    assert made.state.adopted.partitions(TOPIC)[0].lost == 0


@pytest.mark.rule("TOP-12", "TOP-13")
def test_a_look_without_partitions_says_nothing() -> None:
    made = Adopter()
    made.make(topics=[{"topic": TOPIC, "start": "end"}])
    made.look(start="end")
    made.topic.topic_id = "id-2"
    made.decide(TopicSeen(made.of, "id-2"))  # made anew, and its partitions are not there yet
    made.topic.add(0, b"new")
    made.look(start="end")
    made.copy_all()
    assert made.texts() == [b"new"]


@pytest.mark.rule("TOP-14")
def test_a_topic_that_waited_when_it_was_removed_comes_back_reading() -> None:
    made = adopter(5, max_msgs=2, discard="new")
    made.decide(made.fetch(0))
    assert made.core.adopting.orders()[made.of].partitions[0].most == 0
    made.ask(
        f"STREAM.UPDATE.{STREAM}", {"name": STREAM, "max_msgs": 9, "discard": "new", "subjects": ["own"]}
    )
    assert made.core.adopting.orders() == {}
    made.now += 20 * SECOND
    made.decide()
    config = {"name": STREAM, "max_msgs": 9, "discard": "new", "topics": [{"topic": TOPIC}]}
    assert "error" not in made.ask(f"STREAM.UPDATE.{STREAM}", config)
    made.look()
    order = made.core.adopting.orders()[made.of].partitions[0]
    assert (order.offset, order.most > 0) == (2, True)
    made.copy_all()
    assert len(made.texts()) == 5


@pytest.mark.rule("TOP-12")
def test_a_late_look_at_a_topic_that_is_gone_copies_nothing_twice() -> None:
    """A broker that lags behind tells the former id for a while."""
    made = adopter(3)
    made.copy_all()
    late = made.seen()
    made.topic.topic_id = "id-2"
    made.topic.partitions = [[]]
    made.topic.add(0, b"new")
    made.look()
    made.copy_all()
    made.decide(late)
    made.look()
    made.copy_all()
    assert made.texts() == [b"0/0", b"0/1", b"0/2", b"new"]
