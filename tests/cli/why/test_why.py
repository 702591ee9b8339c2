"""`oncelog why`: each kind of freezing, planted on a broker, is named with the command to type next; health is no cause."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog import Admin, OffsetAndMetadata, Producer, TopicPartition, sync
from oncelog.core.two_phase.sink_names import POSITION_METADATA
from tests.cli.world import Cli, oncelog

NOW = ("--older-than", "0s")
KEYS = {
    *("kind", "verdict", "partitions", "blocked", "pending", "transactional_id", "coordinator", "state", "producer_id"),
    *("producer_epoch", "start_offset", "age_ms", "remaining_ms", "what", "why", "advice", "command"),
}


def why(cli: Cli, *arguments: object, status: int = 0) -> dict[str, Any]:
    found = cli.json("why", *arguments, status=status)
    assert isinstance(found, dict)
    assert all(set(cause) == KEYS for cause in found["causes"])
    return found


def kinds(found: dict[str, Any]) -> list[str]:
    return [cause["kind"] for cause in found["causes"]]


def position(cli: Cli, group: str, where: TopicPartition, offset: int) -> None:
    async def store() -> None:
        async with Admin(bootstrap_servers=cli.bootstrap_servers) as admin:
            await admin.alter_consumer_group_offsets(group, {where: offset})

    asyncio.run(store())


@contextlib.contextmanager
def member(cli: Cli, group: str, *topics: str, **more: Any) -> Iterator[sync.Consumer]:
    """A member that has its partitions and reads nothing more."""
    more = {"client_id": f"{group}-reader", "enable_auto_commit": False, **more}
    with sync.Consumer(*topics, bootstrap_servers=cli.bootstrap_servers, group_id=group, **more) as consumer:
        while not consumer.assignment():
            consumer.poll(20)
        yield consumer


def in_one_transaction(cli: Cli, transactional_id: str, topic: str, partitions: int, group: str | None = None) -> None:
    """Open on so many partitions; with `group`, its position of the topic's first is pending in it."""

    async def work() -> None:
        producer = Producer(bootstrap_servers=cli.bootstrap_servers, transactional_id=transactional_id)
        await producer.start()
        producer.begin_transaction()
        for number in range(partitions):
            await producer.send(topic, b"x", partition=number)
        if group is not None:
            await producer.send_offsets_to_transaction({TopicPartition(topic, 0): OffsetAndMetadata(0)}, group)
        await producer.detach_transaction()
        await producer.stop()

    asyncio.run(work())


def test_an_open_transaction_of_many_partitions_is_six_lines(cli: Cli) -> None:
    cli.create("why-open", 30)
    in_one_transaction(cli, "why-open-app", "why-open", 30)
    found = why(cli, "why-open", *NOW, "--exit-code", status=3)
    assert (found["name"], found["type"], found["verdict"]) == ("why-open", "topic", "held back")
    (cause,) = found["causes"]
    assert (cause["kind"], cause["verdict"], cause["blocked"]) == ("open transaction", "in progress", 30)
    assert cause["partitions"][::29] == ["why-open-0", "why-open-29"]
    command = f"oncelog -b {cli.bootstrap_servers} transactions force-terminate --transactional-id why-open-app"
    assert cause["command"] == command
    text = cli("why", "why-open", *NOW).stdout.splitlines()
    assert len(text) == 6
    assert text[0] == "open transaction why-open-app holds back 30 offsets of 30 partitions"
    assert text[-1].strip() == command
    same = why(cli, "why-open-app", *NOW)
    assert (same["type"], same["transaction_state"], len(same["causes"][0]["partitions"])) == (
        "transaction",
        "Ongoing",
        30,
    )
    for one in ("why-open:7", "why-open-7"):
        part = why(cli, one, *NOW)
        assert (part["type"], part["partition_count"], kinds(part)) == ("partition", 1, ["open transaction"])


def test_a_young_transaction_does_not_ring(cli: Cli) -> None:
    cli.create("why-young")
    cli.leave_open("why-young", "why-young-app")
    result = cli("why", "why-young", "--exit-code")
    assert result.stdout == ""
    assert "topic why-young: nothing holds it back" in result.stderr
    assert "1 open transaction (--older-than)" in result.stderr


