"""The admin client's rules, quotas, credentials, disks and quorum, against a broker in this process."""

from __future__ import annotations

import pytest
from evidence.world.broker import run

from oncelog import Admin, errors
from oncelog.broker.broker import Broker
from oncelog.client.admin.admin import Acl, AclFilter
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition

CONFIG = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}


def with_admin(tmp_path, work, config=CONFIG):
    async def around():
        async with Broker(str(tmp_path), config) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await work(admin)

    run(around())


def test_access_rules(tmp_path):
    read = Acl("topic", "orders", "User:a", "read")
    deny = Acl("transactional-id", "t", "User:*", "write", permission="deny", pattern_type="prefixed", host="10.0.0.1")

    async def work(admin):
        await admin.create_acls([read, deny, read])
        assert await admin.describe_acls() == [read, deny]
        assert await admin.describe_acls(AclFilter("transactional-id", "t1", pattern_type="match")) == [deny]
        with pytest.raises(errors.InvalidRequest, match="principal"):
            await admin.create_acls([Acl("topic", "x", "nobody", "read")])
        with pytest.raises(errors.InvalidArgument, match="fly"):
            await admin.create_acls([Acl("topic", "x", "User:a", "fly")])
        assert await admin.delete_acls([AclFilter(principal="User:a")]) == [read]
        assert await admin.describe_acls() == [deny]

    with_admin(tmp_path, work)


def test_without_an_authorizer(tmp_path):
    async def work(admin):
        with pytest.raises(errors.SecurityDisabled):
            await admin.describe_acls()

    with_admin(tmp_path, work, {})


def test_quotas_and_credentials(tmp_path):
    async def work(admin):
        await admin.alter_client_quotas(
            {"user": "a", "client-id": None}, {"producer_byte_rate": 5, "consumer_byte_rate": 7}
        )
        await admin.alter_client_quotas({"user": "a", "client-id": None}, {"consumer_byte_rate": None})
        await admin.alter_client_quotas({"user": None}, {"consumer_byte_rate": 9}, validate_only=True)
        (found,) = await admin.describe_client_quotas()
        assert (found.entity, found.values) == ({"user": "a", "client-id": None}, {"producer_byte_rate": 5.0})
        assert await admin.describe_client_quotas(any_of=["user"], strict=True) == []
        with pytest.raises(errors.InvalidRequest):
            await admin.alter_client_quotas({"user": "a"}, {"no_such": 1})
        await admin.alter_user_scram_credential("a", "SCRAM-SHA-512", "secret", iterations=4096, salt=b"salt")
        assert [
            (each.user, each.mechanism, each.iterations) for each in await admin.describe_user_scram_credentials()
        ] == [("a", "SCRAM-SHA-512", 4096)]
        await admin.alter_user_scram_credential("a", "SCRAM-SHA-512", None)
        with pytest.raises(errors.ResourceNotFound):
            await admin.describe_user_scram_credentials(["a"])
        with pytest.raises(errors.InvalidArgument):
            await admin.alter_user_scram_credential("a", "PLAIN", "secret")

    with_admin(tmp_path, work)


def test_disks_quorum_leaders_and_resources(tmp_path):
    async def work(admin):
        await admin.create_topics({"t": 2})
        (directory,) = await admin.describe_log_dirs()
        assert (directory.path, directory.node_id) == (str(tmp_path), 1)
        assert directory.total_bytes >= directory.usable_bytes > 0
        assert set(directory.partition_sizes) == {TopicPartition("t", 0), TopicPartition("t", 1)}
        quorum = await admin.describe_metadata_quorum()
        assert (quorum.leader_id, [each.node_id for each in quorum.voters], quorum.observers) == (1, [1], ())
        assert quorum.high_watermark == quorum.voters[0].log_end_offset > 0
        elected = await admin.elect_leaders([TopicPartition("t", 0), TopicPartition("nosuch", 0)])
        assert elected == {
            TopicPartition("t", 0): ErrorCode.ELECTION_NOT_NEEDED,
            TopicPartition("nosuch", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert await admin.elect_leaders() == {}
        await admin.alter_configs({("group", "g"): {"consumer.session.timeout.ms": "50000"}})
        await admin.alter_configs({("client-metrics", "own"): {"interval.ms": "60000"}})
        assert await admin.list_config_resources(["group", "topic"]) == [("group", "g"), ("topic", "t")]
        assert await admin.list_config_resources(["client-metrics"]) == [("client-metrics", "own")]
        found = await admin.describe_configs([("group", "g"), ("broker-logger", "1"), ("client-metrics", "m")])
        assert found["group", "g"]["consumer.session.timeout.ms"].source == "group"
        assert "root" in found["broker-logger", "1"]
        assert found["client-metrics", "m"]["interval.ms"].value == "300000"

    with_admin(tmp_path, work)
