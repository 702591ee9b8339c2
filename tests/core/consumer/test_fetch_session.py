"""A client's fetch session; also against the broker's own side of it."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from oncelog.core.consumer.fetch_session import ClientFetchSession, SessionPartition, Wanted
from oncelog.core.leader.fetch_session import FetchSessions, PartitionKey, PartitionToFetch
from oncelog.core.leader.verdict import Refuse

ID = b"i" * 16


def at(topic, partition=0, topic_id=ID):
    return SessionPartition(topic, topic_id, partition)


def shown(request):
    return (
        request.session_id,
        request.session_epoch,
        {f"{each.topic}{each.partition}": how.fetch_offset for each, how in request.named.items()},
        [f"{each.topic}{each.partition}" for each in request.forgotten],
    )


def test_only_changes_are_named_once_there_is_a_session():
    session = ClientFetchSession()
    assert shown(session.request({at("t"): Wanted(0, 9), at("t", 1): Wanted(5, 9)})) == (0, 0, {"t0": 0, "t1": 5}, [])
    session.answered(7, is_error=False)
    assert shown(session.request({at("t"): Wanted(0, 9), at("t", 1): Wanted(6, 9)})) == (7, 1, {"t1": 6}, [])
    session.answered(7, is_error=False)
    assert shown(session.request({at("t"): Wanted(0, 9)})) == (7, 2, {}, ["t1"])
    session.answered(7, is_error=False)
    assert shown(session.request({at("t"): Wanted(0, 9), at("t", 1): Wanted(6, 9)})) == (7, 3, {"t1": 6}, [])


def test_a_broker_without_room_hears_everything_each_time():
    session = ClientFetchSession()
    for _ in range(2):
        assert shown(session.request({at("t"): Wanted(0, 9)})) == (0, 0, {"t0": 0}, [])
        session.answered(0, is_error=False)


def test_after_an_error_or_silence_it_begins_again_and_closes_the_former():
    for go_wrong in (lambda s: s.answered(0, is_error=True), lambda s: s.unanswered()):
        session = ClientFetchSession()
        session.request({at("t"): Wanted(0, 9)})
        session.answered(7, is_error=False)
        session.request({at("t"): Wanted(0, 9)})
        go_wrong(session)
        assert shown(session.request({at("t"): Wanted(0, 9)})) == (7, 0, {"t0": 0}, [])
        session.answered(8, is_error=False)
        assert shown(session.request({at("t"): Wanted(0, 9)})) == (8, 1, {}, [])


def test_topics_by_name_are_another_session():
    session = ClientFetchSession()
    session.request({at("t"): Wanted(0, 9)})
    session.answered(7, is_error=False)
    assert shown(session.request({at("t", topic_id=bytes(16)): Wanted(0, 9)})) == (7, 0, {"t0": 0}, [])


def test_a_recreated_topic_is_another_partition():
    session = ClientFetchSession()
    session.request({at("t"): Wanted(0, 9)})
    session.answered(7, is_error=False)
    assert shown(session.request({at("t", topic_id=b"j" * 16): Wanted(0, 9)})) == (7, 1, {"t0": 0}, ["t0"])


def test_epochs_go_round():
    session = ClientFetchSession()
    session.request({at("t"): Wanted(0, 9)})
    session._session_epoch = 2**31 - 1
    session.answered(7, is_error=False)
    assert session.request({at("t"): Wanted(0, 9)}).session_epoch == 1


partitions = st.dictionaries(st.integers(0, 4), st.integers(0, 3), min_size=1)
steps = st.lists(st.tuples(partitions, st.sampled_from(["answer", "lost request", "lost answer"])), max_size=12)


@given(steps)
def test_the_broker_fetches_exactly_what_the_client_wants(history):
    ids = iter(range(1, 100))
    broker = FetchSessions(new_session_id=lambda: next(ids))
    client = ClientFetchSession()
    for wanted, fate in history:
        asked = client.request({at("t", index): Wanted(offset, 9) for index, offset in wanted.items()})
        if fate == "lost request":
            client.unanswered()
            continue
        named = [
            PartitionToFetch(PartitionKey(each.topic_id, each.partition), how.fetch_offset, how.size_bytes_max)
            for each, how in asked.named.items()
        ]
        forgotten = [PartitionKey(each.topic_id, each.partition) for each in asked.forgotten]
        context = broker.open(
            session_id=asked.session_id,
            session_epoch=asked.session_epoch,
            partitions=named,
            forgotten=forgotten,
            uses_topic_ids=True,
            now_ms=0,
        )
        assert not isinstance(context, Refuse)
        assert {each.key.partition: each.fetch_offset for each in context.partitions} == wanted
        if fate == "lost answer":
            client.unanswered()
        else:
            client.answered(context.session_id, is_error=False)
