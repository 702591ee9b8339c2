"""A scripted broker over an in-memory network, in virtual time: what it answers is the test's choice.

Every request is kept in `asked`; `script(api, ...)` sets what is answered next: an error code, a message, NO_ANSWER or
CUT. Without a script it answers like a small healthy cluster of one broker with one topic `t` of two partitions.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine
from typing import Any

from evidence.world.loop import run_simulated
from evidence.world.network import feed
from oncelog import Producer
from oncelog.core.transactions.add_partitions import topic_results
from oncelog.errors import ErrorCode
from oncelog.host.host import Host
from oncelog.host.network import ConnectFailed
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.frame import FrameReader, decode_request, decode_request_header, encode_response
from oncelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from oncelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from oncelog.wire.messages.end_txn import EndTxnResponse
from oncelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from oncelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from oncelog.wire.messages.init_producer_id import InitProducerIdResponse
from oncelog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from oncelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from oncelog.wire.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from oncelog.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from oncelog.wire.record_batch import RecordBatch, batches, set_offsets
from oncelog.wire.schema import ZERO_UUID, Struct

NO_ANSWER = "no answer"
CUT = "cut"
TOPIC_ID = bytes(range(16))
BOOTSTRAP = "broker:9092"


FULL_BYTES = 64 * 1024  # what a real transport keeps before it asks its protocol to pause


class Pipe(asyncio.Transport):
    """One end of a connection; bytes arrive at the other end a moment later, or wait here while it does not read."""

    def __init__(self, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self.protocol = protocol
        self.peer: Pipe
        self.closed = False
        self.on_its_way: deque[bytes] = deque()
        self.unsent: deque[bytes] = deque()
        self.reads = True
        self.is_paused = self.is_ending = False

    def write(self, data: Any) -> None:
        if self.closed or self.is_ending:
            return
        self.unsent.append(bytes(data))
        self.deliver()
        if not self.is_paused and self.get_write_buffer_size() > FULL_BYTES:
            self.is_paused = True
            self.protocol.pause_writing()

    def deliver(self) -> None:
        while self.unsent and self.peer.reads:
            self.peer.on_its_way.append(
                self.unsent.popleft()
            )  # the loop shuffles what is due at once, a stream does not
            asyncio.get_running_loop().call_later(0.001, self.peer.arrive)
        if self.is_paused and not self.unsent:
            self.is_paused = False
            self.protocol.resume_writing()
        if self.is_ending and not self.unsent:
            self.abort()

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.unsent))

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True
        self.peer.deliver()

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(bytes(part) for part in parts))

    def arrive(self) -> None:
        data = self.on_its_way.popleft()
        if not self.closed:
            feed(self.protocol, data)

    def close(self) -> None:
        """As a real one: what is unsent is sent first, however long that takes."""
        self.is_ending = True
        if not self.unsent:
            self.abort()

    def abort(self) -> None:
        if not self.closed:
            self.unsent.clear()
            self.lose()
            self.peer.lose()

    def lose(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def is_closing(self) -> bool:
        return self.closed or self.is_ending


class ScriptedBroker:
    """See the module. `versions` caps what it offers; `level` is transaction.version."""

    def __init__(self, *, level: int = 2, versions: dict[int, int] | None = None, topic_ids: bool = True) -> None:
        self.level = level
        self.versions = versions or {}
        self.topic_id = TOPIC_ID if topic_ids else ZERO_UUID
        self.is_reachable = True
        self.takes_metrics = False  # then what it answers is the test's to script
        self.leader_id = 1
        self.asked: list[tuple[ApiKey, int, Any]] = []
        self.scripts: dict[int, deque[Any]] = defaultdict(deque)
        self.log: dict[tuple[str, int], list[RecordBatch]] = defaultdict(list)
        self.end_offsets: dict[tuple[str, int], int] = defaultdict(int)
        self.delay_s: dict[int, float] = {}
        self.connection_count = 0
        self.pipes: list[Pipe] = []  # the broker's ends, oldest first

    # -- for tests

    def script(self, api: ApiKey, *answers: Any) -> None:
        self.scripts[api].extend(answers)

    def requests(self, api: ApiKey) -> list[Any]:
        return [message for key, _, message in self.asked if key == api]

    def versions_asked(self, api: ApiKey) -> list[int]:
        return [version for key, version, _ in self.asked if key == api]

    def produced(self) -> list[tuple[int, int, int, list[bytes | None]]]:
        """(partition, producer epoch, sequence, values) of every batch of every Produce request, in order."""
        return [
            (data.index, batch.producer_epoch, batch.base_sequence, [record.value for record in batch.records()])
            for request in self.requests(ApiKey.PRODUCE)
            for topic in request.topic_data
            for data in topic.partition_data
            for batch in batches(data.records)
        ]

    def host(self) -> Host:
        return Host(_Clock(), self, None, None, _Random())  # type: ignore[arg-type]

    # -- the network door

    async def connect(self, host: str, port: int, factory: Callable[[], Any]) -> tuple[Any, Any]:
        await asyncio.sleep(0.001)
        if not self.is_reachable:
            raise ConnectFailed(f"nobody listens on {host}:{port}")
        self.connection_count += 1
        protocol = factory()
        here, there = Pipe(protocol), Pipe(_Served(self))
        here.peer, there.peer = there, here
        self.pipes.append(there)
        there.protocol.connection_made(there)
        protocol.connection_made(here)
        return here, protocol

    # -- answers

    def answer(self, key: ApiKey, version: int, message: Any) -> Any:
        self.asked.append((key, version, message))
        scripted = self.scripts[key].popleft() if self.scripts[key] else 0
        if isinstance(scripted, Struct) or scripted in (NO_ANSWER, CUT):
            return scripted
        if callable(scripted):
            return scripted(message)
        return getattr(self, f"_{key.name.lower()}")(message, scripted)

    def _offset_fetch(self, message: Any, code: int) -> Any:
        groups = [OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in message.groups]
        return OffsetFetchResponse(groups=groups)

    def _api_versions(self, _: Any, code: int) -> Any:
        keys = [
            ApiVersion(api_key=key, min_version=api.min_version, max_version=self.versions.get(key, api.max_version))
            for key, api in APIS.items()
            if self.takes_metrics or key not in (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
        ]
        level = FinalizedFeatureKey(name="transaction.version", max_version_level=self.level, min_version_level=1)
        return ApiVersionsResponse(
            error_code=code, api_keys=keys, finalized_features=[level], finalized_features_epoch=1
        )

    def _metadata(self, message: Any, code: int) -> Any:
        names = ["t"] if message.topics is None else [topic.name for topic in message.topics]
        topics = [
            MetadataResponseTopic(
                name=name,
                topic_id=self.topic_id if name == "t" and not code else ZERO_UUID,
                error_code=code if name == "t" else 3,
                partitions=[
                    MetadataResponsePartition(partition_index=p, leader_id=self.leader_id, leader_epoch=0)
                    for p in (range(2) if name == "t" and not code else ())
                ],
            )
            for name in names
        ]
        broker = MetadataResponseBroker(node_id=1, host="broker", port=9092)
        return MetadataResponse(brokers=[broker], controller_id=1, cluster_id="c", topics=topics)

    def _find_coordinator(self, message: Any, code: int) -> Any:
        found = [
            Coordinator(key=key, node_id=-1 if code else 1, host="broker", port=9092, error_code=code)
            for key in message.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=found)

    def _init_producer_id(self, _: Any, code: int) -> Any:
        return InitProducerIdResponse(error_code=code, producer_id=-1 if code else 7)

    def _add_partitions_to_txn(self, message: Any, code: int) -> Any:
        topics = topic_results(message.v3_and_below_topics, {}, ErrorCode(code))
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)

    def _end_txn(self, message: Any, code: int) -> Any:
        if code:
            return EndTxnResponse(error_code=code)
        return EndTxnResponse(producer_id=message.producer_id, producer_epoch=message.producer_epoch + 1)

    def _produce(self, message: Any, code: int) -> Any:
        topics = []
        for topic in message.topic_data:
            results = []
            for data in topic.partition_data:
                offset = -1 if code else self.append(topic.name or "t", data.index, data.records)
                results.append(PartitionProduceResponse(index=data.index, error_code=code, base_offset=offset))
            topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=results))
        return ProduceResponse(responses=topics) if message.acks else NO_ANSWER

    def append(self, topic: str, partition: int, data: Any) -> int:
        where = (topic, partition)
        base_offset = self.end_offsets[where]
        batch = bytearray(data)
        set_offsets(batch, base_offset, 0)
        self.log[where].append(RecordBatch(batch))
        self.end_offsets[where] += self.log[where][-1].last_offset_delta + 1
        return base_offset

    def _fetch(self, message: Any, code: int) -> Any:
        topics = []
        for topic in message.topics:
            name = topic.topic or "t"
            partitions = []
            for asked in topic.partitions:
                where = (name, asked.partition)
                data = b"".join(bytes(b.data) for b in self.log[where] if b.end_offset > asked.fetch_offset)
                partitions.append(
                    PartitionData(
                        partition_index=asked.partition,
                        error_code=code,
                        high_watermark=self.end_offsets[where],
                        last_stable_offset=self.end_offsets[where],
                        records=None if code else data,
                    )
                )
            topics.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions))
        return FetchResponse(responses=topics)

    def _list_offsets(self, message: Any, code: int) -> Any:
        topics = [
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=p.partition_index,
                        error_code=code,
                        offset=0 if p.timestamp == -2 else self.end_offsets[topic.name, p.partition_index],
                    )
                    for p in topic.partitions
                ],
            )
            for topic in message.topics
        ]
        return ListOffsetsResponse(topics=topics)


class _Served(asyncio.Protocol):
    """The broker's side of one connection: answers in order."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker, self.frames = broker, FrameReader()
        self.transport: Pipe
        self.not_before_s = 0.0
        self.answers: deque[Any] = deque()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        for frame in self.frames.receive(data):
            header, pos = decode_request_header(frame)
            key = ApiKey(header.api_key)
            answer = self.broker.answer(key, header.api_version, decode_request(header, frame, pos))
            if answer == CUT:
                self.transport.close()
            elif answer != NO_ANSWER:
                is_waiting = key == ApiKey.FETCH and not any(
                    p.records or p.error_code for t in answer.responses for p in t.partitions
                )
                delay_s = self.broker.delay_s.get(key, 0.2 if is_waiting else 0.0)
                self.not_before_s = max(self.not_before_s, loop.time() + delay_s)
                is_refusal = key == ApiKey.API_VERSIONS and answer.error_code  # always in version 0
                version = 0 if is_refusal else header.api_version
                self.answers.append(encode_response(key, version, header.correlation_id, answer))
                loop.call_at(self.not_before_s, self.send_answer)

    def send_answer(self) -> None:
        self.transport.writelines(self.answers.popleft())


class _Clock:
    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(asyncio.get_running_loop().time() * 1000)


class _Random:
    def token_bytes(self, count: int) -> bytes:
        return bytes(count)

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2

    def below(self, bound: int) -> int:
        return 0


def run(work: Callable[..., Coroutine[Any, Any, Any]], seed: int = 1) -> Any:
    """Run the coroutine function in virtual time; errors that nobody handled fail the test."""

    async def main(loop: Any) -> Any:
        result = await (work(loop) if inspect.signature(work).parameters else work())
        assert loop.errors == [], loop.errors
        return result

    return run_simulated(seed, main)


def producer(broker: ScriptedBroker, **config: Any) -> Producer:
    """A producer of ours that speaks to the scripted broker and lingers for nothing."""
    return Producer(host=broker.host(), bootstrap_servers=BOOTSTRAP, **{"linger_ms": 0, **config})
