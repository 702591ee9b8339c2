"""Batches fill, linger, flush, expire, come back in order; room is bounded and never leaks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.producer.accumulator import GRANT_BYTES, AccumulatorConfig, Place, RecordAccumulator
from oncelog.core.producer.batch import Acknowledged, record_size_bytes
from oncelog.errors import RequestTimedOut
from oncelog.types import ProducerIdAndEpoch, TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
RECORD = (0, None, b"v", ())


def accumulator(**config) -> RecordAccumulator:
    return RecordAccumulator(AccumulatorConfig(**{"batch_size_bytes": 200, "linger_ms": 5, **config}))


def ready(buffer, now_ms):
    return buffer.ready(now_ms, may_send=lambda batch: True)


def test_records_of_a_partition_share_a_batch_until_it_is_full():
    buffer = accumulator()
    placed = [buffer.append(A, RECORD, 50, 0) for _ in range(5)]
    assert [index for _, index in placed] == [0, 1, 0, 1, 0]
    assert len({id(batch) for batch, _ in placed}) == 3


def test_batches_that_are_closed_do_not_linger():
    buffer = accumulator()
    buffer.close_batches()
    first, _ = buffer.append(A, RECORD, 50, 100)
    buffer.append(B, RECORD, 50, 100)
    buffer.close_batches()
    assert len(ready(buffer, 100)) == 2
    assert buffer.append(A, RECORD, 50, 100)[0] is not first


def test_a_batch_lingers_and_a_full_one_does_not():
    buffer = accumulator()
    buffer.append(A, RECORD, 50, 100)
    assert ready(buffer, 104) == []
    assert len(ready(buffer, 105)) == 1
    assert buffer.next_timer(100) == 105
    buffer.append(B, RECORD, 190, 100)
    assert [batch.topic_partition for batch in ready(buffer, 100)] == [B]


def test_one_batch_waits_behind_another_makes_the_first_ready():
    buffer = accumulator()
    buffer.append(A, RECORD, 130, 0)
    buffer.append(A, RECORD, 130, 0)
    assert len(ready(buffer, 0)) == 1


@pytest.mark.parametrize("hurry", ["flush", "starved"])
def test_nothing_lingers_while_somebody_waits(hurry):
    buffer = accumulator()
    buffer.append(A, RECORD, 50, 0)
    if hurry == "flush":
        buffer.begin_flush()
    else:
        buffer.wait_for_room(place := Place(10, lambda: None))
    assert len(ready(buffer, 0)) == 1
    buffer.end_flush() if hurry == "flush" else buffer.leave(place)
    assert ready(buffer, 0) == []


def test_what_may_not_be_sent_stays():
    buffer = accumulator(linger_ms=0)
    buffer.append(A, RECORD, 50, 0)
    assert buffer.ready(0, may_send=lambda batch: False) == []
    assert len(ready(buffer, 0)) == 1


def test_a_taken_batch_takes_no_more_records():
    buffer = accumulator(linger_ms=0)
    first, _ = buffer.append(A, RECORD, 10, 0)
    buffer.take(first)
    second, index = buffer.append(A, RECORD, 10, 0)
    assert (second is first, index) == (False, 0)


def test_retries_come_back_in_sequence_order_before_what_is_new():
    buffer = accumulator(linger_ms=0)
    batches = []
    for sequence in (2**31 - 1, 0, 1):  # sequences wrap (KAFKA-13794)
        batch, _ = buffer.append(A, RECORD, 190, 0)
        buffer.take(batch)
        batch.identity, batch.sequence, batch.attempt_count = ProducerIdAndEpoch(1, 0), sequence, 1
        batches.append(batch)
    fresh, _ = buffer.append(A, RECORD, 190, 0)
    for batch in (batches[1], batches[2], batches[0]):
        buffer.requeue(batch, not_before_ms=50)
    assert ready(buffer, 49) == []
    order = []
    for _ in range(4):
        (batch,) = ready(buffer, 50)
        buffer.take(batch)
        order.append(batch)
    assert order == [*batches, fresh]


def test_batches_expire_at_their_deadline():
    buffer = accumulator(delivery_timeout_ms=1000)
    old, _ = buffer.append(A, RECORD, 190, 0)
    young, _ = buffer.append(A, RECORD, 190, 500)
    assert buffer.expired(999) == []
    assert buffer.expired(1000) == [old]
    assert buffer.deadline_ms(young) == 1500
    assert ready(buffer, 1000) == [young]


def test_room_is_bounded_and_given_back():
    buffer = accumulator(buffer_size_bytes=100)
    assert buffer.has_room(500)  # a record larger than the buffer gets it alone
    batch, _ = buffer.append(A, RECORD, 90, 0)
    assert not buffer.has_room(11)
    assert buffer.has_room(10)
    buffer.completed(batch)
    buffer.completed(batch)
    assert (buffer.used_bytes, buffer.has_incomplete) == (0, False)


def test_fail_all_ends_what_waits_and_what_is_on_its_way():
    buffer = accumulator(linger_ms=0)
    sent, _ = buffer.append(A, RECORD, 10, 0)
    buffer.take(sent)
    waiting, _ = buffer.append(A, RECORD, 10, 0)
    heard = []
    waiting.on_done.append(heard.append)
    error = RequestTimedOut("over")
    buffer.fail_all(error)
    assert (sent.outcome, waiting.outcome, heard) == (error, error, [waiting])
    assert (buffer.used_bytes, buffer.has_incomplete) == (0, False)


def test_an_outcome_is_final():
    buffer = accumulator()
    batch, _ = buffer.append(A, RECORD, 10, 0)
    batch.end(Acknowledged(7))
    batch.end(RequestTimedOut())
    assert batch.outcome == Acknowledged(7)


class Encoded:
    def encode(self, **_):
        return b"batch"


def test_encoded_batches_keep_their_place():
    buffer = accumulator(linger_ms=0)
    buffer.append(A, RECORD, 10, 0)
    encoded = buffer.append_encoded(A, Encoded(), 3, 5000, 0)
    after, index = buffer.append(A, RECORD, 10, 0)
    assert (encoded.record_count, index, after is encoded) == (3, 0, False)
    order = []
    for _ in range(3):
        (batch,) = ready(buffer, 0)
        buffer.take(batch)
        order.append(batch.record_count)
        buffer.completed(batch)
    assert order == [1, 3, 1]
    assert buffer.used_bytes == 0


def test_take_all_waiting_leaves_what_is_on_its_way():
    buffer = accumulator(linger_ms=0)
    sent, _ = buffer.append(A, RECORD, 10, 0)
    buffer.take(sent)
    waiting, _ = buffer.append(B, RECORD, 10, 0)
    assert buffer.take_all_waiting() == [waiting]
    assert set(buffer.incomplete()) == {sent, waiting}


@given(st.lists(st.tuples(st.sampled_from(["append", "encoded", "take", "requeue", "done"]), st.integers(1, 300))))
def test_room_never_leaks_and_order_holds(steps):
    buffer = accumulator(linger_ms=0)
    out, numbers, sequence = [], {}, 0
    for now_ms, (step, size) in enumerate(steps):
        if step == "append":
            batch, _ = buffer.append(A, RECORD, size, now_ms)
            numbers.setdefault(batch, len(numbers))
        elif step == "encoded":
            numbers[buffer.append_encoded(A, Encoded(), 1, size, now_ms)] = len(numbers)
        elif step == "take":
            for batch in ready(buffer, now_ms):
                if not batch.has_sequence:
                    batch.sequence, sequence = sequence, sequence + 1
                    assert batch.sequence == numbers[batch], "batches get sequences in the order they were made"
                buffer.take(batch)
                batch.attempt_count += 1
                out.append(batch)
        elif out and step == "requeue":
            buffer.requeue(out.pop(size % len(out)), not_before_ms=now_ms)
        elif out:
            buffer.completed(out.pop(0))
    for batch in buffer.incomplete():
        buffer.completed(batch)
    assert buffer.used_bytes == 0


EXPIRING = st.tuples(st.sampled_from(["append", "take", "requeue", "split", "expire"]), st.integers(0, 30))


@given(st.lists(EXPIRING, max_size=60))
def test_each_batch_expires_at_its_time_and_none_before(steps):
    buffer = accumulator(linger_ms=0, delivery_timeout_ms=40)
    out, now_ms = [], 0
    for step, number in steps:
        now_ms += number
        if step == "append":
            for _ in range(3):
                buffer.append((A, B)[number % 2], RECORD, 60, now_ms)
        elif step == "take":
            for batch in ready(buffer, now_ms):
                buffer.take(batch)
                out.append(batch)
        elif out and step == "requeue":
            buffer.requeue(out.pop(number % len(out)), not_before_ms=now_ms)
        elif out and step == "split":
            whole = out.pop(number % len(out))
            parts = whole.split([range(1), range(1, whole.record_count)] if whole.record_count > 1 else [range(1)])
            buffer.was_split(whole, parts)
            for part in parts:
                buffer.requeue(part, not_before_ms=now_ms)
        late = {b for where in (A, B) for b in buffer.waiting(where) if b.created_ms + 40 <= now_ms}
        found = buffer.expired(now_ms)
        assert (set(found), len(found)) == (late, len(late))
        for batch in found:
            buffer.completed(batch)


def test_a_look_for_what_is_late_does_not_look_at_all_that_waits(monkeypatch):
    """The sender looks at each step: with thousands of batches of one partition it did little else."""
    buffer, looks = accumulator(delivery_timeout_ms=1000), []
    for n in range(1000):
        buffer.append(A, RECORD, 150, n)
    deadline_ms = RecordAccumulator.deadline_ms
    monkeypatch.setattr(RecordAccumulator, "deadline_ms", lambda *of: looks.append(of) or deadline_ms(*of))
    for now_ms in range(900, 1000):
        assert buffer.expired(now_ms) == []
    assert not looks
    assert len(buffer.expired(1001)) == 2


def test_record_size_is_an_upper_bound():
    from oncelog.wire.record_batch import build_batch

    records = [(5, b"k" * 300, b"v" * 70000, (("häder", b"x" * 130), ("n", None))), (2**40, None, None, ())]
    bound = 61 + sum(record_size_bytes(key, value, headers) for _, key, value, headers in records)
    assert len(build_batch(records)) <= bound


def test_who_waits_for_room_is_served_in_the_order_of_coming():
    buffer, looked = accumulator(batch_size_bytes=1000, buffer_size_bytes=1000), []
    held, _ = buffer.append(A, RECORD, 900, 0)
    large, small = (Place(size, lambda size=size: looked.append(size)) for size in (500, 50))
    assert buffer.has_room(50)
    buffer.wait_for_room(large)
    buffer.wait_for_room(small)
    assert not buffer.has_room(50)
    assert not buffer.is_turn_of(large)
    assert not buffer.is_turn_of(small)
    buffer.append(B, RECORD, 10, 0)
    assert buffer.used_bytes == 910, "nobody is given room in advance meanwhile"
    buffer.completed(held)
    buffer.room_may_be_there()
    assert looked == [500]
    assert buffer.is_turn_of(large)
    assert not buffer.is_turn_of(small)
    buffer.leave(large)
    assert looked == [500, 50]
    assert buffer.is_turn_of(small)
    buffer.leave(small)
    assert buffer.has_room(50)


def test_room_that_an_open_batch_has_not_used_is_taken_back():
    buffer = accumulator(batch_size_bytes=1000, buffer_size_bytes=1000)
    first, _ = buffer.append(A, RECORD, 50, 0)
    assert buffer.used_bytes > 50, "it has room for some more"
    assert first.limit_bytes > first.size_bytes
    assert buffer.has_room(950)
    assert (buffer.used_bytes, first.limit_bytes) == (50, first.size_bytes)
    assert not buffer.has_room(951)


def test_the_more_a_batch_has_the_more_room_it_is_given():
    buffer = accumulator(batch_size_bytes=200_000, buffer_size_bytes=1_000_000)
    batch, _ = buffer.append(A, RECORD, 30_000, 0)
    assert batch.limit_bytes == batch.size_bytes - 30_000 + max(30_000, GRANT_BYTES)
    buffer.append(A, RECORD, 10, 0)
    assert batch.limit_bytes - batch.size_bytes == 30_000 + 61 - 10
    buffer.completed(batch)
    assert buffer.used_bytes == 0


def test_nothing_of_another_thread_gets_into_a_batch_while_it_is_appended_to(monkeypatch):
    """What another thread may put into a batch is what `limit_bytes` leaves; a record that is refused leaves all as it was."""
    buffer = accumulator(batch_size_bytes=1000, buffer_size_bytes=1000)
    batch, _ = buffer.append(A, RECORD, 50, 0)
    used_bytes, limits = buffer.used_bytes, []

    def refused(*_):
        limits.append(batch.limit_bytes - batch.size_bytes)
        raise MemoryError

    with monkeypatch.context() as patched, pytest.raises(MemoryError):
        patched.setattr(type(batch), "add", refused, raising=False)
        buffer.append(A, RECORD, 50, 0)
    assert limits == [0]
    assert buffer.used_bytes <= used_bytes
    buffer.completed(batch)
    assert buffer.used_bytes == 0


def test_room_is_never_given_beyond_what_there_is():
    buffer = accumulator(batch_size_bytes=100_000, buffer_size_bytes=20_000)
    buffer.append(A, RECORD, 100, 0)
    buffer.append(B, RECORD, 100, 0)
    assert buffer.used_bytes <= 20_000
    assert buffer.has_room(19_800)


def test_timestamps_that_are_too_far_apart_go_into_two_batches():
    buffer = accumulator()
    first, _ = buffer.append(A, (-1, None, b"v", ()), 50, 0)
    second, index = buffer.append(A, (2**63 - 1, None, b"v", ()), 50, 0)
    assert (second is not first, index, first.is_closed) == (True, 0, True)


def test_a_record_that_cannot_be_written_leaves_no_batch_of_nothing():
    buffer = accumulator()
    with pytest.raises(TypeError):
        buffer.append(A, (0, None, "no bytes", ()), 50, 0)
    assert (buffer.has_incomplete, buffer.used_bytes, ready(buffer, 1000)) == (False, 0, [])
    kept, _ = buffer.append(A, RECORD, 50, 0)
    with pytest.raises(TypeError):
        buffer.append(A, (0, None, "no bytes", ()), 50, 0)
    assert (kept.record_count, ready(buffer, 1000)) == (1, [kept])
