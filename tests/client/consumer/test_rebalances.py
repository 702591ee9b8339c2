"""What a member gives back and takes over, in every order in which a group can speak: three protocols, virtual time.

The invariants: a position is committed before its partition is given away, by the generation that owns it, and the
listener hears it next; a member that was put out gives nothing back and keeps nothing; whatever a listener does, the
member and its partitions agree; an answer about a generation that is over changes nothing.
"""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.client import BOOTSTRAP, run

from oncelog import Consumer, TopicPartition, errors
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.consumer_protocol import subscription_from_bytes
from oncelog.wire.record_batch import build_batch
from tests.client.consumer import test_classic_protocol, test_consumer_protocol

E = ErrorCode
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
EAGER, COOPERATIVE, CONSUMER = "eager", "cooperative", "consumer"
PROTOCOLS = [EAGER, COOPERATIVE, CONSUMER]
PUT_OUT = {EAGER: E.UNKNOWN_MEMBER_ID, COOPERATIVE: E.ILLEGAL_GENERATION, CONSUMER: E.FENCED_MEMBER_EPOCH}
HOUR_MS = 3_600_000


class Group:
    """A coordinator of one protocol, and the consumer that is its member."""

    def __init__(self, protocol):
        self.protocol = protocol
        self.is_new = protocol == CONSUMER
        module = test_consumer_protocol if self.is_new else test_classic_protocol
        self.broker = module.Coordinator()
        self.heartbeat = ApiKey.CONSUMER_GROUP_HEARTBEAT if self.is_new else ApiKey.HEARTBEAT

    def member(self, **config):
        strategy = "range" if self.protocol == EAGER else "cooperative-sticky"
        own = {"group_protocol": "consumer"} if self.is_new else {"partition_assignment_strategy": strategy}
        defaults = {"group_id": "g", "heartbeat_interval_ms": 1000, "auto_offset_reset": "earliest"}
        return Consumer(
            "t",
            host=self.broker.host(),
            bootstrap_servers=BOOTSTRAP,
            **{**defaults, "auto_commit_interval_ms": HOUR_MS, **own, **config},
        )

    def give(self, *partitions):
        """From the next heartbeat on the member has these."""
        if self.is_new:
            self.broker.given = [each.partition for each in partitions]
        else:
            self.broker.given = partitions
            self.broker.script(ApiKey.HEARTBEAT, E.REBALANCE_IN_PROGRESS)

    def put_out(self):
        self.broker.script(self.heartbeat, PUT_OUT[self.protocol])

    async def next_heartbeat(self, code, delay_s):
        """Wait until the member asks; its answer comes so much later."""
        asked = asyncio.Event()

        def answer(message):
            asked.set()
            return getattr(self.broker, f"_{self.heartbeat.name.lower()}")(message, code)

        self.broker.script(self.heartbeat, answer)
        self.broker.delay_s[self.heartbeat] = delay_s
        await asked.wait()
        del self.broker.delay_s[self.heartbeat]

    def fill(self, partition, count):
        self.broker.append("t", partition, build_batch([(1, None, b"%d" % n, ()) for n in range(count)]))

    def commits(self):
        """(generation, {partition: offset}) of each OffsetCommit."""
        return [
            (
                each.generation_id_or_member_epoch,
                {p.partition_index: p.committed_offset for t in each.topics for p in t.partitions},
            )
            for each in self.broker.requests(ApiKey.OFFSET_COMMIT)
        ]

    def owned_in_joins(self):
        """What the member said of itself, join by join."""
        if self.is_new:
            joins = [each for each in self.broker.requests(self.heartbeat) if each.member_epoch == 0]
            return [[p for t in each.topic_partitions for p in t.partitions] for each in joins]
        joins = self.broker.requests(ApiKey.JOIN_GROUP)
        return [subscription_from_bytes(each.protocols[0].metadata).owned_partitions for each in joins]


