"""How a refused batch is divided, and that each of its records keeps its place, its sequence and its outcome."""

import pytest

from oncelog.core.producer.accumulator import AccumulatorConfig, RecordAccumulator
from oncelog.core.producer.batch import Acknowledged
from oncelog.core.producer.sequences import ProducerSequences
from oncelog.core.producer.splitting import around, halves, ranges_after
from oncelog.errors import ErrorCode, InvalidRecord
from oncelog.types import ProducerIdAndEpoch, TopicPartition

A = TopicPartition("a", 0)
E = ErrorCode


@pytest.mark.parametrize(
    ("sizes", "middle"), [([1, 1], 1), ([1, 9], 1), ([9, 1], 1), ([1, 1, 1, 1], 2), ([5, 1, 1, 1], 1), ([0, 0, 0], 2)]
)
def test_halves_of_about_the_same_bytes(sizes, middle):
    assert halves(sizes) == [range(middle), range(middle, len(sizes))]


@pytest.mark.parametrize(
    ("refused", "found"),
    [
        ({0}, [range(1), range(1, 4)]),
        ({3}, [range(3), range(3, 4)]),
        ({1, 2}, [range(1), range(1, 2), range(2, 3), range(3, 4)]),
        (set(), []),
        ({0, 1, 2, 3}, []),
    ],
)
def test_what_is_named_stands_alone(refused, found):
    assert around(refused, 4) == found


def sent(buffer, record_count):
    for n in range(record_count):
        batch, _ = buffer.append(A, (n, None, b"%d" % n, ()), 30, 0)
    buffer.take(batch)
    batch.attempt_count = 1
    return batch


def test_which_refusals_divide():
    buffer = RecordAccumulator(AccumulatorConfig(batch_size_bytes=10**6))
    one, four = sent(buffer, 1), sent(buffer, 4)
    assert ranges_after(one, E.MESSAGE_TOO_LARGE, ()) == []
    assert ranges_after(four, E.MESSAGE_TOO_LARGE, ()) == ranges_after(four, E.RECORD_LIST_TOO_LARGE, (1,)) != []
    assert ranges_after(four, E.INVALID_RECORD, (1, 99)) == [range(1), range(1, 2), range(2, 4)]
    assert ranges_after(four, E.INVALID_RECORD, ()) == []
    assert ranges_after(four, E.TOPIC_AUTHORIZATION_FAILED, (1,)) == []


def test_parts_of_parts():
    buffer = RecordAccumulator(AccumulatorConfig(batch_size_bytes=10**6))
    numbers = ProducerSequences()
    numbers.begin_identity(ProducerIdAndEpoch(7, 0))
    whole = sent(buffer, 6)
    numbers.assign(whole)
    whole.sequence = 2**31 - 3  # sequences wrap
    told = []
    whole.on_done.append(told.append)
    first, second = whole.split([range(2), range(2, 6)])
    buffer.was_split(whole, (first, second))
    third, fourth = second.split([range(2), range(2, 4)])
    buffer.was_split(second, (third, fourth))
    assert [each.sequence for each in (first, third, fourth)] == [2**31 - 3, 2**31 - 1, 1]
    assert [whole.part_of(n) for n in (0, 1, 2, 5)] == [(first, 0), (first, 1), (third, 0), (fourth, 1)]
    for each in (fourth, third, first):
        buffer.requeue(each, not_before_ms=0)
    assert buffer.waiting(A) == [first, third, fourth]
    error = InvalidRecord("no")
    for each, outcome in ((first, Acknowledged(0)), (fourth, Acknowledged(5)), (third, error)):
        assert whole.outcome is None
        buffer.completed(each)
        each.end(outcome)
    assert (whole.outcome, told) == (error, [whole])
    assert (buffer.used_bytes, buffer.has_incomplete) == (0, False)
