"""Groups of subscribing consumers: nothing is skipped, nothing aborted is read, copies in transactions are made once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from oncelog.types import TopicPartition

Read = Mapping[str, Sequence[tuple[int, int]]]
Place = tuple[TopicPartition, int]


def check_processed(
    group: str, processed: AbstractSet[Place], read: Read, keys: Sequence[TopicPartition]
) -> Iterator[str]:
    """At least once: `read` is all that is committed, group by group worked on it."""
    for key, strange, missing in differences(processed, read, keys):
        if strange:
            yield f"{group} worked on {strange} of {key}, which nobody committed"
        if missing:
            yield f"{group} has never seen {missing} of {key}"


def differences(
    seen: AbstractSet[Place], read: Read, keys: Sequence[TopicPartition]
) -> Iterator[tuple[TopicPartition, list[int], list[int]]]:
    """By partition, in order: the offsets that were seen and not committed, and those that were committed and not seen."""
    for key in keys:
        committed = {offset for offset, _ in read[str(key)]}
        mine = {offset for where, offset in seen if where == key}
        yield key, sorted(mine - committed), sorted(committed - mine)


def check_copies(group: str, copies: Sequence[str], read: Read, keys: Sequence[TopicPartition]) -> Iterator[str]:
    """Exactly once: each committed record was copied, once; `copies` are the values of all committed copies."""
    counts = Counter(copy for copy in copies if copy.startswith(f"{group} "))
    wanted = {f"{group} {key.topic} {key.partition} {offset}" for key in keys for offset, _ in read[str(key)]}
    for copy in sorted({*counts, *wanted}):
        if counts[copy] != 1 or copy not in wanted:
            yield f"the copy {copy!r} is there {counts[copy]} times{'' if copy in wanted else ', and of nothing'}"


def check_stored(
    group: str, stored: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int]
) -> Iterator[str]:
    """Every confirmed position is there, or a later one."""
    for key, offset in sorted(stored.items()):
        if committed.get(key, 0) < offset:
            yield f"{group} stands at {committed.get(key)} in {key}, {offset} was confirmed"
