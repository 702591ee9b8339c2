"""Records, a transactional id's life, decisions, the cluster's pages, as the browser gets them: no socket."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra oncelog[console]")

with warnings.catch_warnings():  # it would rather have a client that nothing else here needs
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from oncelog import Producer
from oncelog.cli.command import Settings
from oncelog.console.record_filter import HIDDEN, Mask
from oncelog.console.routes import application
from oncelog.console.security import Gate
from oncelog.core.two_phase import exactly_once_sink as sink
from tests.cli.world import Cli

ORIGIN = "http://testserver"
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def client(night: Cli) -> Iterator[TestClient]:
    night.create("looked-at")
    lines = "\n".join(f'k{n}\t{{"n": {n}, "card": "4242"}}' for n in range(120))
    night("produce", "looked-at", "-K", "\\t", stdin=lines)
    with TestClient(console(night), base_url=ORIGIN) as client:
        yield client


def console(night: Cli, mask: Mask | None = None) -> Any:
    return application(
        Settings(bootstrap_servers=night.bootstrap_servers), Gate(frozenset({"testserver"}), is_open=True), mask=mask
    )


def get(client: TestClient, path: str, status: int = 200) -> Any:
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == status, answer.text
    return answer.json()


def test_each_record_says_who_sees_it(client: TestClient) -> None:
    seen = get(client, "records?topic=orders&from=earliest")
    assert [row["seen"] for row in seen["rows"]] == ["committed", "committed"]
    assert (seen["rows"][0]["transactional_id"], seen["is_end"]) == ("order-api", True)
    found = get(client, "records?topic=orders&from=earliest&hidden=1&control=1")["rows"]
    words = ["committed", "control", "aborted", "control", "committed", "control", *["held back"] * 3]
    assert [row["seen"] for row in found] == words
    assert [row["type"] for row in found if row["seen"] == "control"] == ["COMMIT", "ABORT", "COMMIT"]
    assert found[-1]["transactional_id"] == HOSTILE


def test_what_is_intact_before_damage_is_shown(damaged: Cli) -> None:
    """The page took five seconds, and showed an error and no record."""
    with TestClient(console(damaged), base_url=ORIGIN) as client:
        found = get(client, "records?topic=flip&partition=0")
    assert [row["offset"] for row in found["rows"]] == [0, 1]
    assert (found["is_end"], found["damaged"].startswith("damaged at offset 2: ")) == (True, True)


def test_pages_searches_and_cursors(client: TestClient) -> None:
    newest = get(client, "records?topic=looked-at&limit=10")
    assert [row["offset"] for row in newest["rows"]] == list(range(110, 120))
    assert [row["key"] for row in get(client, "records?topic=looked-at&limit=2&before=110")["rows"]] == ["k108", "k109"]
    first = get(client, "records?topic=looked-at&from=earliest&limit=50")
    assert (first["next_offset"], first["is_end"]) == (50, False)
    rest = get(client, "records?topic=looked-at&from=50&limit=200")
    assert (len(rest["rows"]), rest["is_end"], rest["next_offset"]) == (70, True, 120)
    for query in ("where=n = 77", "key=k77", 'contains={"n": 77,'):
        (row,) = get(client, f"records?topic=looked-at&from=earliest&{query}")["rows"]
        assert row["offset"] == 77, query
    assert get(client, "records?topic=looked-at&from=@2100-01-01")["rows"] == []


@pytest.mark.parametrize(
    "query",
    [
        *("", "topic=orders&partition=x", "topic=orders&limit=0", "topic=orders&from=soon", "topic=orders&where=x"),
        *("topic=orders&from=@never", "topic=orders&before=-1", "topic=orders&limit=100000"),
    ],
)
def test_questions_that_make_no_sense_are_refused(client: TestClient, query: str) -> None:
    assert get(client, f"records?{query}", 400)["message"]


def test_a_partition_that_is_not_there_is_told_at_once(client: TestClient) -> None:
    """It was a timeout of five seconds."""
    refused = get(client, "records?topic=orders&partition=99", 502)
    assert (refused["error"], refused["message"]) == (
        "UNKNOWN_TOPIC_OR_PARTITION",
        "topic 'orders' has no partition 99",
    )


def test_commands_are_quoted_and_go_to_the_same_brokers(client: TestClient, night: Cli) -> None:
    """A link names a group: what is copied from the page must not run what the link's maker wrote."""
    start = f"oncelog -b {night.bootstrap_servers}"
    found = get(client, "configs?kind=group&name=$(reboot)")
    assert found["command"] == f"{start} configs set --group '$(reboot)' KEY=VALUE --dry-run"
    assert get(client, "configs")["command"] == f"{start} configs set --broker default KEY=VALUE --dry-run"
    assert get(client, "records?topic=orders")["command"] == [f"{start} consume", "orders:0"]


