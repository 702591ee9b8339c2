"""Wrong requests that need a right one first: of a transaction, of members of groups, under a quota.

The right part works with topics, groups and ids of the strangers' own, and is judged like everybody's.
"""

from __future__ import annotations

import asyncio

from evidence.simulator.raw_client import RawProducer
from evidence.simulator.strangers.records import larger_than_a_segment, produce, transactional
from evidence.simulator.strangers.requests import commit, create, end, init, join, marker, member_heartbeat, txn_offsets
from evidence.simulator.strangers.stranger import Stranger
from evidence.simulator.strangers.wrong import STRANGE, TOPIC, wrong
from oncelog.errors import ErrorCode as E
from oncelog.types import ProducerIdAndEpoch, TopicPartition
from oncelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncelog.wire.messages.heartbeat import HeartbeatRequest
from oncelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from oncelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from oncelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

KEY, OTHER = TopicPartition(STRANGE, 0), TopicPartition(STRANGE, 1)
# Meanwhile its time may be over (clocks jump), or a retry of an earlier life may have come.
OVERTAKEN = (E.INVALID_PRODUCER_EPOCH, E.INVALID_TXN_STATE, E.PRODUCER_FENCED, E.TRANSACTION_ABORTABLE)
GONE = (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION, E.GROUP_ID_NOT_FOUND, E.REBALANCE_IN_PROGRESS)
UNREADABLE_SECONDS = 0.3
FAR = 1000  # sequences, generations and epochs away
UNKNOWN_MAPPING = E.INVALID_PRODUCER_ID_MAPPING


async def a_transaction(stranger: Stranger) -> None:
    """From beginning to end; at every step something that does not belong there."""
    name = f"{stranger.process.name}-{stranger.random.randrange(3)}"
    raw = RawProducer(stranger.cluster, stranger.process, name, is_new=False)
    if await raw.init():
        return
    own = raw.identity
    stranger.refused("the end of nothing", await stranger.ask(_end(name, own), 4), *OVERTAKEN)
    if await raw.add(KEY) or (await raw.produce(KEY, raw.batch(KEY, 1)))[0]:
        return
    await _wrong_records(stranger, name, own)
    await _wrong_positions(stranger, name, own)
    await _wrong_requests(stranger, name, own)
    if await raw.end(commit=stranger.random.random() < 0.5):
        return
    await _wrong_markers(stranger, own)
    if not await raw.init(own):
        stranger.refused("the end by who was before", await stranger.ask(_end(name, own), 4), *OVERTAKEN)


def _end(name: str, identity: ProducerIdAndEpoch) -> object:
    return end(name, identity.producer_id, identity.producer_epoch)


async def _wrong_records(stranger: Stranger, name: str, own: ProducerIdAndEpoch) -> None:
    """Of the transaction that is open."""
    far = produce(STRANGE, transactional(*own, sequence=FAR), transactional_id=name)
    stranger.refused("a sequence far away", await stranger.ask(far, 11), E.OUT_OF_ORDER_SEQUENCE_NUMBER, *OVERTAKEN)
    elsewhere = produce(STRANGE, transactional(*own), partition=OTHER.partition, transactional_id=name)
    stranger.refused("a partition that was not added", await stranger.ask(elsewhere, 11), *OVERTAKEN)
    stranger.refused("a partition that was not added, old", await stranger.ask(elsewhere, 9), *OVERTAKEN)
    former = produce(STRANGE, transactional(own.producer_id, own.producer_epoch - 1, 1), transactional_id=name)
    stranger.refused("a former epoch", await stranger.ask(former, 11), *OVERTAKEN)


async def _wrong_positions(stranger: Stranger, name: str, own: ProducerIdAndEpoch) -> None:
    """Of a generation and a member that are not there."""
    for what, more in (
        ("a generation in a transaction", {"generation_id": FAR, "member_id": "nobody"}),
        ("a member in a transaction", {"generation_id": FAR, "member_id": "nobody", "group_instance_id": "nobody"}),
    ):
        raw = txn_offsets(name, "strangers", own.producer_id, producer_epoch=own.producer_epoch, **more)
        refusals = (*GONE, *OVERTAKEN, E.FENCED_INSTANCE_ID)
        stranger.refused(what, await stranger.ask(raw, 3), *refusals)


