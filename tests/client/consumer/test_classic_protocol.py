"""Joining, heartbeats and losing partitions, against a scripted coordinator in virtual time."""

import asyncio

import pytest
from evidence.world.client import BOOTSTRAP, CUT, NO_ANSWER, ScriptedBroker, run

from oncelog import Consumer, RebalanceListener, TopicPartition, errors
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.consumer_protocol import Assignment, assignment_to_bytes, subscription_from_bytes
from oncelog.wire.messages.heartbeat import HeartbeatResponse
from oncelog.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from oncelog.wire.messages.leave_group import LeaveGroupResponse
from oncelog.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from oncelog.wire.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from oncelog.wire.messages.sync_group import SyncGroupResponse

E = ErrorCode
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Coordinator(ScriptedBroker):
    """A group of one member, unless `given` says what others left it."""

    def __init__(self) -> None:
        super().__init__()
        self.generation_id = 0
        self.given: tuple[TopicPartition, ...] | None = None

    def _join_group(self, message, code):
        if code or not message.member_id:
            return JoinGroupResponse(error_code=code or E.MEMBER_ID_REQUIRED, member_id="m")
        self.generation_id += 1
        protocol = message.protocols[0]
        member = JoinGroupResponseMember(member_id=message.member_id, metadata=bytes(protocol.metadata))
        return JoinGroupResponse(
            generation_id=self.generation_id,
            protocol_type="consumer",
            protocol_name=protocol.name,
            leader=message.member_id,
            member_id=message.member_id,
            members=[member],
        )

    def _sync_group(self, message, code):
        if code:
            return SyncGroupResponse(error_code=code)
        data = bytes(message.assignments[0].assignment)
        if self.given is not None:
            data = assignment_to_bytes(Assignment(self.given))
        return SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=data)

    def _heartbeat(self, _, code):
        return HeartbeatResponse(error_code=code)

    def _leave_group(self, _, code):
        return LeaveGroupResponse(error_code=code)

    def _offset_fetch(self, message, code):
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", error_code=code)])

    def _offset_commit(self, message, code):
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                    for p in topic.partitions
                ],
            )
            for topic in message.topics
        ]
        return OffsetCommitResponse(topics=topics)


class Listener:
    def __init__(self) -> None:
        self.heard: list[tuple[str, list[TopicPartition]]] = []

    async def on_partitions_revoked(self, revoked):
        self.heard.append(("revoked", list(revoked)))

    async def on_partitions_assigned(self, assigned):
        self.heard.append(("assigned", list(assigned)))

    async def on_partitions_lost(self, lost):
        self.heard.append(("lost", list(lost)))


def member(broker, **config):
    defaults = {"group_id": "g", "heartbeat_interval_ms": 1000, "auto_offset_reset": "earliest"}
    return Consumer("t", host=broker.host(), bootstrap_servers=BOOTSTRAP, **{**defaults, **config})


class Plain(RebalanceListener):
    """Not async, and says only what it wants to hear."""

    def __init__(self):
        self.heard = []

    def on_partitions_assigned(self, assigned):
        self.heard.append(list(assigned))


def test_a_listener_need_not_be_async_nor_whole():
    async def work():
        broker, listener = Coordinator(), Plain()
        async with member(broker, partition_assignment_strategy="range") as c:
            c.subscribe(["t"], listener=listener)
            await c.poll(1000)
            broker.script(ApiKey.HEARTBEAT, E.REBALANCE_IN_PROGRESS)
            await c.poll(5000)
        assert listener.heard == [[ZERO, ONE], [ZERO, ONE]]

    run(work)


def test_the_rack_is_told():
    """KIP-881: with replicas elsewhere, an assignor may look for the closest member."""

    async def work():
        broker = Coordinator()
        async with member(broker, client_rack="r") as c, member(broker) as other:
            await c.poll(1000)
            await other.poll(1000)
        joins = [subscription_from_bytes(each.protocols[0].metadata) for each in broker.requests(ApiKey.JOIN_GROUP)]
        assert {each.rack_id for each in joins} == {"r", None}
        assert joins[0].rack_id == "r"

    run(work)