def test_a_prepared_transaction_is_not_ended_by_the_printed_command(cli: Cli) -> None:
    cli.create("why-prepared")
    state = cli.leave_open("why-prepared", "why-payments", two_phase=True)
    (cause,) = why(cli, "why-prepared", *NOW)["causes"]
    assert (cause["kind"], cause["transactional_id"], cause["remaining_ms"]) == (
        "prepared transaction",
        "why-payments",
        None,
    )
    assert cause["command"].endswith(f"transactions complete --transactional-id why-payments --state {state}")
    assert oncelog(*shlex.split(cause["command"])[1:], "-y").exit_code == 2, "the outcome is to be added"
    assert kinds(why(cli, "why-prepared", *NOW)) == ["prepared transaction"]


def test_a_hanging_transaction_is_named_whatever_one_asks_about(cli: Cli) -> None:
    cli.create("why-hanging")
    producer_id = cli.leave_hanging("why-hanging", "why-ghost")
    for name in ("why-hanging", "why-ghost"):
        (cause,) = why(cli, name)["causes"]
        assert (cause["kind"], cause["producer_id"], cause["partitions"]) == (
            "hanging transaction",
            producer_id,
            ["why-hanging-0"],
        )
    assert oncelog(*shlex.split(cause["command"])[1:], "-y").exit_code == 0
    assert why(cli, "why-hanging")["verdict"] == "free"
    after = cli("why", "why-ghost", *NOW)
    assert "transactional id why-ghost: nothing holds it back" in after.stderr
    assert "why-ghost: Empty at producer epoch" in after.stderr


def test_a_pending_offset_commit_and_no_members(cli: Cli) -> None:
    cli.create("why-pending")
    in_one_transaction(cli, "why-mover", "why-pending", 0, "why-pending-group")
    found = why(cli, "why-pending-group", *NOW, "--exit-code", status=3)
    assert kinds(found)[-1] == "no members"
    pending = next(cause for cause in found["causes"] if cause["transactional_id"] == "why-mover")
    assert (pending["kind"], pending["pending"], pending["partitions"]) == (
        "pending offset commit",
        ["why-pending-0"],
        [],
    )
    assert "why-pending-group wait for" in pending["what"]
    cli("transactions", "force-terminate", "--transactional-id", "why-mover", "-y")


def test_a_group_that_a_spark_query_stores_its_position_in_has_no_members_by_nature(cli: Cli) -> None:
    """It was said to have no readers, with advice to start them, while the query ran."""
    where = TopicPartition(cli.create("why-spark"), 0)
    cli("produce", "why-spark", stdin="a\nb\nc\n")

    async def store(metadata: str) -> None:
        async with Admin(bootstrap_servers=cli.bootstrap_servers) as admin:
            stored = {where: OffsetAndMetadata(1, metadata=metadata)}
            await admin.alter_consumer_group_offsets("why-spark-group", stored)

    asyncio.run(store(""))
    (cause,) = why(cli, "why-spark-group")["causes"]
    assert cause["kind"] == "no members"
    assert "nobody ever joined it" in cause["why"]
    asyncio.run(store(POSITION_METADATA))
    found = why(cli, "why-spark-group", "--exit-code")
    assert (kinds(found), found["lag"]) == ([], 2)
    assert "a Spark query stores in why-spark-group how far it has come" in found["notes"][0]
    assert len(found["notes"]) == 1
    assert "a Spark query stores its position in why-spark-group" in cli("groups", "describe", "why-spark-group").stderr


def test_positions_out_of_range_are_moved_by_the_printed_command(cli: Cli) -> None:
    where = TopicPartition(cli.create("why-range", 2), 0)
    cli("produce", "why-range", "-p", 0, stdin="a\nb\nc\n")
    position(cli, "why-range-group", where, 1)
    position(cli, "why-range-group", TopicPartition("why-range", 1), 99)

    async def delete() -> None:
        async with Admin(bootstrap_servers=cli.bootstrap_servers) as admin:
            await admin.delete_records({where: 2})

    asyncio.run(delete())
    assert "was not tried" not in cli("why", "why-range-group").stderr, "what is out of range hides no damage elsewhere"
    found = why(cli, "why-range-group")
    assert kinds(found) == ["position out of range", "position out of range", "no members"]
    assert "offset 1 of why-range-0, before the first record, 2" in found["causes"][0]["what"]
    assert "offset 99 of why-range-1, beyond the end, 0" in found["causes"][1]["what"]
    for cause in found["causes"][:2]:
        words = shlex.split(cause["command"])[1:]
        assert oncelog(*words).exit_code == 0, "it looks"
        assert oncelog(*(word for word in words if word != "--dry-run"), "-y").exit_code == 0
    assert kinds(why(cli, "why-range-group")) == ["no members"]


