"""Whose an open transaction is: what coordinators say of producer ids, and which transactions nobody will end."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.client.admin.hanging import AdminHanging
from oncelog.client.admin.session import Unreachable
from oncelog.client.admin.transaction_listing import HangingTransaction, ProducerDescription, TransactionDescription
from oncelog.core.diagnosis.facts import OpenTransaction, Owner
from oncelog.errors import TransactionalIdNotFound
from oncelog.types import TopicPartition

ANY_AGE_MS = -(2**62)  # clocks differ: even what seems to come from the future is looked at


async def owners_of(
    admin: AdminHanging, producer_ids: Iterable[int], *, unreachable: Unreachable | None = None
) -> dict[int, TransactionDescription]:
    """What the coordinators say of these producers; an id that vanishes while we ask is left out. `unreachable` takes the
    coordinators that do not answer in time."""
    wanted = sorted(set(producer_ids))
    if not wanted:
        return {}
    found = await admin.list_transactions(producer_ids=wanted, unreachable=unreachable)
    listed = {each.transactional_id: each.producer_id for each in found}
    return {listed[name]: each for name, each in (await described_if_known(admin, *listed)).items()}


async def described_if_known(admin: AdminHanging, *transactional_ids: str) -> dict[str, TransactionDescription]:
    """The descriptions of these ids; those that do not exist (any more) are left out."""
    try:
        return await admin.describe_transactions(transactional_ids)
    except TransactionalIdNotFound:
        if len(transactional_ids) == 1:
            return {}
    found: dict[str, TransactionDescription] = {}
    for each in transactional_ids:
        found |= await described_if_known(admin, each)
    return found


async def hanging_of(
    admin: AdminHanging, where: Iterable[TopicPartition]
) -> dict[tuple[TopicPartition, int], HangingTransaction]:
    """The transactions of these partitions that no coordinator will end; without those whose owners may be hidden."""
    hidden: list[str] = []
    found = await admin.find_hanging_transactions(
        partitions=list(dict.fromkeys(where)), max_transaction_timeout_ms=ANY_AGE_MS, unreadable={}, hidden=hidden
    )
    certain = [each for each in found if not hidden or each.transactional_id is not None]
    return {(each.topic_partition, each.producer_id): each for each in certain}


def seen(
    where: TopicPartition,
    producer: ProducerDescription,
    owner: TransactionDescription | None,
    hanging: HangingTransaction | None,
    now_ms: int,
) -> OpenTransaction:
    """What was seen of an open transaction on a partition, to be judged."""
    assert producer.transaction_start_offset is not None
    return OpenTransaction(
        where,
        producer.producer_id,
        producer.producer_epoch,
        producer.transaction_start_offset,
        max(0, now_ms - producer.last_timestamp_ms),
        None if owner is None else owner_seen(owner),
        None if hanging is None else hanging.reason,
    )


def owner_seen(found: TransactionDescription) -> Owner:
    """A described transactional id as a fact."""
    return Owner(
        found.transactional_id,
        found.coordinator_id,
        found.state,
        found.producer_id,
        found.producer_epoch,
        found.timeout_ms,
        found.duration_ms,
        found.remaining_ms,
    )
