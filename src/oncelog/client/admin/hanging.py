"""Hanging transactions (KIP-664): open on a partition, unknown to the coordinator. Find them, and abort them there.

Rule: what a coordinator still owns is not aborted on a partition (it would tear the transaction apart), unless forced.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.client import arguments
from oncelog.client.admin.session import Unreachable
from oncelog.client.admin.topics import TRANSACTIONS_TOPIC, AdminTopics
from oncelog.client.admin.transaction_listing import HangingTransaction, ProducerDescription, TransactionDescription
from oncelog.client.admin.transactions import AdminTransactions
from oncelog.client.backoff import Deadline
from oncelog.client.cluster.each_leader import Unreadable
from oncelog.errors import (
    ErrorCode,
    IllegalState,
    InvalidArgument,
    InvalidTxnState,
    KafkaError,
    TransactionalIdAuthorization,
    error_for,
)
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition
from oncelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

PROBE_ID = "oncelog-may-i-see-any-id"  # describing it fails where one may not
OPERATOR_ABORT_FEATURE = "oncelog.operator.abort"
TRANSACTION_TIMEOUT_MAX_MS = 900_000


@dataclass(frozen=True, slots=True)
class _Candidate:
    topic_partition: TopicPartition
    producer: ProducerDescription


class AdminHanging(AdminTransactions, AdminTopics):
    """Finding and ending transactions that nobody owns."""

    async def find_hanging_transactions(
        self,
        *,
        topic: str | None = None,
        partition: int | None = None,
        broker_id: int | None = None,
        max_transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MAX_MS,
        unreadable: Unreadable | None = None,
        unreachable: Unreachable | None = None,
    ) -> list[HangingTransaction]:
        """Open transactions that were quiet for longer than `max_transaction_timeout_ms` and have no owner.

        Looks at all partitions (internal topics too), or those of a topic, a partition, a leading broker. `unreadable`:
        a dict that takes the error of each partition that cannot be asked, instead of raising it. `unreachable`: a dict that
        takes the coordinators that do not answer in time; what has no owner then may be one of theirs.
        """
        arguments.text_or_none("topic", topic)
        arguments.integer_or_none("partition", partition)
        arguments.integer_or_none("broker_id", broker_id)
        arguments.integer(
            "max_transaction_timeout_ms", max_transaction_timeout_ms, low=-arguments.INT64_MAX, high=arguments.INT64_MAX
        )
        partitions = await self._partitions_to_search(topic, partition, broker_id)
        now_ms = self._host.clock.now_ms()
        described = await self.describe_producers(partitions, unreadable=unreadable)
        candidates = [
            _Candidate(topic_partition, producer)
            for topic_partition, producers in described.items()
            for producer in producers
            if producer.transaction_start_offset is not None
            and now_ms - producer.last_timestamp_ms > max_transaction_timeout_ms
        ]
        if not candidates:
            return []
        owners = await self._owners({each.producer.producer_id for each in candidates}, unreachable)
        reasons = [(c, *_why_hanging(c, owners.get(c.producer.producer_id, []))) for c in candidates]
        suspects = [(c, reason, transactional_id) for c, reason, transactional_id in reasons if reason]
        # What was ended while we asked is no longer there.
        again = await self.describe_producers({c.topic_partition for c, _, _ in suspects}, unreadable=unreadable)
        return [
            _hanging(c, now_ms, reason, transactional_id)
            for c, reason, transactional_id in suspects
            if c.producer in again.get(c.topic_partition, [])
        ]

    async def _partitions_to_search(
        self, topic: str | None, partition: int | None, broker_id: int | None
    ) -> list[TopicPartition]:
        if topic is None:
            topics = await self.list_topics(include_internal=True)  # KAFKA-13288
        else:
            topics = await self.describe_topics([topic])
        if partition is not None and (topic is None or partition not in topics[topic].partitions):
            raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {partition} of topic {topic!r}")
        return [
            TopicPartition(view.name, each.partition)
            for view in topics.values()
            for each in view.partitions.values()
            if (partition is None or each.partition == partition) and (broker_id is None or each.leader_id == broker_id)
        ]

    async def why_owners_may_be_hidden(self) -> list[str]:
        """Why a transaction may have an owner although none is listed: brokers leave out of their lists what one may not see
        (DESCRIBE on TransactionalId), and a coordinator that is away names nobody. Empty: who has none has none."""
        for where in await self.offline_coordinators():
            if where.topic == TRANSACTIONS_TOPIC:
                return [f"{where} is offline: nobody can ask for the transactional ids that it has"]
        try:
            await self._describe_transactions([PROBE_ID])
        except TransactionalIdAuthorization:
            return ["you may not see all transactional ids"]
        except KafkaError as error:
            return [f"whether you may see all transactional ids could not be asked: {error}"]
        return []

    async def _owners(
        self, producer_ids: Iterable[int], unreachable: Unreachable | None = None
    ) -> dict[int, list[TransactionDescription]]:
        """What the coordinators know of these producer ids."""
        listed = await self.list_transactions(producer_ids=sorted(producer_ids), unreachable=unreachable)
        described = await self._describe_transactions([each.transactional_id for each in listed])
        owners: dict[int, list[TransactionDescription]] = {}
        for listing in listed:
            found = described.get(listing.transactional_id)
            if found is not None:
                owners.setdefault(listing.producer_id, []).append(found)
        return owners

    async def abort_transaction(
        self,
        topic_partition: TopicPartition,
        *,
        start_offset: int | None = None,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        coordinator_epoch: int | None = None,
        force: bool = False,
    ) -> None:
        """Write an ABORT marker on one partition: for the transaction that starts at `start_offset`, or by ids.

        Raises InvalidTxnState where no such transaction is open; IllegalState where its coordinator still owns it (end it
        with force_terminate_transaction), or may, and `force` is not set; TransactionCoordinatorFenced ...
        """
        where = arguments.topic_partition("topic_partition", topic_partition)
        arguments.integer_or_none("start_offset", start_offset, high=arguments.INT64_MAX)
        arguments.integer_or_none("producer_id", producer_id, high=arguments.INT64_MAX)
        arguments.integer_or_none("producer_epoch", producer_epoch, high=arguments.INT16_MAX)
        arguments.integer_or_none("coordinator_epoch", coordinator_epoch, low=-1)
        arguments.boolean("force", force)
        if start_offset is not None:
            producer = await self._producer_at(where, start_offset)
        elif producer_id is not None and producer_epoch is not None and coordinator_epoch is not None:
            producer = await self._producer_with(where, producer_id, producer_epoch, coordinator_epoch)
        else:
            raise InvalidArgument("say start_offset, or producer_id, producer_epoch and coordinator_epoch")
        if not force:
            await self._refuse_if_owned(where, producer)
        await self._write_abort(where, producer, compares_start=start_offset is not None)

    async def _producer_at(self, where: TopicPartition, start_offset: int) -> ProducerDescription:
        for producer in (await self.describe_producers([where]))[where]:
            if producer.transaction_start_offset == start_offset:
                return producer
        raise InvalidTxnState(f"no open transaction of {where} starts at offset {start_offset}")

    async def _producer_with(
        self, where: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> ProducerDescription:
        start_offset = None
        for producer in (await self.describe_producers([where]))[where]:
            if producer.producer_id == producer_id:
                start_offset = producer.transaction_start_offset
        return ProducerDescription(producer_id, producer_epoch, -1, -1, coordinator_epoch, start_offset)

    async def _refuse_if_owned(self, where: TopicPartition, producer: ProducerDescription) -> None:
        owners = (await self._owners([producer.producer_id])).get(producer.producer_id, [])
        whose = f"the transaction of producer {producer.producer_id} on {where}"
        if not owners and (hidden := await self.why_owners_may_be_hidden()):
            raise IllegalState(
                f"{whose} may have an owner that is not shown ({'; '.join(hidden)}): ask as somebody who sees all "
                "transactional ids, or use force"
            )
        reason, transactional_id = _why_hanging(_Candidate(where, producer), owners)
        if not reason:
            raise IllegalState(
                f"{whose} belongs to transactional id {transactional_id!r}, which is not finished: "
                "end it there (force_terminate_transaction), or use force"
            )

    async def _write_abort(self, where: TopicPartition, producer: ProducerDescription, *, compares_start: bool) -> None:
        async def attempt(_: Deadline) -> None:
            node = await self._cluster.leader(where)
            connection = await self._cluster.connection(node)
            versions = connection.versions
            knows_start = (
                OPERATOR_ABORT_FEATURE in versions.supported_features
            )  # an older broker keeps what is finalized
            start = producer.transaction_start_offset
            compares = compares_start and knows_start and start is not None
            topic = WritableTxnMarkerTopic(
                name=where.topic,
                partition_indexes=[where.partition],
                txn_start_offsets=[start] if compares and start is not None else [],
            )
            marker = WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                transaction_result=False,
                topics=[topic],
                coordinator_epoch=-1 if compares else max(producer.coordinator_epoch, 0),
            )
            response = await self._cluster.request(node, WriteTxnMarkersRequest(markers=[marker]))
            code = response.markers[0].topics[0].partitions[0].error_code
            if code:
                self._cluster.refresh_soon((where.topic,))
                raise error_for(code, f"the transaction of producer {producer.producer_id} on {where} was not aborted")

        await self._cluster.retry(f"abort a transaction on {where}", attempt)


def _why_hanging(candidate: _Candidate, owners: list[TransactionDescription]) -> tuple[str, str | None]:
    """Why nobody will end this transaction ("" where somebody will), and the id that used the producer id."""
    if not owners:
        return "no transactional id has this producer id", None
    for owner in owners:
        is_in = candidate.topic_partition in owner.partitions
        # While markers are on their way the coordinator is one epoch ahead already (KIP-890).
        same = owner.state != "Ongoing" or owner.producer_epoch == candidate.producer.producer_epoch
        if owner.is_open and is_in and same:
            return "", owner.transactional_id
    owner = owners[0]
    if owner.is_open and candidate.topic_partition in owner.partitions:
        reason = (
            f"the coordinator is at producer epoch {owner.producer_epoch}, "
            f"the partition at {candidate.producer.producer_epoch}"
        )
    else:
        reason = f"the coordinator's transaction ({owner.state}) does not include this partition"
    return reason, owner.transactional_id


def _hanging(candidate: _Candidate, now_ms: int, reason: str, transactional_id: str | None) -> HangingTransaction:
    producer = candidate.producer
    assert producer.transaction_start_offset is not None
    return HangingTransaction(
        topic_partition=candidate.topic_partition,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        coordinator_epoch=producer.coordinator_epoch,
        start_offset=producer.transaction_start_offset,
        last_timestamp_ms=producer.last_timestamp_ms,
        duration_ms=now_ms - producer.last_timestamp_ms,
        transactional_id=transactional_id,
        reason=reason,
    )
