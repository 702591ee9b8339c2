"""A request that may succeed after the current transition: decided anew, answered at the latest at the deadline."""

from evidence.world.broker import broker_and_client
from evidence.world.broker import run as world_run
from evidence.world.loop import run_simulated

from oncelog.broker.coordinators.coordinator import Waiters
from oncelog.broker.coordinators.held_request import HeldRequest
from oncelog.core.decision import Decision
from oncelog.errors import ErrorCode
from tests.broker.coordinators.test_transactions import stop_markers

E = ErrorCode
REFUSAL = Decision(reply="concurrent", held_until_complete="id")
ANSWER = Decision(reply="fine")


class World:
    """The request, its connection and its coordinator: `decisions` come one after the other, `free` ends a transition."""

    def __init__(self, loop, decisions=(), code=E.NONE):
        self.loop, self.decisions, self.code = loop, list(decisions), code
        self.held_count, self.performed, self.waiters, self.replies = 0, [], Waiters(), []
        self.machine = self
        self.held = HeldRequest(
            self,
            self,
            "id",
            self.decide,
            REFUSAL,
            may_succeed_later=lambda decision: decision.held_until_complete is not None,
            refused=lambda code: code.name,
            deadline=loop.time() + 0.1,
        )
        if not self.held.later.is_given:
            self.held.later.listen(self)

    def hold(self, transactional_id):
        assert transactional_id == "id"
        self.held_count += 1

    def decide(self):
        return self.decisions.pop(0)

    def perform_then(self, decision, ended):
        self.performed.append(decision.reply)
        ended(self.code)

    def is_busy(self, transactional_id):
        return True

    def free(self):
        self.waiters.wake("id")

    def given(self, reply):
        self.replies.append((reply, round(self.loop.time(), 3)))


def run(work):
    async def main(loop):
        work_done = loop.create_future()
        loop.call_later(1, work_done.set_result, None)
        world = work(loop)
        await work_done
        return world

    return run_simulated(1, main)


def test_it_is_decided_anew_when_the_transition_is_over():
    def work(loop):
        world = World(loop, [REFUSAL, ANSWER])
        loop.call_later(0.02, world.free)
        loop.call_later(0.05, world.free)
        return world

    world = run(work)
    assert world.replies == [("fine", 0.05)]
    assert world.performed == ["concurrent", "concurrent", "fine"]
    assert world.held_count == 2


def test_at_the_deadline_the_refusal_is_the_reply_and_nothing_follows():
    def work(loop):
        world = World(loop, [ANSWER])
        loop.call_later(0.5, world.free)
        return world

    world = run(work)
    assert world.replies == [("concurrent", 0.1)]
    assert world.performed == ["concurrent"]
    assert len(world.waiters) == 0, "nothing is kept for it: the transition may take for ever"


def test_a_failed_coordinator_is_told_at_once():
    world = run(lambda loop: World(loop, code=E.NOT_COORDINATOR))
    assert world.held.later.reply == "NOT_COORDINATOR"
    assert len(world.waiters) == 0


def test_without_producer_ids_the_refusal_is_the_reply():
    def work(loop):
        world = World(loop, [None])
        loop.call_later(0.02, world.free)
        return world

    assert run(work).replies == [("concurrent", 0.02)]


def test_a_client_that_went_away_decides_nothing_more():
    def work(loop):
        world = World(loop, [ANSWER])
        world.held.later.drop()
        loop.call_later(0.02, world.free)
        return world

    world = run(work)
    assert (world.replies, world.performed, world.decisions) == ([], ["concurrent"], [ANSWER])
    assert len(world.waiters) == 0


def test_who_asks_again_and_again_while_markers_cannot_be_written_leaves_nothing_behind(tmp_path):
    """A producer that retries for as long as a partition is offline must not fill the coordinator's memory."""

    async def work():
        config = {"add_partitions_to_txn_retry_backoff_max_ms": 5}
        async with broker_and_client(tmp_path, **config) as (broker, client):
            await client.create("t")
            first = await client.init("x")
            assert await client.add("x", first, "t") is E.NONE
            stop_markers(broker)
            assert (await client.end("x", first, commit=True, version=3)).error_code == E.NONE
            for _ in range(5):
                assert await client.add("x", first, "t") is E.CONCURRENT_TRANSACTIONS
            assert [len(coordinator.waiters) for coordinator in broker.transactions.loaded()] == [0]

    world_run(work())