def test_markers_of_the_coordinator_are_decoded(client: TestClient) -> None:
    for number in range(50):
        found = get(client, f"records?topic=__transaction_state&partition={number}&from=earliest")["rows"]
        if found:
            assert found[0]["type"] == "TransactionRecord"
            assert found[0]["content"]["transactional_id"]
            return
    raise AssertionError("no state of a transaction was found")


def test_masked_fields_never_leave(client: TestClient, night: Cli) -> None:
    assert client  # the topic is there
    with TestClient(console(night, Mask(frozenset({"card"}))), base_url=ORIGIN) as masked:
        answer = masked.get("/api/v1/records?topic=looked-at&from=earliest&limit=1")
        assert HIDDEN in answer.json()["rows"][0]["value"]
        (row,) = answer.json()["rows"]
        assert not [name for name in row if "4242" in str(row[name]) and not name.endswith("_ms")], "a time may hold it"
        assert get(masked, "records?topic=looked-at&from=earliest&contains=4242")["rows"] == []


def test_a_life_and_what_stands_now(client: TestClient) -> None:
    listed = get(client, "history?contains=order")
    assert [row["transactional_id"] for row in listed["rows"]] == ["order-api"]
    found = get(client, "history?id=order-api")
    events = [row["event"] for row in found["rows"]]
    assert ("PrepareCommit" in events, "PrepareAbort" in events) == (True, True)
    epochs = [row["producer_epoch"] for row in found["rows"]]
    assert epochs == sorted(epochs)
    assert found["causes"] == []
    stuck = get(client, "history?id=ledger-7")
    assert (stuck["now"]["state"], stuck["verdict"]["verdict"]) == ("Ongoing", "two-phase")
    assert "complete --transactional-id ledger-7" in stuck["verdict"]["repair"]
    assert get(client, "history?id=nobody")["rows"] == []


def test_decisions_say_what_is_done_and_what_is_gone(client: TestClient, night: Cli) -> None:
    assert get(client, "decisions?topic=no-such-topic")["has_topic"] is False
    night.create("decided")
    winner = sink.Attempt("oncelog-spark.gone", "99:0", 5)
    records = [
        (sink.record_key("q1", "0", sink.DECISION, "run"), decision("0", winner)),
        (sink.record_key("q1", "0", sink.DONE, "run"), b"{}"),
        (sink.record_key("q1", "1", sink.DECISION, "run"), decision("1", winner)),
        (sink.record_key("q1", "2", sink.VETO, "run2"), b"{}"),
        (b"<script>", b"not ours"),
        (sink.record_key("q1", "3", sink.DECISION, "run"), b"[]"),
    ]

    async def write() -> None:
        async with Producer(bootstrap_servers=night.bootstrap_servers) as producer:
            for key, value in records:
                await producer.send("decided", value, key=key, partition=0)

    asyncio.run(write())
    found = get(client, "decisions?topic=decided")
    assert [(row["batch"], row["state"]) for row in found["rows"]] == [("1", "gone"), ("0", "done")]
    assert found["vetoes"] == [["q1", "2", "run2"]]
    assert len(found["notes"]) == 2
    assert found["command"].endswith("recover --prefix oncelog-spark --dry-run")


def decision(batch: str, winner: sink.Attempt) -> bytes:
    return sink.decision_value(sink.BatchDecision("q1", batch, "run", (winner,)))


def test_the_clusters_pages_are_what_the_command_line_says(client: TestClient, night: Cli) -> None:
    found = get(client, "topics?contains=order")
    assert [(row["topic"], row["partitions"], row["internal"]) for row in found["rows"]] == [("orders", 1, False)]
    (row,) = get(client, "topics?topic=orders")["rows"]
    (told,) = night.json("topics", "describe", "orders")
    assert {key: row[key] for key in row if key != "state"} == {key: told[key] for key in row if key != "state"}
    night("configs", "set", "--topic", "orders", "retention.ms=123456789", "--yes")
    configs = get(client, "configs?kind=topic&name=orders")["rows"]
    assert [(row["key"], row["value"]) for row in configs] == [("retention.ms", "123456789")]
    assert get(client, "configs?kind=topic", 400)
    assert get(client, "configs?kind=broker&name=x", 400)
    assert get(client, "brokers")["rows"][0]["host"] == "127.0.0.1"
    assert get(client, "quotas")["rows"] == night.json("quotas", "list") == []
    assert get(client, "topics?first=x", 400)


def test_without_an_authorizer_access_rules_say_why(client: TestClient) -> None:
    assert get(client, "access", 502)["error"] == "SECURITY_DISABLED"
