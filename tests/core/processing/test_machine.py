"""What is done next, and after which failure: step by step, and in a drawn world in which everything fails now and then."""

from __future__ import annotations

import dataclasses

import pytest

from oncelog.core.processing.machine import Phase, Processing
from oncelog.core.processing.steps import (
    Abort,
    CheckEnd,
    End,
    Failure,
    Item,
    Limits,
    Poll,
    Renew,
    Rewind,
    Transform,
    Write,
)
from oncelog.errors import (
    GroupAuthorization,
    IllegalGeneration,
    KafkaError,
    OffsetOutOfRange,
    ProcessingFailed,
    ProducerFenced,
    RecordTooLarge,
    RequestTimedOut,
)
from oncelog.types import TopicPartition
from tests.core.processing.processing_world import PARTITIONS, RECORDS, World

P0, P1 = TopicPartition("in", 0), TopicPartition("in", 1)
LIMITS = Limits(
    transaction_records_max=10, transaction_interval_ms=100, transform_retries=2, has_dead_letter_topic=True
)
BROKEN = ValueError("broken")


def items(*offsets: int, partition: TopicPartition = P0, size_bytes: int = 10) -> list[Item]:
    return [Item(partition, offset, size_bytes, f"record {offset}") for offset in offsets]


def machine(**changes) -> Processing:
    return Processing(dataclasses.replace(LIMITS, **changes))


def writing(made: Processing, *offsets: int, now_ms: float = 0) -> Write:
    """As far as the transaction of these."""
    made.polled(items(*offsets), now_ms)
    step = made.next_step(now_ms + 100)
    assert isinstance(step, Transform)
    assert [item.offset for item in step.items] == list(offsets)
    made.transformed(len(offsets), None, now_ms + 100)
    write = made.next_step(now_ms + 100)
    assert isinstance(write, Write)
    return write


def back_to_reading(made: Processing, now_ms: float) -> None:
    assert isinstance(made.next_step(now_ms), Rewind)
    made.rewound()
    assert made.phase is Phase.READING


# -- the ordinary way


def test_records_are_gathered_for_the_interval_then_transformed_and_written():
    made = machine()
    assert made.next_step(0) == Poll(1000, 10)
    made.polled(items(5, 6), 0)
    assert made.next_step(40) == Poll(60, 8)
    made.polled(items(7), 50)
    assert made.next_step(100) == Transform(tuple(items(5, 6, 7)), 100)
    made.transformed(3, None, 101)
    assert made.next_step(101) == Write(tuple(items(5, 6, 7)), {P0: 8}, frozenset({P0}))
    made.committed(produced_count=4)
    assert made.next_step(102) == Poll(1000, 10)
    assert (made.counts.consumed_record_count, made.counts.produced_record_count) == (3, 4)
    assert made.hand_count == 0


def test_a_transaction_holds_so_many_records_and_the_rest_waits_for_the_next():
    made = machine(transaction_records_max=2)
    made.polled(items(0, 1, 2), 0)
    assert made.next_step(0) == Transform(tuple(items(0, 1)), 100)
    made.transformed(2, None, 0)
    write = made.next_step(0)
    assert isinstance(write, Write)
    assert write.next_offsets == {P0: 2}
    assert write.read_out == frozenset(), "record 2 is in hand: the consumer's position is past it"


def test_a_transaction_holds_so_many_bytes_but_one_record_in_any_case():
    made = machine(transaction_bytes_max=25)
    made.polled([*items(0, 1, 2), *items(3, size_bytes=99)], 0)
    assert made.next_step(0) == Transform(tuple(items(0, 1)), 100)
    made.transformed(2, None, 0)
    made.next_step(0)
    made.committed(2)
    assert made.next_step(0) == Transform(tuple(items(2)), 100)
    made.transformed(1, None, 0)
    made.next_step(0)
    made.committed(1)
    assert made.next_step(0) == Transform(tuple(items(3, size_bytes=99)), 100)
    assert made.hand_bytes == 99


def test_what_the_time_of_a_transform_did_not_reach_is_left_for_the_next_transaction():
    made = machine()
    made.polled([*items(0, 1), *items(4, partition=P1)], 0)
    made.next_step(100)
    made.transformed(1, None, 300)
    write = made.next_step(300)
    assert isinstance(write, Write)
    assert (write.items, write.next_offsets) == (tuple(items(0)), {P0: 1})
    made.committed(1)
    assert made.next_step(300) == Transform((*items(1), *items(4, partition=P1)), 100)


