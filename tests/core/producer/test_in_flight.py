"""Bounded requests per node; without idempotence one batch per partition is on its way."""

import pytest

from oncelog.core.producer.batch import ProducerBatch
from oncelog.core.producer.in_flight import RequestsInFlight
from oncelog.types import TopicPartition

BATCH = ProducerBatch(TopicPartition("t", 0), 0)


def test_counts_per_node():
    requests = RequestsInFlight(per_connection_max=2, is_idempotent=True)
    requests.sent(1, [BATCH])
    requests.sent(1, [])
    assert (requests.may_send_to(1), requests.may_send_to(2), len(requests)) == (False, True, 2)
    requests.answered(1, [])
    assert (requests.may_send_to(1), len(requests)) == (True, 1)


def test_idempotent_partitions_are_not_muted():
    requests = RequestsInFlight(per_connection_max=5, is_idempotent=True)
    requests.sent(1, [BATCH])
    assert not requests.is_muted(BATCH.topic_partition)


def test_without_idempotence_a_partition_waits_for_its_answer():
    requests = RequestsInFlight(per_connection_max=5, is_idempotent=False)
    requests.sent(1, [BATCH])
    assert requests.is_muted(BATCH.topic_partition)
    assert not requests.is_muted(TopicPartition("t", 1))
    requests.answered(1, [BATCH])
    assert not requests.is_muted(BATCH.topic_partition)


def test_more_than_five_would_outrun_the_brokers_memory():
    with pytest.raises(AssertionError):
        RequestsInFlight(per_connection_max=6, is_idempotent=True)
