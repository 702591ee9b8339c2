"""What a broker with an authorizer refuses ends at once, with an error that names the right and the command that gives it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oncelog import TopicPartition, errors, sync
from oncelog.client.admin.acls import Acl, AclFilter
from oncelog.client.rights import Rights, as_second_reason, named_user, next_step, without_right
from oncelog.core.producer.manager_config import WRITE_PREPARED
from oncelog.testing import TestBroker

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "transaction.two.phase.commit.enable": True,
}
READING: dict[str, Any] = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 1000}
OPEN, SECRET = TopicPartition("open", 0), TopicPartition("secret", 0)
WAYS: list[dict[str, Any]] = [{}, {"group_id": "classic"}, {"group_id": "new", "group_protocol": "consumer"}]
READ_SECRET = (
    r"; User:bob needs the right to read topic 'secret'.*: "
    r"oncelog acls add --topic secret --principal User:bob --operation read$"
)
AT_ONCE_S = 10.0  # the timeouts are 60 s


def test_the_way_out() -> None:
    bob = Rights("write", "bob smith")
    assert bob.way_out(0, "t") == ""
    assert bob.way_out(3, "t") == ""
    assert bob.way_out(999, "t") == ""
    assert bob.way_out(30, "my group").endswith(
        "User:bob smith needs the right to read group 'my group': oncelog acls add --group 'my group' --principal "
        "'User:bob smith' --operation read"
    )
    assert Rights("read").way_out(53, "id") == (
        "; its user needs the right to write transactional id 'id': oncelog acls add --transactional-id id "
        "--principal User:NAME --operation write"
    )
    assert bob.way_out(53, "id").startswith(
        "; User:bob smith needs the right to write transactional id 'id' (this producer is over: make a new one then): oncelog "
    )
    two_phase = bob.way_out(53, "id", WRITE_PREPARED)
    assert two_phase.startswith(
        "; the broker must have transaction.two.phase.commit.enable=true; and where it has an authorizer, User:bob smith needs "
    ), "without one no right helps, nor can it be given"
    assert named_user(f"refused{two_phase}") == "bob smith"
    assert without_right(f"refused{two_phase}") == "refused"
    assert as_second_reason(f"refused{two_phase}").startswith(
        "refused; or, where it is so already, User:bob smith needs "
    )
    assert "the broker must have" not in bob.way_out(53, "id", WRITE_PREPARED, prefix="spark")
    assert bob.way_out(31, "").endswith("add --cluster --principal 'User:bob smith' --operation idempotent-write")


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    """bob may do all with topic `open` and two groups, describe `seen`, and nothing else."""
    users = {"admin": "a", "bob": "b", "eve": "e"}
    with TestBroker(AUTHORIZER, security="SASL_PLAINTEXT", mechanism="PLAIN", users=users) as found:
        with sync.Admin(**found.client_options("admin")) as admin:
            admin.create_topics({"open": 1, "secret": 1, "seen": 1, "his": 1})
            admin.create_acls(
                [rule("topic", "open", "all"), rule("topic", "seen", "describe"), rule("topic", "his", "write")]
            )
            admin.create_acls([rule("group", "classic", "all"), rule("group", "new", "all")])
            admin.create_acls([rule("transactional-id", "written", "write")])
            admin.create_acls([rule("transactional-id", "his", "all"), Acl("topic", "seen", "User:eve", "describe")])
        with sync.Producer(**found.client_options("admin")) as producer:
            for topic in ("open", "secret", "seen"):
                producer.send_and_wait(topic, topic.encode())
        yield found


def rule(kind: str, name: str, operation: str) -> Acl:
    return Acl(kind, name, "User:bob", operation)


def consumer(broker: TestBroker, *topics: str, **config: Any) -> sync.Consumer:
    return sync.Consumer(*topics, **broker.client_options("bob"), **READING, **config)


def polled(
    reader: sync.Consumer, *, until: Callable[[list[bytes | None], int], bool]
) -> tuple[list[bytes | None], int]:
    """What comes, and how often a refusal was raised."""
    values: list[bytes | None] = []
    refusal_count, deadline = 0, time.monotonic() + 30
    while not until(values, refusal_count):
        assert time.monotonic() < deadline, (values, refusal_count)
        try:
            values += [record.value for record in reader.poll(200)]
        except errors.TopicAuthorization:
            refusal_count += 1
    return values, refusal_count


@pytest.mark.parametrize("way", WAYS)
def test_a_topic_that_may_not_be_seen_is_raised_by_poll(broker: TestBroker, way: dict[str, Any]) -> None:
    with consumer(broker, "secret", **way) as reader:
        for _ in range(2):  # it goes on: who polls again hears it again
            with pytest.raises(errors.TopicAuthorization, match=READ_SECRET):
                reader.poll(20_000)


@pytest.mark.parametrize("way", WAYS[:2])
def test_other_topics_are_read_between(broker: TestBroker, way: dict[str, Any]) -> None:
    """As Java's consumer does it. (With KIP-848 the coordinator refuses the whole subscription.)"""
    with consumer(broker, "open", "secret", **way, enable_auto_commit=False) as reader:
        values, count = polled(reader, until=lambda values, count: bool(values) and count >= 2)
    assert values == [b"open"]
    assert count == 2


