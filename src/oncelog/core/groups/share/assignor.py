"""The assignor `simple` of share groups (KIP-932): who reads which partitions, when a partition may have many readers.

Every partition has a reader and every member a partition, as evenly as that can be; a member keeps what it has as far as its
share allows. Members that read the same topics share all partitions of them together; otherwise each topic is shared for itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

Partition = tuple[bytes, int]  # topic id and index
Shares = dict[str, set[Partition]]


def assign(
    subscriptions: Mapping[str, frozenset[bytes]],
    partitions: Mapping[bytes, frozenset[int]],
    former: Mapping[str, frozenset[Partition]],
) -> Shares:
    """The shares by member. `subscriptions` are the topics of each member, `partitions` what there is of each topic."""
    shares: Shares = {member_id: set() for member_id in subscriptions}
    for topics, readers in _pools(subscriptions):
        pool = sorted((topic, index) for topic in topics for index in partitions.get(topic, ()))
        if pool and readers:
            _share(pool, readers, shares, former)
    return shares


def _pools(subscriptions: Mapping[str, frozenset[bytes]]) -> list[tuple[list[bytes], list[str]]]:
    """Topics that are shared together, with their readers."""
    everything = sorted(set().union(*subscriptions.values()))
    if len(set(subscriptions.values())) == 1:
        return [(everything, sorted(subscriptions))]
    return [([topic], sorted(each for each in subscriptions if topic in subscriptions[each])) for topic in everything]


def _share(
    pool: Sequence[Partition], readers: Sequence[str], shares: Shares, former: Mapping[str, frozenset[Partition]]
) -> None:
    readers_per_partition = -(-len(readers) // len(pool))
    partitions_per_reader = -(-len(pool) * readers_per_partition // len(readers))
    load: Counter[Partition] = Counter()
    taken: dict[str, set[Partition]] = {}
    for member_id in readers:
        kept: set[Partition] = set()
        for each in sorted(former.get(member_id, frozenset()).intersection(pool)):
            if len(kept) < partitions_per_reader and load[each] < readers_per_partition:
                kept.add(each)
                load[each] += 1
        taken[member_id] = kept
    waiting = sorted(pool, key=lambda each: (load[each], each))
    for each in [each for each in waiting if load[each] == 0]:
        member_id = min(readers, key=lambda reader: (len(taken[reader]), reader))
        taken[member_id].add(each)
        load[each] += 1
    for member_id in readers:
        if not taken[member_id]:
            each = min(pool, key=lambda one: (load[one], one))
            taken[member_id].add(each)
            load[each] += 1
    for member_id in readers:
        shares[member_id] |= taken[member_id]