class Listener:
    """Notes what it hears, then does what the test wants: `on[what]` is called once."""

    def __init__(self, **on):
        self.heard = []
        self.on = on

    async def _hear(self, what, partitions):
        self.heard.append((what, list(partitions)))
        action = self.on.pop(what, None)
        if action is not None:
            await action()

    async def on_partitions_revoked(self, revoked):
        await self._hear("revoked", revoked)

    async def on_partitions_assigned(self, assigned):
        await self._hear("assigned", assigned)

    async def on_partitions_lost(self, lost):
        await self._hear("lost", lost)

    def names(self):
        return [what for what, partitions in self.heard if partitions]


async def polled(consumer, seconds=3.0):
    """Poll for so long; the records."""
    found, ends = [], asyncio.get_running_loop().time() + seconds
    while (left := ends - asyncio.get_running_loop().time()) > 0:
        found += await consumer.poll(timeout_ms=int(left * 1000) + 1)
    return found


@pytest.fixture(params=PROTOCOLS)
def group(request):
    return Group(request.param)


@pytest.fixture(params=[EAGER, COOPERATIVE])
def classic(request):
    return Group(request.param)


# -- committed before given away


def test_a_position_is_committed_then_the_listener_hears_then_the_partition_is_gone(group):
    async def work():
        seen = []

        async def note():
            seen.append((group.commits()[-1], c.group_metadata().generation_id, c.current_positions()[ZERO].offset))

        group.fill(0, 3)
        async with group.member() as c:
            await polled(c)
            group.give(ONE)
            await asyncio.sleep(3)
            group.fill(0, 2)
            listener = Listener(revoked=note)
            c.subscribe(["t"], listener=listener)
            await polled(c)
            assert c.assignment() == {ONE}
        ((committed_by, offsets), owner, position) = seen[0]
        assert committed_by == owner
        assert offsets[0] == position == 3, "all that was handed out, and nothing else"

    run(work)


def test_what_is_handed_out_while_a_cooperative_member_joins_is_committed_too():
    """It reads on over the rebalance (KIP-429); what it committed before it joined is old when it gives back."""

    async def work():
        group = Group(COOPERATIVE)
        group.fill(0, 3)
        async with group.member() as c:
            await polled(c)
            group.give(ONE)
            group.broker.delay_s[ApiKey.JOIN_GROUP] = 5
            await asyncio.sleep(2)
            await c.poll(1000)
            group.fill(0, 2)
            assert len(await c.poll(2000)) == 2
            del group.broker.delay_s[ApiKey.JOIN_GROUP]
            await polled(c, 10)
            assert c.assignment() == {ONE}
            generation_id, offsets = [commit for commit in group.commits() if 0 in commit[1]][-1]
            assert (generation_id, offsets[0]) == (2, 5)

    run(work)


def test_a_commit_whose_epoch_grew_meanwhile_is_repeated_before_the_partition_is_given_away():
    async def work():
        group = Group(CONSUMER)
        group.fill(0, 3)
        async with group.member() as c:
            await polled(c)
            group.give(ONE)
            await asyncio.sleep(6)
            group.broker.script(ApiKey.OFFSET_COMMIT, E.STALE_MEMBER_EPOCH)
            group.broker.member_epoch += 1
            await polled(c, 10)
            assert c.assignment() == {ONE}
            (refused_by, _), (generation_id, offsets) = group.commits()
            assert (generation_id, offsets[0]) == (refused_by + 1, 3)

    run(work)


def test_a_deleted_topic_holds_up_no_rebalance(group):
    """Its positions cannot be committed; waiting for it until the timeout, the member would be put out."""

    async def work(loop):
        group.fill(0, 3)
        async with group.member() as c:
            await polled(c)
            group.give(ONE)
            await asyncio.sleep(6)
            group.broker.script(ApiKey.OFFSET_COMMIT, *[E.UNKNOWN_TOPIC_OR_PARTITION] * 50)
            began = loop.time()
            await c.poll(1000)
            assert loop.time() - began < 1.5
            assert c.assignment() == {ONE}
            assert len(group.commits()) <= 3, "not asked for again and again"

    run(work)