async def _wrong_requests(stranger: Stranger, name: str, own: ProducerIdAndEpoch) -> None:
    """To the coordinator."""
    asked = AddPartitionsToTxnTransaction(
        transactional_id=name,
        producer_id=own.producer_id,
        producer_epoch=own.producer_epoch,
        verify_only=True,
        topics=[AddPartitionsToTxnTopic(name=STRANGE, partitions=[OTHER.partition])],
    )
    verified = await stranger.ask(AddPartitionsToTxnRequest(transactions=[asked]), 4)
    stranger.refused("verifies what was not added", verified, *OVERTAKEN)
    foreign = init(name, producer_id=own.producer_id + FAR, producer_epoch=own.producer_epoch)
    stranger.refused("an identity of nobody", await stranger.ask(foreign, 4), *OVERTAKEN)
    two_phase = stranger.cluster.options.two_phase_clients > 0
    if stranger.cluster.options.transaction_version >= 3 and not two_phase:
        prepared = wrong("two phases", init(name, enable_2pc=True), 6, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        await stranger.must_refuse(prepared)


async def _wrong_markers(stranger: Stranger, own: ProducerIdAndEpoch) -> None:
    """As if a coordinator or an operator of old asked."""
    former = marker(*own, topic=STRANGE, coordinator_epoch=-2)
    fenced = await stranger.ask(former, 1)
    stranger.refused("a marker of a former coordinator", fenced, E.TRANSACTION_COORDINATOR_FENCED)
    operators = marker(*own, topic=STRANGE, coordinator_epoch=-1, start_offset=FAR, transaction_result=False)
    stranger.refused("an abort of what is not open", await stranger.ask(operators, 1), E.INVALID_TXN_STATE)


async def a_classic_member(stranger: Stranger) -> None:
    """A static member that another of its name replaces."""
    group, instance = "strangers", f"instance-{stranger.process.name}"
    first = await stranger.ask(join(group, instance=instance), 5)
    if first.error_code or first.leader != first.member_id:
        return
    member, generation = first.member_id, first.generation_id
    shares = [SyncGroupRequestAssignment(member_id=member)]
    synced = SyncGroupRequest(
        group_id=group, generation_id=generation, member_id=member, group_instance_id=instance, assignments=shares
    )
    if (await stranger.ask(synced, 4)).error_code:
        return
    later = HeartbeatRequest(group_id=group, generation_id=generation + FAR, member_id=member)
    stranger.refused("a generation to come", await stranger.ask(later, 3), *GONE)
    stranger.refused("positions of it", await stranger.ask(commit(group, generation + FAR, member), 8), *GONE)
    stranger.refused("a generation of nobody", await stranger.ask(commit(group, generation, "nobody"), 8), *GONE)
    second = await stranger.ask(join(group, instance=instance), 5)
    if not second.error_code and second.member_id != member:
        replaced = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member, group_instance_id=instance
        )
        stranger.refused("a member replaced", await stranger.ask(replaced, 3), E.FENCED_INSTANCE_ID, *GONE)
    leaving = [MemberIdentity(member_id="", group_instance_id=instance)]
    await stranger.ask(LeaveGroupRequest(group_id=group, members=leaving), 4)


async def a_consumer_member(stranger: Stranger) -> None:
    """KIP-848: a member with an epoch that it does not have."""
    group, member = "strangers-848", f"member-{stranger.process.name}"
    joined = await stranger.ask(member_heartbeat(group, member, 0, subscribed_topic_names=[STRANGE]), 1)
    if joined.error_code:
        return
    stale = (E.STALE_MEMBER_EPOCH, *GONE)
    future = joined.member_epoch + FAR
    stranger.refused("positions of an epoch to come", await stranger.ask(commit(group, future, member), 9), *stale)
    topics = [OffsetFetchRequestTopics(name=STRANGE, partition_indexes=[0])]
    asked = OffsetFetchRequestGroup(group_id=group, member_id=member, member_epoch=future, topics=topics)
    fetched = await stranger.ask(OffsetFetchRequest(groups=[asked]), 9)
    ahead = await stranger.ask(member_heartbeat(group, member, future), 1)
    if stranger.accepted(
        fetched
    ):  # of a group that nobody is in any more nothing is read, and nothing refused: as in Kafka
        stranger.refused("reads positions of an epoch to come", ahead, *GONE)
    else:
        stranger.refused("reads positions of an epoch to come", fetched, *stale)
        stranger.refused("an epoch to come", ahead, E.FENCED_MEMBER_EPOCH, *GONE)
    await stranger.ask(member_heartbeat(group, member, -1), 1)


async def a_crowd_of_topics(stranger: Stranger) -> None:
    """Under a quota of mutations (KIP-599) only so many are even considered."""
    for _ in range(3):
        answer, late = await stranger.ask_in_turn(create(TOPIC, validate_only=True), 6)
        if not stranger.accepted(answer):
            stranger.refused("one topic too many", answer, E.THROTTLING_QUOTA_EXCEEDED, *late)


async def positions_that_cannot_be_loaded(stranger: Stranger) -> None:
    """A transaction ends with positions of a group whose coordinator nobody has asked yet, and the disk cannot be read.

    The marker is written and what it means cannot be carried out: NOT_LEADER_OR_FOLLOWER, until somebody restarts.
    """
    raw = RawProducer(stranger.cluster, stranger.process, "stranger-unloaded", is_new=False)
    if await raw.init() or await raw.add_offsets("strangers-unloaded"):
        return
    disk = stranger.cluster.disk
    disk.fail_reads_from(1)
    stranger.cluster.count("disk READ_ERROR")
    try:
        await raw.end(commit=True)
        await asyncio.sleep(UNREADABLE_SECONDS)
    finally:
        disk.fail_reads_from(None)


async def a_huge_batch(stranger: Stranger) -> None:
    """Larger than a segment of the log."""
    await stranger.must_refuse(larger_than_a_segment())


async def many_producers(stranger: Stranger) -> None:
    """Nothing wrong: ids are asked for, also while the disk is full."""
    await stranger.ask(init(None), 4)
