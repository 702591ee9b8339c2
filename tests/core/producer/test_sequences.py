"""Sequences are permanent, gapless and per identity; a bump waits until nothing is outstanding."""

from oncelog.core.producer.batch import ProducerBatch
from oncelog.core.producer.produce_responses import BatchVerdict, verdict_on_batch
from oncelog.core.producer.sequences import ProducerSequences
from oncelog.errors import ErrorCode
from oncelog.types import ProducerIdAndEpoch, TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
FIRST, SECOND = ProducerIdAndEpoch(7, 0), ProducerIdAndEpoch(7, 1)
E = ErrorCode


def batch(where=A, records=1):
    made = ProducerBatch(where, 0)
    made.record_count = records
    return made


def sent(sequences, where=A, records=1):
    made = batch(where, records)
    assert sequences.may_send(made)
    sequences.assign(made)
    return made


def sequences(acknowledged=1):
    """Of an identity that the leaders know: `acknowledged` records are stored in A and in B."""
    made = ProducerSequences()
    made.begin_identity(FIRST)
    for where in (A, B):
        if acknowledged:
            made.resolved(sent(made, where, acknowledged), is_acknowledged=True)
    return made


def test_until_something_is_acknowledged_one_batch_is_on_its_way():
    """A leader without state takes any sequence: what is behind a refused first batch would be stored in its place."""
    numbers = sequences(acknowledged=0)
    first, other = sent(numbers), sent(numbers, B)
    assert not numbers.may_send(batch())
    assert numbers.may_send(first)
    numbers.resolved(other, is_acknowledged=True)
    assert not numbers.may_send(batch())
    numbers.resolved(first, is_acknowledged=True)
    assert [sent(numbers).sequence, sent(numbers).sequence] == [1, 2]


def test_a_new_identity_is_not_known():
    numbers = sequences()
    numbers.begin_identity(SECOND)
    assert sent(numbers).sequence == 0
    assert not numbers.may_send(batch())
    numbers.reset()
    assert sent(numbers, B).sequence == 0
    assert not numbers.may_send(batch(B))


def test_a_batch_that_failed_makes_nothing_known():
    numbers = sequences(acknowledged=0)
    numbers.resolved(sent(numbers))
    sent(numbers)
    assert not numbers.may_send(batch())


def test_each_partition_counts_for_itself():
    numbers = sequences()
    found = [sent(numbers, where, records).sequence for where, records in ((A, 3), (B, 2), (A, 1), (B, 5), (A, 1))]
    assert found == [1, 1, 4, 3, 5]
    assert numbers.next_sequence(A) == 6


def test_sequences_wrap():
    numbers = sequences()
    sent(numbers, records=2**31 - 2)
    assert sent(numbers, records=3).sequence == 2**31 - 1
    assert sent(numbers).sequence == 2


def test_a_retry_keeps_its_sequence_and_waits_for_the_oldest():
    numbers = sequences()
    first, second = sent(numbers), sent(numbers)
    assert (first.was_first_when_sent, second.was_first_when_sent) == (True, False)
    assert not numbers.may_send(second)
    assert numbers.may_send(first)
    numbers.assign(first)
    assert (first.sequence, first.identity) == (1, FIRST)
    numbers.resolved(first)
    assert numbers.may_send(second)
    numbers.assign(second)
    assert (second.sequence, second.was_first_when_sent) == (2, True)


def test_a_new_identity_waits_until_nothing_is_outstanding():
    numbers = sequences()
    old = sent(numbers)
    numbers.begin_identity(SECOND)
    fresh = batch()
    assert not numbers.may_send(fresh)
    assert numbers.next_sequence(A) == 0
    numbers.resolved(old)
    assert numbers.may_send(fresh)
    numbers.assign(fresh)
    assert (fresh.sequence, fresh.identity) == (0, SECOND)


def test_what_followed_a_failed_batch_is_numbered_anew_where_it_is_certainly_not_stored():
    numbers = sequences()
    failed, certain, uncertain = sent(numbers), sent(numbers), sent(numbers)
    uncertain.may_be_stored = True
    assert not numbers.renumber(certain), "nothing failed before it"
    numbers.resolved(failed)
    assert not numbers.renumber(certain), "the identity is still the same"
    numbers.begin_identity(SECOND)
    assert [numbers.renumber(each) for each in (certain, uncertain)] == [True, False]
    assert not certain.has_sequence
    assert not numbers.may_send(certain), "it waits for the answer of the other"
    assert numbers.may_send(uncertain)
    numbers.resolved(uncertain)
    numbers.assign(certain)
    assert (certain.identity, certain.sequence, uncertain.sequence) == (SECOND, 0, 3)


def test_what_came_before_a_failed_batch_is_not_behind_it():
    numbers = sequences()
    before, failed = sent(numbers), sent(numbers)
    numbers.resolved(failed)
    numbers.begin_identity(SECOND)
    assert not numbers.renumber(before)


def test_reset_starts_all_at_zero():
    numbers = sequences()
    for done in (sent(numbers), sent(numbers, B)):
        numbers.resolved(done)
    numbers.begin_identity(SECOND)
    numbers.reset()
    assert [sent(numbers).sequence, sent(numbers, B).sequence] == [0, 0]


def test_out_of_order_is_believed_only_of_what_was_first():
    numbers = sequences()
    first, second = sent(numbers), sent(numbers)
    assert verdict_on_batch(second, E.OUT_OF_ORDER_SEQUENCE_NUMBER) is BatchVerdict.RETRY
    assert verdict_on_batch(first, E.OUT_OF_ORDER_SEQUENCE_NUMBER) is BatchVerdict.FAIL


def test_verdicts_on_batches():
    one = sent(sequences())
    found = {
        code: verdict_on_batch(one, code, log_start_offset).name
        for code, log_start_offset in (
            (E.NONE, -1),
            (E.DUPLICATE_SEQUENCE_NUMBER, -1),
            (E.NOT_LEADER_OR_FOLLOWER, -1),
            (E.CONCURRENT_TRANSACTIONS, -1),
            (E.NOT_ENOUGH_REPLICAS, -1),
            (E.MESSAGE_TOO_LARGE, 5),
            (E.INVALID_PRODUCER_EPOCH, 5),
            (E.TRANSACTION_ABORTABLE, -1),
        )
    }
    assert found == {
        E.NONE: "DONE",
        E.DUPLICATE_SEQUENCE_NUMBER: "DONE_BEFORE",
        E.NOT_LEADER_OR_FOLLOWER: "RETRY",
        E.CONCURRENT_TRANSACTIONS: "RETRY",
        E.NOT_ENOUGH_REPLICAS: "RETRY",
        E.MESSAGE_TOO_LARGE: "FAIL",
        E.INVALID_PRODUCER_EPOCH: "FAIL",
        E.TRANSACTION_ABORTABLE: "FAIL",
    }
    assert verdict_on_batch(one, E.UNKNOWN_PRODUCER_ID, -1) is BatchVerdict.RETRY
    assert verdict_on_batch(one, E.UNKNOWN_PRODUCER_ID, 0) is BatchVerdict.FAIL
