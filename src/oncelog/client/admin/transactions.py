"""Transactions: list, describe, end, fence, terminate.

Hanging ones are admin_hanging's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from oncelog.client import arguments
from oncelog.client.admin.session import AdminSession, Unreachable
from oncelog.client.admin.transaction_listing import (
    STATES,
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
)
from oncelog.client.cluster.each_leader import Unreadable, ask_leaders
from oncelog.errors import ErrorCode, KafkaError, TransactionalIdNotFound
from oncelog.types import CoordinatorKey, Node, PreparedTxnState, ProducerIdAndEpoch, TopicPartition
from oncelog.wire.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from oncelog.wire.messages.describe_transactions import DescribeTransactionsRequest
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.list_transactions import ListTransactionsRequest

TRANSACTION = 1
DESCRIBED_AT_ONCE = 500


class AdminTransactions(AdminSession):
    """What an admin can do with transactional ids."""

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        duration_ms: int | None = None,
        pattern: str | None = None,
        unreachable: Unreachable | None = None,
    ) -> list[TransactionListing]:
        """Transactional ids of all coordinators. `duration_ms`: open for longer; `pattern`: whole-name regex (Java's).

        `states`: of Kafka's names, in capitals or not. `unreachable`: a dict for the brokers that do not answer in time; what the
        others coordinate is listed then; without it, or where none answers, that is an error. Raises InvalidArgument
        for other states, RequestTimedOut.
        """
        message = ListTransactionsRequest(
            state_filters=arguments.words("states", states, STATES),
            producer_id_filters=[
                arguments.integer("a producer id", each, high=arguments.INT64_MAX)
                for each in arguments.items("producer_ids", producer_ids, of="producer ids")
            ],
            duration_filter=-1
            if duration_ms is None
            else arguments.integer("duration_ms", duration_ms, high=arguments.INT64_MAX),
            transactional_id_pattern=arguments.text_or_none("pattern", pattern),
        )
        version_min = 2 if pattern else 1 if duration_ms is not None else 0
        found = [
            TransactionListing(each.transactional_id, each.producer_id, each.transaction_state, node.node_id)
            for node, response in await self._ask_every_node(
                "list transactions", lambda: message, version_min=version_min, unreachable=unreachable
            )
            for each in response.transaction_states
        ]
        return sorted(found, key=lambda each: each.transactional_id)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, unreachable: Unreachable | None = None
    ) -> dict[str, TransactionDescription]:
        """State, producer, timeout and partitions of each id. Raises TransactionalIdNotFound.

        `unreachable`: a dict for the coordinators that do not answer in time; what the others coordinate is described then.
        Without it, or where none answers: RequestTimedOut.
        """
        ids = arguments.texts("transactional_ids", transactional_ids)
        absent: set[str] = set()
        found = await self._describe_transactions(ids, unreachable=unreachable, absent=absent)
        for transactional_id in ids:
            if transactional_id in absent:
                raise TransactionalIdNotFound(f"transactional id {transactional_id!r}")
        return found

    async def _describe_transactions(
        self, ids: Iterable[str], *, unreachable: Unreachable | None = None, absent: set[str] | None = None
    ) -> dict[str, TransactionDescription]:
        """As `describe_transactions`; ids that do not exist are left out, and go to `absent`."""

        async def ask(node: Node, keys: list[str]) -> list[TransactionDescription]:
            response = await self._cluster.request(node, DescribeTransactionsRequest(transactional_ids=keys))
            found = []
            for each in response.transaction_states:
                if each.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    if absent is not None:
                        absent.add(each.transactional_id)
                    continue
                if each.error_code:
                    name = each.transactional_id
                    what = f"describe transactional id {name!r}"
                    raise self._refusal(DescribeTransactionsRequest, each.error_code, what, name)
                partitions = tuple(sorted(TopicPartition(t.topic, p) for t in each.topics for p in t.partitions))
                found.append(
                    TransactionDescription(
                        transactional_id=each.transactional_id,
                        coordinator_id=node.node_id,
                        state=each.transaction_state,
                        producer_id=each.producer_id,
                        producer_epoch=each.producer_epoch,
                        timeout_ms=each.transaction_timeout_ms,
                        start_ms=each.transaction_start_time_ms,
                        partitions=partitions,
                        now_ms=self._host.clock.now_ms(),
                    )
                )
            return found

        answers = await self._by_coordinator(
            "describe transactions", TRANSACTION, ids, DescribeTransactionsRequest, ask, unreachable=unreachable
        )
        return {each.transactional_id: each for answer in answers for each in answer}

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        unreadable: Unreadable | None = None,
    ) -> dict[TopicPartition, list[ProducerDescription]]:
        """What each partition's leader (or this replica) remembers of producers, open transactions among it.

        `unreadable`: a dict that takes the error of each partition that cannot be asked, instead of raising it.
        """
        wanted = arguments.topic_partitions("partitions", partitions)
        arguments.integer_or_none("broker_id", broker_id)

        async def ask(
            node: Node, tps: list[TopicPartition]
        ) -> tuple[dict[TopicPartition, list[ProducerDescription]], dict[TopicPartition, KafkaError]]:
            parts = [tps[at : at + DESCRIBED_AT_ONCE] for at in range(0, len(tps), DESCRIBED_AT_ONCE)]
            answers = await asyncio.gather(*(self._describe_producers(node, part) for part in parts))
            found = {tp: producers for answer, _ in answers for tp, producers in answer.items()}
            return found, {tp: error for _, errors in answers for tp, error in errors.items()}

        what = "describe producers"
        return await ask_leaders(
            self._cluster,
            what,
            wanted,
            ask,
            unreadable=unreadable,
            broker_id=broker_id,
            request=DescribeProducersRequest,
        )

    async def _describe_producers(
        self, node: Node, partitions: list[TopicPartition]
    ) -> tuple[dict[TopicPartition, list[ProducerDescription]], dict[TopicPartition, KafkaError]]:
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        message = DescribeProducersRequest(
            topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
        )
        response = await self._cluster.request(node, message)
        found: dict[TopicPartition, list[ProducerDescription]] = {}
        errors: dict[TopicPartition, KafkaError] = {}
        for topic_response in response.topics:
            for each in topic_response.partitions:
                topic_partition = TopicPartition(topic_response.name, each.partition_index)
                if each.error_code:
                    errors[topic_partition] = self._refusal(
                        DescribeProducersRequest,
                        each.error_code,
                        f"describe producers of {topic_partition}",
                        topic_response.name,
                    )
                else:
                    found[topic_partition] = [
                        _producer(each) for each in sorted(each.active_producers, key=lambda p: p.producer_id)
                    ]
        return found, errors

    # -- ending

    async def end_transaction(
        self, transactional_id: str, state: PreparedTxnState, commit: bool, *, timeout_ms: int | None = None
    ) -> ProducerIdAndEpoch:
        """End the transaction that another process left open as `state`; repeating it is harmless (KIP-890, EndTxn v5).

        Gives the identity of the next transaction. Raises ProducerFenced where somebody initialised the id since,
        InvalidTxnState where the transaction was ended the other way, InvalidPidMapping, TransactionalIdNotFound.
        """
        arguments.text("transactional_id", transactional_id)
        arguments.boolean("commit", commit)
        arguments.duration_ms_or_none("timeout_ms", timeout_ms)
        if arguments.prepared_state("state", state).is_none:
            raise arguments.refuse("state", state, "a transaction", "there is none to end")
        message = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=state.producer_id,
            producer_epoch=state.producer_epoch,
            committed=commit,
        )
        response = await self._ask_coordinator(
            f"{'commit' if commit else 'abort'} transaction {state} of {transactional_id!r}",
            CoordinatorKey(TRANSACTION, transactional_id),
            message,
            error_of=lambda r: int(r.error_code),
            version_min=5,
            timeout_ms=timeout_ms,
        )
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, ProducerIdAndEpoch]:
        """Fence whoever uses these ids and abort their open transactions; creates ids that do not exist.

        Side effect (Kafka's too): the id's stored timeout becomes `timeout_ms` (default: request_timeout_ms).
        """
        ids = arguments.texts("transactional_ids", transactional_ids)
        arguments.duration_ms_or_none("timeout_ms", timeout_ms)
        stored_ms = self._config.request_timeout_ms if timeout_ms is None else timeout_ms
        results = await asyncio.gather(*(self._fence(each, stored_ms) for each in ids))
        return dict(zip(ids, results, strict=True))

    async def _fence(self, transactional_id: str, timeout_ms: int) -> ProducerIdAndEpoch:
        message = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        response = await self._ask_coordinator(
            f"fence {transactional_id!r}",
            CoordinatorKey(TRANSACTION, transactional_id),
            message,
            error_of=lambda r: int(r.error_code),
        )
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    async def force_terminate_transaction(self, transactional_id: str) -> None:
        """Abort an id's open transaction, also a prepared one, and fence its producer (KIP-939).

        Raises TransactionalIdNotFound; for an id without an open transaction it only fences.
        """
        arguments.text("transactional_id", transactional_id)
        with self._within_one_time(f"terminate the transaction of {transactional_id!r}"):
            described: Mapping[str, TransactionDescription] = await self.describe_transactions([transactional_id])
            # The id keeps its timeout; two-phase ones, which have none, get the default until they are initialised again.
            timeout_ms = described[transactional_id].timeout_ms
            usual = 0 < timeout_ms < 2**31 - 1
            await self.fence_producers([transactional_id], timeout_ms=timeout_ms if usual else None)


def _producer(state: ProducerState) -> ProducerDescription:
    start = state.current_txn_start_offset
    return ProducerDescription(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp_ms=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        transaction_start_offset=start if start >= 0 else None,
    )