def test_without_an_interval_a_transaction_is_what_one_poll_gives_whatever_its_time():
    made = machine(transaction_interval_ms=0)
    made.polled(items(0), 0)
    assert made.next_step(0) == Transform(tuple(items(0)), None)


# -- the end


def test_it_ends_at_the_end_when_asked_to():
    made = machine(until_end=True)
    assert made.next_step(0) == Poll(100, 10)
    made.polled([], 100)
    assert isinstance(made.next_step(100), CheckEnd)
    assert not made.checked_end(False, 100)
    assert isinstance(made.next_step(100), Poll)
    made.polled([], 200)
    made.next_step(200)
    assert made.checked_end(True, 200)
    assert made.next_step(200) == End(None)


def test_a_commit_that_is_answered_and_cannot_be_read_yet_is_waited_for():
    """It ended with none of five records, which were committed before it began."""
    made = machine(until_end=True)
    for now_ms in (100, 1100, 3099):
        assert not made.checked_end(True, now_ms, is_held_back=True)
        assert isinstance(made.next_step(now_ms), Poll)
    assert not made.checked_end(False, 3100)  # it came
    for now_ms in (3200, 6199):
        assert not made.checked_end(True, now_ms, is_held_back=True)
    assert made.checked_end(True, 6200, is_held_back=True)  # it is open: another run's
    assert made.next_step(6200) == End(None)


def test_it_ends_after_so_many_records_and_reads_no_more():
    made = machine(max_records=3)
    assert made.next_step(0) == Poll(1000, 3)
    made.polled(items(0, 1, 2, 3), 0)
    assert made.next_step(0) == Transform(tuple(items(0, 1, 2)), 100)
    made.transformed(3, None, 0)
    made.next_step(0)
    made.committed(3)
    assert made.next_step(0) == End(None)


def test_told_to_stop_it_finishes_the_transaction_and_leaves_what_is_in_hand():
    made = machine(transaction_records_max=1)
    made.polled(items(0, 1), 0)
    made.next_step(0)
    made.transformed(1, None, 0)
    made.stop()
    assert isinstance(made.next_step(0), Write)
    made.committed(1)
    assert made.next_step(0) == End(None)
    assert made.counts.consumed_record_count == 1


def test_told_to_stop_it_waits_for_no_second_attempt():
    made = machine()
    made.polled(items(0), 0)
    made.next_step(100)
    made.transformed(0, Failure(BROKEN), 100)
    made.stop()
    assert made.next_step(101) == End(None)


# -- a transform that fails


def test_a_record_that_failed_is_tried_again_after_a_pause_that_grows_and_those_before_it_are_written():
    made = machine()
    made.polled(items(0, 1, 2), 0)
    made.next_step(100)
    made.transformed(1, Failure(BROKEN), 100)
    assert isinstance(made.next_step(100), Write)
    made.committed(1)
    assert made.next_step(100) == Poll(100, 1, pauses=True), "the group hears of it meanwhile, and gives nothing"
    made.polled([], 200, pauses=True)
    assert made.next_step(200) == Transform(tuple(items(1)), 100), "alone"
    made.transformed(0, Failure(BROKEN), 200)
    assert made.next_step(200) == Poll(200, 1, pauses=True)
    assert made.next_step(400) == Transform(tuple(items(1)), 100)
    made.transformed(1, None, 400)
    assert isinstance(made.next_step(400), Write)
    made.committed(1)
    assert made.next_step(400) == Transform(tuple(items(2)), 100), "nothing is kept of the failure"
    assert made.counts.retry_count == 2


def test_a_record_that_fails_too_often_is_a_dead_letter_in_a_transaction_of_its_own():
    made = machine(transform_retries=1)
    made.polled(items(0, 1), 0)
    made.next_step(100)
    made.transformed(0, Failure(BROKEN), 100)
    made.next_step(200)
    made.transformed(0, Failure(BROKEN), 200)
    write = made.next_step(200)
    assert isinstance(write, Write)
    assert write.dead == Failure(BROKEN, 2, is_final=True)
    assert (write.items, write.next_offsets) == (tuple(items(0)), {P0: 1})
    made.committed(1)
    assert (made.counts.dead_letter_count, made.counts.produced_record_count) == (1, 0)
    assert made.next_step(200) == Transform(tuple(items(1)), 100)


def test_a_final_failure_needs_no_second_attempt():
    made = machine()
    made.polled(items(0), 0)
    made.next_step(100)
    made.transformed(0, Failure(BROKEN, is_final=True), 100)
    write = made.next_step(100)
    assert isinstance(write, Write)
    assert write.dead == Failure(BROKEN, 1, is_final=True)