# -- put out meanwhile


async def _reading_again(group, listener, c):
    """Nothing of before is kept: the join owns nothing, and every place is looked up."""
    await polled(c)
    assert c.assignment() == {ZERO, ONE}
    assert list(group.owned_in_joins()[-1]) == []
    assert await c.position(ONE) == 0
    assert listener.names()[-1] == "assigned"


def test_who_is_put_out_while_it_gives_back_loses_what_is_left(group):
    async def work():
        async def be_put_out():
            group.put_out()
            await asyncio.sleep(7)
            group.broker.given = [0, 1] if group.is_new else (ZERO, ONE)

        listener = Listener(revoked=be_put_out)
        async with group.member() as c:
            c.subscribe(["t"], listener=listener)
            await polled(c)
            c.seek(ONE, 7)
            group.give(ONE)
            await asyncio.sleep(6)
            listener.heard.clear()
            await polled(c, 10)
            await _reading_again(group, listener, c)
            left = [] if group.protocol == EAGER else [("lost", [ONE])]  # who gave all back has nothing to lose
            assert [each for each in listener.heard if each[1]][1:] == [*left, ("assigned", [ZERO, ONE])]

    run(work)


def test_who_is_put_out_while_it_commits_gives_nothing_back(group):
    """The heartbeat's answer comes just before the commit's."""

    async def work():
        group.fill(0, 3)
        listener = Listener()
        async with group.member() as c:
            c.subscribe(["t"], listener=listener)
            await polled(c)
            c.seek(ONE, 7)
            group.give(ONE)
            await asyncio.sleep(6)
            listener.heard.clear()
            await group.next_heartbeat(PUT_OUT[group.protocol], 1.5)
            group.broker.delay_s[ApiKey.OFFSET_COMMIT] = 2
            group.broker.given = [0, 1] if group.is_new else (ZERO, ONE)
            await _reading_again(group, listener, c)
            assert listener.names() == ["lost", "assigned"]

    run(work)


def test_who_is_put_out_while_it_takes_over_loses_what_it_took(group):
    async def work():
        async def slowly():
            await asyncio.sleep(7)

        listener = Listener(assigned=slowly)
        async with group.member() as c:
            c.subscribe(["t"], listener=listener)
            group.broker.script(group.heartbeat, *([0, 0] if group.is_new else []))
            group.put_out()
            await polled(c, 10)
            await _reading_again(group, listener, c)
            assert listener.names() == ["assigned", "lost", "assigned"]

    run(work)


def test_a_join_that_ended_before_its_member_was_put_out_is_not_taken_over(classic):
    """The application polls late: what the join brought was given to others since."""

    async def work():
        listener = Listener()
        async with classic.member() as c:
            c.subscribe(["t"], listener=listener)
            await polled(c)
            classic.give(ZERO, ONE)
            classic.broker.delay_s[ApiKey.JOIN_GROUP] = 2
            await asyncio.sleep(2)
            assert await c.poll(500) == []
            await asyncio.sleep(2)
            joins = len(classic.broker.requests(ApiKey.JOIN_GROUP))
            classic.broker.script(ApiKey.HEARTBEAT, E.UNKNOWN_MEMBER_ID)
            listener.heard.clear()
            await asyncio.sleep(2)
            await polled(c, 10)
            assert listener.names() == (["assigned"] if classic.protocol == EAGER else ["lost", "assigned"])
            assert classic.broker.requests(ApiKey.JOIN_GROUP)[joins].member_id == ""

    run(work)


# -- answers that come late