def test_a_group_that_reads_is_free(cli: Cli) -> None:
    cli.create("why-free")
    cli("produce", "why-free", stdin="a\nb\n")
    position(cli, "why-free-group", TopicPartition("why-free", 0), 0)
    with member(cli, "why-free-group", "why-free"):
        result = cli("why", "why-free-group", *NOW, "--exit-code")
        assert result.stdout == ""
        assert "group why-free-group: nothing holds it back" in result.stderr
        assert "2 offsets can be read now" in result.stderr
        found = why(cli, "why-free-group", *NOW)
    assert (found["verdict"], found["member_count"], found["lag"], found["group_state"]) == ("free", 1, 2, "Stable")


def test_a_partition_that_no_member_reads_is_said(cli: Cli) -> None:
    """A group that gave up a topic is healthy, one whose member does not see it is not: nobody but the reader knows."""
    for topic in ("why-left", "why-kept"):
        cli("produce", cli.create(topic), stdin="a\n")
        position(cli, "why-left-group", TopicPartition(topic, 0), 0)
    with member(cli, "why-left-group", "why-kept"):
        result = cli("why", "why-left-group", "--exit-code")
    assert "no member reads why-left-0, where its positions are behind" in result.stderr


def test_a_quota_that_a_lag_waits_for(cli: Cli) -> None:
    cli.create("why-quota")
    cli("produce", "why-quota", stdin="".join(f"{'x' * 100}{n}\n" for n in range(50)))
    position(cli, "why-quota-group", TopicPartition("why-quota", 0), 0)
    with member(cli, "why-quota-group", "why-quota"):
        cli("quotas", "set", "--client-id", "why-quota-group-reader", "consumer_byte_rate=1000000", "-y")
        assert kinds(why(cli, "why-quota-group", *NOW)) == []
        cli("quotas", "set", "--client-id", "why-quota-group-reader", "consumer_byte_rate=1", "-y")
        (cause,) = why(cli, "why-quota-group", *NOW)["causes"]
    assert cause["kind"] == "quota"
    assert oncelog(*shlex.split(cause["command"])[1:], "-o", "json").stdout.count("why-quota-group-reader") == 1
    cli("quotas", "delete", "--client-id", "why-quota-group-reader", "consumer_byte_rate", "-y")


def test_a_quota_of_every_user_and_of_one(cli: Cli) -> None:
    """Both win over a client id's, and both were not looked at: "nothing holds it back"."""
    cli.create("why-user-quota")
    cli("produce", "why-user-quota", stdin="".join(f"{'x' * 100}{n}\n" for n in range(50)))
    position(cli, "why-user-quota-group", TopicPartition("why-user-quota", 0), 0)
    with member(cli, "why-user-quota-group", "why-user-quota"):
        cli("quotas", "set", "--user", "ann", "consumer_byte_rate=1", "-y")
        result = cli("why", "why-user-quota-group", *NOW)
        assert "if its members are user 'ann', that one's quota of 1 bytes a second holds them up" in result.stderr
        assert "quotas list --user ann" in result.stderr
        try:
            cli("quotas", "set", "--user", "default", "consumer_byte_rate=1", "-y")
            (cause,) = why(cli, "why-user-quota-group", *NOW)["causes"]
        finally:
            cli("quotas", "delete", "--user", "default", "consumer_byte_rate", "-y")
            cli("quotas", "delete", "--user", "ann", "consumer_byte_rate", "-y")
    assert cause["kind"] == "quota"
    assert cause["command"].endswith("quotas list --user default")


