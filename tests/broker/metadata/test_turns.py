"""Who waits for a turn to change the metadata and names no time waits a while, is told so, and nothing of it is done later."""

from __future__ import annotations

from typing import Any

import pytest
from evidence.world.broker import Client, broker_and_client, run, until
from evidence.world.security import log_in, secured_broker, stranger

from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.errors import ErrorCode, StorageError
from oncelog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from oncelog.wire.messages.alter_configs import AlterableConfig as WholeConfig
from oncelog.wire.messages.alter_configs import AlterConfigsRequest
from oncelog.wire.messages.alter_configs import AlterConfigsResource as WholeResource
from oncelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from oncelog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from oncelog.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from oncelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from oncelog.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from oncelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.metrics.limits_world import shows

E = ErrorCode
LIMIT = "request.timeout.ms"
RULES = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:ANONYMOUS"}
RULE = AclCreation(
    resource_type=2,
    resource_name="t",
    resource_pattern_type=3,
    principal="User:al",
    host="*",
    operation=3,
    permission_type=3,
)
RULES_OF_T = DeleteAclsFilter(
    resource_type_filter=2,
    resource_name_filter="t",
    pattern_type_filter=3,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)
USERS = [
    EntryData(
        entity=[EntityData(entity_type="user", entity_name=name)], ops=[OpData(key="request_percentage", value=5)]
    )
    for name in ("a", "b")
]
REQUESTS: list[tuple[Any, list[dict[str, Any]]]] = [
    (
        IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=2, resource_name="t", configs=[AlterableConfig(name="retention.ms", value="5")]
                )
            ]
        ),
        [{"resource_type": 2, "resource_name": "t"}],
    ),
    (
        AlterConfigsRequest(
            resources=[
                WholeResource(resource_type=2, resource_name="t", configs=[WholeConfig(name="retention.ms", value="5")])
            ]
        ),
        [{"resource_type": 2, "resource_name": "t"}],
    ),
    (CreateAclsRequest(creations=[RULE, RULE]), [{}, {}]),
    (DeleteAclsRequest(filters=[RULES_OF_T]), [{"matching_acls": []}]),
    (AlterClientQuotasRequest(entries=USERS), [{"entity": each.entity} for each in USERS]),
    (
        AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name="a", mechanism=1)],
            upsertions=[
                ScramCredentialUpsertion(
                    name=name, mechanism=2, iterations=8192, salt=b"salt", salted_password=b"p" * 64
                )
                for name in ("a", "b")
            ],
        ),
        [{"user": "a"}, {"user": "b"}],
    ),
]


def results_of(reply: Any) -> Any:
    names = ("responses", "results", "filter_results", "entries")
    return next(getattr(reply, name) for name in names if hasattr(reply, name))


@shows(LIMIT)
@pytest.mark.parametrize(("request_", "told"), REQUESTS, ids=[type(request).__name__ for request, _ in REQUESTS])
def test_a_request_that_can_name_no_time_waits_for_its_turn_as_long_as_the_broker_says(tmp_path, request_, told):
    """One sync that hung held every such request for ever."""

    async def work() -> None:
        async with broker_and_client(tmp_path, request_timeout_ms=30, **RULES) as (broker, client):
            await client.create("t")
            offset = broker.store.end_offset
            async with broker.store.changing():
                results = results_of(await client.call(request_))
            assert [(each.error_code, each.error_message) for each in results] == [
                (
                    E.REQUEST_TIMED_OUT,
                    "Other changes of the metadata took longer than request.timeout.ms; nothing was changed.",
                )
            ] * len(told)
            for result, named in zip(results, told, strict=True):
                assert {name: getattr(result, name) for name in named} == named
            assert broker.metrics.limit_hits(LIMIT) == 1
            async with broker.store.changing():
                assert broker.store.end_offset == offset
            reply = await client.call(request_)
            assert E.REQUEST_TIMED_OUT not in {each.error_code for each in results_of(reply)}
            assert broker.metrics.limit_hits(LIMIT) == 1

    run(work())


def test_features_without_a_time_wait_as_long(tmp_path):
    async def work() -> None:
        async with broker_and_client(tmp_path, request_timeout_ms=30) as (broker, client):
            update = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)
            async with broker.store.changing():
                reply = await client.call(UpdateFeaturesRequest(timeout_ms=0, feature_updates=[update]), 1)
            assert reply.error_code == E.REQUEST_TIMED_OUT
            assert broker.metrics.limit_hits(LIMIT) == 1

    run(work())


def test_who_names_a_time_is_not_counted(tmp_path):
    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, client):
            asked = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            async with broker.store.changing():
                reply = await client.call(CreateTopicsRequest(topics=[asked], timeout_ms=1))
            assert reply.topics[0].error_code == E.REQUEST_TIMED_OUT
            assert broker.metrics.limit_hits(LIMIT) == 0

    run(work())


def test_delegation_tokens_wait_as_long():
    async def work() -> None:
        async with secured_broker(request_timeout_ms=30, delegation_token_secret_key="secret") as broker:
            client = await stranger(broker)
            await log_in(client)
            token = await client.call(CreateDelegationTokenRequest())
            assert token.error_code == E.NONE
            requests = (
                CreateDelegationTokenRequest(),
                RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=1_000),
                ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1),
            )
            async with broker.store.changing():
                for request in requests:
                    assert (await client.call(request)).error_code == E.REQUEST_TIMED_OUT
            assert broker.metrics.limit_hits(LIMIT) == 3
            assert list(broker.metadata.delegation_tokens) == [token.token_id]
            client.close()

    run(work())


@pytest.mark.parametrize("request_", [request for request, _ in REQUESTS], ids=lambda each: type(each).__name__)
def test_a_request_whose_client_has_gone_before_its_turn_changes_nothing(tmp_path, request_):
    async def work() -> None:
        async with broker_and_client(tmp_path, **RULES) as (broker, client):
            await client.create("t")
            offset, count = broker.store.end_offset, len(broker.server._connections)
            gone = await Client.connect(broker)
            async with broker.store.changing():
                gone.send(request_)
                await until(lambda: len(broker.server.tasks) == 1)
                gone.close()
                await until(lambda: len(broker.server._connections) == count and not len(broker.server.tasks))
            async with broker.store.changing():
                assert broker.store.end_offset == offset

    run(work())


def test_what_the_broker_changes_itself_waits_as_long_and_is_tried_again(tmp_path):
    """A topic that a client's first question makes, a coordinator's own topic, and a block of producer ids."""

    async def work() -> None:
        async with broker_and_client(tmp_path, request_timeout_ms=30) as (broker, client):
            asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            find = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
            broker.producer_id_blocks.ids._blocks.clear()
            async with broker.store.changing():
                assert (await client.call(asked, 12)).topics[0].error_code != E.NONE
                assert (await client.call(find, 4)).coordinators[0].error_code == E.COORDINATOR_NOT_AVAILABLE
                with pytest.raises(StorageError, match="longer than 30 ms"):
                    await broker.topics.create_automatically("t")
                assert broker.metrics.limit_hits(LIMIT) >= 3
                await broker.producer_id_blocks.ensure()
                assert not broker.producer_id_blocks.may_come
            assert "t" not in broker.metadata.topics
            assert (await client.call(asked, 12)).topics[0].error_code == E.NONE
            assert (await client.call(find, 4)).coordinators[0].error_code == E.NONE
            await until(lambda: broker.producer_id_blocks.ids.count > 0 or broker.producer_id_blocks.reserve_in_time())
            assert broker.producer_id_blocks.may_come

    run(work())