def test_a_member_is_named_first_and_assigned_what_it_reads():
    async def work():
        broker = Coordinator()
        async with member(broker) as c:
            await c.poll(1000)
            assert c.assignment() == {ZERO, ONE}
            assert (c.group_metadata().generation_id, c.group_metadata().member_id) == (1, "m")
        assert [request.member_id for request in broker.requests(ApiKey.JOIN_GROUP)] == ["", "m"]
        assert len(broker.requests(ApiKey.LEAVE_GROUP)) == 1

    run(work)


def test_a_static_member_stays_when_it_stops():
    async def work():
        broker = Coordinator()
        async with member(broker, group_instance_id="i") as c:
            await c.poll(1000)
        assert broker.requests(ApiKey.LEAVE_GROUP) == []

    run(work)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_partitions_change_only_inside_poll(strategy):
    """KIP-447: between reading and committing the generation must not move."""

    async def work():
        broker = Coordinator()
        listener = Listener()
        async with member(broker, partition_assignment_strategy=strategy) as c:
            c.subscribe(["t"], listener=listener)
            await c.poll(1000)
            broker.script(ApiKey.HEARTBEAT, E.REBALANCE_IN_PROGRESS)
            broker.given = (ONE,)
            await asyncio.sleep(3)
            assert (c.assignment(), c.group_metadata().generation_id) == ({ZERO, ONE}, 1)
            listener.heard.clear()
            await c.poll(1000)
            assert c.assignment() == {ONE}
            if strategy == "range":
                assert listener.heard == [("revoked", [ZERO, ONE]), ("assigned", [ONE])]
            else:
                assert listener.heard[:2] == [("revoked", [ZERO]), ("assigned", [])]
                assert c.group_metadata().generation_id == 3, "joins again after giving back (KIP-429)"

    run(work)


@pytest.mark.parametrize("code", [E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION])
def test_a_member_that_was_thrown_out_loses_its_partitions_and_joins_again(code):
    async def work():
        broker = Coordinator()
        listener = Listener()
        async with member(broker) as c:
            c.subscribe(["t"], listener=listener)
            await c.poll(1000)
            listener.heard.clear()
            broker.script(ApiKey.HEARTBEAT, code)
            await asyncio.sleep(2)
            await c.poll(1000)
            assert listener.heard == [("lost", [ZERO, ONE]), ("assigned", [ZERO, ONE])]

    run(work)


@pytest.mark.parametrize("api", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP])
@pytest.mark.parametrize("code", [E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION])
def test_who_hears_while_joining_that_it_was_thrown_out_loses_what_it_kept(api, code):
    """KIP-429: it kept its partitions over the join; meanwhile others may have read on. Seed 872 of groups."""

    async def work():
        broker = Coordinator()
        listener = Listener()
        async with member(broker, partition_assignment_strategy="cooperative-sticky") as c:
            c.subscribe(["t"], listener=listener)
            await c.poll(1000)
            c.seek(ONE, 7)
            listener.heard.clear()
            broker.script(ApiKey.HEARTBEAT, E.REBALANCE_IN_PROGRESS)
            await asyncio.sleep(2)
            broker.script(api, code)
            await c.poll(1000)
            assert listener.heard == [("lost", [ZERO, ONE]), ("assigned", [ZERO, ONE])]
            last = broker.requests(ApiKey.JOIN_GROUP)[-1]
            assert subscription_from_bytes(last.protocols[0].metadata).owned_partitions == ()
            await c.poll(100)
            assert await c.position(ONE) == 0, "asked for anew"

    run(work)


def test_a_fenced_instance_is_over():
    async def work():
        broker = Coordinator()
        async with member(broker, group_instance_id="i") as c:
            await c.poll(1000)
            broker.script(ApiKey.HEARTBEAT, E.FENCED_INSTANCE_ID)
            await asyncio.sleep(2)
            with pytest.raises(errors.FencedInstanceId):
                await c.poll(1000)

    run(work)