def test_without_a_dead_letter_topic_it_ends_by_name_after_writing_what_came_before():
    made = machine(transform_retries=0, has_dead_letter_topic=False)
    made.polled(items(6, 7), 0)
    made.next_step(100)
    made.transformed(1, Failure(BROKEN), 100)
    assert isinstance(made.next_step(100), Write)
    made.committed(1)
    step = made.next_step(100)
    assert isinstance(step, End)
    error = step.error
    assert isinstance(error, ProcessingFailed)
    assert (error.topic_partition, error.offset, error.attempt_count, error.__cause__) == (P0, 7, 1, BROKEN)
    assert str(error).startswith("record in-0@7 failed once: ValueError: broken; nothing of it was written")


def test_a_batch_that_failed_is_halved_until_the_record_stands_alone_and_then_no_more():
    made = machine()
    made.polled(items(*range(8)), 0)
    sizes, now_ms = [], 100.0
    while made.counts.consumed_record_count < 8:
        step = made.next_step(now_ms)
        if isinstance(step, Transform):
            sizes.append(len(step.items))
            if 2 in [item.offset for item in step.items]:
                made.batch_failed(len(step.items), Failure(BROKEN, is_final=len(step.items) == 1), now_ms)
            else:
                made.transformed(len(step.items), None, now_ms)
        elif isinstance(step, Write):
            sizes.append("dead" if step.dead else "written")
            made.committed(1)
        else:
            now_ms += step.timeout_ms
    assert sizes == [8, 4, 2, "written", 2, 1, "dead", 5, "written"]


# -- a transaction that fails


def test_put_out_of_the_group_it_aborts_and_goes_back_to_what_is_committed():
    made = machine()
    writing(made, 3, 4)
    made.failed(IllegalGeneration("moved on"), 100, is_open=True)
    assert isinstance(made.next_step(100), Abort)
    made.aborted()
    assert isinstance(made.next_step(100), Poll), "a moment for the group to be heard"
    assert made.next_step(200) == Rewind({P0: 3})
    made.rewound()
    assert made.next_step(200) == Poll(1000, 10)
    assert made.hand_count == 0
    assert made.counts.aborted_transaction_count == 1


def test_an_unknown_outcome_is_found_out_by_a_new_producer():
    made = machine()
    writing(made, 3)
    made.failed(RequestTimedOut("commit"), 100, is_open=False)
    assert made.next_step(150) == Poll(50, 1, pauses=True)
    assert isinstance(made.next_step(200), Renew)
    made.failed(RequestTimedOut("init"), 300, is_open=False)
    assert made.next_step(300) == Poll(200, 1, pauses=True), "twice as long"
    assert isinstance(made.next_step(500), Renew)
    made.renewed()
    back_to_reading(made, 500)


def test_who_is_stopped_while_it_waits_for_a_new_producer_ends_in_order():
    """A trouble that is retried is no error of the end."""
    made = machine()
    writing(made, 3)
    made.failed(RequestTimedOut("commit"), 100, is_open=False)
    made.stop()
    assert made.next_step(150) == End(None)
    assert made.phase is Phase.ENDED


def test_an_abort_that_fails_needs_a_new_producer_too():
    made = machine()
    writing(made, 3)
    made.failed(RequestTimedOut("send"), 100, is_open=True)
    assert isinstance(made.next_step(100), Abort)
    made.failed(RequestTimedOut("abort"), 200, is_open=False)
    assert isinstance(made.next_step(1000), Renew)


def test_a_rewind_that_fails_is_made_again():
    made = machine()
    writing(made, 3)
    made.failed(IllegalGeneration("x"), 100, is_open=True)
    made.aborted()
    made.next_step(200)
    made.failed(RequestTimedOut("offsets"), 200, is_open=False)
    assert isinstance(made.next_step(250), Poll)
    back_to_reading(made, 1000)


def test_fenced_by_a_newer_life_it_ends():
    made = machine()
    writing(made, 3)
    fenced = ProducerFenced("newer")
    made.failed(fenced, 100, is_open=False)
    assert made.next_step(100) == End(fenced)


def test_fenced_with_an_id_that_nobody_else_has_it_goes_on_with_a_new_producer():
    made = machine(restarts_when_fenced=True)
    writing(made, 3)
    made.failed(ProducerFenced("its transaction timed out"), 100, is_open=True)
    assert isinstance(made.next_step(200), Renew)


def test_what_will_never_be_allowed_ends_it_with_the_transaction_aborted():
    made = machine()
    writing(made, 3)
    refused = GroupAuthorization("no")
    made.failed(refused, 100, is_open=True)
    assert isinstance(made.next_step(100), Abort)
    made.aborted()
    assert made.next_step(100) == End(refused)


