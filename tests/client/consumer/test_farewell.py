"""A consumer that stops or unsubscribes tells its listener first, of each protocol, in virtual time."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.client import run

from oncelog import RebalanceListener, TopicPartition, errors
from oncelog.wire.api import ApiKey
from tests.client.consumer.test_rebalances import CONSUMER, COOPERATIVE, PROTOCOLS, Group, Listener, polled

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
BY_HAND = {"enable_auto_commit": False}


@pytest.fixture(params=PROTOCOLS)
def group(request):
    return Group(request.param)


def commits_and_leaves(group):
    """The end of what the coordinator was asked, heartbeats of members left out."""
    found = []
    for api, _, message in group.broker.asked:
        if api == ApiKey.OFFSET_COMMIT:
            found.append("commit")
        elif api == ApiKey.LEAVE_GROUP or (group.is_new and api == group.heartbeat and message.member_epoch == -1):
            found.append("leave")
    return found


@pytest.mark.parametrize("how", ["stop", "unsubscribe"])
def test_the_listener_hears_of_all_partitions_and_what_it_commits_is_stored_before_the_group_hears(group, how):
    async def work():
        async def commit():
            await c.commit()

        listener = Listener(revoked=commit)
        group.fill(0, 3)
        async with group.member(**BY_HAND) as c:
            c.subscribe(["t"], listener=listener)
            await polled(c)
            generation_id = c.group_metadata().generation_id
            if how == "unsubscribe":
                c.unsubscribe()
                assert c.assignment() == set()
                await asyncio.sleep(1)
                assert commits_and_leaves(group) == ["commit", "leave"]
        assert listener.heard == [("assigned", [ZERO, ONE]), ("revoked", [ZERO, ONE])]
        assert commits_and_leaves(group) == ["commit", "leave"]
        assert group.commits() == [(generation_id, {0: 3, 1: 0})]

    run(work)


def test_what_is_stored_by_itself_is_stored_before_the_listener_hears(group):
    async def work():
        seen = []

        async def note():
            seen.append(group.commits()[-1][1])

        group.fill(0, 3)
        async with group.member() as c:
            c.subscribe(["t"], listener=Listener(revoked=note))
            await polled(c)
        assert seen == [{0: 3, 1: 0}]

    run(work)


class Plain(RebalanceListener):
    def __init__(self):
        self.heard = []

    def on_partitions_revoked(self, revoked):
        self.heard.append(("revoked", list(revoked)))


@pytest.mark.parametrize("how", ["stop", "unsubscribe"])
def test_a_plain_listener_has_heard_when_the_call_is_over(group, how):
    async def work():
        listener = Plain()
        async with group.member() as c:
            c.subscribe(["t"], listener=listener)
            await polled(c)
            c.unsubscribe() if how == "unsubscribe" else await c.stop()
            assert listener.heard == [("revoked", [ZERO, ONE])]
            if how == "unsubscribe":
                c.subscribe(["t"])
                await polled(c, 12)
                assert c.assignment() == {ZERO, ONE}, "it comes back"
                c.unsubscribe()
        assert listener.heard == [("revoked", [ZERO, ONE])] * (2 if how == "unsubscribe" else 1)

    run(work)


def test_one_that_was_put_out_has_lost_them(group):
    async def work():
        listener = Listener()
        async with group.member() as c:
            c.subscribe(["t"], listener=listener)
            await polled(c)
            group.put_out()
            await asyncio.sleep(6)
        assert listener.heard[:2] == [("assigned", [ZERO, ONE]), ("lost", [ZERO, ONE])]
        assert "revoked" not in listener.names()

    run(work)


@pytest.mark.parametrize("how", ["no group", "by hand", "nothing yet"])
def test_who_was_given_nothing_by_a_group_loses_nothing(group, how):
    async def work():
        listener = Listener()
        member = group.member(**({"group_id": None} if how == "no group" else {}))
        async with member as c:
            c.subscribe(["t"], listener=listener)
            if how == "by hand":
                c.unsubscribe()
                c.assign([ZERO])
            if how != "nothing yet":
                await polled(c)
        assert listener.names() == []

    run(work)


@pytest.mark.parametrize("error", [ValueError("mine"), TimeoutError("mine")])
def test_what_it_raises_is_raised_when_the_consumer_has_left_and_is_closed(group, error):
    async def work():
        async def fail():
            raise error

        async with group.member(**BY_HAND) as c:
            c.subscribe(["t"], listener=Listener(revoked=fail))
            await polled(c)
            with pytest.raises(type(error), match="mine"):
                await c.stop()
            assert commits_and_leaves(group) == ["leave"]
            with pytest.raises(errors.IllegalState, match="it was stopped"):
                await c.poll(0)

    run(work)


def test_an_error_that_leaves_the_block_is_not_covered_by_what_it_raises(group, caplog):
    async def work():
        async def fail():
            raise OSError("no such place")

        with pytest.raises(ValueError, match="ours"):
            async with group.member(**BY_HAND) as c:
                c.subscribe(["t"], listener=Listener(revoked=fail))
                await polled(c)
                raise ValueError("ours")
        assert commits_and_leaves(group) == ["leave"]
        assert "no such place" in caplog.text

    run(work)


def test_what_it_raises_behind_an_unsubscribe_is_logged(group, caplog):
    async def work():
        async def fail():
            raise ValueError("mine")

        async with group.member(**BY_HAND) as c:
            c.subscribe(["t"], listener=Listener(revoked=fail))
            await polled(c)
            c.unsubscribe()
            await asyncio.sleep(1)
            assert commits_and_leaves(group) == ["leave"]
            c.subscribe(["t"])
            await polled(c, 12)
            assert c.assignment() == {ZERO, ONE}
        (line,) = [each for each in caplog.records if each.levelname == "ERROR"]
        assert line.getMessage() == "a rebalance listener raised while its consumer unsubscribed"

    run(work)


@pytest.mark.parametrize("how", ["stop", "unsubscribe"])
def test_one_that_does_not_end_is_waited_for_within_the_time_of_the_stop(group, how, caplog):
    async def work(loop):
        async def hang():
            await asyncio.sleep(3600)

        async with group.member(**BY_HAND) as c:
            c.subscribe(["t"], listener=Listener(revoked=hang))
            await polled(c)
            if how == "unsubscribe":
                c.unsubscribe()
            began = loop.time()
            await c.stop(timeout_ms=700)
            assert loop.time() - began == pytest.approx(0.7, abs=0.1)
        assert ("its rebalance listener did not end" in caplog.text) is (how == "stop")

    run(work)


def test_a_record_that_async_for_has_handed_out_and_nobody_is_done_with_is_not_committed(group):
    async def work():
        async def commit():
            await c.commit()

        group.fill(0, 3)
        async with group.member(**BY_HAND) as c:
            c.subscribe(["t"], listener=Listener(revoked=commit))
            assert (await anext(c)).offset == 0
            assert (await anext(c)).offset == 1
        assert [offsets[0] for _, offsets in group.commits()] == [1]

    run(work)


def test_a_listener_that_stops_or_unsubscribes_is_not_called_in_itself(group):
    async def work():
        async def leave():
            c.unsubscribe()
            await c.stop()

        listener = Listener(revoked=leave)
        async with group.member() as c:
            c.subscribe(["t"], listener=listener)
            await polled(c)
            group.give(ONE)
            await asyncio.sleep(6)
            with pytest.raises(errors.IllegalState, match="stopped"):
                await polled(c, 10)
        assert listener.names() == ["assigned", "revoked"]

    run(work)


def test_a_listener_may_stop_the_consumer_that_is_being_stopped(group, caplog):
    async def work():
        listener = Listener(revoked=lambda: c.stop())
        async with group.member(**BY_HAND) as c:
            c.subscribe(["t"], listener=listener)
            await polled(c)
            begun_s = asyncio.get_running_loop().time()
            await c.stop()
            assert asyncio.get_running_loop().time() - begun_s < 1
        assert listener.names() == ["assigned", "revoked"]
        assert commits_and_leaves(group) == ["leave"]
        assert "no answer" not in caplog.text

    run(work)


@pytest.mark.parametrize("is_told_by", [errors.ErrorCode.ILLEGAL_GENERATION, errors.ErrorCode.REBALANCE_IN_PROGRESS])
def test_what_is_committed_at_the_end_of_a_rebalance_half_done_is_stored_in_the_next_generation(is_told_by):
    """It was refused, as by Apache's client, and records came twice: a cooperative member keeps what it reads meanwhile."""

    async def work():
        group = Group(COOPERATIVE)

        def store(message):
            is_refused = message.generation_id_or_member_epoch != group.broker.generation_id
            return group.broker._offset_commit(message, is_told_by if is_refused else 0)

        async def commit():
            await c.commit()

        group.fill(0, 3)
        group.broker.script(ApiKey.OFFSET_COMMIT, *[store] * 9)
        async with group.member(**BY_HAND) as c:
            c.subscribe(["t"], listener=Listener(revoked=commit))
            await polled(c)
            current = group.broker.generation_id
            group.give(ZERO)
            group.broker.delay_s[ApiKey.SYNC_GROUP] = 5
            await polled(c)
            assert group.broker.generation_id == current + 1
        assert group.commits() == [(current, {0: 3, 1: 0}), (current + 1, {0: 3, 1: 0})]
        assert commits_and_leaves(group) == ["commit", "commit", "leave"]

    run(work)


