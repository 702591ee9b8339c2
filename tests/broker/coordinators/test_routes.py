"""Each question goes to its coordinator's process, each marker to its partition's leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from evidence.world.broker import run

from oncelog.broker.coordinators.routes import LeaderPeer, RoutedGate, RoutedMarkers
from oncelog.core.decision import MarkersToWrite
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.metadata.leadership import Leadership
from oncelog.core.metadata.topic_configs import AUDIT_TOPIC, TRANSACTION_STATE_TOPIC
from oncelog.core.placement import coordinator_partition
from oncelog.types import TopicPartition
from oncelog.wire.api import ApiKey
from oncelog.wire.log_records.cluster_metadata import TopicRecord

LEADERSHIP = Leadership(1, (1, 2, 3))
PARTITIONS = 9


class Asked:
    """What a gate is asked."""

    transactional_id = ""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id


class OneGate:
    """Gives tokens, and remembers what it was told."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.dropped: list[int] = []
        self.done: list[str] = []

    def __len__(self) -> int:
        return len(self.begun)

    def begin(self, _request: Any, _client: Any, asked: Mapping[Any, Any], _then: Callable[[Any], None]) -> int:
        self.begun.append(next(iter(asked.values())).transactional_id)
        return len(self.begun)

    def drop(self, token: int) -> None:
        self.dropped.append(token)

    async def ask(self, _request: Any, _client: Any, asked: Mapping[Any, Any]) -> Any:
        return self.begin(None, None, asked, lambda _: None)

    def completed(self, transactional_id: str) -> None:
        self.done.append(transactional_id)

    async def run(self) -> None:
        self.done.append("run")


class OneSender:
    """Remembers what it is to send."""

    def __init__(self) -> None:
        self.sent: list[MarkersToWrite] = []
        self.later: list[MarkersToWrite] = []
        self.written: Any = None

    def __len__(self) -> int:
        return len(self.sent)

    def send(self, markers: MarkersToWrite) -> None:
        self.sent.append(markers)

    def send_later(self, markers: Iterable[MarkersToWrite]) -> None:
        self.later += markers

    async def run(self) -> None:
        self.written = "run"


class OnePeer:
    """Is called."""

    def __init__(self) -> None:
        self.called = 0

    async def call(self, _api_key: ApiKey, _message: Any) -> str:
        self.called += 1
        return "answer"


def metadata_with(*names: str) -> ClusterMetadata:
    metadata = ClusterMetadata()
    for number, name in enumerate(names):
        metadata.apply(TopicRecord(name=name, topic_id=bytes([number + 1]) * 16, partition_count=PARTITIONS))
    return metadata


def gates(metadata: ClusterMetadata) -> tuple[RoutedGate, dict[int, Any]]:
    found: dict[int, Any] = {node_id: OneGate() for node_id in LEADERSHIP.node_ids}
    return RoutedGate(found, metadata, LEADERSHIP), found


def begun(gate: RoutedGate, name: str) -> int:
    request: Any = None
    asked: Any = {TopicPartition("t", 0): Asked(name)}
    return gate.begin(request, request, asked, lambda _: None)


def test_a_question_goes_to_who_keeps_the_id_and_its_token_comes_back() -> None:
    gate, found = gates(metadata_with(TRANSACTION_STATE_TOPIC))
    tokens = {f"tx{number}": begun(gate, f"tx{number}") for number in range(30)}
    assert len(set(tokens.values())) == len(gate) == 30
    for name, token in tokens.items():
        owner = found[LEADERSHIP.node_ids[coordinator_partition(name, PARTITIONS) % 3]]
        before = list(owner.dropped)
        assert name in owner.begun
        gate.drop(token)
        assert owner.dropped == [*before, owner.begun.index(name) + 1]
    assert all(each.begun for each in found.values())


def test_waiting_for_an_answer_goes_the_same_way() -> None:
    gate, found = gates(metadata_with(TRANSACTION_STATE_TOPIC))
    request: Any = None
    asked: Any = {TopicPartition("t", 0): Asked("tx")}
    run(gate.ask(request, request, asked))
    assert found[LEADERSHIP.node_ids[coordinator_partition("tx", PARTITIONS) % 3]].begun == ["tx"]


def test_before_there_are_coordinators_this_process_answers() -> None:
    gate, found = gates(metadata_with("t"))
    begun(gate, "tx")
    gate.completed("tx")
    assert (found[1].begun, found[1].done) == (["tx"], ["tx"])
    run(gate.run())
    assert all(each.done[-1] == "run" for each in found.values())


def markers_to(*partitions: TopicPartition) -> MarkersToWrite:
    return MarkersToWrite("tx", 7, 0, 0, True, frozenset(partitions), 2, prepared=object())


def test_markers_go_to_each_leader_and_keep_what_they_belong_to() -> None:
    metadata = metadata_with("t", "u")
    found: dict[int, Any] = {node_id: OneSender() for node_id in LEADERSHIP.node_ids}
    sender = RoutedMarkers(found, metadata, LEADERSHIP)
    names = [TopicPartition(topic, index) for topic in ("t", "u") for index in range(4)]
    markers = markers_to(*names, TopicPartition("gone", 0))
    sender.send(markers)
    assert len(sender) == 3
    for node_id, each in found.items():
        (part,) = each.sent
        assert part.prepared is markers.prepared
        led = {name for name in names if LEADERSHIP.leader_of(metadata.topics[name.topic], name.partition) == node_id}
        assert part.partitions == led | ({TopicPartition("gone", 0)} if node_id == 1 else set())
    sender.send_later([markers_to(names[0])])
    assert [len(each.later) for each in found.values()].count(1) == 1
    sender.written = written = lambda *_: None
    assert sender.written is written
    assert all(each.written is written for each in found.values())
    run(sender.run())
    assert all(each.written == "run" for each in found.values())


def test_markers_without_partitions_are_this_processs_own() -> None:
    found: dict[int, Any] = {node_id: OneSender() for node_id in LEADERSHIP.node_ids}
    RoutedMarkers(found, metadata_with(), LEADERSHIP).send(markers_to())
    assert [len(each.sent) for each in found.values()] == [1, 0, 0]


def test_a_topics_leader_is_called_as_of_now() -> None:
    metadata, request = ClusterMetadata(), None
    peers: dict[int, Any] = {node_id: OnePeer() for node_id in LEADERSHIP.node_ids}
    peer = LeaderPeer(peers, metadata, Leadership(2, (1, 2, 3)), AUDIT_TOPIC)

    async def work(message: Any) -> None:
        assert await peer.call(ApiKey.PRODUCE, message) == "answer"
        metadata.apply(TopicRecord(name=AUDIT_TOPIC, topic_id=bytes(16), partition_count=1))
        assert await peer.call(ApiKey.PRODUCE, message) == "answer"
        await asyncio.sleep(0)

    run(work(request))
    assert [each.called for each in peers.values()] == [1, 1, 0]
