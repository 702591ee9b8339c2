"""Who watches that every request is answered: what is an anomaly, and which waits are known by rule."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from evidence.simulator.client_calls import SLACK_MS, ClientCalls
from evidence.simulator.cluster import Cluster
from evidence.simulator.faults import FaultOptions
from evidence.simulator.open_requests import BUSY_SECONDS, BUSY_SYNCS, REST_MS, Bounds, OpenRequests, watching
from evidence.simulator.raw_client import RawProducer
from evidence.world.loop import PROCESS, Process, SimLoop, run_simulated
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.api import ApiKey
from oncelog.wire.frame import encode_request, encode_response
from oncelog.wire.messages.fetch import FetchRequest
from oncelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog.wire.messages.join_group import JoinGroupRequest
from oncelog.wire.messages.produce import ProduceRequest

SYNC_SECONDS, HELD_MS, FIRST_REBALANCE_MS = 0.001, 100.0, 0.0
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class _Peer:
    class owner:  # noqa: N801
        name = "client"


class _Transport:
    """As much of a connection as is looked at."""

    peer = _Peer
    protocol = None

    def is_closing(self) -> bool:
        return False


@dataclass
class _World:
    """`under_way` is what the broker is said to do."""

    found: list[str] = field(default_factory=list)
    under_way: bool | None = False
    now: float = 0.0

    def __post_init__(self) -> None:
        bounds = Bounds(SYNC_SECONDS, HELD_MS, FIRST_REBALANCE_MS)
        self.requests = OpenRequests(lambda _, text: self.found.append(text), lambda: bounds, lambda: self.under_way)
        self.transport: Any = _Transport()

    def ask(self, message: Any, version: int, correlation_id: int = 1) -> None:
        key = next(key for key in ApiKey if type(message).__name__ == f"{_camel(key)}Request")
        data = b"".join(bytes(part) for part in encode_request(key, version, correlation_id, "c", message))
        self.requests.received(self.transport, data[:7], self.now)
        self.requests.received(self.transport, data[7:], self.now)

    def answer(self, correlation_id: int = 1) -> None:
        parts = encode_response(ApiKey.HEARTBEAT, 4, correlation_id, HeartbeatResponse())
        self.requests.answered(self.transport, b"".join(bytes(part) for part in parts), self.now)

    def wait(self, ms: float) -> None:
        for _ in range(500):
            self.requests.time_moves(self.now, self.now + ms / 500_000)
            self.now += ms / 500_000


def _camel(key: ApiKey) -> str:
    return "".join(part.capitalize() for part in key.name.split("_"))


def test_a_broker_at_rest_owes_no_answer() -> None:
    world = _World()
    world.ask(BEAT, 4)
    world.wait(REST_MS - 5)
    assert world.found == []
    world.wait(20)
    assert len(world.found) == 1, "once"
    assert "Heartbeat v4 of 'c', correlation id 1, received 0.0000 (never begun) from client" in world.found[0]
    world.wait(1000)
    assert len(world.found) == 1


@pytest.mark.parametrize("under_way", [True, None])
def test_what_goes_on_by_itself_is_waited_for(under_way: bool | None) -> None:
    world = _World(under_way=under_way)
    world.ask(BEAT, 4)
    world.wait((BUSY_SECONDS + BUSY_SYNCS * SYNC_SECONDS) * 1000 - 20)
    assert world.found == []
    world.wait(200)
    assert len(world.found) == (1 if under_way else 0), "but not for ever; a broker that does not run owes nothing"


def test_the_bound_begins_when_the_last_fault_ends() -> None:
    world = _World(under_way=True)
    world.ask(BEAT, 4)
    world.requests.slow_until(2.0)
    world.wait(2000 + BUSY_SECONDS * 1000)
    assert world.found == []
    world.wait(200)
    assert len(world.found) == 1


def test_who_stands_behind_another_waits_its_turn() -> None:
    world = _World()
    world.ask(FetchRequest(max_wait_ms=400), 12, 1)
    world.ask(BEAT, 4, 2)
    world.wait(400)
    assert world.found == []
    world.answer(1)
    world.wait(REST_MS - 5)
    world.answer(2)
    world.wait(1000)
    assert world.found == []


@pytest.mark.parametrize(
    ("message", "version", "allowed_ms"),
    [
        (FetchRequest(max_wait_ms=300), 12, 300),
        (ProduceRequest(acks=-1), 12, HELD_MS),
        (JoinGroupRequest(group_id="g", session_timeout_ms=100, rebalance_timeout_ms=700), 9, 700),
        (BEAT, 4, 0),
    ],
    ids=lambda each: type(each).__name__,
)
def test_each_api_may_rest_as_long_as_its_rule_says(message: Any, version: int, allowed_ms: int) -> None:
    world = _World()
    world.ask(message, version)
    world.wait(allowed_ms + REST_MS - 20)
    assert world.found == []
    world.wait(60)
    assert len(world.found) == 1


def test_nobody_waits_for_what_has_no_answer() -> None:
    world = _World()
    world.ask(ProduceRequest(acks=0), 12)
    world.wait(5000)
    world.ask(BEAT, 4)
    world.requests.lost(world.transport)
    world.wait(5000)
    assert world.found == []


def test_a_quota_holds_a_connection_as_long_as_it_says() -> None:
    world = _World()
    world.requests.muted(world.transport, 1.0)
    world.ask(BEAT, 4)
    world.wait(1000 + REST_MS - 20)
    assert world.found == []
    world.wait(100)
    assert len(world.found) == 1


def test_time_that_jumps_over_the_end_of_a_mute_is_not_the_requests() -> None:
    """sessions 967: nothing moved for 60 ms before a refused login was answered, just when its delay was over."""
    world = _World()
    world.ask(BEAT, 4)
    world.requests.muted(world.transport, 0.1)
    for then in (0.001, 0.04, 0.1, 0.1 + REST_MS / 1000 - 0.001):
        world.requests.time_moves(world.now, then)
        world.now = then
    assert world.found == []
    world.wait(20)
    assert len(world.found) == 1, "behind the mute the bound holds"


def test_an_answer_that_passes_an_older_request_over_is_found() -> None:
    world = _World()
    world.ask(BEAT, 4, 1)
    world.ask(BEAT, 4, 2)
    world.answer(2)
    assert "was passed over" in world.found[0]


def test_a_real_request_has_its_history() -> None:
    """A Produce that nobody answers: the gate forgets it."""
    from oncelog.broker.coordinators.transaction_gate import TransactionGate

    async def main(loop: SimLoop) -> list[str]:
        cluster = Cluster(loop, "history", FaultOptions())
        with watching(cluster.requests):
            assert await cluster.start_broker()
            process = Process(loop, "client")
            raw = RawProducer(cluster, process, "t", is_new=True)

            async def work() -> None:
                assert await raw.init() is ErrorCode.NONE
                await raw.produce(TopicPartition("a", 0), raw.batch(TopicPartition("a", 0), 1))

            assert cluster.broker is not None
            await cluster.broker.topics.create_automatically("a")
            process.start(work())
            await asyncio.sleep(1.0)
        return [str(finding) for finding in cluster.findings]

    original = TransactionGate.begin
    TransactionGate.begin = lambda self, *_: 0  # type: ignore[method-assign,assignment]
    try:
        found = run_simulated(1, main)
    finally:
        TransactionGate.begin = original  # type: ignore[method-assign]
    assert len(found) == 1
    assert found[0].startswith("unanswered: Produce v12 of 'raw'")
    assert " begun, " in found[0]
    assert " in the gate)" in found[0]
    assert "its reply is to be given by a callback" in found[0]


def test_a_call_of_a_client_ends_within_its_timeouts() -> None:
    async def main(loop: SimLoop) -> tuple[list[str], int]:
        found: list[str] = []
        calls = ClientCalls(loop, lambda _, text: found.append(text))
        for name, seconds, pause in (("fast", 0.29, 0.0), ("slow", 0.5, 0.0), ("paused", 0.2, 5.0), ("gone", 9.0, 0.0)):
            process = Process(loop, name)

            async def call(name: str = name, seconds: float = seconds) -> None:
                promise = calls.begun(f"call of {name}", 300.0)
                await asyncio.sleep(seconds)
                calls.ended(promise)

            process.start(call())
            if pause:
                await asyncio.sleep(0.01)
                process.pause()
                loop.call_later(pause, process.resume)
            if name == "gone":
                loop.call_later(0.1, process.kill)
        for _ in range(1000):
            await asyncio.sleep(0.01)
            calls.look()
        assert PROCESS.get() is None
        return found, calls.ended_count

    found, ended_count = run_simulated(1, main)
    assert ended_count == 2
    assert len(found) == 1
    assert found[0].startswith("slow: call of slow, begun at 0.0000, is ")
    assert SLACK_MS < 200 - 10