def test_a_topics_readers_may_be_under_a_quota(cli: Cli) -> None:
    """Who reads it is not known: no cause, and not said where all of it may be read at once."""
    cli.create("why-topic-quota")
    cli("produce", "why-topic-quota", stdin=f"{'x' * 5000}\n")
    cli("quotas", "set", "--client-id", "why-slow", "consumer_byte_rate=100", "-y")
    try:
        for name in ("why-topic-quota", "why-topic-quota:0"):
            result = cli("why", name, *NOW)
            assert (
                "readers with client-id 'why-slow' may be made to wait: their quota is 100 bytes a second"
                in result.stderr
            )
            assert f"oncelog -b {cli.bootstrap_servers} quotas list --client-id why-slow" in result.stderr
            assert "nothing holds it back" in result.stderr
        cli("quotas", "set", "--client-id", "why-slow", "consumer_byte_rate=1000", "-y")
        assert "quota" not in cli("why", "why-topic-quota", *NOW).stderr.replace("why-topic-quota", "")
        cli("quotas", "set", "--client-id", "default", "consumer_byte_rate=1", "-y")
        cli("quotas", "set", "--client-id", "why-slow", "consumer_byte_rate=100", "-y")
        result = cli("why", "why-topic-quota", *NOW)
        assert "readers with client-id of any name (and 1 more, with higher ones) may be made to wait" in result.stderr
        assert result.stderr.splitlines()[0].endswith("quotas list")
    finally:
        for client_id in ("why-slow", "default"):
            cli("quotas", "delete", "--client-id", client_id, "consumer_byte_rate", "-y")


def test_a_rebalance_that_does_not_end(cli: Cli) -> None:
    """The first member has its partitions and does not poll again, so the second waits for it."""
    cli.create("why-rebalance", 2)
    with member(cli, "why-rebalance-group", "why-rebalance"):
        ended = threading.Event()

        def join() -> None:
            servers = cli.bootstrap_servers
            with sync.Consumer("why-rebalance", bootstrap_servers=servers, group_id="why-rebalance-group") as second:
                while not ended.is_set():
                    second.poll(20)

        thread = threading.Thread(target=join)
        thread.start()
        try:
            while cli.json("groups", "list", "--state", "PreparingRebalance") == []:
                pass
            found = why(cli, "why-rebalance-group", "--older-than", "300ms", "--exit-code", status=3)
        finally:
            ended.set()
            thread.join()
    assert kinds(found)[0] == "rebalancing"
    assert "--members --watch" in found["causes"][0]["command"]


def test_what_a_name_means(cli: Cli) -> None:
    cli.create("why-both")
    position(cli, "why-both", TopicPartition("why-both", 0), 0)
    result = oncelog("-b", cli.bootstrap_servers, "why", "why-both")
    assert result.exit_code == 2
    assert "is a topic and a group" in result.stderr
    assert "--as group or --as topic" in result.stderr
    assert why(cli, "why-both", "--as", "group")["type"] == "group"
    assert why(cli, "why-both", "--as", "topic")["type"] == "topic"
    missing = cli("why", "why-both", "--as", "transaction", status=1)
    assert "there is no transactional id 'why-both'" in missing.stderr


def test_an_unknown_name_is_no_all_clear(cli: Cli) -> None:
    cli.create("why-misspelt")
    result = cli("why", "why-mispelt", status=1)
    assert (
        "there is no group, topic or transactional id 'why-mispelt'; the nearest is topic 'why-misspelt'"
        in result.stderr
    )
    assert "holds it back" not in result.stderr
    assert cli.json("why", "why-mispelt", status=1)["error"] == "Failed"
    assert "has partitions 0 to 0, not 7" in cli("why", "why-misspelt:7", status=1).stderr
    for name in ("", "x" * 40_000, "\udcff"):
        assert cli("why", name, status=2).stdout == ""
    assert "transactions list" in cli("why", "why-nobody", "--as", "transaction", status=1).stderr


def test_every_format(cli: Cli) -> None:
    cli.create("why-formats")
    cli.leave_open("why-formats", "why-formats-app")
    assert len(cli("why", "why-formats", *NOW, "-o", "jsonl").stdout.splitlines()) == 1
    header, line = cli("why", "why-formats", *NOW, "-o", "tsv").stdout.splitlines()
    assert dict(zip(header.split("\t"), line.split("\t"), strict=True))["TRANSACTIONAL-ID"] == "why-formats-app"


def test_watching(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.create("why-watched")
    cli.leave_open("why-watched", "why-watched-app")
    waits: list[float] = []

    async def waited(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) >= 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("oncelog.cli.command.pause", waited)
    result = cli("why", "why-watched", *NOW, "--watch", "--exit-code", status=130)
    assert result.stdout.count("open transaction why-watched-app") == 2
    assert result.stderr.count("exit status 3") == 2
