"""The assignor `simple`: every partition has a reader, every member a partition, and who has something keeps it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.groups.share.assignor import assign

T, U = b"t" * 16, b"u" * 16


def share(members, count, former=None):
    return assign(
        {each: frozenset((T,)) for each in members},
        {T: frozenset(range(count))},
        {each: frozenset((T, index) for index in found) for each, found in (former or {}).items()},
    )


def indexes(shares):
    return {member_id: sorted(index for _, index in found) for member_id, found in shares.items()}


def test_fewer_members_than_partitions_and_more():
    assert indexes(share("ab", 4)) == {"a": [0, 2], "b": [1, 3]}
    assert indexes(share("abcd", 2)) == {"a": [0], "b": [1], "c": [0], "d": [1]}
    assert indexes(share("a", 0)) == {"a": []}
    assert assign({}, {}, {}) == {}


def test_who_has_something_keeps_its_share():
    assert indexes(share("ab", 4, {"b": (0, 1)})) == {"a": [2, 3], "b": [0, 1]}
    assert indexes(share("ab", 4, {"b": (0, 1, 2, 3)})) == {"a": [2, 3], "b": [0, 1]}


def test_members_of_different_topics():
    shares = assign(
        {"a": frozenset((T,)), "b": frozenset((T, U))},
        {T: frozenset((0, 1)), U: frozenset((0,))},
        {},
    )
    assert shares == {"a": {(T, 0)}, "b": {(T, 1), (U, 0)}}


@given(
    st.integers(1, 8),
    st.integers(1, 8),
    st.dictionaries(st.sampled_from("abcdefgh"), st.frozensets(st.integers(0, 9))),
)
def test_drawn(member_count, partition_count, former):
    members = "abcdefgh"[:member_count]
    shares = share(members, partition_count, former)
    assert set().union(*shares.values()) == {(T, index) for index in range(partition_count)}
    sizes = {len(each) for each in shares.values()}
    assert min(sizes) >= 1
    assert max(sizes) <= -(-partition_count * -(-member_count // partition_count) // member_count)
