"""What an admin without rights is refused: every call says which right is missing, and the command that gives it."""

from __future__ import annotations

import inspect
import pathlib
from collections.abc import Callable, Iterator

import pytest

from oncelog import Admin, TopicPartition, errors, sync
from oncelog.client.admin.acls import Acl, AclFilter
from oncelog.client.admin.configs import ConfigResource
from oncelog.client.rights import NEEDED
from oncelog.core.access.checks import CHECKS
from oncelog.testing import TestBroker
from oncelog.types import PreparedTxnState
from oncelog.wire.api import ApiKey
from tests.cli.world import cli_as

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
AT = TopicPartition("orders", 0)
TOPIC = ConfigResource("topic", "orders")
BROKER = ConfigResource("broker", "1")
GROUP = ConfigResource("group", "billing")
Call = Callable[[sync.Admin], object]
CALLS: dict[str, list[tuple[str, str, Call]]] = {  # of each method: what the rule is about, the right, the call
    "create_topics": [("--topic new", "create", lambda a: a.create_topics(["new"]))],
    "delete_topics": [("--topic orders", "delete", lambda a: a.delete_topics(["orders"]))],
    "create_partitions": [("--topic orders", "alter", lambda a: a.create_partitions({"orders": 3}))],
    "describe_topics": [("--topic orders", "describe", lambda a: a.describe_topics(["orders"]))],
    "list_offsets": [("--topic orders", "describe", lambda a: a.list_offsets({AT: "latest"}))],
    "delete_records": [("--topic orders", "delete", lambda a: a.delete_records({AT: 0}))],
    "describe_groups": [("--group billing", "describe", lambda a: a.describe_groups(["billing"]))],
    "delete_groups": [("--group billing", "delete", lambda a: a.delete_groups(["billing"]))],
    "list_consumer_group_offsets": [
        ("--group billing", "describe", lambda a: a.list_consumer_group_offsets("billing")),
    ],
    "list_pending_offset_commits": [
        ("--group billing", "describe", lambda a: a.list_pending_offset_commits("billing", [AT])),
    ],
    "alter_consumer_group_offsets": [
        ("--group billing", "read", lambda a: a.alter_consumer_group_offsets("billing", {AT: 0})),
    ],
    "delete_consumer_group_offsets": [
        ("--group billing", "delete", lambda a: a.delete_consumer_group_offsets("billing", [AT])),
    ],
    "list_share_group_offsets": [("--group billing", "describe", lambda a: a.list_share_group_offsets("billing"))],
    "alter_share_group_offsets": [
        ("--group billing", "read", lambda a: a.alter_share_group_offsets("billing", {AT: 0})),
    ],
    "delete_share_group_offsets": [
        ("--group billing", "delete", lambda a: a.delete_share_group_offsets("billing", ["orders"])),
    ],
    "describe_transactions": [("--transactional-id shop", "describe", lambda a: a.describe_transactions(["shop"]))],
    "describe_producers": [("--topic orders", "read", lambda a: a.describe_producers([AT], broker_id=1))],
    "end_transaction": [
        ("--transactional-id shop", "write", lambda a: a.end_transaction("shop", PreparedTxnState.of(1, 1), True)),
    ],
    "fence_producers": [("--transactional-id shop", "write", lambda a: a.fence_producers(["shop"]))],
    "force_terminate_transaction": [
        ("--transactional-id shop", "describe", lambda a: a.force_terminate_transaction("shop")),
    ],
    "find_hanging_transactions": [
        ("--topic orders", "describe", lambda a: a.find_hanging_transactions(topic="orders")),
    ],
    "abort_transaction": [("--topic orders", "read", lambda a: a.abort_transaction(AT, start_offset=0))],
    "describe_configs": [
        ("--topic orders", "describe-configs", lambda a: a.describe_configs([TOPIC])),
        ("--group billing", "describe-configs", lambda a: a.describe_configs([GROUP])),
        ("--cluster", "describe-configs", lambda a: a.describe_configs([BROKER])),
    ],
    "describe_broker_configs": [("--cluster", "describe-configs", lambda a: a.describe_broker_configs())],
    "alter_configs": [
        ("--topic orders", "alter-configs", lambda a: a.alter_configs({TOPIC: {"retention.ms": "1"}})),
        ("--group billing", "alter-configs", lambda a: a.alter_configs({GROUP: {"share.auto.offset.reset": None}})),
        ("--cluster", "alter-configs", lambda a: a.alter_configs({BROKER: {"log.retention.ms": "1"}})),
    ],
    "update_features": [("--cluster", "alter", lambda a: a.update_features({"transaction.version": 2}))],
    "describe_acls": [("--cluster", "describe", lambda a: a.describe_acls())],
    "create_acls": [("--cluster", "alter", lambda a: a.create_acls([Acl("topic", "t", "User:bob", "read")]))],
    "delete_acls": [("--cluster", "alter", lambda a: a.delete_acls([AclFilter()]))],
    "describe_client_quotas": [("--cluster", "describe-configs", lambda a: a.describe_client_quotas())],
    "alter_client_quotas": [
        ("--cluster", "alter-configs", lambda a: a.alter_client_quotas({"user": "bob"}, {"producer_byte_rate": 1})),
    ],
    "describe_user_scram_credentials": [("--cluster", "describe", lambda a: a.describe_user_scram_credentials())],
    "alter_user_scram_credential": [
        ("--cluster", "alter", lambda a: a.alter_user_scram_credential("bob", "SCRAM-SHA-256", "secret")),
    ],
    "describe_log_dirs": [("--cluster", "describe", lambda a: a.describe_log_dirs())],
    "describe_metadata_quorum": [("--cluster", "describe", lambda a: a.describe_metadata_quorum())],
    "list_config_resources": [("--cluster", "describe-configs", lambda a: a.list_config_resources(["group"]))],
    "elect_leaders": [("--cluster", "alter", lambda a: a.elect_leaders([AT]))],
}
# Everybody is answered: with what may be seen, or by other rules than those of the authorizer.
FOR_EVERYBODY = {
    *("list_topics", "list_groups", "list_transactions", "describe_cluster", "describe_features"),
    *("offline_coordinators", "why_owners_may_be_hidden", "client_instance_id"),
    *("create_delegation_token", "renew_delegation_token", "expire_delegation_token", "describe_delegation_tokens"),
}
LIFE = {"start", "stop", "from_config"}
OF_OTHERS = {"lanes"}  # begins with describe_topics; there is none in oncelog.sync


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    """bob may do nothing; what he asks about is there."""
    users = {"admin": "a", "bob": "b"}
    with TestBroker(AUTHORIZER, security="SASL_PLAINTEXT", mechanism="PLAIN", users=users) as found:
        with sync.Admin(**found.client_options("admin")) as admin:
            admin.create_topics({"orders": 1})
        with (
            sync.Producer(**found.client_options("admin"), transactional_id="shop") as producer,
            producer.transaction(),
        ):
            producer.send("orders", b"v")
            producer.send_offsets_to_transaction({AT: 1}, "billing")
        yield found


