"""What Apache Kafka had to learn, one by one: each cure taken away again, and the scenario that must miss it.

Scenarios are transcripts in `upstream/` (their first line says whose world they need) and, where a transcript cannot
tell the story, the functions below. A removal is a context manager that lasts while the scenario runs.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

from oncelog.core.leader import markers as marker_rules
from oncelog.core.leader.gate import Gate, Question
from oncelog.core.leader.gate_errors import ClientVersion, GuardedApi
from oncelog.core.leader.guards import Verifications
from oncelog.core.leader.producer_state import ProducerState
from oncelog.core.leader.verdict import APPEND
from oncelog.core.transactions import end_txn as end_transaction
from oncelog.core.transactions.table import TransactionTable
from oncelog.core.transactions.transaction import own
from oncelog.errors import ErrorCode
from oncelog.log import cleaner
from oncelog.log.cleaned_transactions import CleanedTransactions
from oncelog.types import TopicPartition
from tests.log.cleaning_world import CONFIG, CleaningWorld
from tests.scenarios import coordinator_world, scenario
from tests.scenarios.coordinator_world import CoordinatorWorld
from tests.scenarios.partition_world import PartitionWorld

UPSTREAM = pathlib.Path(__file__).parent / "upstream"
Removal = Callable[[], AbstractContextManager[Any]]
Story = Callable[[], None]


def patched(owner: Any, name: str, value: Any) -> Removal:
    return lambda: mock.patch.object(owner, name, value)


# -- stories that a transcript cannot tell


def kafka_18654_the_next_transaction_waits_in_the_gate() -> None:
    """While the markers are on their way "concurrent" is not passed on to the client: the question is asked again."""
    gate, partition = Gate(), TopicPartition("t", 0)
    client = ClientVersion(GuardedApi.PRODUCE, 12)
    gate.ask(Question(1, client, "pay", 10, 1, frozenset({partition})), 7, 0)
    assert len(gate.next_request(7, 0)) == 1
    assert gate.answered(7, {"pay": {partition: ErrorCode.CONCURRENT_TRANSACTIONS}}, 1) == []
    gate.wake("pay")
    assert len(gate.next_request(7, 2)) == 1, "asked again as soon as the transaction is complete"
    (answer,) = gate.answered(7, {"pay": {partition: ErrorCode.NONE}}, 3)
    assert not answer.refused


def kafka_8351_a_transaction_over_several_groups() -> None:
    """What the cleaner knows of an aborted transaction is carried from one group of segments to the next."""
    world = CleaningWorld(config=replace(CONFIG, segment_bytes=600))
    world.put(("base", "1"))
    for index in range(12):
        world.put((f"aborted{index}", "x" * 120), producer_id=1)
        world.put(("k", "y" * 120), producer_id=2)
    world.mark(1, commit=False)
    world.mark(2, commit=True)
    world.put(("k", "z" * 120))
    world.log.roll()
    for _ in range(3):
        world.clean()
        world.now_ms += 10_000
        world.put(("k", "later"))
        world.log.roll()
        world.check()


def kafka_13727_a_cleaning_that_ends_before_the_marker() -> None:
    """The map is full before the abort's marker is met, in the same segment: the records must stay aborted."""
    world = CleaningWorld(config=replace(CONFIG, segment_bytes=1 << 20))
    world.put(("a", "1"))
    world.put(("a", "2"))
    world.put(("aborted", "never to be seen"), producer_id=1)
    world.put(("b", "1"))
    world.put(("c", "1"))
    world.mark(1, commit=False)
    world.put(("d", "1"))
    world.log.roll()
    world.keys_max = 3
    for _ in range(3):
        world.clean()
        world.now_ms += 10_000
        world.check()


STORIES: dict[str, Story] = {
    story.__name__: story
    for story in (
        kafka_18654_the_next_transaction_waits_in_the_gate,
        kafka_8351_a_transaction_over_several_groups,
        kafka_13727_a_cleaning_that_ends_before_the_marker,
    )
}


def transcripts() -> dict[str, pathlib.Path]:
    return {path.stem: path for path in sorted(UPSTREAM.glob("*.txt"))}


def world_of(text: str) -> Callable[[list[str]], str]:
    return {"# partition": PartitionWorld, "# coordinator": CoordinatorWorld}[text.splitlines()[0]]().handle  # type: ignore[no-any-return]


def holds(name: str) -> bool:
    """Whether the scenario goes as it should. It may also break off."""
    if name in STORIES:
        STORIES[name]()
        return True
    text = transcripts()[name].read_text()
    return scenario.run(text, world_of(text)) == text


# -- the cures, taken away


def _state_is_no_longer_fresh(state: ProducerState, batch: Any, **more: Any) -> Any:
    before = state.active_ms, state.last_timestamp
    completed = _TAKE_MARKER(state, batch, **more)
    state.active_ms, state.last_timestamp = before
    return completed


_TAKE_MARKER = ProducerState.take_marker


def _ends_keep_the_epoch() -> AbstractContextManager[Any]:
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(TransactionTable, "bumped", lambda self, identity: identity))
    stack.enter_context(mock.patch.object(end_transaction, "marker_epoch_of", lambda record: record.producer_epoch))
    stack.enter_context(mock.patch.object(end_transaction, "is_retry", return_value=False))
    return stack


