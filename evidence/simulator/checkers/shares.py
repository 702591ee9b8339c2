"""Share groups: nobody is given what was not committed, and every committed record was given to somebody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from oncelog.types import TopicPartition


def check_given(
    group: str,
    given: AbstractSet[tuple[TopicPartition, int]],
    read: Mapping[str, Sequence[tuple[int, int]]],
    keys: Sequence[TopicPartition],
) -> Iterator[str]:
    """`read` is all that is committed, by partition; the group is a read_committed one."""
    for key in keys:
        committed = {offset for offset, _ in read[str(key)]}
        mine = {offset for where, offset in given if where == key}
        if mine - committed:
            yield f"{group} was given {sorted(mine - committed)} of {key}, which nobody committed"
        if committed - mine:
            yield f"nobody of {group} was given {sorted(committed - mine)} of {key}"
