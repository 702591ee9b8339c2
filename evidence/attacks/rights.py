"""Who has come in and wants more: others' topics, groups and transactions, the brokers' own requests, the administrator's."""

from __future__ import annotations

from typing import Any

from evidence.attacks.attack import attack
from evidence.attacks.before_authentication import with_admin
from evidence.attacks.peer import codes_of, said
from evidence.attacks.target import HIDDEN, HIDDEN_GROUP, HIDDEN_ID, MINE, NEVER, Target
from evidence.world.broker import Client, fetch_request
from oncelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncelog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from oncelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from oncelog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.wire.messages.describe_acls import DescribeAclsRequest
from oncelog.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.list_transactions import ListTransactionsRequest
from oncelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

DENIED = "denied"


def marker(topics: list[WritableTxnMarkerTopic]) -> WritableTxnMarker:
    """A commit."""
    return WritableTxnMarker(
        producer_id=1, producer_epoch=0, transaction_result=True, topics=topics, coordinator_epoch=0
    )


async def asks(target: Target, message: Any, version: int | None = None) -> str:
    """What Alice is told."""
    return said(await (await target.come_in()).ask(message, version))


def written(topic: str, transactional_id: str | None = None) -> Any:
    """A Produce of one record."""
    return Client.produce_request(None, topic, "forged", transactional_id=transactional_id)  # type: ignore[arg-type]


@attack("29", DENIED)
async def writes_to_anothers_topic(target: Target) -> str:
    """Writes a record."""
    return await asks(target, written(HIDDEN), 12)


@attack("29", "")
async def reads_anothers_topic(target: Target) -> str:
    """Fetches from the beginning."""
    return await asks(target, fetch_request(HIDDEN, 0, committed=False), 12)


@attack("told the same of both")
async def which_topics_there_are(target: Target) -> str:
    """Compares the words for a topic that is hidden and one that there is not."""
    peer = await target.come_in()
    told = []
    for name in (HIDDEN, NEVER):
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        answer = await peer.ask(asked, 12)
        told.append((tuple(codes_of(answer)), bytes(answer.topics[0].topic_id), len(answer.topics[0].partitions)))
    return "told the same of both" if told[0] == told[1] else f"told apart: {told}"


@attack("hidden is left out")
async def all_topics(target: Target) -> str:
    """Lists everything."""
    answer = await (await target.come_in()).ask(MetadataRequest(topics=None), 12)
    names = {each.name for each in answer.topics}
    assert MINE in names
    return "hidden is listed" if HIDDEN in names else "hidden is left out"


@attack("its name is not told")
async def the_name_behind_an_id(target: Target) -> str:
    """Asks for a topic's name by its id, which is in old logs and replies."""
    async with with_admin(target) as admin:
        topic_id = (await admin.describe_topics([HIDDEN]))[HIDDEN].topic_id
    peer = await target.come_in()
    answer = await peer.ask(MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)]), 12)
    return "its name is told" if answer.topics[0].name else "its name is not told"


@attack("29", DENIED)
async def deletes_anothers_topic(target: Target) -> str:
    """Deletes by name."""
    return await asks(target, DeleteTopicsRequest(topics=[DeleteTopicState(name=HIDDEN)], timeout_ms=1_000))


@attack("31", DENIED)
async def writes_markers(target: Target) -> str:
    """Ends others' transactions by the brokers' own request, WriteTxnMarkers."""
    topics = [WritableTxnMarkerTopic(name=MINE, partition_indexes=[0])]
    return await asks(target, WriteTxnMarkersRequest(markers=[marker(topics)]), 1)


@attack("31", DENIED)
async def verifies_as_a_broker(target: Target) -> str:
    """Speaks to the coordinator as a broker does (AddPartitionsToTxn v5, verify only)."""
    topics = [AddPartitionsToTxnTopic(name=MINE, partitions=[0])]
    verified = AddPartitionsToTxnTransaction(
        transactional_id=HIDDEN_ID, producer_id=1, producer_epoch=0, verify_only=True, topics=topics
    )
    return await asks(target, AddPartitionsToTxnRequest(transactions=[verified]), 5)


@attack("29")
async def fetches_as_a_replica(target: Target) -> str:
    """Fetches with a replica's id: what is not committed would be seen, the high watermark moved."""
    asked = fetch_request(MINE, 0, committed=False)
    asked.replica_id = 1
    return await asks(target, asked, 12)


