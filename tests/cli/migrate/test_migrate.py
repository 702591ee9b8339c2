"""`oncelog migrate` between two brokers: records, groups, mistakes, ends in between."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from oncelog import TopicPartition, sync
from oncelog.cli.main import root
from oncelog.client.admin.admin import Acl, AclFilter
from oncelog.testing import TestBroker
from tests.cli.world import cli_as

switching = pytest.importorskip("oncelog.cli.migrate.switching", reason="needs pyarrow")
RULES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switching, "STILL_MS", 50)


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[str, str]]:
    with TestBroker() as source, TestBroker() as destination:
        yield source.bootstrap_servers, destination.bootstrap_servers


def migrate(source: str, destination: str, *words: str) -> tuple[int, Any, str]:
    """Exit status, the document, what was said."""
    done = CliRunner().invoke(
        root, ["-b", source, "migrate", "--to", destination, "-y", "-o", "json", "--timeout", "10s", *words]
    )
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    text = done.stdout.strip()
    return done.exit_code, json.loads(text) if text else None, done.stderr


def write(bootstrap: str, topic: str, count: int, *, first: int = 0, commit: bool = True) -> None:
    with sync.Producer(bootstrap_servers=bootstrap, transactional_id=f"writer-{topic}") as producer:
        producer.begin_transaction()
        for at in range(first, first + count):
            headers = [("h", b"1"), ("h", None)] if at % 3 else None
            key = None if at % 7 == 0 else b"k%d" % at
            producer.send(topic, b"v%d" % at, key, headers, partition=at % 2, timestamp_ms=1000 + at)
        producer.flush()
        producer.commit_transaction() if commit else producer.abort_transaction()


def read(bootstrap: str, topic: str) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {0: [], 1: []}
    with sync.Consumer(
        topic, bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        empty = 0
        while empty < 3:  # a poll that only passes aborted records is empty, too
            records = consumer.poll(timeout_ms=200)
            empty = 0 if records else empty + 1
            for each in records:
                found[each.partition].append((each.key, each.value, tuple(each.headers or ()), each.timestamp_ms))
    return found


def topic_of(bootstrap: str, name: str, partitions: int = 2, **configs: str) -> None:
    with sync.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({name: {"partitions": partitions, "configs": configs}})


def test_records_groups_and_configs_arrive_once(brokers: tuple[str, str]) -> None:
    source, destination = brokers
    topic_of(source, "all", **{"retention.ms": "-1", "compression.type": "zstd"})
    write(source, "all", 40)
    write(source, "all", 10, first=1000, commit=False)
    write(source, "all", 20, first=40)
    with sync.Admin(bootstrap_servers=source) as admin:
        admin.alter_consumer_group_offsets("readers", {TopicPartition("all", 0): 7, TopicPartition("all", 1): 31})
    status, plan, _ = migrate(source, destination, "all", "--dry-run")
    assert (status, plan["topics"][0]["partitions"], plan["groups"]["readers"]) == (0, 2, {"all-0": 7, "all-1": 31})
    status, found, said = migrate(source, destination, "all")
    assert (status, found["verdict"], found["switched"], found["writable"]) == (
        0,
        "exact",
        False,
        ["source", "destination"],
    )
    assert "nothing was switched" in said
    write(source, "all", 5, first=60)
    status, found, said = migrate(source, destination, "all", "--switch")
    assert (status, found["verdict"], found["switched"]) == (0, "exact", True), said
    assert [each["destination_records"] for each in found["partitions"]] == [33, 32]
    assert all(each["is_same_record"] and each["state"] == "moved" for each in found["groups"])
    assert read(source, "all") == read(destination, "all")
    with sync.Admin(bootstrap_servers=destination) as admin:
        there = admin.list_consumer_group_offsets("readers")
        configs = admin.describe_configs([("topic", "all")])["topic", "all"]
    with sync.Consumer(bootstrap_servers=destination, isolation_level="read_committed") as consumer:
        partition = TopicPartition("all", 1)
        consumer.assign([partition])
        consumer.seek(partition, there[partition].offset)
        assert consumer.poll(timeout_ms=5000)[0].value == b"v%d" % (2 * 24 + 1), (
            "31: twenty, a marker, five void, a marker"
        )
    assert configs["compression.type"].value == "zstd"
    assert configs["message.timestamp.after.max.ms"].is_default
    write(destination, "all", 3, first=500)  # the new home is written: the verdict is about the copy
    write(source, "all", 1, first=900)
    status, found, said = migrate(source, destination, "all", "--switch")
    assert (status, found["verdict"]) == (1, "different")
    assert "was written at the source after the switch" in said


def test_what_cannot_be_done_is_refused(brokers: tuple[str, str]) -> None:
    source, destination = brokers
    topic_of(source, "two")
    topic_of(destination, "two", 3)
    topic_of(source, "full")
    topic_of(destination, "full")
    write(destination, "full", 3)
    for words, to, says in [
        (["two"], destination, "3 partitions at the destination and 2 at the source"),
        (["full"], destination, "that no migration of this source copied"),
        (["nowhere"], destination, "at the source"),
        (["__consumer_offsets"], destination, "cannot be moved"),
        (["two", "--group", "nobody"], source, "same cluster"),
        (["two", "--timeout", "5s"], "127.0.0.1:1", "destination:"),
    ]:
        status, _, said = migrate(source, to, *words)
        assert status in (1, 2)
        assert says in said.replace("\n", " "), said


def test_a_run_that_was_killed_in_its_first_transaction_goes_on(brokers: tuple[str, str]) -> None:
    source, destination = brokers
    topic_of(source, "first")
    topic_of(destination, "first")
    write(source, "first", 6)
    write(destination, "first", 6, commit=False)
    status, found, said = migrate(source, destination, "first")
    assert (status, found["verdict"]) == (0, "exact"), said
    assert read(source, "first") == read(destination, "first")


def test_a_decision_that_is_missing_refuses_the_switch(brokers: tuple[str, str]) -> None:
    source, destination = brokers
    topic_of(source, "doubt")
    options = {
        "bootstrap_servers": source,
        "transactional_id": "undecided",
        "transaction_two_phase_commit_enable": True,
    }
    with sync.Producer(**options) as producer:
        producer.begin_transaction()
        producer.send("doubt", b"perhaps", partition=0)
        state = producer.prepare_transaction()
        status, _, said = migrate(source, destination, "doubt", "--switch")
        assert status == 1
        assert "a decision is missing for 1 transaction: undecided" in said
        producer.complete_transaction(state)
    status, found, _ = migrate(source, destination, "doubt", "--switch")
    assert (status, found["verdict"], found["partitions"][0]["source_records"]) == (0, "exact", 1)
    topic_of(source, "later")
    status, _, said = migrate(source, destination, "doubt", "later")
    assert status == 1
    assert "topic doubt was switched before, others were not" in said


def test_an_open_transaction_keeps_the_source_as_it_was() -> None:
    with TestBroker(config=RULES) as source, TestBroker(config=RULES) as destination:
        topic_of(source.bootstrap_servers, "t")
        with sync.Admin(bootstrap_servers=source.bootstrap_servers) as admin:
            admin.create_acls([Acl("topic", "t", "User:*", "all")])
            admin.alter_client_quotas({"client-id": "c"}, {"producer_byte_rate": 1e9})
        _, plan, said = migrate(source.bootstrap_servers, destination.bootstrap_servers, "t", "--dry-run")
        assert "  quota: client-id c: producer_byte_rate=1000000000\n" in said
        assert plan["quotas"] == [{"entity": {"client-id": "c"}, "values": {"producer_byte_rate": 1e9}}]
        assert [(each["resource_type"], each["resource_name"]) for each in plan["acls"]] == [("topic", "t")]
        with sync.Producer(bootstrap_servers=source.bootstrap_servers, transactional_id="slow") as producer:
            producer.begin_transaction()
            producer.send("t", b"1", partition=0).result()
            status, _, said = migrate(
                source.bootstrap_servers, destination.bootstrap_servers, "t", "--switch", "--switch-timeout", "1s"
            )
            assert status == 1
            assert "open transactions: slow" in said
            assert "the source is writable again" in said
            producer.send("t", b"2", partition=0)
            producer.commit_transaction()
        status, found, said = migrate(source.bootstrap_servers, destination.bootstrap_servers, "t", "--switch")
        assert (status, found["verdict"], found["writable"]) == (0, "exact", ["destination"]), said
        with sync.Admin(bootstrap_servers=destination.bootstrap_servers) as admin:
            assert admin.describe_acls() == [Acl("topic", "t", "User:*", "all")], "without the rule that freezes"
            assert admin.describe_client_quotas()[0].values == {"producer_byte_rate": 1e9}
        with (
            pytest.raises(Exception, match=r"(?i)not authorized|authorization"),
            sync.Producer(bootstrap_servers=source.bootstrap_servers) as producer,
        ):
            producer.send_and_wait("t", b"3", partition=0)
        with sync.Admin(bootstrap_servers=source.bootstrap_servers) as admin:
            admin.delete_acls([AclFilter("topic", "t", operation="write", permission="deny")])
        _, found, said = migrate(source.bootstrap_servers, destination.bootstrap_servers, "t")
        assert found["writable"] == ["source", "destination"], "somebody took the rule away: it is said"


def test_a_run_goes_on_at_once_where_one_was_killed_in_a_transaction(brokers: tuple[str, str]) -> None:
    source, destination = brokers
    topic_of(source, "killed")
    write(source, "killed", 6)
    assert migrate(source, destination, "killed")[0] == 0
    write(source, "killed", 6, first=6)
    with sync.Admin(bootstrap_servers=source) as admin:
        group = f"__oncelog-migration-{admin.describe_cluster().cluster_id}"
    left = sync.Producer(bootstrap_servers=destination, transactional_id=group)
    left.start()
    left.begin_transaction()
    left.send("killed", b"v6", partition=0).result()
    left.send_offsets_to_transaction({TopicPartition("killed", 0): 5}, group)
    try:
        status, found, said = migrate(source, destination, "killed", "--timeout", "3s")
        assert (status, found["verdict"]) == (0, "exact"), said
    finally:
        left.stop()


def test_partitions_that_are_added_after_the_switch_change_nothing(brokers: tuple[str, str]) -> None:
    source, destination = brokers
    for name in ("grown-there", "grown-here"):
        topic_of(source, name, 1)
        assert migrate(source, destination, name, "--switch")[0] == 0
    with sync.Admin(bootstrap_servers=destination) as admin:
        admin.create_partitions({"grown-there": 2})
    status, found, said = migrate(source, destination, "grown-there", "--switch")
    assert (status, found["verdict"]) == (0, "exact"), said
    with sync.Admin(bootstrap_servers=source) as admin:
        admin.create_partitions({"grown-here": 2})
    status, found, said = migrate(source, destination, "grown-here", "--switch")
    assert (status, found["verdict"], found["switched"]) == (0, "exact", True), said
    write(source, "grown-here", 4)
    status, found, said = migrate(source, destination, "grown-here")
    assert (status, found["verdict"], found["switched"]) == (1, "different", True), said
    assert "grown-here-1 was added and written at the source after the switch" in said
    assert read(destination, "grown-here") == {0: [], 1: []}


def test_a_topic_that_changed_while_it_was_copied_is_not_switched(
    brokers: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, destination = brokers
    topic_of(source, "growing", 1)
    still = switching.Switch._until_still

    async def grown(self: Any) -> None:
        await still(self)
        await self.sides.source.create_partitions({"growing": 2})

    monkeypatch.setattr(switching.Switch, "_until_still", grown)
    status, _, said = migrate(source, destination, "growing", "--switch")
    assert status == 1
    assert "topic growing got partitions at the source while it was copied: nothing was switched" in said
    monkeypatch.undo()
    status, found, said = migrate(source, destination, "growing", "--switch")
    assert (status, [each["partition"] for each in found.get("partitions", [])]) == (0, [0, 1]), (found, said)


def test_what_is_not_begun_is_not_to_go_on(brokers: tuple[str, str]) -> None:
    source, destination = brokers
    _, _, said = migrate(source, destination, "nowhere")
    assert "there is no topic 'nowhere' at the source" in said
    for words in (["*"], [""]):
        assert "what is copied stays copied" not in migrate(source, destination, *words)[2]


@pytest.mark.parametrize("before", ["see_ends", "commit"])
def test_a_run_that_another_took_over_from_says_so(
    brokers: tuple[str, str], monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """Which error says it depends on the request that hears it first."""
    from oncelog.cli.migrate.sides import Sides

    source, destination = brokers
    topic = f"taken-{before}"
    topic_of(source, topic)
    write(source, topic, 6)
    step = getattr(Sides, before)

    async def taken_over(self: Sides, *rest: Any) -> None:
        async with self.producer("none"):
            pass
        await step(self, *rest)

    monkeypatch.setattr(Sides, before, taken_over)
    status, _, said = migrate(source, destination, topic)
    assert status == 1
    assert "another `oncelog migrate` from this source took over" in said, said
    assert "run the same command again" not in said, "both would take over from each other for ever"


def test_who_may_read_the_topics_only_gets_a_copy(tmp_path: pathlib.Path) -> None:
    """A developer's: rules and quotas are not theirs to see."""
    config = {**RULES, "allow.everyone.if.no.acl.found": "false", "super.users": "User:root"}
    users = {"root": "r", "tina": "t"}
    with (
        TestBroker(config, security="SASL_PLAINTEXT", mechanism="PLAIN", users=users) as source,
        TestBroker() as destination,
    ):
        cli_as(source, "tina", tmp_path)
        words = ["t", "--command-config", str(tmp_path / "tina.properties")]
        with sync.Admin(**source.client_options("root")) as admin:
            admin.create_topics({"t": {"partitions": 1}})
            admin.create_acls([Acl("topic", "t", "User:tina", "read")])
        with sync.Producer(**source.client_options("root")) as producer:
            producer.send_and_wait("t", b"1", partition=0)
        status, _, said = migrate(source.bootstrap_servers, destination.bootstrap_servers, *words)
        assert status == 1
        assert "docs/migrate.md, Rights" in said, said
        with sync.Admin(**source.client_options("root")) as admin:
            admin.create_acls([Acl("topic", "t", "User:tina", "describe-configs")])
        status, found, said = migrate(source.bootstrap_servers, destination.bootstrap_servers, *words)
        assert (status, found["verdict"]) == (0, "exact"), said
        assert found["notes"] == [
            "this user may not read the source's access rules: none are taken, and --switch cannot freeze it",
            "this user may not read the quotas of both sides: none are taken",
        ]


