"""Drivers of writing pipelines, killed (``kill -9``) at any moment, once or twice before they may end: every row is there once.

How many rounds there are, and their seed: see :mod:`tests.chaos.rounds`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import railgun
from tests.chaos.rounds import PIPELINE_ROUNDS, SEED, any_moment_behind, dice_of
from tests.pipelines.conftest import Kill
from tests.pipelines.contents import (
    archived,
    commands_of,
    content,
    expected_totals,
    filled,
    live,
    publish,
    sold,
    totals_in,
    whole_batches,
)
from tests.support.naming import unique
from topologies.pipelines.archive import archive
from topologies.pipelines.backfill import backfill
from topologies.pipelines.parts.place import Place
from topologies.pipelines.totals import Target, totals

pytestmark = [pytest.mark.chaos(alone=False), pytest.mark.kafka, pytest.mark.slow]
MESSAGES = 2_000
AT_ONCE = 100  # messages of a batch
ROUNDS = pytest.mark.parametrize("number", range(PIPELINE_ROUNDS))


@ROUNDS
def test_an_archive_holds_every_message_once_whenever_its_driver_is_killed(
    spark: SparkSession, at: Place, rg: railgun.Railgun, killed: Kill, tmp_path: Path, number: int
) -> None:
    dice = dice_of(number, "archive")
    name, target = filled(rg, MESSAGES), tmp_path / "archive"
    doing = f"seed {SEED}, archive, round {number}"
    for _ in range(dice.randint(1, 2)):
        enough = whole_batches(target) + dice.randrange(MESSAGES // AT_ONCE // 2)
        begun = target / "_checkpoint" / "offsets"
        kill_at = any_moment_behind(
            lambda begun=begun, enough=enough: begun.exists() and whole_batches(target) >= enough, dice
        )
        killed("archive", name, str(target), "--max-per-batch", str(AT_ONCE), once=kill_at)
        if next(target.glob("batch=*/date=*/*.parquet"), None) is not None:
            left = archived(spark, target)
            assert len({row[0] for row in left}) == len(left), f"{doing}: a message is there twice"
            assert set(left) <= set(live(rg, name)), f"{doing}: a row is not a message of the stream"
        publish(rg, name, AT_ONCE)
    done = archive(spark, at, name, str(target), max_per_batch=MESSAGES)
    held = live(rg, name)
    assert archived(spark, target) == held, doing
    assert done.messages == len(held), doing


@ROUNDS
def test_a_backfill_stores_every_message_once_whenever_its_driver_is_killed(
    spark: SparkSession, at: Place, rg: railgun.Railgun, killed: Kill, tmp_path: Path, number: int
) -> None:
    dice = dice_of(number, "backfill")
    origin, copy, folder = filled(rg, MESSAGES), unique("COPY"), str(tmp_path / "archive")
    # A window that helps nobody who comes back.
    target = rg.create_stream(copy, subjects=[f"{copy}.*"], duplicate_window=0.1)
    archive(spark, at, origin, folder)
    replace = (f"{origin}.", f"{copy}.")
    doing = f"seed {SEED}, backfill, round {number}"
    with commands_of(at, rg, copy) as sent:
        for _ in range(dice.randint(1, 2)):
            enough = sent() + dice.randrange(MESSAGES // 4)
            kill_at = any_moment_behind(lambda enough=enough: sent() > enough, dice)
            killed("backfill", folder, copy, "--replace", "=".join(replace), once=kill_at)
    held = target.info().state.messages
    done = backfill(spark, at, folder, copy, replace=replace)
    assert content(rg, copy) == content(rg, origin), doing
    assert (done.messages, done.held, done.stored) == (MESSAGES, held, MESSAGES - held), doing


@ROUNDS
def test_totals_are_written_once_whenever_their_driver_is_killed(
    spark: SparkSession, at: Place, rg: railgun.Railgun, killed: Kill, tmp_path: Path, number: int
) -> None:
    dice = dice_of(number, "totals")
    name, into, state = sold(rg, MESSAGES), unique("TOTALS"), str(tmp_path / "state")
    # A window that helps nobody who comes back.
    written = rg.create_stream(into, subjects=[f"{into}.>"], duplicate_window=0.1)
    options = ["--into", into, "--subject", into, "--sum", "price", "--checkpoint", state]
    for _ in range(dice.randint(1, 2)):
        enough = written.info().state.messages + dice.randrange(MESSAGES // AT_ONCE)
        kill_at = any_moment_behind(lambda enough=enough: written.info().state.messages > enough, dice)
        killed("totals", name, *options, "--max-per-batch", str(AT_ONCE), once=kill_at)
    totals(spark, at, name, Target(into, into), state, field="price", max_per_batch=MESSAGES)
    doing = f"seed {SEED}, totals, round {number}"
    newest = [message.payload for message in written.read(last_per_subject=True)]
    assert totals_in(newest) == expected_totals(name, MESSAGES), doing
    ids = Counter(message.header("Nats-Msg-Id") for message in written.read())
    assert set(ids.values()) == {1}, doing
    counts = [message.json()["count"] for message in written.read(f"{into}.{name}.0")]
    assert counts == sorted(set(counts)), f"{doing}: a total never goes back"
