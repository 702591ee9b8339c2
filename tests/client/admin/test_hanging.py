"""Which open transactions are hanging: KIP-664's rules, producer epochs included."""

import pytest

from oncelog.client.admin.hanging import _Candidate, _why_hanging
from oncelog.client.admin.transaction_listing import ProducerDescription, TransactionDescription
from oncelog.types import TopicPartition

WHERE, ELSEWHERE = TopicPartition("t", 0), TopicPartition("t", 1)
CANDIDATE = _Candidate(WHERE, ProducerDescription(7, 4, 9, 1000, 0, 100))


def owner(state="Ongoing", producer_epoch=4, partitions=(WHERE,)):
    return TransactionDescription("tid", 1, state, 7, producer_epoch, 60000, 500, partitions, 2000)


@pytest.mark.parametrize(
    ("owners", "reason"),
    [
        ([], "no transactional id has this producer id"),
        ([owner()], ""),
        ([owner(partitions=(ELSEWHERE,))], "does not include this partition"),
        ([owner("CompleteCommit", partitions=())], "(CompleteCommit) does not include this partition"),
        ([owner(producer_epoch=5)], "the coordinator is at producer epoch 5, the partition at 4"),
        ([owner("PrepareAbort", producer_epoch=5)], ""),  # its marker is on its way
        ([owner("PrepareCommit", producer_epoch=5, partitions=(ELSEWHERE,))], "does not include this partition"),
        ([owner("Empty", partitions=()), owner()], ""),
    ],
)
def test_why_hanging(owners, reason):
    found, transactional_id = _why_hanging(CANDIDATE, owners)
    assert bool(found) is bool(reason)
    assert reason in found
    assert transactional_id == ("tid" if owners else None)


def test_durations():
    assert owner().duration_ms == 1500
    assert owner().remaining_ms == 58500
    assert owner("Empty").duration_ms is None
    assert owner("PrepareCommit").remaining_ms is None
    two_phase = TransactionDescription("tid", 1, "Ongoing", 7, 4, 2**31 - 1, 500, (WHERE,), 2000)
    assert two_phase.remaining_ms is None, "two-phase commit has no timeout"