def test_a_copy_without_some_and_with_hidden_parts(brokers: tuple[str, str], tmp_path: pathlib.Path) -> None:
    source, destination = brokers
    topic_of(source, "people")
    write(source, "people", 20)
    secret = tmp_path / "secret"
    secret.write_text("not known to developers")
    words = ["--filter-key", "1", "--mask", "value", "--mask", "header:h", "--mask-secret", str(secret)]
    status, plan, _ = migrate(source, destination, "people", *words, "--dry-run")
    assert plan["notes"][-1] == "digests replace value, headers h"
    write(source, "people", 10, first=20)
    status, found, said = migrate(source, destination, "people", *words)
    assert (status, found["verdict"]) == (0, "exact"), said
    assert "--switch" not in said
    whole, copy = read(source, "people"), read(destination, "people")
    for partition in (0, 1):
        wanted = [each for each in whole[partition] if each[0] is not None and b"1" in each[0]]
        assert [(each[0], each[3]) for each in copy[partition]] == [(each[0], each[3]) for each in wanted]
        assert all(len(each[1]) == 32 for each in copy[partition])
    write(source, "people", 2, first=100)
    assert migrate(source, destination, "people", *words)[0] == 0
    assert sum(map(len, read(destination, "people").values())) == 12
    status, _, said = migrate(source, destination, "people", *words[2:])
    assert status == 1
    assert "was copied with another --filter-key, --mask or secret" in said
    for wrong, says in [
        ([*words, "--switch"], "is not their home"),
        (["--filter-key", "("], "--filter-key '('"),
        (words[2:4], "go together"),
        (["--mask", "all", *words[-2:]], "is none of key, value"),
        ([*words[2:4], "--mask-secret", str(tmp_path / "none")], "--mask-secret"),
    ]:
        status, _, said = migrate(source, destination, "people", *wrong)
        assert status == 2
        assert says in said.replace("\n", " "), said