def test_iteration_raises_it_too(broker: TestBroker) -> None:
    with consumer(broker, "secret") as reader, pytest.raises(errors.TopicAuthorization, match=READ_SECRET):
        next(reader)


@pytest.mark.parametrize("seeks", [False, True])
def test_assigned_partitions(broker: TestBroker, seeks: bool) -> None:
    with consumer(broker) as reader:
        reader.assign([SECRET, OPEN])
        if seeks:  # nothing is looked up
            reader.seek(SECRET, 0)
        with pytest.raises(errors.TopicAuthorization, match=READ_SECRET):
            reader.poll(20_000)
        values, _ = polled(reader, until=lambda values, _: bool(values))
        assert values == [b"open"]
        reader.assign([OPEN])
        assert reader.poll(100) == [], "what is not wanted any more is not raised"


def test_what_may_be_seen_and_not_read(broker: TestBroker) -> None:
    """Metadata and ListOffsets answer, Fetch does not."""
    refused = pytest.raises(errors.TopicAuthorization, match=r"Fetch of seen-0.*read topic 'seen'")
    with consumer(broker, "seen") as reader, refused:
        reader.poll(20_000)


def test_a_pattern_does_not_match_what_may_not_be_seen(broker: TestBroker) -> None:
    """As in Apache Kafka: such topics are not in the list of all."""
    with consumer(broker) as reader:
        reader.subscribe(pattern="open|secret")
        values, count = polled(reader, until=lambda values, _: bool(values))
        assert (values, count) == ([b"open"], 0)


@pytest.mark.parametrize("way", WAYS)
def test_rights_that_come_and_go(broker: TestBroker, way: dict[str, Any]) -> None:
    where = {"resource_type": "topic", "resource_name": "secret"}
    with sync.Admin(**broker.client_options("admin")) as admin, consumer(broker, "secret", **way) as reader:
        with pytest.raises(errors.TopicAuthorization):
            reader.poll(20_000)
        try:
            admin.create_acls([rule("topic", "secret", "read")])
            values, _ = polled(reader, until=lambda values, _: bool(values))
            assert values == [b"secret"]
        finally:
            admin.delete_acls([AclFilter(**where)])
        polled(reader, until=lambda _, count: count > 0)
        if "group_id" not in way:
            assert reader.position(SECRET) == 1, "the place is kept"


def ends(work: Callable[[], object], error: type[errors.KafkaError], match: str) -> None:
    began = time.monotonic()
    with pytest.raises(error, match=match):
        work()
    assert time.monotonic() - began < AT_ONCE_S


def test_positions_are_refused_at_once(broker: TestBroker) -> None:
    with consumer(broker) as reader:
        for ask in (reader.beginning_offsets, reader.end_offsets, lambda tps: reader.offsets_for_times({SECRET: 1})):
            ends(lambda ask=ask: ask([SECRET]), errors.TopicAuthorization, READ_SECRET)  # type: ignore[misc]
        ends(lambda: reader.partitions_for_topic("secret"), errors.TopicAuthorization, READ_SECRET)
        reader.assign([SECRET])
        ends(lambda: reader.position(SECRET), errors.TopicAuthorization, READ_SECRET)


NOT_HIS = (
    r"; User:bob needs the right to read group 'theirs': "
    r"oncelog acls add --group theirs --principal User:bob --operation read$"
)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_are_refused_at_once(broker: TestBroker, protocol: str) -> None:
    theirs = {"group_id": "theirs", "group_protocol": protocol}
    with consumer(broker, "open", **theirs) as reader:
        ends(lambda: reader.poll(60_000), errors.GroupAuthorization, NOT_HIS)
    with consumer(broker, **theirs, enable_auto_commit=False) as reader:
        reader.assign([OPEN])
        ends(lambda: reader.commit({OPEN: 0}), errors.GroupAuthorization, NOT_HIS)
        ends(lambda: reader.committed([OPEN]), errors.GroupAuthorization, NOT_HIS)
    with consumer(broker, group_id="classic", enable_auto_commit=False) as reader:
        ends(lambda: reader.commit({SECRET: 0}), errors.TopicAuthorization, READ_SECRET)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_whose_right_goes_and_comes_reads_on(broker: TestBroker, protocol: str) -> None:
    """It heard of the first refusal for ever."""
    group = f"lent-{protocol}"
    lent = {"group_id": group, "group_protocol": protocol, "heartbeat_interval_ms": 200}
    with sync.Admin(**broker.client_options("admin")) as admin, consumer(broker, "open", **lent) as reader:
        for values in ([b"open"], []):
            with pytest.raises(errors.GroupAuthorization, match=f"read group '{group}'"):
                while True:
                    reader.poll(20_000)
            admin.create_acls([rule("group", group, "read")])
            found: list[bytes | None] = []
            is_refused, deadline = True, time.monotonic() + 30
            while is_refused or found != values:
                assert time.monotonic() < deadline, found
                try:
                    found += [record.value for record in reader.poll(2000)]
                    is_refused = not reader.assignment()
                except errors.GroupAuthorization:
                    is_refused = True
            admin.delete_acls([AclFilter(resource_type="group", resource_name=group)])