@attack("53", DENIED)
async def fences_anothers_producer(target: Target) -> str:
    """Takes over a transactional id (InitProducerId), which would fence its owner."""
    return await asks(target, InitProducerIdRequest(transactional_id=HIDDEN_ID, transaction_timeout_ms=1_000), 5)


@attack("53", DENIED)
async def ends_anothers_transaction(target: Target) -> str:
    """Commits with guessed producer id and epoch."""
    return await asks(
        target, EndTxnRequest(transactional_id=HIDDEN_ID, producer_id=0, producer_epoch=0, committed=True), 5
    )


@attack("53", DENIED)
async def writes_in_anothers_transaction(target: Target) -> str:
    """Produces to its own topic under another's transactional id."""
    return await asks(target, written(MINE, HIDDEN_ID), 12)


@attack("30", DENIED)
async def moves_anothers_group(target: Target) -> str:
    """Commits an offset for another's group: its consumers would skip records."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=999)
    topics = [OffsetCommitRequestTopic(name=MINE, partitions=[partition])]
    return await asks(target, OffsetCommitRequest(group_id=HIDDEN_GROUP, topics=topics), 8)


@attack("30", DENIED)
async def finds_anothers_group(target: Target) -> str:
    """Asks for a group's coordinator."""
    return await asks(target, FindCoordinatorRequest(key_type=0, coordinator_keys=[HIDDEN_GROUP]), 4)


@attack("53", DENIED)
async def finds_anothers_id(target: Target) -> str:
    """Asks for a transactional id's coordinator."""
    return await asks(target, FindCoordinatorRequest(key_type=1, coordinator_keys=[HIDDEN_ID]), 4)


@attack("31", DENIED)
async def gives_itself_rights(target: Target) -> str:
    """Creates an access rule that allows itself everything."""
    rule = AclCreation(
        resource_type=2,
        resource_name="*",
        resource_pattern_type=3,
        principal="User:alice",
        host="*",
        operation=2,
        permission_type=3,
    )
    return await asks(target, CreateAclsRequest(creations=[rule]), 3)


@attack("31", DENIED)
async def reads_the_rules(target: Target) -> str:
    """Lists all access rules."""
    asked = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    return await asks(target, asked, 3)


@attack("31", DENIED)
async def sets_the_administrators_password(target: Target) -> str:
    """Stores SCRAM credentials for `admin`, whose name is one principal by PLAIN and by SCRAM."""
    asked = ScramCredentialUpsertion(
        name="admin", mechanism=1, iterations=4_096, salt=b"salt", salted_password=bytes(32)
    )
    return await asks(target, AlterUserScramCredentialsRequest(upsertions=[asked]), 0)


@attack("31", DENIED)
async def lists_users(target: Target) -> str:
    """Asks for all users' credentials."""
    return await asks(target, DescribeUserScramCredentialsRequest(users=None), 0)


@attack("31", DENIED)
async def lifts_its_quota(target: Target) -> str:
    """Changes its own quota."""
    entry = EntryData(
        entity=[EntityData(entity_type="user", entity_name="alice")], ops=[OpData(key="producer_byte_rate", value=1e12)]
    )
    return await asks(target, AlterClientQuotasRequest(entries=[entry]), 1)


@attack("31", DENIED)
async def changes_the_broker(target: Target) -> str:
    """Names another truststore by IncrementalAlterConfigs: its own authority would be believed."""
    change = AlterableConfig(
        name="listener.name.mutual.ssl.truststore.location", config_operation=0, value="/nowhere/mine.pem"
    )
    asked = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=4, resource_name="1", configs=[change])]
    )
    return await asks(target, asked, 1)


@attack("none of others'")
async def lists_transactions(target: Target) -> str:
    """Lists all transactional ids, after their owner has used one."""
    owner = await target.come_in("admin")
    await owner.ask(InitProducerIdRequest(transactional_id=HIDDEN_ID, transaction_timeout_ms=1_000), 4)
    answer = await (await target.come_in()).ask(ListTransactionsRequest())
    return "HIDDEN" if HIDDEN_ID in {each.transactional_id for each in answer.transaction_states} else "none of others'"