@pytest.mark.parametrize(
    ("api", "code"),
    [
        (ApiKey.JOIN_GROUP, E.COORDINATOR_LOAD_IN_PROGRESS),
        (ApiKey.JOIN_GROUP, E.NOT_COORDINATOR),
        (ApiKey.JOIN_GROUP, E.UNKNOWN_MEMBER_ID),
        (ApiKey.SYNC_GROUP, E.REBALANCE_IN_PROGRESS),
        (ApiKey.SYNC_GROUP, E.ILLEGAL_GENERATION),
        (ApiKey.FIND_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_joining_goes_on_after_errors_that_pass(api, code):
    async def work():
        broker = Coordinator()
        broker.script(api, code, code)
        async with member(broker) as c:
            await c.poll(5000)
            assert c.assignment() == {ZERO, ONE}

    run(work)


@pytest.mark.parametrize(("code", "keeps"), [(E.ILLEGAL_GENERATION, True), (E.UNKNOWN_MEMBER_ID, False)])
def test_who_is_a_member_still_joins_as_the_same_one(code, keeps):
    """As Kafka's consumer: under another id it would leave itself behind, and the group waits for that one."""

    async def work():
        broker = Coordinator()
        broker.script(ApiKey.SYNC_GROUP, code)
        async with member(broker) as c:
            await c.poll(5000)
            assert c.assignment() == {ZERO, ONE}
        asked = [each.member_id for each in broker.requests(ApiKey.JOIN_GROUP)]
        refused = broker.requests(ApiKey.SYNC_GROUP)[0].member_id
        assert (asked[asked.index(refused) + 1] == refused) is keeps

    run(work)


def test_a_group_that_rebalances_on_and_on_is_not_asked_without_a_pause():
    async def work(loop):
        broker = Coordinator()
        broker.script(ApiKey.SYNC_GROUP, *[E.REBALANCE_IN_PROGRESS] * 20)
        async with member(broker) as c:
            while not c.assignment():
                await c.poll(5000)
            assert loop.time() > 3

    run(work)


def test_an_id_is_used_while_it_is_good():
    """A member that was given an id and not heard of for a session timeout is forgotten: no pause may be longer than that."""

    class Forgetful(Coordinator):
        given_s = 0.0
        refused_count = 0

        def _join_group(self, message, code):
            now_s = asyncio.get_running_loop().time()
            if not message.member_id:
                self.given_s = now_s
            elif self.refused_count < 5 or now_s - self.given_s > 1.5:
                self.refused_count += 1
                code = E.UNKNOWN_MEMBER_ID
            return super()._join_group(message, code)

    async def work():
        broker = Forgetful()
        options = {"session_timeout_ms": 1500, "heartbeat_interval_ms": 500, "retry_backoff_ms": 2000}
        async with member(broker, retry_backoff_max_ms=2000, **options) as c:
            for _ in range(10):
                await c.poll(5000)
            assert c.assignment() == {ZERO, ONE}

    run(work)


@pytest.mark.parametrize("trouble", [CUT, NO_ANSWER])
@pytest.mark.parametrize("api", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.OFFSET_FETCH])
def test_a_coordinator_that_does_not_answer_is_looked_for_again(api, trouble):
    """It may be gone for good, and another broker has the group: whoever went on asking it would never hear of that."""

    async def work():
        broker = Coordinator()
        broker.script(api, trouble)
        async with member(broker, request_timeout_ms=3000, max_poll_interval_ms=20_000) as c:
            for _ in range(10):
                await c.poll(4000)
            assert c.assignment() == {ZERO, ONE}
            assert len(broker.requests(ApiKey.FIND_COORDINATOR)) == 2
            assert len(broker.requests(api)) > 1

    run(work)


def test_a_join_that_is_refused_is_told_and_goes_on():
    async def work():
        broker = Coordinator()
        broker.script(ApiKey.JOIN_GROUP, E.GROUP_AUTHORIZATION_FAILED)
        async with member(broker) as c:
            with pytest.raises(errors.GroupAuthorization, match="group 'g'"):
                await c.poll(1000)
            await c.poll(1000)
            assert c.assignment() == {ZERO, ONE}

    run(work)


async def refusals(consumer, seconds, timeout_ms=300):
    """How often poll raised that the group is refused, in this time, and once more where there is none."""
    loop, count = asyncio.get_running_loop(), 0
    ends = loop.time() + seconds
    while True:
        try:
            await consumer.poll(timeout_ms)
        except errors.GroupAuthorization:
            count += 1
            assert count < 10_000, "nobody is asked again"
        if loop.time() >= ends:
            return count


@pytest.mark.parametrize("then", [0, E.UNKNOWN_MEMBER_ID, E.REBALANCE_IN_PROGRESS])
@pytest.mark.parametrize("polls", [False, True])
def test_who_was_refused_its_group_works_again_when_it_has_the_right(then, polls):
    """The first refusal ended all heartbeats, and poll raised it for ever."""

    async def work():
        broker, listener = Coordinator(), Listener()
        async with member(broker) as c:
            c.subscribe(["t"], listener=listener)
            await c.poll(1000)
            before = len(broker.requests(ApiKey.HEARTBEAT))
            broker.script(ApiKey.HEARTBEAT, *[E.GROUP_AUTHORIZATION_FAILED] * 1000)
            await asyncio.sleep(2)
            assert await refusals(c, 20 if polls else 0) >= (15 if polls else 1)
            await asyncio.sleep(0 if polls else 20)
            assert len(broker.requests(ApiKey.HEARTBEAT)) - before <= 35, "about once a second"
            broker.scripts[ApiKey.HEARTBEAT].clear()
            broker.script(ApiKey.HEARTBEAT, then)
            await asyncio.sleep(1.5)
            await c.poll(1000)
            assert c.assignment() == {ZERO, ONE}
            came = {0: [], E.UNKNOWN_MEMBER_ID: ["lost", "assigned"]}.get(then, ["revoked", "assigned"])
            assert [what for what, _ in listener.heard] == ["assigned", *came]
            broker.script(ApiKey.HEARTBEAT, *[E.GROUP_AUTHORIZATION_FAILED] * 1000)
            await asyncio.sleep(2)
        assert len(broker.requests(ApiKey.LEAVE_GROUP)) == 1, "a refused one stops as any other"

    run(work)


@pytest.mark.parametrize("api", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.FIND_COORDINATOR])
def test_who_may_not_join_yet_joins_when_it_may(api):
    async def work():
        broker = Coordinator()
        broker.script(api, *[E.GROUP_AUTHORIZATION_FAILED] * 10)
        async with member(broker) as c:
            assert await refusals(c, 15, timeout_ms=5) >= 10, "also to who hardly waits"
            assert c.assignment() == {ZERO, ONE}
            assert 11 <= len(broker.requests(api)) <= 12, "however often it is polled"

    run(work)


def test_who_is_refused_while_it_joins_can_unsubscribe_and_come_back():
    async def work():
        broker = Coordinator()
        broker.script(ApiKey.JOIN_GROUP, *[E.GROUP_AUTHORIZATION_FAILED] * 1000)
        async with member(broker) as c:
            assert await refusals(c, 3)
            c.unsubscribe()
            broker.scripts[ApiKey.JOIN_GROUP].clear()
            c.subscribe(["t"])
            await c.poll(1000)
            assert c.assignment() == {ZERO, ONE}

    run(work)


def test_poll_does_not_wait_for_a_join_longer_than_told():
    async def work(loop):
        broker = Coordinator()
        broker.delay_s[ApiKey.JOIN_GROUP] = 5
        async with member(broker) as c:
            assert await c.poll(500) == []
            assert loop.time() < 1
            for _ in range(30):
                await c.poll(500)
            assert c.assignment() == {ZERO, ONE}
            assert len(broker.requests(ApiKey.JOIN_GROUP)) == 2, "one join went on all the time"

    run(work)


def test_who_does_not_poll_leaves():
    async def work():
        broker = Coordinator()
        listener = Listener()
        async with member(broker, max_poll_interval_ms=5000) as c:
            c.subscribe(["t"], listener=listener)
            await c.poll(1000)
            await asyncio.sleep(8)
            assert len(broker.requests(ApiKey.LEAVE_GROUP)) == 1
            await c.poll(1000)
            assert [what for what, _ in listener.heard] == ["assigned", "lost", "assigned"]

    run(work)


def test_heartbeats_go_on_when_one_is_lost():
    async def work():
        broker = Coordinator()
        async with member(broker, request_timeout_ms=2000) as c:
            await c.poll(1000)
            broker.script(ApiKey.HEARTBEAT, NO_ANSWER)
            await asyncio.sleep(10)
            assert len(broker.requests(ApiKey.HEARTBEAT)) >= 6

    run(work)


def test_auto_commit_stores_what_was_handed_out():
    async def work():
        from oncelog.wire.record_batch import build_batch

        broker = Coordinator()
        broker.append("t", 0, build_batch([(1, None, b"%d" % n, ()) for n in range(3)]))
        async with member(broker, auto_commit_interval_ms=1000) as c:
            assert len(await c.poll(2000)) == 3
            await asyncio.sleep(2)
            await c.poll(100)
            (commit,) = broker.requests(ApiKey.OFFSET_COMMIT)
            offsets = {p.partition_index: p.committed_offset for t in commit.topics for p in t.partitions}
            assert offsets[0] == 3
            assert (commit.generation_id_or_member_epoch, commit.member_id) == (1, "m")

    run(work)


async def _read_until(c, count):
    """As an application whose work on its `count`-th record fails."""
    with pytest.raises(ZeroDivisionError):
        async with c:
            async for record in c:
                if record.offset == count - 1:
                    raise ZeroDivisionError


def _committed_offsets(broker):
    return [
        p.committed_offset for each in broker.requests(ApiKey.OFFSET_COMMIT) for t in each.topics for p in t.partitions
    ]


def _filled(count=3):
    from oncelog.wire.record_batch import build_batch

    broker = Coordinator()
    broker.given = (ZERO,)
    broker.append("t", 0, build_batch([(1, None, b"%d" % n, ()) for n in range(count)]))
    return broker


@pytest.mark.parametrize("interval_ms", [1, 3_600_000])
def test_async_for_commits_no_record_whose_work_failed(interval_ms):
    async def work():
        broker = _filled()
        await _read_until(member(broker, auto_commit_interval_ms=interval_ms), 2)
        assert _committed_offsets(broker)[-1] == 1

    run(work)


def test_async_for_commits_what_was_worked_on_before_a_break():
    async def work():
        broker = _filled()
        async with member(broker, auto_commit_interval_ms=3_600_000) as c:
            async for record in c:
                if record.offset == 2:
                    break
        assert _committed_offsets(broker) == [2]

    run(work)


def test_a_commit_inside_async_for_is_the_applications_word():
    """What `stop` commits takes nothing back of it."""

    async def work():
        broker = _filled()
        async with member(broker, auto_commit_interval_ms=3_600_000) as c:
            async for record in c:
                await c.commit()
                if record.offset == 1:
                    break
        assert _committed_offsets(broker) == [1, 2, 2]

    run(work)


def test_a_seek_after_async_for_says_where_to_go_on():
    async def work():
        broker = _filled()
        async with member(broker, auto_commit_interval_ms=3_600_000) as c:
            async for _ in c:
                c.seek(ZERO, 3)
                break
        assert _committed_offsets(broker) == [3]

    run(work)


def test_poll_counts_what_it_handed_out():
    async def work():
        broker = _filled()
        async with member(broker, auto_commit_interval_ms=3_600_000) as c:
            await anext(c)
            assert len(await c.poll(1000, max_records=1)) == 1
        assert _committed_offsets(broker) == [2]

    run(work)