@pytest.mark.parametrize(
    "code", [E.ILLEGAL_GENERATION, E.UNKNOWN_MEMBER_ID, E.REBALANCE_IN_PROGRESS, E.FENCED_INSTANCE_ID]
)
@pytest.mark.parametrize("join_s", [0, 5])
def test_a_heartbeat_of_an_older_generation_says_nothing(classic, code, join_s):
    """Neither after the next join nor in the middle of it."""

    async def work():
        listener = Listener()
        async with classic.member(enable_auto_commit=False) as c:  # a commit would wait behind the heartbeat
            c.subscribe(["t"], listener=listener)
            await polled(c, 2.5)
            await classic.next_heartbeat(code, 3)
            classic.broker.delay_s[ApiKey.JOIN_GROUP] = join_s
            c.subscribe(["t"], listener=listener)  # joins again
            await polled(c, 1 + join_s)
            assert c.group_metadata().generation_id == 2
            joins = len(classic.broker.requests(ApiKey.JOIN_GROUP))
            count = len(classic.broker.requests(ApiKey.HEARTBEAT))
            await polled(c, 8)
            assert "lost" not in listener.names()
            assert len(classic.broker.requests(ApiKey.JOIN_GROUP)) == joins
            assert len(classic.broker.requests(ApiKey.HEARTBEAT)) > count + 2, "it goes on"

    run(work)


@pytest.mark.parametrize("seed", range(8))
def test_an_answer_to_one_that_has_left_does_not_bring_it_back(seed):
    """The heartbeat was asked before; its answer has the epoch and the partitions of a membership that is over."""

    async def work():
        group = Group(CONSUMER)
        async with group.member() as c:
            await polled(c)
            group.give(ONE)
            await group.next_heartbeat(0, 2)
            asked = len(group.broker.requests(group.heartbeat))
            c.unsubscribe()
            c.subscribe(["t"])
            group.give(ZERO)
            await polled(c, 12)
            assert c.assignment() == {ZERO}
            epochs = [each.member_epoch for each in group.broker.requests(group.heartbeat)[asked:]]
            assert epochs[:2] == [-1, 0], "it says that it leaves, then it joins"
            assert epochs[2] > 0

    run(work, seed)


@pytest.mark.parametrize("seed", range(30))
def test_who_leaves_and_comes_back_at_once_says_it_in_this_order(seed):
    async def work():
        group = Group(CONSUMER)
        async with group.member() as c:
            await polled(c, 2.5)
            asked = len(group.broker.requests(group.heartbeat))
            c.unsubscribe()
            c.subscribe(["t"])
            await polled(c, 3)
            assert c.assignment() == {ZERO, ONE}
            epochs = [each.member_epoch for each in group.broker.requests(group.heartbeat)[asked:]]
            assert epochs[:2] == [-1, 0]

    run(work, seed)


def test_an_assignment_that_is_taken_back_while_the_listener_works_is_not_taken_over():
    """What this would take over the broker gives to somebody else once it says that it does not own it."""

    async def work():
        group = Group(CONSUMER)
        group.broker.given = [0]

        async def slowly():
            group.give(TopicPartition("t", 0))
            await asyncio.sleep(7)

        listener = Listener(revoked=slowly)
        async with group.member() as c:
            c.subscribe(["t"], listener=listener)
            await polled(c)
            group.give(ONE)
            await polled(c, 20)
            assert c.assignment() == {ZERO}
            assert [ONE] not in [partitions for _, partitions in listener.heard]

    run(work)


# -- what listeners do


@pytest.mark.parametrize("what", ["revoked", "assigned"])
def test_a_listener_that_raises_is_heard_and_the_rebalance_goes_on(group, what):
    async def work():
        async def fail():
            raise ValueError("the listener's own")

        async with group.member() as c:
            await polled(c)
            listener = Listener(**{what: fail})
            if what == "assigned":
                listener.on["revoked"] = None
            c.subscribe(["t"], listener=listener)
            group.give(ONE)
            await asyncio.sleep(6)
            if what == "assigned" and group.is_new:
                await polled(c)  # gives back
                group.give(ZERO, ONE)
                await asyncio.sleep(6)
            with pytest.raises(ValueError, match="the listener's own"):
                await c.poll(1000)
            await polled(c)
            expected = {ZERO, ONE} if what == "assigned" and group.is_new else {ONE}
            assert c.assignment() == expected
            assert listener.names().count("revoked") == 1
            group.fill(1, 2)
            assert len(await polled(c)) == 2
            if group.is_new:
                said = [each.topic_partitions for each in group.broker.requests(group.heartbeat)]
                last = next(each for each in reversed(said) if each is not None)
                assert {p for t in last for p in t.partitions} == {each.partition for each in expected}

    run(work)


