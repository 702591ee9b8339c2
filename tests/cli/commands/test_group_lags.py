"""`oncelog groups describe`: the three lags, wherever a group's position is beside the last stable offset."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import Admin, OffsetAndMetadata, Producer, TopicPartition
from tests.cli.world import Cli

TOPIC = "lags"


@pytest.fixture(scope="module")
def topic(cli: Cli) -> str:
    """Offsets 0 to 5 plain, 6 to 8 in an open transaction of partition 0; nothing is open on partition 1, up to 2."""
    cli.create(TOPIC, 2)
    cli("produce", TOPIC, "-p", 0, stdin="".join(f"{n}\n" for n in range(6)))
    cli("produce", TOPIC, "-p", 1, stdin="1\n2\n")
    cli.leave_open(TOPIC, "lags-holder", two_phase=True)
    return TOPIC


def commit(cli: Cli, group: str, offset: int, partition: int = 0) -> None:
    async def work() -> None:
        async with Admin(bootstrap_servers=cli.bootstrap_servers) as admin:
            await admin.alter_consumer_group_offsets(group, {TopicPartition(TOPIC, partition): offset})

    asyncio.run(work())


@pytest.mark.parametrize(
    ("position", "lag", "blocked", "raw_lag"),
    [(0, 6, 3, 9), (5, 1, 3, 4), (6, 0, 3, 3), (7, 0, 2, 2), (9, 0, 0, 0), (12, 0, 0, 0)],
    ids=["first", "one to read", "at the last stable offset", "behind it", "at the high watermark", "beyond the end"],
)
def test_lags_beside_an_open_transaction(
    cli: Cli, topic: str, position: int, lag: int, blocked: int, raw_lag: int
) -> None:
    group = f"lags-{position}"
    commit(cli, group, position)
    result = cli("groups", "describe", group)
    (row,) = cli.json("groups", "describe", group)
    assert (row["topic"], row["partition"], row["position"]) == (topic, 0, position)
    assert (row["last_stable_offset"], row["high_watermark"]) == (6, 9)
    assert (row["lag"], row["blocked"], row["raw_lag"]) == (lag, blocked, raw_lag)
    assert raw_lag == lag + blocked
    assert ("transactions explain --topic lags --partition 0" in result.stderr) == (blocked > 0)


def test_each_partition_has_its_own(cli: Cli, topic: str) -> None:
    commit(cli, "lags-two", 4)
    commit(cli, "lags-two", 1, partition=1)
    rows = cli.json("groups", "describe", "lags-two")
    found = [(row["partition"], row["lag"], row["blocked"], row["raw_lag"]) for row in rows]
    assert found == [(0, 2, 3, 5), (1, 1, 0, 1)]
    commit(cli, "lags-free", 1, partition=1)
    assert "hint" not in cli("groups", "describe", "lags-free").stderr
    explained = cli.json("transactions", "explain", "--group", "lags-two")
    assert [(row["partition"], row["blocked"], row["verdict"]) for row in explained] == [(0, 3, "two-phase")]
    assert cli.json("transactions", "explain", "--group", "lags-free") == []


def test_a_position_that_a_transaction_may_still_move_is_shown_as_it_is(cli: Cli, topic: str) -> None:
    """Offsets that are pending in a transaction count when it is committed, and hold up nobody who only looks."""
    group, where = "lags-pending", TopicPartition(TOPIC, 1)
    commit(cli, group, 0, partition=1)

    async def leave_pending(transactional_id: str, offset: int) -> str:
        producer = Producer(bootstrap_servers=cli.bootstrap_servers, transactional_id=transactional_id)
        await producer.start()
        producer.begin_transaction()
        await producer.send_offsets_to_transaction({where: OffsetAndMetadata(offset)}, group)
        state = str(await producer.detach_transaction())
        await producer.stop()
        return state

    for offset, said, then in ((2, "--abort", 0), (1, "--commit", 1)):
        before = cli.json("groups", "describe", group)[0]["position"]
        state = asyncio.run(leave_pending("lags-mover", offset))
        (row,) = cli.json("groups", "describe", group, "--timeout", "5s")
        assert (row["position"], row["lag"]) == (before, 2 - before), "what is pending is no position yet"
        cli("transactions", "complete", "--transactional-id", "lags-mover", "--state", state, said, "-y")
        (row,) = cli.json("groups", "describe", group)
        assert (row["position"], row["lag"], row["raw_lag"]) == (then, 2 - then, 2 - then)