def producer(broker: TestBroker, **config: Any) -> sync.Producer:
    return sync.Producer(**broker.client_options("bob"), **config)


def test_producers_are_refused_at_once(broker: TestBroker) -> None:
    write = r"the right to write topic '%s'.*: oncelog acls add --topic %s --principal User:bob --operation write$"
    with producer(broker) as sender:
        ends(lambda: sender.send_and_wait("secret", b"v"), errors.TopicAuthorization, write % ("secret", "secret"))
        ends(lambda: sender.send_and_wait("seen", b"v"), errors.TopicAuthorization, write % ("seen", "seen"))
        assert sender.send_and_wait("his", b"v").offset == 0
    nothing = (
        r"idempotent-write the cluster: oncelog acls add --cluster --principal User:eve --operation idempotent-write$"
    )
    with sync.Producer(**broker.client_options("eve")) as sender:
        ends(lambda: sender.send_and_wait("seen", b"v"), errors.ClusterAuthorization, nothing)
    not_his = (
        r"the right to write transactional id 'theirs' \(.*: make a new one then\): "
        r"oncelog acls add --transactional-id theirs .*--operation write$"
    )
    ends(producer(broker, transactional_id="theirs").start, errors.TransactionalIdAuthorization, not_his)


@pytest.mark.parametrize(("level", "way"), [(1, "safe_downgrade"), (2, "upgrade")])
def test_transactions_are_refused_at_once(broker: TestBroker, level: int, way: str) -> None:
    write = r"the right to write topic 'seen'.*--operation write$"
    with sync.Admin(**broker.client_options("admin")) as admin:
        admin.update_features({"transaction.version": level}, upgrade_type=way)
    with producer(broker, transactional_id="his") as sender:

        def sends() -> None:
            with sender.transaction():
                sender.send_and_wait("seen", b"v")

        ends(sends, errors.TopicAuthorization, write)

        def commits(group: str, where: TopicPartition) -> None:
            with sender.transaction():
                sender.send_offsets_to_transaction({where: 0}, group)

        ends(lambda: commits("theirs", OPEN), errors.GroupAuthorization, NOT_HIS)
        ends(lambda: commits("classic", SECRET), errors.TopicAuthorization, READ_SECRET)


def test_an_id_whose_transactions_are_prepared_needs_two_rights(broker: TestBroker) -> None:
    with sync.Admin(**broker.client_options("admin")) as admin:
        admin.update_features({"transaction.version": 3}, upgrade_type="upgrade")
    prepares: dict[str, Any] = {"transactional_id": "written", "transaction_two_phase_commit_enable": True}
    both = r"right to write and two-phase-commit transactional id 'written' .* --operation write --operation two-phase-commit$"
    ends(producer(broker, **prepares).start, errors.TransactionalIdAuthorization, both)


def test_processing_ends_at_once(broker: TestBroker) -> None:
    def work() -> object:
        return sync.process(
            "secret", group_id="classic", into="his", transform=lambda _: None, **broker.client_options("bob")
        )

    ends(work, errors.TransactionalIdAuthorization, "the right to write transactional id 'classic-")
    options = broker.client_options("bob") | {"transactional_id": "his"}
    ends(
        lambda: sync.process("secret", group_id="classic", transform=lambda _: None, **options),
        errors.TopicAuthorization,
        READ_SECRET,
    )


def test_the_next_step_where_the_code_says_it(broker: TestBroker) -> None:
    assert next_step(errors.ErrorCode.NOT_COORDINATOR) == next_step(-7) == ""
    where = broker.client_options("admin")
    with sync.Admin(**where) as admin:
        with pytest.raises(errors.GroupIdNotFound, match=r"'nowhere'; `oncelog groups list` shows"):
            admin.delete_groups(["nowhere"])
        with pytest.raises(errors.GroupIdNotFound, match=r"'nowhere'; `oncelog groups list` shows"):
            admin.delete_share_group_offsets("nowhere", ["t"])
        with pytest.raises(errors.UnknownTopicOrPartition, match="no-topic-0: create it, or look at its name"):
            admin.alter_share_group_offsets("sharers", {TopicPartition("no-topic", 0): 1})
    with pytest.raises(errors.InvalidTxnTimeout, match=r"no more than transaction\.max\.timeout\.ms of the broker"):
        sync.Producer(transactional_id="long", transaction_timeout_ms=1_000_000_000, **where).start()