def test_a_poll_that_is_cancelled_gives_back_once_more(group):
    """Before that the partitions are this member's: the listener could not end its work."""

    async def work():
        async def slowly():
            await asyncio.sleep(100)

        listener = Listener(revoked=slowly)
        async with group.member(max_poll_interval_ms=HOUR_MS) as c:
            c.subscribe(["t"], listener=listener)
            await polled(c)
            group.give(ONE)
            await asyncio.sleep(6)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await c.poll(5000)
            assert c.assignment() == {ZERO, ONE}
            await polled(c)
            assert c.assignment() == {ONE}
            assert listener.names().count("revoked") == 2

    run(work)


def test_a_poll_that_is_cancelled_while_it_takes_over_has_taken_over(group):
    async def work():
        async def slowly():
            await asyncio.sleep(100)

        listener = Listener(assigned=slowly)
        async with group.member(max_poll_interval_ms=HOUR_MS) as c:
            c.subscribe(["t"], listener=listener)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(3):
                    await c.poll(5000)
            assert c.assignment() == {ZERO, ONE}
            group.fill(1, 2)
            assert len(await polled(c)) == 2

    run(work)


@pytest.mark.parametrize("what", ["revoked", "assigned", "lost"])
def test_a_listener_may_unsubscribe_and_later_subscribe(group, what):
    async def work():
        async def leave():
            c.unsubscribe()

        listener = Listener(**{what: leave})
        async with group.member() as c:
            c.subscribe(["t"], listener=listener)
            if what != "assigned":
                await polled(c)
                group.give(ONE) if what == "revoked" else group.put_out()
                await asyncio.sleep(6)
            assert await polled(c) == []
            assert c.assignment() == set()
            asked = len(group.broker.requests(group.heartbeat))
            joins = len(group.owned_in_joins())
            await polled(c, 10)
            assert len(group.owned_in_joins()) == joins
            assert len(group.broker.requests(group.heartbeat)) == asked, "it is no member"
            group.give(ZERO, ONE)
            c.subscribe(["t"])
            await polled(c)
            assert c.assignment() == {ZERO, ONE}

    run(work)


def test_a_listener_may_leave_and_come_back_at_once(group):
    async def work():
        async def come_back():
            c.unsubscribe()
            c.subscribe(["t"])
            group.give(ZERO, ONE)

        listener = Listener(revoked=come_back)
        async with group.member() as c:
            c.subscribe(["t"], listener=listener)
            await polled(c)
            c.seek(ONE, 7)
            group.give(ONE)
            await asyncio.sleep(6)
            await polled(c, 10)
            assert c.assignment() == {ZERO, ONE}
            assert await c.position(ONE) == 0, "it came back as somebody new"
            assert [each for each in listener.heard if each[1]][-1] == ("assigned", [ZERO, ONE])

    run(work)


def test_a_listener_may_commit_but_not_poll(group):
    async def work():
        async def commit():
            await c.commit()
            with pytest.raises(errors.IllegalState, match="rebalance listener"):
                await c.poll(100)

        group.fill(0, 3)
        listener = Listener(revoked=commit)
        async with group.member(enable_auto_commit=False) as c:
            c.subscribe(["t"], listener=listener)
            await polled(c)
            group.give(ONE)
            await polled(c, 10)
            assert c.assignment() == {ONE}
            ((_, offsets),) = group.commits()
            assert offsets[0] == 3
            assert await c.poll(100) == []

    run(work)