def test_a_join_that_does_not_end_is_not_waited_for_to_the_end_of_a_stop(caplog):
    async def work():
        group = Group(COOPERATIVE)

        async def commit():
            with pytest.raises(errors.IllegalGeneration):
                await c.commit()

        async with group.member(**BY_HAND) as c:
            c.subscribe(["t"], listener=Listener(revoked=commit))
            await polled(c)
            group.give(ZERO)
            group.broker.delay_s[ApiKey.SYNC_GROUP] = 50
            await polled(c)
            group.broker.script(ApiKey.OFFSET_COMMIT, errors.ErrorCode.ILLEGAL_GENERATION)
            await c.stop(4000)
        assert commits_and_leaves(group) == ["commit", "leave"]
        assert "while the consumer stopped" not in caplog.text

    run(work)


def test_a_commit_at_the_end_whose_epoch_grew_meanwhile_is_stored():
    """What a listener committed at the end was repeated with the epoch that was refused."""

    async def work():
        group = Group(CONSUMER)

        async def commit():
            group.broker.script(ApiKey.OFFSET_COMMIT, errors.ErrorCode.STALE_MEMBER_EPOCH)
            group.broker.member_epoch += 1
            await c.commit()

        group.fill(0, 3)
        async with group.member(**BY_HAND) as c:
            c.subscribe(["t"], listener=Listener(revoked=commit))
            await polled(c)
        (former, _), (epoch, offsets) = group.commits()
        assert (epoch, offsets) == (former + 1, {0: 3, 1: 0})

    run(work)
