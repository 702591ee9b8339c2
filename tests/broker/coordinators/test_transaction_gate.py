"""Who asked the gate is answered: whatever ends a lane's request asks what came in meanwhile, by both ways."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from evidence.world.broker import Client, keys, run
from evidence.world.loop import SimLoop, run_simulated

import oncelog.broker.coordinators.transaction_gate as gate_module
from oncelog.broker.broker import Broker
from oncelog.broker.coordinators.transaction_gate import TransactionGate
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.network.peer import Peer, PeerLost
from oncelog.broker.requests.handler_task import begin_in_task
from oncelog.broker.requests.local_peer import LocalPeer
from oncelog.broker.requests.request import Later, Request
from oncelog.core.leader.gate import GateConfig
from oncelog.core.leader.gate_errors import ClientVersion, GuardedApi
from oncelog.core.leader.guards import Guard
from oncelog.core.leader.verdict import AskCoordinator, Refuse
from oncelog.core.placement import coordinator_partition
from oncelog.errors import ErrorCode
from oncelog.host.host import real_host
from oncelog.host.tasks import Tasks
from oncelog.types import TopicPartition
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

E = ErrorCode
P0 = TopicPartition("orders", 0)
ADD = ClientVersion(GuardedApi.PRODUCE, 12)
HELD_MS_MAX = 100


def names_of_one_lane(count: int) -> list[str]:
    """Transactional ids whose questions share a lane, as it is and with a single one."""
    names = (f"pay-{index}" for index in itertools.count())
    lane = coordinator_partition("pay-0", gate_module.LANE_COUNT)
    return list(
        itertools.islice((name for name in names if coordinator_partition(name, gate_module.LANE_COUNT) == lane), count)
    )


A, B, C = names_of_one_lane(3)


class FakeConnection:
    """Where the questions' requests came in."""

    def __init__(self) -> None:
        self.client_host, self.connection_id, self.is_of_broker = "", 1, False
        self.held: list[Request] = []

    def hold(self, request: Request) -> None:
        self.held.append(request)

    def mute(self, delay_s: float) -> None:
        raise AssertionError("nothing here is over a quota")


class Asked:
    """One AddPartitionsToTxn request on its way, and what it is answered with."""

    def __init__(self, message: AddPartitionsToTxnRequest) -> None:
        self.message = message
        self.names = [each.transactional_id for each in message.transactions]

    def response(self, codes: Mapping[str, ErrorCode]) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=each.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=index,
                                    partition_error_code=codes.get(each.transactional_id, E.NONE),
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in each.topics
                    ],
                )
                for each in self.message.transactions
            ]
        )


class HereWorld:
    """The gate with a coordinator in this process: `LocalPeer`."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._laters: list[Later] = []
        self.answers_at_once: Callable[[Asked], Any] | None = None
        self.requests: list[Request] = []
        self.reported: list[BaseException] = []
        self.tasks = Tasks(self.reported.append)

    def peer(self) -> Any:
        return LocalPeer(self._handle, self.tasks, client_id="gate")

    def _handle(self, request: Request) -> Any:
        self.requests.append(request)
        asked = Asked(request.message)
        self.asked.append(asked)
        if self.answers_at_once is not None:
            self._laters.append(Later())
            return self.answers_at_once(asked)
        self._laters.append(Later(keeps_turn=True))
        return self._laters[-1]

    def answer(self, index: int, **codes: ErrorCode) -> None:
        by_name = {name.replace("_", "-"): code for name, code in codes.items()}
        self._laters[index].give(self.asked[index].response(by_name))

    def fail(self, index: int) -> None:
        """The whole request is refused."""
        self._laters[index].give(AddPartitionsToTxnResponse(error_code=E.CLUSTER_AUTHORIZATION_FAILED))


class _FarPeer(Peer):
    """A peer whose answers the test gives."""

    def __init__(self, world: ThereWorld) -> None:
        self._world = world

    async def call(self, api_key: ApiKey, message: Any, *, version_max: int | None = None) -> Any:
        asked = Asked(message)
        self._world.asked.append(asked)
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._world.futures.append(done)
        return await done


class ThereWorld:
    """The gate with a coordinator behind a connection: `Peer`."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.futures: list[asyncio.Future[Any]] = []

    def peer(self) -> Any:
        return _FarPeer(self)

    def answer(self, index: int, **codes: ErrorCode) -> None:
        by_name = {name.replace("_", "-"): code for name, code in codes.items()}
        self.futures[index].set_result(self.asked[index].response(by_name))

    def fail(self, index: int) -> None:
        self.futures[index].set_exception(PeerLost("gone"))