def test_an_outage_is_borne_for_a_while():
    made = machine(outage_timeout_ms=10_000)
    writing(made, 3)
    now_ms, last = 100.0, RequestTimedOut("nobody there")
    made.failed(last, now_ms, is_open=False)
    while not isinstance(step := made.next_step(now_ms), End):
        now_ms += step.timeout_ms if isinstance(step, Poll) else 0
        if isinstance(step, Renew):
            last = RequestTimedOut("nobody there")
            made.failed(last, now_ms, is_open=False)
    assert step.error is last
    assert 10_000 < now_ms - 100 < 21_000


def test_troubles_with_a_quiet_time_between_them_are_no_outage():
    made = machine(outage_timeout_ms=1000)
    for now_ms in (0.0, 5000.0, 10_000.0):
        made.poll_failed(RequestTimedOut("x"), now_ms)
        assert isinstance(made.next_step(now_ms + 2000), Poll)


def test_troubles_of_reading_with_a_success_between_them_are_no_outage():
    made = machine(outage_timeout_ms=1000)
    for now_ms in range(0, 5000, 500):
        made.poll_failed(RequestTimedOut("x"), now_ms)
        made.polled([], now_ms)
    assert made.phase is Phase.READING


def test_a_poll_that_can_never_succeed_ends_it():
    made = machine()
    lost = OffsetOutOfRange("no position")
    made.poll_failed(lost, 0)
    assert made.next_step(0) == End(lost)


# -- records that cannot be written


def test_a_record_that_cannot_be_sent_is_a_dead_letter_next_time():
    made = machine()
    writing(made, 0, 1, 2)
    made.refused(1, RecordTooLarge("2 MB"), 100)
    assert isinstance(made.next_step(100), Abort)
    made.aborted()
    back_to_reading(made, 100)
    made.polled(items(0, 1, 2), 100)
    assert made.next_step(100) == Transform(tuple(items(0)), 100)
    made.transformed(1, None, 100)
    made.next_step(100)
    made.committed(1)
    write = made.next_step(100)
    assert isinstance(write, Write)
    assert write.dead is not None
    assert isinstance(write.dead.error, RecordTooLarge)


def test_a_dead_letter_that_cannot_be_sent_ends_it_by_name():
    made = machine()
    made.polled(items(0), 0)
    made.next_step(100)
    made.transformed(0, Failure(BROKEN, is_final=True), 100)
    made.next_step(100)
    made.refused(0, RecordTooLarge("with its headers"), 100)
    assert isinstance(made.next_step(100), Abort)
    made.aborted()
    step = made.next_step(100)
    assert isinstance(step, End)
    assert isinstance(step.error, ProcessingFailed)
    assert "with its headers" in str(step.error)


@pytest.mark.parametrize("dead", [0, 3, 7])
def test_one_of_many_that_a_broker_refuses_is_found_by_halving(dead):
    made = machine(transaction_records_max=8)
    now_ms, position, writes = 0.0, 0, 0
    while made.counts.consumed_record_count < 8:
        step = made.next_step(now_ms)
        if isinstance(step, Poll):
            now_ms += step.timeout_ms
            new = items(*range(position, 8)) if not step.pauses else []
            position = 8 if new else position
            made.polled(new, now_ms, pauses=step.pauses)
        elif isinstance(step, Transform):
            made.transformed(len(step.items), None, now_ms)
        elif isinstance(step, Write):
            writes += 1
            if step.dead is None and dead in [item.offset for item in step.items]:
                made.failed(RecordTooLarge("one"), now_ms, is_open=True)
            else:
                made.committed(len(step.items))
        elif isinstance(step, Abort):
            made.aborted()
        else:
            position = made.counts.consumed_record_count
            made.rewound()
    assert made.counts.dead_letter_count == 1
    assert made.counts.produced_record_count == 7
    assert writes <= 8


def test_a_record_that_takes_longer_than_the_group_waits_is_named_after_two_attempts():
    made = machine(max_poll_interval_ms=1000)
    for now_ms in (0, 10_000):
        writing(made, 0, now_ms=now_ms)
        made.failed(IllegalGeneration("put out"), now_ms + 100, is_open=True, transform_ms=1500)
        made.aborted()
        made.gone([P0])
        back_to_reading(made, now_ms + 5000)
    made.polled(items(0, 1), 20_000)
    write = made.next_step(20_100)
    assert isinstance(write, Write)
    assert write.dead is not None
    assert write.items == tuple(items(0))
    assert str(write.dead.error) == "the transform takes longer than max_poll_interval_ms=1000"


