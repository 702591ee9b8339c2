"""A share consumer and one broker: one request at a time, what was acquired becomes records, what is said goes with the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from oncelog.client.cluster.cluster import Cluster
from oncelog.client.config import ShareConsumerConfig
from oncelog.client.consumer.corrupt import corrupt
from oncelog.client.records import ConsumerRecord, ShareRecord
from oncelog.core.sharing.holding import Acknowledge, Holding, Said
from oncelog.core.sharing.session import FINAL_EPOCH, Partition, SessionState
from oncelog.errors import CorruptBatch, CorruptRecord, ErrorCode, KafkaError, error_for
from oncelog.types import Node, TopicPartition
from oncelog.wire.messages import share_acknowledge as acknowledging
from oncelog.wire.messages import share_fetch as fetching
from oncelog.wire.record_batch import batches

LANE = "share"
LAST_LANE = "share-end"
RENEWS_SINCE_VERSION = 2
Refused = Callable[[TopicPartition, KafkaError], None]


class BrokerSession:
    """The session with `node`. `name_of` gives a topic's name by its id, `refused` hears what was not taken."""

    def __init__(
        self,
        cluster: Cluster,
        config: ShareConsumerConfig,
        member_id: str,
        node: Node,
        name_of: Callable[[bytes], str | None],
        refused: Refused,
    ) -> None:
        self.node = node
        self.holdings: dict[Partition, Holding] = {}
        self.lock_duration_ms = 0
        self.locked_from_ms = 0.0  # since when, at the earliest, it has what the last fetch gave; this client's clock
        self.has_fault = False  # whether the last fetch told of a partition that cannot be read now
        self.damage: CorruptRecord | None = None  # in what the last fetch gave
        self._cluster, self._config, self._member_id = cluster, config, member_id
        self._name_of, self._refused = name_of, refused
        self._state = SessionState()
        self._turn = asyncio.Lock()
        self._lane = LANE
        self._is_saying = self._is_ending = False
        self._may_go_on = asyncio.Event()

    @property
    def has_news(self) -> bool:
        """Whether something is to be acknowledged, or is under way and not answered."""
        return self._is_saying or any(holding.has_news for holding in self.holdings.values())

    async def fetch(self, wanted: Iterable[Partition], max_wait_ms: int, records_max: int) -> list[ShareRecord]:
        """Say what became of records, and get more. Raises KafkaError; then nothing more is known of what it had."""
        async with self._turn:
            await self._until_it_may_leave()
            if self._is_ending:
                return []
            if self._state.is_open:
                await self._renew()
            said = self._take_said() if self._state.is_open else {}
            step = self._state.next_fetch(wanted)
            topics: dict[bytes, fetching.FetchTopic] = {}
            for topic_id, index in dict.fromkeys((*step.added, *said)):
                topic = topics.setdefault(topic_id, fetching.FetchTopic(topic_id=topic_id))
                found = [_batch(fetching.AcknowledgementBatch, each) for each in said.get((topic_id, index), ())]
                topic.partitions.append(fetching.FetchPartition(partition_index=index, acknowledgement_batches=found))
            request = fetching.ShareFetchRequest(
                group_id=self._config.group_id,
                member_id=self._member_id,
                share_session_epoch=step.session_epoch,
                max_wait_ms=max_wait_ms,
                min_bytes=self._config.fetch_min_bytes,
                max_bytes=self._config.fetch_max_bytes,
                max_records=records_max,
                batch_size=records_max,
                share_acquire_mode=int(self._config.share_acquire_mode == "record_limit"),
                topics=list(topics.values()),
                forgotten_topics_data=_forgotten(step.forgotten),
            )
            asked_ms = self._cluster.now_ms()
            response: fetching.ShareFetchResponse = await self._ask(request, said, max_wait_ms)
            self.lock_duration_ms = response.acquisition_lock_timeout_ms
            # Locks run since the broker answered: what lasted longer than it may have waited was the way (shares, seed 67).
            self.locked_from_ms = min(self._cluster.now_ms(), asked_ms + max_wait_ms)
            records = self._records(response)
            asked_for = set(wanted)
            self.holdings = {each: had for each, had in self.holdings.items() if each in asked_for or not had.is_empty}
            return records

    async def acknowledge(self, *, is_last: bool = False) -> None:
        """Say what became of records, without asking for more; `is_last` ends the session. Raises KafkaError."""
        async with self._turn:
            if not self._state.is_open:
                return
            await self._until_it_may_leave()
            await self._renew()
            said = self._take_said()
            if said or is_last:
                await self._say(said, is_last=is_last)
            if is_last:
                self._state.lost()

    def begin_to_end(self) -> None:
        """Nothing more is fetched, and no pause is waited for that the broker asked for: it was for what is read. A connection
        of its own says what is left to say; who has the session counts for the broker, not the connection."""
        self._is_ending = True
        self._may_go_on.set()

    async def _until_it_may_leave(self) -> None:
        """Before anything is taken of what is to be said. Raises KafkaError, as `_ask`: what was said is told to be lost then."""
        try:
            while (await self._cluster.connection(self.node, self._lane)).is_throttled(self._may_go_on.set):
                if self._is_ending:
                    self._lane = LAST_LANE
                    return
                await self._may_go_on.wait()
                self._may_go_on.clear()
        except KafkaError as error:
            self.give_up(error)
            raise

    async def _renew(self) -> None:
        renewed = {
            partition: [Said(offset, offset, (Acknowledge.RENEW,)) for offset in offsets]
            for partition, holding in self.holdings.items()
            if (offsets := holding.take_renewed())
        }
        if renewed:
            await self._say(renewed, is_renewal=True)

    async def _say(self, said: dict[Partition, list[Said]], *, is_last: bool = False, is_renewal: bool = False) -> None:
        topics: dict[bytes, acknowledging.AcknowledgeTopic] = {}
        for (topic_id, index), some in said.items():
            topic = topics.setdefault(topic_id, acknowledging.AcknowledgeTopic(topic_id=topic_id))
            found = [_batch(acknowledging.AcknowledgementBatch, each) for each in some]
            part = acknowledging.AcknowledgePartition(partition_index=index, acknowledgement_batches=found)
            topic.partitions.append(part)
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=self._config.group_id,
            member_id=self._member_id,
            share_session_epoch=FINAL_EPOCH if is_last else self._state.session_epoch,
            is_renew_ack=is_renewal,
            topics=list(topics.values()),
        )
        response = await self._ask(request, said, 0, version_min=RENEWS_SINCE_VERSION if is_renewal else 1)
        self._hear(
            (topic.topic_id, part.partition_index, part.error_code, part.error_message)
            for topic in response.responses
            for part in topic.partitions
        )

    def _take_said(self) -> dict[Partition, list[Said]]:
        found = {partition: holding.take_said() for partition, holding in self.holdings.items()}
        return {partition: some for partition, some in found.items() if some}

    async def _ask(self, request: Any, said: dict[Partition, list[Said]], wait_ms: int, *, version_min: int = 1) -> Any:
        self._is_saying = bool(said)
        try:
            response = await self._cluster.request(
                self.node,
                request,
                version_min=version_min,
                timeout_ms=self._config.request_timeout_ms + wait_ms,
                lane=self._lane,
            )
            if response.error_code:
                raise error_for(response.error_code, f"share session with broker {self.node.node_id}")
        except KafkaError as error:
            self.give_up(error, said)
            raise
        except BaseException:
            self._lose()
            raise
        finally:
            self._is_saying = False
        self._state.answered()
        return response

    def give_up(self, error: KafkaError, said: Iterable[Partition] = ()) -> None:
        """The session is lost: of what was said (`said`: with the request that failed) nobody knows whether it was taken."""
        unsent = [partition for partition, holding in self.holdings.items() if holding.has_said]
        self._lose()
        for partition in dict.fromkeys((*said, *unsent)):
            self._tell(partition, error)

    def _lose(self) -> None:
        """What the member had may be others' by now."""
        self._state.lost()
        for holding in self.holdings.values():
            holding.forget()

    def _tell(self, partition: Partition, error: KafkaError) -> None:
        self._refused(TopicPartition(self._name_of(partition[0]) or partition[0].hex(), partition[1]), error)

    def _hear(self, outcomes: Iterable[tuple[bytes, int, int, str | None]]) -> None:
        for topic_id, index, code, message in outcomes:
            if code:
                self._tell((bytes(topic_id), index), error_for(code, message or "an acknowledgement was not taken"))

    # -- records

    def _records(self, response: fetching.ShareFetchResponse) -> list[ShareRecord]:
        found: list[ShareRecord] = []
        self.has_fault, self.damage = False, None
        for topic in response.responses:
            topic_id = bytes(topic.topic_id)
            for part in topic.partitions:
                code = part.acknowledge_error_code
                self._hear([(topic_id, part.partition_index, code, part.acknowledge_error_message)])
                if part.error_code:
                    fault = error_for(part.error_code, part.error_message or f"share fetch of {topic_id.hex()}")
                    self.has_fault = True
                    self._cluster.refresh_soon()
                    if not fault.retriable and part.error_code not in _PASSING:
                        raise fault
                elif part.acquired_records:
                    found += self._records_of(topic_id, part)
        return found

    def _records_of(self, topic_id: bytes, part: fetching.PartitionData) -> list[ShareRecord]:
        holding = self.holdings.setdefault((topic_id, part.partition_index), Holding())
        counts = {
            offset: each.delivery_count
            for each in part.acquired_records
            for offset in range(each.first_offset, each.last_offset + 1)
        }
        at, found = TopicPartition(self._name_of(topic_id) or "", part.partition_index), []
        offset = -1  # of the batch that is read
        try:
            for batch in batches(part.records or b""):
                offset = batch.base_offset
                if self._config.check_crcs:
                    batch.check_crc()  # first: who believes a damaged header says of a record that it is nobody's
                if batch.is_control or not any(
                    each.first_offset <= batch.last_offset and offset <= each.last_offset
                    for each in part.acquired_records
                ):
                    continue
                for record in batch.records_as(ConsumerRecord, at.topic, at.partition):
                    count = counts.pop(record.offset, 0)
                    if count:
                        holding.given(record.offset)
                        found.append(ShareRecord(*record, count, topic_id))
        except CorruptBatch as error:  # the way or the disk: somebody may read it better
            self.damage = corrupt(at, None if offset < 0 else offset, error)
            for each in counts:
                holding.given(each)
                holding.say(each, Acknowledge.RELEASE)
        else:
            holding.say_gaps(counts)
        return found


_PASSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_SERVER_ERROR)


def _batch(kind: Any, said: Said) -> Any:
    return kind(first_offset=said.first_offset, last_offset=said.last_offset, acknowledge_types=list(said.types))


def _forgotten(partitions: Iterable[Partition]) -> list[fetching.ForgottenTopic]:
    topics: dict[bytes, fetching.ForgottenTopic] = {}
    for topic_id, index in partitions:
        topics.setdefault(topic_id, fetching.ForgottenTopic(topic_id=topic_id)).partitions.append(index)
    return list(topics.values())
