"""Clients of commands: a broker that answers no more holds up a command no longer than it was told to wait."""

from __future__ import annotations

import pytest

from oncelog.client.admin.admin import Admin
from oncelog.client.cluster.each_leader import Unreadable
from oncelog.client.consumer.consumer import Consumer
from oncelog.errors import RequestTimedOut
from oncelog.types import TopicPartition
from tests.cli.world import Cli


@pytest.mark.parametrize(("timeout", "goodbye_ms"), [("2s", 1000), ("30s", 5000)])
def test_a_consumer_that_leaves_waits_for_a_part_of_the_timeout(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, timeout: str, goodbye_ms: int
) -> None:
    """It waited for request.timeout.ms, 30 s, whatever --timeout said."""
    waited, stop = [], Consumer.stop

    async def noted(self: Consumer, timeout_ms: int | None = None) -> None:
        waited.append(timeout_ms)
        await stop(self, timeout_ms)

    monkeypatch.setattr(Consumer, "stop", noted)
    topic = f"goodbye-{goodbye_ms}"
    cli.create(topic)
    cli("produce", topic, stdin="x\n")
    assert cli("consume", topic, "--group", topic, "-e", "--timeout", timeout).stdout == "x\n"
    assert waited == [goodbye_ms]


def test_when_no_leader_answers_nothing_else_is_asked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each further question would take the whole timeout again."""

    async def unanswered(
        _: Admin, partitions: dict[TopicPartition, object], *, unreadable: Unreadable
    ) -> dict[object, object]:
        unreadable.update({where: RequestTimedOut("list offsets: not done") for where in partitions})
        monkeypatch.setattr(Admin, "describe_topics", None)  # not to be called any more
        return {}

    monkeypatch.setattr(Admin, "list_offsets", unanswered)
    cli.create("unanswered")
    result = cli("consume", "unanswered", "-e", "-o", "json", status=1)
    assert result.stderr.startswith("error: REQUEST_TIMED_OUT: list offsets: not done")
