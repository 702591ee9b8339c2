"""Markers that are refused: sent again less and less often, and said once in the log."""

import asyncio
import logging

from evidence.world.loop import run_simulated

from oncelog.broker.coordinators.marker_sender import MarkerSender
from oncelog.broker.network.peer import PeerLost
from oncelog.broker.requests.local_peer import LocalPeer
from oncelog.core.decision import MarkersToWrite
from oncelog.core.metadata.cluster import ClusterMetadata, Topic
from oncelog.errors import ErrorCode
from oncelog.host.tasks import Tasks
from oncelog.types import TopicPartition

E = ErrorCode
NAME = TopicPartition("t", 0)
MARKERS = MarkersToWrite("id", 7, 1, 0, True, frozenset({NAME}), 2)


class World:
    """A sender whose writer answers `codes` in turn; `asked` is when it was asked."""

    def __init__(self, loop, codes):
        self.loop, self.codes, self.asked, self.results = loop, list(codes), [], []
        self.metadata = metadata = ClusterMetadata()
        metadata.topics["t"] = Topic("t", bytes(16), 1)
        self.tasks = Tasks()
        peer = LocalPeer(None, self.tasks, client_id="markers")
        self.sender = MarkerSender(peer, metadata, self.tasks, writer=self)
        self.sender.written = self.written

    def write(self, marker, name, then):
        assert (marker.producer_id, name) == (7, NAME)
        self.asked.append(round(self.loop.time(), 3))
        then(self.codes.pop(0))

    def written(self, markers, results):
        self.results.append(results[NAME].error_code)
        if results[NAME].error_code is not E.NONE:
            self.sender.send_later((markers,))

    async def run(self):
        self.sender.send(MARKERS)
        await self.settled()

    async def settled(self):
        while len(self.sender):
            await asyncio.sleep(0)  # what was settled is told in a step of its own
            await self.tasks.finished()

    @property
    def gaps(self):
        return [round(after - before, 3) for before, after in zip(self.asked, self.asked[1:], strict=False)]


def run(work):
    return run_simulated(1, work)


def test_the_pause_doubles_up_to_a_second_and_starts_anew(caplog):
    refused = [E.KAFKA_STORAGE_ERROR] * 7

    async def work(loop):
        world = World(loop, [*refused, E.NONE, E.KAFKA_STORAGE_ERROR, E.NONE])
        await world.run()
        assert world.gaps == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
        assert world.results[-1] is E.NONE
        world.asked.clear()
        await world.run()
        assert world.gaps == [0.05]

    with caplog.at_level(logging.INFO, "oncelog.markers"):
        run(work)
    said = [record.getMessage() for record in caplog.records if record.name == "oncelog.markers"]
    assert said == ["marker of producer 7 on t-0: KAFKA_STORAGE_ERROR", "t-0 takes markers again"] * 2


def test_each_new_reason_is_said(caplog):
    async def work(loop):
        await World(loop, [E.KAFKA_STORAGE_ERROR, E.NOT_LEADER_OR_FOLLOWER, E.NOT_LEADER_OR_FOLLOWER, E.NONE]).run()

    with caplog.at_level(logging.WARNING, "oncelog.markers"):
        run(work)
    said = [record.getMessage().rpartition(" ")[2] for record in caplog.records if record.name == "oncelog.markers"]
    assert said == ["KAFKA_STORAGE_ERROR", "NOT_LEADER_OR_FOLLOWER"]


def test_a_topic_that_is_deleted_meanwhile_refuses_nothing(caplog):
    async def work(loop):
        world = World(loop, [E.UNKNOWN_TOPIC_OR_PARTITION])
        world.sender.send(MARKERS)
        del world.metadata.topics["t"]
        await world.settled()
        assert world.results == [E.UNKNOWN_TOPIC_OR_PARTITION, E.NONE]

    with caplog.at_level(logging.WARNING, "oncelog.markers"):
        run(work)
    assert not caplog.records


def test_a_topic_that_is_gone_counts_as_written():
    async def work(loop):
        world = World(loop, [])
        gone = TopicPartition("gone", 3)
        heard = []
        world.sender.written = lambda markers, results: heard.append(results)
        world.sender.send(MarkersToWrite("id", 7, 1, 0, True, frozenset({gone}), 2))
        assert [{name: each.error_code for name, each in results.items()} for results in heard] == [{gone: E.NONE}]
        assert len(world.sender) == 0

    run(work)


def test_markers_that_wait_for_their_commit_are_counted():
    async def work(loop):
        world = World(loop, [])
        waiting = []
        world.write = lambda marker, name, then: waiting.append(then)
        world.sender.send(MARKERS)
        assert len(world.sender) == 1
        waiting.pop()(E.NONE)
        assert (len(world.sender), world.results) == (1, [])  # who waits for the outcome is answered first
        await asyncio.sleep(0)
        assert (len(world.sender), world.results) == (0, [E.NONE])

    run(work)


def test_markers_that_are_refused_are_counted_while_they_wait_for_their_next_turn():
    async def work(loop):
        world = World(loop, [E.KAFKA_STORAGE_ERROR] * 8 + [E.NONE])
        counts = []
        world.sender.send(MARKERS)
        while loop.time() < 4.0:
            counts.append(len(world.sender))
            await asyncio.sleep(0.01)
        assert set(counts) == {1}, "the alert rings for what is never 0 for minutes"
        await world.settled()
        assert (world.results[-1], len(world.sender)) == (E.NONE, 0)

    run(work)


def test_markers_are_counted_while_their_leader_cannot_be_asked():
    class Away:
        async def call(self, api_key, message):
            raise PeerLost("it is away")

    async def work(loop):
        world = World(loop, [])
        sender = MarkerSender(Away(), world.metadata, world.tasks)
        world.tasks.start(sender.run())
        sender.send(MARKERS)
        counts = set()
        while loop.time() < 4.0:
            counts.add(len(sender))
            await asyncio.sleep(0.01)
        assert counts == {1}
        await world.tasks.close()

    run(work)
