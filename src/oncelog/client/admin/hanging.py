"""Hanging transactions (KIP-664): open on a partition, unknown to the coordinator. Find them, and abort them there.

Rule: what a coordinator still owns is not aborted on a partition (it would tear the transaction apart), unless forced. Nobody
owns it only where every coordinator was asked: one that is away or offline names nobody, and no other broker need know of that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from functools import partial

from oncelog.client import arguments
from oncelog.client.admin.session import Unreachable
from oncelog.client.admin.topics import TRANSACTIONS_TOPIC, AdminTopics
from oncelog.client.admin.transaction_listing import HangingTransaction, ProducerDescription, TransactionDescription
from oncelog.client.admin.transactions import AdminTransactions
from oncelog.client.backoff import Deadline
from oncelog.client.cluster.each_leader import Unreadable, ask_leaders
from oncelog.client.cluster.view import offline_partitions
from oncelog.core.placement import coordinator_partition
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
from oncelog.types import Node, TopicPartition
from oncelog.wire.messages.describe_transactions import DescribeTransactionsRequest
from oncelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

PROBE_ID = "oncelog-may-i-see-any-id"  # describing it fails where one may not
NAMED_MAX = 3
NOT_ALL_IDS = "you may not see all transactional ids"
UNSEEN = "no owner is seen, which does not mean that there is none"
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
        partitions: Iterable[TopicPartition] | None = None,
        max_transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MAX_MS,
        unreadable: Unreadable | None = None,
        unreachable: Unreachable | None = None,
        hidden: list[str] | None = None,
    ) -> list[HangingTransaction]:
        """Open transactions that were quiet for longer than `max_transaction_timeout_ms` and have no owner.

        Looks at all partitions (internal topics too), those of a topic, a partition, a leading broker, or at `partitions`.
        `unreadable`: a dict that takes the error of each partition that cannot be asked, instead of raising it. `unreachable`: a
        dict that takes the coordinators that do not answer in time. Where owners may be hidden (`why_owners_may_be_hidden`)
        nobody knows whether what has none is hanging. That raises IllegalState; `hidden` is a list that takes why instead: those
        without a `transactional_id` are only suspected then.
        """
        arguments.text_or_none("topic", topic)
        arguments.integer_or_none("partition", partition)
        arguments.integer_or_none("broker_id", broker_id)
        arguments.integer(
            "max_transaction_timeout_ms", max_transaction_timeout_ms, low=-arguments.INT64_MAX, high=arguments.INT64_MAX
        )
        if partitions is None:
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
        owners, why_hidden = await self._owners({each.producer.producer_id for each in candidates}, unreachable)
        if why_hidden and hidden is None:
            ownerless = next(each for each in candidates if each.producer.producer_id not in owners)
            raise IllegalState(f"{_whose(ownerless)} {_hidden_text(why_hidden)}")
        if hidden is not None:
            hidden += [each for each in why_hidden if each not in hidden]
        reasons = [(c, *_why_hanging(c, owners.get(c.producer.producer_id, []))) for c in candidates]
        suspects = [(c, reason, transactional_id) for c, reason, transactional_id in reasons if reason]
        # What was ended while we asked is no longer there.
        again = await self.describe_producers({c.topic_partition for c, _, _ in suspects}, unreadable=unreadable)
        return [
            _hanging(c, now_ms, UNSEEN if why_hidden and transactional_id is None else reason, transactional_id)
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
        (DESCRIBE on TransactionalId), and a coordinator that is away or offline names nobody. So each partition of
        `__transaction_state` is asked, of its own leader, for an id that nobody has. Empty: who has no owner has none."""
        try:
            await self._cluster.retry("describe topics", lambda _: self._cluster.refresh([TRANSACTIONS_TOPIC]))
        except KafkaError as error:
            return [f"which coordinators there are could not be asked: {error}"]
        view = self._cluster.view.topics.get(TRANSACTIONS_TOPIC)
        if view is None or view.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return []  # there is no transactional id at all, and to ask for a coordinator would make the topic
        if view.error_code or not view.partitions:
            return [await self._why_not_all_ids() or _unseen_coordinators(view.error_code)]
        for where in offline_partitions([view]):
            return [f"{where} is offline: nobody can ask for the transactional ids that it has"]
        probes = {TopicPartition(TRANSACTIONS_TOPIC, n): name for n, name in probe_ids(len(view.partitions)).items()}
        errors: dict[TopicPartition, KafkaError] = {}
        await ask_leaders(self._cluster, "ask coordinators", probes, partial(self._probe, probes), unreadable=errors)
        if any(isinstance(each, TransactionalIdAuthorization) for each in errors.values()):
            return [NOT_ALL_IDS]
        reasons = [
            f"{where} did not answer for the transactional ids that it has: {errors[where]}" for where in sorted(errors)
        ]
        more = [f"{len(reasons) - NAMED_MAX} more did not answer"] if len(reasons) > NAMED_MAX else []
        return reasons[:NAMED_MAX] + more

    async def _why_not_all_ids(self) -> str:
        try:
            await self._describe_transactions([PROBE_ID])
        except TransactionalIdAuthorization:
            return NOT_ALL_IDS
        except KafkaError as error:
            return f"whether you may see all transactional ids could not be asked: {error}"
        return ""

    async def _probe(
        self, probes: Mapping[TopicPartition, str], node: Node, partitions: list[TopicPartition]
    ) -> tuple[dict[TopicPartition, None], dict[TopicPartition, KafkaError]]:
        """Which of these coordinators' partitions this node answers for."""
        message = DescribeTransactionsRequest(transactional_ids=[probes[each] for each in partitions])
        answers = (await self._cluster.request(node, message)).transaction_states
        codes = {each.transactional_id: each.error_code for each in answers}
        found: dict[TopicPartition, None] = {}
        errors: dict[TopicPartition, KafkaError] = {}
        for where in partitions:
            code = codes.get(probes[where], ErrorCode.UNKNOWN_SERVER_ERROR)
            if code in (ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
                found[where] = None
            else:
                errors[where] = error_for(code, f"its leader is broker {node.node_id}")
        return found, errors

    async def _owners(
        self, producer_ids: Iterable[int], unreachable: Unreachable | None = None
    ) -> tuple[dict[int, list[TransactionDescription]], list[str]]:
        """What the coordinators know of these producer ids; and why they may have owners all the same, where some have none."""
        owners = await self._listed_owners(producer_ids, unreachable)
        ownerless = set(producer_ids) - owners.keys()
        if not ownerless:
            return owners, []
        if unreachable:
            return owners, [f"broker {node.node_id} does not answer" for node in sorted(unreachable)]
        if hidden := await self.why_owners_may_be_hidden():
            return owners, hidden
        # A coordinator that answers by now may have been away when it was to list them.
        return owners | await self._listed_owners(ownerless), []

    async def _listed_owners(
        self, producer_ids: Iterable[int], unreachable: Unreachable | None = None
    ) -> dict[int, list[TransactionDescription]]:
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
        found, hidden = await self._owners([producer.producer_id])
        candidate = _Candidate(where, producer)
        if hidden:
            raise IllegalState(f"{_whose(candidate)} {_hidden_text(hidden)}, or use force")
        reason, transactional_id = _why_hanging(candidate, found.get(producer.producer_id, []))
        if not reason:
            raise IllegalState(
                f"{_whose(candidate)} belongs to transactional id {transactional_id!r}, which is not finished: "
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
                what = f"the transaction of producer {producer.producer_id} on {where} was not aborted"
                raise self._refusal(WriteTxnMarkersRequest, code, what, where.topic)

        await self._cluster.retry(f"abort a transaction on {where}", attempt)


def probe_ids(partition_count: int) -> dict[int, str]:
    """Transactional ids that nobody has, one for each partition of `__transaction_state`."""
    found: dict[int, str] = {}
    for number in itertools.count():
        name = f"{PROBE_ID}-{number}"
        found.setdefault(coordinator_partition(name, partition_count), name)
        if len(found) == partition_count:
            break
    return found


def _unseen_coordinators(code: int) -> str:
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return f"you may not see {TRANSACTIONS_TOPIC} (DESCRIBE): whether all coordinators answer is not known"
    return f"which coordinators there are could not be asked: {error_for(code, TRANSACTIONS_TOPIC)}"


def _whose(candidate: _Candidate) -> str:
    return f"the transaction of producer {candidate.producer.producer_id} on {candidate.topic_partition}"


def _hidden_text(hidden: Iterable[str]) -> str:
    return (
        f"may have an owner that is not shown ({'; '.join(hidden)}): ask as somebody who sees all transactional ids, "
        "once all coordinators answer"
    )


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
