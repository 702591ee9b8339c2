"""Share groups: nobody is given what was not committed, and every committed record was given to somebody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from evidence.simulator.checkers.groups import Place, Read, differences
from oncelog.types import TopicPartition


def check_given(group: str, given: AbstractSet[Place], read: Read, keys: Sequence[TopicPartition]) -> Iterator[str]:
    """`read` is all that is committed, by partition; the group is a read_committed one."""
    for key, strange, missing in differences(given, read, keys):
        if strange:
            yield f"{group} was given {strange} of {key}, which nobody committed"
        if missing:
            yield f"nobody of {group} was given {missing} of {key}"
