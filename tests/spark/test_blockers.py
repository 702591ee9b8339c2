"""Who holds a stream: the first open transaction of a partition, asked for now and then, told once."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from oncelog import errors
from oncelog.client.admin.transaction_listing import (
    NEVER_MS,
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
)
from oncelog.spark.blockers import LOOK_EVERY_S, Blocker, Watch, as_utc, blockers_of, held, look
from oncelog.types import TopicPartition

T0 = TopicPartition("t", 0)
START_MS = 1_700_000_000_250


def producer(producer_id: int, start_offset: int | None) -> ProducerDescription:
    return ProducerDescription(producer_id, 0, 0, START_MS, 0, start_offset)


def owner(name: str = "holder", state: str = "Ongoing", timeout_ms: int = 60_000) -> TransactionDescription:
    return TransactionDescription(name, 1, state, 7, 0, timeout_ms, START_MS, (T0,), START_MS + 5)


class FakeAdmin:
    """One open transaction of producer 7."""

    def __init__(self, names: tuple[str, ...] = ("holder",)) -> None:
        self.names, self.look_count = names, 0

    def describe_producers(self, where: Any, *, unreadable: Any) -> dict[TopicPartition, list[ProducerDescription]]:
        assert unreadable == {}
        self.look_count += 1
        return {at: [producer(7, 5), producer(8, None), producer(9, 8)] for at in where}

    def list_transactions(self, *, producer_ids: list[int]) -> list[TransactionListing]:
        assert producer_ids == [7, 9]
        return [TransactionListing(name, 7, "Ongoing", 1) for name in self.names]

    def describe_transactions(self, names: list[str]) -> dict[str, TransactionDescription]:
        if names == ["gone"]:
            raise errors.TransactionalIdNotFound("gone")
        return {name: owner(name) for name in names}


def test_a_stream_is_held_where_it_has_read_what_it_may() -> None:
    stable, end = {"t": {0: 5, 1: 5, 2: 5}}, {"t": {0: 9, 1: 9, 2: 5}}
    assert held({"t": {0: 5, 1: 4, 2: 5}}, stable, end) == {T0: 4}
    assert held({}, stable, end) == {}


def test_the_first_open_transaction_holds() -> None:
    found = blockers_of({T0: [producer(9, 8), producer(7, 5), producer(6, None)]}, {7: owner(), 9: owner("later")})
    assert (found[T0].start_offset, found[T0].name) == (5, "'holder'")
    assert blockers_of({T0: [producer(6, None)]}, {}) == {}


@pytest.mark.parametrize("gone_on", [None, owner(state="CompleteCommit"), owner()])
def test_an_owner_that_has_gone_on_is_none(gone_on: TransactionDescription | None) -> None:
    """Nobody may be told to end a transaction by an id that has another one by now."""
    where = TopicPartition("t", 3)  # of which the described transaction has nothing
    found = blockers_of({where: [producer(7, 5)]}, {} if gone_on is None else {7: gone_on})[where]
    assert found.owner is None
    assert found.command == "oncelog why t"
    assert found.since_ms == START_MS


def test_the_command_frees_and_the_words_say_who_ends_it() -> None:
    ongoing = Blocker(T0, 5, 7, START_MS, owner("my holder"))
    assert ongoing.command == "oncelog transactions force-terminate --transactional-id 'my holder'"
    assert ongoing.to_json(4)["since"] == "2023-11-14T22:13:20.250Z"
    assert ongoing.to_json(4)["ends"] == "it times out after 60000 ms"
    assert "without a timeout" in Blocker(T0, 5, 7, START_MS, owner(timeout_ms=NEVER_MS)).ends
    decided = Blocker(T0, 5, 7, START_MS, owner(state="PrepareCommit"))
    assert "markers" in decided.ends
    assert decided.command == "oncelog why t"
    assert as_utc(-1) is None


def test_an_id_that_vanishes_while_one_asks_is_left_out() -> None:
    admin: Any = FakeAdmin(("gone", "holder"))
    assert look(admin, [T0])[T0].name == "'holder'"


def test_it_looks_now_and_then_and_tells_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "oncelog.spark")
    now_s, admin = [100.0], FakeAdmin()
    fake: Any = admin
    watch = Watch(lambda: now_s[0])
    assert watch.blocked(fake, {}, START_MS) == []
    young = watch.blocked(fake, {T0: 4}, START_MS + 9_000)
    assert (young[0]["transactionalId"], young[0]["waiting"], admin.look_count) == ("holder", 4, 1)
    assert watch.blocked(fake, {T0: 6}, START_MS + 11_000)[0]["waiting"] == 6
    assert admin.look_count == 1
    assert not caplog.messages
    for _ in range(3):
        now_s[0] += LOOK_EVERY_S
        watch.blocked(fake, {T0: 6}, START_MS + 15_000)
    assert admin.look_count == 4
    assert [("is held at offset 5, 6 behind it" in m, "'holder'" in m) for m in caplog.messages] == [(True, True)]
    assert watch.blocked(fake, {}, START_MS + 60_000) == []
    assert caplog.messages[1:] == ["oncelog: t-0 goes on: 'holder' has ended"]