@contextlib.contextmanager
def _ends_look_at_no_transition_under_way() -> Iterator[None]:
    """EndTxn looks at the epoch of the transaction that is being completed instead."""
    original = end_transaction.end_txn

    def end_txn(table: TransactionTable, request: Any, version: int, now_ms: int, has_needed: Any) -> Any:
        shown = table.get(request.transactional_id)
        if table.is_busy(request.transactional_id) and shown is not None:
            return end_transaction._refused(ErrorCode.PRODUCER_FENCED, version)
        return original(table, request, version, now_ms, has_needed)

    with mock.patch.object(end_transaction, "end_txn", end_txn):
        yield


def _markers_void_the_next_verification(self: Verifications, producer_id: int, producer_epoch: int, **_: bool) -> None:
    _MARKER_APPENDED(self, producer_id, producer_epoch, ends_previous=False)


_MARKER_APPENDED = Verifications.marker_appended
_FENCE = end_transaction.fence


def _fences_bump_twice(table: TransactionTable, transaction: Any, requester: Any, now_ms: int) -> Any:
    bumped = replace(transaction, producer_epoch=transaction.producer_epoch + 1)
    return _FENCE(table, bumped, requester, now_ms)


@contextlib.contextmanager
def _fences_bump_as_well() -> Iterator[None]:
    from oncelog.core.transactions import init_producer_id

    with (
        mock.patch.object(end_transaction, "fence", _fences_bump_twice),
        mock.patch.object(init_producer_id, "fence", _fences_bump_twice),
    ):
        yield


def _only_newer_markers(state: ProducerState, producer_epoch: int, *, commit: bool) -> Any:
    return APPEND if producer_epoch > state.producer_epoch else marker_rules._fenced(state, producer_epoch)


def _epochs_end(self: TransactionTable, identity: Any) -> Any:
    """Without a new producer id."""
    return type(identity)(identity.producer_id, min(identity.producer_epoch + 1, 32767))


def _identities_are_not_stored(record: Any) -> Any:
    if not hasattr(record, "next_producer_id"):
        return _TO_KEY_VALUE(record)
    kept = replace(record, previous_producer_id=-1, next_producer_id=-1, next_producer_epoch=-1)
    return _TO_KEY_VALUE(kept)


_TO_KEY_VALUE = coordinator_world.record_to_key_value


@contextlib.contextmanager
def _groups_are_cleaned_by_themselves() -> Iterator[None]:
    """Each group starts with what its own segments say of transactions."""
    original = cleaner.Cleaner.write

    def write(self: cleaner.Cleaner, group: Any, pace: Any) -> Any:
        first, end = group[0].base_offset, group[-1].end_offset
        here = [each for each in self._cleaning.aborted if first <= each.last_offset < end]
        self._transactions = CleanedTransactions(here)
        self._filter._transactions = self._transactions
        return original(self, group, pace)

    with mock.patch.object(cleaner.Cleaner, "write", write):
        yield


@contextlib.contextmanager
def _aborts_are_read_to_the_end_of_the_map() -> Iterator[None]:
    original = cleaner.Cleaner.read_dirty

    def read_dirty(self: cleaner.Cleaner, pace: Any) -> int:
        end_offset = original(self, pace)
        known = [each for each in self._cleaning.aborted if each.last_offset < end_offset]
        self._transactions = CleanedTransactions(known)
        self._filter._transactions = self._transactions
        return end_offset

    with mock.patch.object(cleaner.Cleaner, "read_dirty", read_dirty):
        yield


CURES: dict[str, Removal] = {
    "kafka_8351_a_transaction_over_several_groups": _groups_are_cleaned_by_themselves,
    "kafka_9144_a_marker_is_a_sign_of_life": patched(ProducerState, "take_marker", _state_is_no_longer_fresh),
    "kafka_12671_a_late_batch_opens_nothing": patched(Verifications, "marker_appended", lambda *_, **__: None),
    "kafka_13727_a_cleaning_that_ends_before_the_marker": _aborts_are_read_to_the_end_of_the_map,
    "kafka_17754_a_late_end_decides_nothing": _ends_keep_the_epoch,
    "kafka_18464_an_empty_abort_waits_for_the_commit": _ends_look_at_no_transition_under_way,
    "kafka_18575_the_next_transaction_overtakes_the_marker": patched(
        Verifications, "marker_appended", _markers_void_the_next_verification
    ),
    "kafka_18654_the_next_transaction_waits_in_the_gate": patched(Gate, "_may_hold", lambda *_: False),
    "kafka_18660_the_overflow_answers_with_the_new_identity": patched(end_transaction, "following", own),
    "kafka_19367_a_takeover_takes_one_epoch": _fences_bump_as_well,
    "kafka_19999_a_marker_is_written_again": patched(marker_rules, "_check_bumped", _only_newer_markers),
    "kafka_20090_a_timeout_at_the_last_epoch": patched(TransactionTable, "bumped", _epochs_end),
    "kafka_20310_the_overflow_survives_a_restart": patched(
        coordinator_world, "record_to_key_value", _identities_are_not_stored
    ),
}