WAYS = pytest.mark.parametrize("way", [HereWorld, ThereWorld], ids=["plain calls", "over the wire"])


class World:
    """A gate, its timer, and what each question was answered: by its name, None while it waits."""

    def __init__(self, way: Any) -> None:
        self.far = way()
        self.gate = TransactionGate(
            self.far.peer(), 1, lambda: GateConfig(retry_backoff_ms=20, retry_backoff_ms_max=HELD_MS_MAX), Metrics()
        )
        self.connection = FakeConnection()
        self.tasks = Tasks()
        self.tasks.start(self.gate.run())
        self.told: dict[str, Mapping[TopicPartition, Refuse] | None] = {}
        self.tokens: dict[str, int] = {}

    def begin(
        self, name: str, *, producer_epoch: int = 0, key: str | None = None, then: Callable[[Any], None] | None = None
    ) -> None:
        key = name if key is None else key
        self.told[key] = None

        def heard(refused: Mapping[TopicPartition, Refuse]) -> None:
            assert self.told[key] is None, "answered twice"
            self.told[key] = refused
            if then is not None:
                then(refused)

        asked = AskCoordinator(Guard(7, producer_epoch, name), name, 7, producer_epoch, add=True)
        request = Request(ApiKey.PRODUCE, 12, 1, "", None, self.connection)
        self.tokens[key] = self.gate.begin(request, ADD, {P0: asked}, heard)

    async def turn(self) -> None:
        """Let everything happen that needs no time."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def pass_ms(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    @property
    def asked(self) -> list[list[str]]:
        return [each.names for each in self.far.asked]

    def code(self, key: str) -> ErrorCode:
        """What the client of a question is told; NONE where it may go on."""
        refused = self.told[key]
        assert refused is not None, f"{key} waits"
        return refused[P0].error_code if refused else E.NONE


def simulated(way: Any, work: Callable[[World], Any]) -> None:
    async def main(_: SimLoop) -> None:
        world = World(way)
        await world.turn()
        await work(world)
        await world.tasks.close()

    run_simulated(1, main)


@WAYS
def test_what_came_while_a_request_was_in_flight_is_asked_when_its_answer_comes(way):
    async def work(world):
        world.begin(A)
        await world.turn()
        world.begin(B)
        await world.turn()
        assert world.asked == [[A]]
        world.far.answer(0)
        await world.turn()
        assert world.asked == [[A], [B]]
        world.far.answer(1)
        await world.turn()
        assert (world.code(A), world.code(B), len(world.gate)) == (E.NONE, E.NONE, 0)

    simulated(way, work)


@WAYS
def test_what_came_while_a_request_was_in_flight_is_asked_when_that_fails(way):
    async def work(world):
        world.begin(A)
        await world.turn()
        world.begin(B)
        world.far.fail(0)
        await world.turn()
        assert world.code(A) is not E.NONE
        assert world.asked == [[A], [B]]
        world.far.answer(1)
        await world.turn()
        assert world.code(B) is E.NONE

    simulated(way, work)


@WAYS
def test_what_is_held_is_answered_by_its_bound_though_its_timer_was_set_while_its_lane_was_busy(way):
    async def work(world):
        world.begin(A)
        await world.turn()
        world.far.answer(0, **{A.replace("-", "_"): E.CONCURRENT_TRANSACTIONS})
        await world.turn()
        await world.pass_ms(5)
        world.begin(B)  # now the lane is busy, and whoever looks for the next timer skips it
        await world.pass_ms(40)
        world.far.answer(1)
        await world.turn()
        for index in range(2, 8):
            if world.told[A] is None:
                while len(world.asked) <= index:
                    await world.pass_ms(1)
                world.far.answer(index, **{A.replace("-", "_"): E.CONCURRENT_TRANSACTIONS})
                await world.turn()
        assert world.code(A) is E.CONCURRENT_TRANSACTIONS
        assert world.code(B) is E.NONE

    simulated(way, work)


@WAYS
def test_one_that_went_away_leaves_the_others_their_turn(way):
    async def work(world):
        world.begin(A)
        await world.turn()
        world.begin(B)
        world.begin(C)
        world.gate.drop(world.tokens[A])
        world.gate.drop(world.tokens[B])
        world.far.answer(0, **{A.replace("-", "_"): E.CONCURRENT_TRANSACTIONS})
        await world.turn()
        assert world.asked == [[A], [C]], "what nobody waits for is neither asked nor held"
        world.far.answer(1)
        await world.turn()
        assert world.code(C) is E.NONE
        assert (world.told[A], world.told[B], len(world.gate)) == (None, None, 0)

    simulated(way, work)


@WAYS
def test_a_transaction_that_completes_has_its_next_asked_again_at_once(way):
    async def work(world):
        world.begin(A)
        await world.turn()
        world.far.answer(0, **{A.replace("-", "_"): E.CONCURRENT_TRANSACTIONS})
        await world.turn()
        assert len(world.connection.held) == 1, "its EndTxn may overtake it"
        world.gate.completed(A)
        await world.turn()
        assert world.asked == [[A], [A]]
        world.far.answer(1)
        await world.turn()
        assert world.code(A) is E.NONE

    simulated(way, work)


@WAYS
def test_only_what_is_held_lets_an_end_overtake_it(way):
    async def work(world):
        world.begin(A)
        await world.turn()
        world.begin(A, producer_epoch=1, key="newer")
        world.far.answer(0, **{A.replace("-", "_"): E.CONCURRENT_TRANSACTIONS})
        await world.turn()
        assert len(world.connection.held) == 1

    simulated(way, work)


@WAYS
def test_different_identities_of_one_id_are_asked_one_after_the_other(way):
    async def work(world):
        for producer_epoch in range(5):
            world.begin(A, producer_epoch=producer_epoch, key=str(producer_epoch))
        for index in range(5):
            await world.turn()
            assert len(world.asked) == index + 1
            world.far.answer(index)
        await world.turn()
        assert [world.code(str(index)) for index in range(5)] == [E.NONE] * 5

    simulated(way, work)


def test_answers_that_come_at_once_take_no_stack():
    """A thousand identities of one id, each asked when the one before it has its answer, which is there at once."""

    async def work(world):
        world.begin(A)
        for producer_epoch in range(1, 1001):
            world.begin(A, producer_epoch=producer_epoch, key=str(producer_epoch))
        world.far.answers_at_once = lambda asked: asked.response({})
        world.far.answer(0)
        assert all(world.told[str(index)] == {} for index in range(1, 1001))
        assert len(world.gate) == 0

    simulated(HereWorld, work)


def test_an_answer_that_begins_the_next_question_takes_no_stack():
    async def work(world):
        world.far.answers_at_once = lambda asked: asked.response({})
        left = iter(range(1000))

        def begin_next(_: object = None) -> None:
            index = next(left, None)
            if index is not None:
                world.begin(A, producer_epoch=index, key=str(index), then=begin_next)

        begin_next()
        assert all(world.told[str(index)] == {} for index in range(1000))

    simulated(HereWorld, work)


def test_lanes_take_turns():
    """One lane that always has more does not keep the others waiting."""
    other = next(f"u-{n}" for n in range(1000) if gate_module._lane_here(f"u-{n}") != gate_module._lane_here(A))

    async def work(world):
        world.begin(A)
        world.begin(other)
        for producer_epoch in range(1, 10):
            world.begin(A, producer_epoch=producer_epoch, key=f"a{producer_epoch}")
            world.begin(other, producer_epoch=producer_epoch, key=f"u{producer_epoch}")
        world.far.answers_at_once = lambda asked: asked.response({})
        world.begin("starter", then=lambda _: (world.far.answer(0), world.far.answer(1)))
        after = [names[0] for names in world.asked[3:]]
        assert after == [A, other] * 9

    simulated(HereWorld, work)


def test_a_coordinator_that_breaks_leaves_nobody_waiting():
    """A mistake in the handler of one question ends that request, not the lane."""

    async def work(world):
        def broken(_: Asked) -> Any:
            raise AssertionError("a mistake")

        world.begin(A)
        world.begin(B)
        world.far.answers_at_once = broken
        with pytest.raises(AssertionError, match="a mistake"):
            world.far.answer(0)
        assert world.code(A) is E.NONE
        assert world.code(B) is not E.NONE
        world.far.answers_at_once = None
        world.begin(C)
        world.far.answer(2)
        assert world.code(C) is E.NONE

    simulated(HereWorld, work)


@pytest.mark.parametrize("is_ended", [False, True], ids=["a mistake", "the broker ends"])
def test_a_coordinator_that_breaks_in_a_task_leaves_nobody_waiting(is_ended):
    """The handler of one question is a coroutine where it has to wait first."""

    async def work(world):
        gate = asyncio.Event()

        async def broken() -> Any:
            await gate.wait()
            raise AssertionError("a mistake")

        world.far.answers_at_once = lambda _: begin_in_task(world.far.requests[-1], broken())
        world.begin(A)
        world.begin(B)
        await world.turn()
        world.far.answers_at_once = None
        if is_ended:
            await world.far.tasks.close()
            await world.turn()
            assert (world.told[A], world.asked) == (None, [[A]]), "nothing is asked any more"
            return
        gate.set()
        await world.turn()
        assert world.code(A) is E.UNKNOWN_SERVER_ERROR
        assert world.asked == [[A], [B]]
        world.far.answer(1)
        assert world.code(B) is E.NONE
        assert len(world.far.reported) == 1

    simulated(HereWorld, work)


@WAYS
def test_a_listener_that_breaks_does_not_take_the_others_answers(way):
    async def work(world):
        def broken(_: object) -> None:
            raise AssertionError("a mistake")

        world.begin(C)
        await world.turn()
        world.begin(A, then=broken)
        world.begin(B)
        world.far.answer(0)
        await world.turn()
        assert world.asked == [[C], [A, B]]
        with pytest.raises(AssertionError, match="a mistake") if way is HereWorld else contextlib.nullcontext():
            world.far.answer(1)
        await world.turn()
        assert world.code(B) is E.NONE

    simulated(way, work)


class ClockSetBack:
    """A wall clock that somebody sets back by a minute between any two looks at it."""

    def __init__(self) -> None:
        self.ms = 1_800_000_000_000

    def now_ms(self) -> int:
        self.ms -= 60_000
        return self.ms


def test_a_clock_that_is_set_back_delays_nothing(tmp_path):
    async def work():
        host = dataclasses.replace(real_host(), clock=ClockSetBack())
        async with Broker(str(tmp_path), keys({}), host) as broker:
            client = await Client.connect(broker)
            await client.create("t")
            await all_answered(broker, names_of_one_lane(6))
            client.close()
        host.syncer.close()

    run(work())


async def all_answered(broker: Broker, names: list[str]) -> None:
    """Every producer begins at the same moment, each on a connection of its own; each gets its answer."""
    clients = [await Client.connect(broker) for _ in names]
    producers = [await client.init(name) for client, name in zip(clients, names, strict=True)]
    for client, name, producer in zip(clients, names, producers, strict=True):
        asked = client.produce_request("t", name, producer=producer, sequence=0, transactional_id=name)
        client.send(asked, 12)
    for client in clients:
        _, reply = await client.receive()
        assert reply.responses[0].partition_responses[0].error_code == E.NONE
        client.close()


@pytest.mark.parametrize("lane_count", [1, 64])
@pytest.mark.parametrize("has_shortcut", [True, False], ids=["plain calls", "over the network"])
def test_producers_of_one_lane_that_begin_at_the_same_moment_are_all_answered(
    tmp_path, monkeypatch, has_shortcut, lane_count
):
    """Real bytes over loopback: without the cure the second Produce of a lane hangs until something else comes."""
    monkeypatch.setattr(gate_module, "LANE_COUNT", lane_count)

    async def work():
        host = real_host()
        host.network.has_shortcut = has_shortcut
        async with Broker(str(tmp_path), keys({}), host) as broker:
            client = await Client.connect(broker)
            await client.create("t")
            names = names_of_one_lane(20)
            for first, second in zip(names[::2], names[1::2], strict=True):
                await all_answered(broker, [first, second])
            await all_answered(broker, [f"{name}-all" for name in names])
            client.close()
        host.syncer.close()

    run(work())
