"""A key has one place; keyless records stay on a partition for a batch's worth."""

from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.producer.partitioner import StickyPartitioner, partition_for_key


def test_a_key_goes_where_javas_producer_sends_it():
    assert [partition_for_key(key, 13) for key in (b"21", b"foobar", b"")] == [
        (hashed & 0x7FFFFFFF) % 13 for hashed in (-973932308, -790332482, 275646681)
    ]


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_every_key_has_one_partition_in_range(key, count):
    assert partition_for_key(key, count) == partition_for_key(bytes(key), count)
    assert 0 <= partition_for_key(key, count) < count


def test_sticky_changes_after_a_batch():
    sticky = StickyPartitioner(lambda bound: 0, batch_size_bytes=100)
    chosen = [sticky.partition("t", [0, 1, 2], 40) for _ in range(7)]
    assert chosen == [0, 0, 0, 1, 1, 1, 0]


def test_sticky_leaves_a_partition_that_lost_its_leader():
    sticky = StickyPartitioner(lambda bound: bound - 1, batch_size_bytes=100)
    assert sticky.partition("t", [0, 1], 10) == 1
    assert sticky.partition("t", [0], 10) == 0


def test_sticky_topics_are_apart():
    sticky = StickyPartitioner(lambda bound: bound - 1, batch_size_bytes=100)
    assert (sticky.partition("a", [0, 1, 2], 90), sticky.partition("b", [0], 90)) == (2, 0)
    assert sticky.partition("a", [0, 1, 2], 90) == 2


def test_the_only_partition_is_taken_again():
    sticky = StickyPartitioner(lambda bound: 0, batch_size_bytes=10)
    assert [sticky.partition("t", [5], 50) for _ in range(3)] == [5, 5, 5]