def test_many_that_together_take_too_long_are_taken_fewer_at_a_time():
    made = machine(max_poll_interval_ms=1000)
    writing(made, 0, 1, 2, 3)
    made.failed(IllegalGeneration("put out"), 100, is_open=True, transform_ms=1500)
    made.aborted()
    made.gone([P0])  # as whoever is put out loses them
    back_to_reading(made, 5000)
    made.polled(items(0, 1, 2, 3), 5000)
    assert made.next_step(5100) == Transform(tuple(items(0, 1)), 100)


# -- rebalances


def test_records_of_partitions_that_are_gone_are_not_written_and_nothing_is_kept_of_them():
    made = machine()
    made.polled([*items(0, 1), *items(5, partition=P1)], 0)
    made.next_step(100)
    made.transformed(0, Failure(BROKEN), 100)
    made.gone([P0])
    assert made.counts.given_up_record_count == 2
    assert made.next_step(100) == Transform(tuple(items(5, partition=P1)), 100)


# -- a transform inside the transaction (a dual write)


def test_inside_the_transform_is_part_of_the_write_and_its_failure_takes_all_back():
    made = machine(transforms_inside=True)
    made.polled(items(0, 1, 2), 0)
    write = made.next_step(100)
    assert isinstance(write, Write)
    assert write.items == tuple(items(0, 1, 2))
    made.rolled_back(1, Failure(BROKEN), 100)
    write = made.next_step(100)
    assert isinstance(write, Write)
    assert write.items == tuple(items(0)), "those before it"
    made.committed(1)
    assert isinstance(made.next_step(100), Poll)
    write = made.next_step(200)
    assert isinstance(write, Write)
    assert (write.items, write.dead) == (tuple(items(1)), None)
    made.rolled_back(0, Failure(BROKEN, is_final=True), 200)
    write = made.next_step(200)
    assert isinstance(write, Write)
    assert write.dead is not None


def test_a_database_that_is_away_is_waited_for_and_no_reason_for_a_dead_letter():
    made = machine(transforms_inside=True, transform_retries=0, outage_timeout_ms=5000)
    made.polled(items(0), 0)
    now_ms, attempts = 100.0, 0
    while not isinstance(step := made.next_step(now_ms), End):
        if isinstance(step, Poll):
            now_ms += step.timeout_ms
        else:
            assert isinstance(step, Write)
            assert step.dead is None
            attempts += 1
            made.rolled_back(0, Failure(BROKEN, is_outage=True), now_ms)
    assert isinstance(step.error, ProcessingFailed)
    assert (step.error.offset, step.error.attempt_count) == (0, attempts)
    assert 5000 < now_ms < 12_000


# -- all of it


@pytest.mark.parametrize("seed", range(150))
def test_in_a_world_of_trouble_each_record_is_written_once(seed):
    limits = dataclasses.replace(LIMITS, until_end=True, restarts_when_fenced=True, transform_retries=20)
    limits = dataclasses.replace(
        limits, outage_timeout_ms=10**9
    )  # nobody commits for hours of this world, now and then
    world = World(seed, limits, trouble=(0.0, 0.05, 0.3)[seed % 3])
    assert world.run() is None
    assert world.problems() == []
    assert world.committed_offsets == dict.fromkeys(PARTITIONS, RECORDS)


class ForgetsToRewind(Processing):
    """After an abort it goes on behind the records."""

    def aborted(self) -> None:
        super().aborted()
        self.rewound()


class TakesItForCommitted(Processing):
    """A commit without an answer is believed."""

    def failed(self, error, now_ms, *, is_open, transform_ms=0.0) -> None:
        if not is_open and isinstance(error, KafkaError) and self.phase is Phase.TRANSFORMED:
            self.committed(1)
        else:
            super().failed(error, now_ms, is_open=is_open, transform_ms=transform_ms)


class KeepsWhatIsGone(Processing):
    """Records of a partition that was given away are written all the same."""

    def gone(self, partitions) -> None:
        del partitions


@pytest.mark.parametrize("wrong", [ForgetsToRewind, TakesItForCommitted, KeepsWhatIsGone])
def test_the_world_notices_what_is_wrong(wrong):
    """A world that finds nothing in wrong machines would prove nothing of the right one."""
    limits = dataclasses.replace(LIMITS, until_end=True, restarts_when_fenced=True, transform_retries=20)
    noticed = 0
    for seed in range(20):
        world = World(seed, limits, trouble=0.1)
        world.machine = wrong(limits)
        try:
            noticed += world.run(3000) is not None or bool(world.problems())
        except AssertionError:
            noticed += 1
    assert noticed > 10