def test_every_method_is_looked_at() -> None:
    methods = {name for name, _ in inspect.getmembers(Admin, callable) if not name.startswith("_")}
    assert methods - LIFE - OF_OTHERS == CALLS.keys() | FOR_EVERYBODY


@pytest.mark.parametrize(("method", "number"), [(name, n) for name, each in CALLS.items() for n in range(len(each))])
def test_the_right_that_is_missing(broker: TestBroker, method: str, number: int) -> None:
    about, operation, call = CALLS[method][number]
    with sync.Admin(**broker.client_options("bob")) as admin, pytest.raises(errors.KafkaError) as caught:
        call(admin)
    kind = type(caught.value)
    assert kind.__name__.endswith("Authorization"), caught.value
    text = str(caught.value)
    assert f"; User:bob needs the right to {operation} " in text
    assert text.endswith(f": oncelog acls add {about} --principal User:bob --operation {operation}")
    assert "was not found" not in text
    assert "authorization failed" not in text, "that is what the code says already"


def test_the_commands_that_are_named_are_taken(broker: TestBroker, tmp_path: pathlib.Path) -> None:
    oncelog = cli_as(broker, "admin", tmp_path)
    for about, operation in sorted({(about, operation) for calls in CALLS.values() for about, operation, _ in calls}):
        oncelog(*f"acls add {about} --principal User:bob --operation {operation} --dry-run".split())


def test_one_rule_is_enough_for_the_coordinator_and_what_it_is_asked(broker: TestBroker) -> None:
    """The right to delete a group brings along the one to describe it, which who looks for its coordinator needs."""
    with sync.Admin(**broker.client_options("admin")) as admin, sync.Admin(**broker.client_options("bob")) as bob:
        admin.create_acls([Acl("group", "nobodys", "User:bob", "delete")])
        with pytest.raises(errors.GroupIdNotFound):
            bob.delete_groups(["nobodys"])


def test_the_table_is_of_requests_that_are_checked() -> None:
    known = {"".join(part.title() for part in key.name.split("_")) + "Request" for key in (*CHECKS, ApiKey.FETCH)}
    assert NEEDED.keys() <= known
