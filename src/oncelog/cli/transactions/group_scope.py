"""What a consumer group reads, and what of it waits: its positions, its members' partitions, pending offset commits.

A group without a stored position reads all the same; one whose position is pending in an open transaction (KIP-447) does
not start. Neither is in the list of its positions, so nobody may be told "all clear" from that list alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from oncelog.cli.output import counted
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.groups import GroupDescription
from oncelog.client.admin.topics import OFFSETS_TOPIC
from oncelog.client.cluster.view import TopicView
from oncelog.core.placement import coordinator_partition
from oncelog.core.two_phase.sink_names import POSITION_METADATA
from oncelog.errors import GroupIdNotFound
from oncelog.lazy_dataclass import dataclass
from oncelog.types import OffsetAndMetadata, TopicPartition

AT_REST = ("Stable", "Empty", "Dead")
SHARE = "share"
NAMED_MAX = 5


@dataclass(frozen=True)
class GroupScope:
    """A group: `partitions` that it has a position of or reads now, in order; `pending` ones, whose position an open
    transaction may still move, and where those commits lie. `group` is None where only positions are known. Of a share
    group `undone` says how many offsets up to the end nobody is done with: its position is moved only now and then."""

    name: str
    partitions: tuple[TopicPartition, ...]
    positions: Mapping[TopicPartition, OffsetAndMetadata]
    pending: frozenset[TopicPartition]
    offsets_partition: TopicPartition | None
    group: GroupDescription | None
    undone: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def is_share(self) -> bool:
        """Whether records are shared out, each by itself (KIP-932), and no transaction moves positions."""
        return self.group is not None and self.group.group_type == SHARE

    @property
    def is_sparks(self) -> bool:
        """Whether a Spark query stores its position in it, for who looks, and joins no group."""
        has_members = self.group is not None and bool(self.group.members)
        return not has_members and bool(self.positions) and all(map(_is_sparks, self.positions.values()))

    def position_of(self, at: TopicPartition, high_watermark: int | None) -> int | None:
        """Where it stands there, None where that is not known: what lies behind it up to the end is to be done."""
        if at in self.undone and high_watermark is not None:
            return max(0, high_watermark - self.undone[at])
        stored = self.positions.get(at)
        return None if stored is None else stored.offset

    @property
    def notes(self) -> list[str]:
        """What a list of partitions does not show."""
        return self.position_notes + self.member_notes

    @property
    def position_notes(self) -> list[str]:
        """Where positions are missing."""
        found = []
        unstored = [where for where in self.partitions if where not in self.positions and where not in self.pending]
        if unstored:
            option = "the group's share.auto.offset.reset" if self.is_share else "its auto.offset.reset"
            found.append(f"no position is stored of {listed(unstored)}: a reader begins where {option} says")
        return found

    @property
    def member_notes(self) -> list[str]:
        """Who does not read (now)."""
        found = []
        if self.is_sparks:
            found.append(f"a Spark query stores its position in {self.name} after each batch, and joins no group")
        elif self.group is None or not self.group.members:
            found.append(f"group {self.name} has no members now: nobody reads")
        elif self.group.state not in AT_REST:
            found.append(f"group {self.name} is {self.group.state}, with {counted(len(self.group.members), 'member')}")
        return found


def _is_sparks(position: OffsetAndMetadata) -> bool:
    return position.metadata == POSITION_METADATA


async def describe_group(admin: Admin, name: str) -> GroupDescription | None:
    """None where nobody knows it, or it is of a kind that has no description."""
    try:
        return (await admin.describe_groups([name], unreachable={}))[name]
    except GroupIdNotFound:
        return None


async def group_scope(admin: Admin, name: str, topics: Mapping[str, TopicView]) -> GroupScope:
    """What `name` reads of these topics. Raises GroupIdNotFound where there is no such group."""
    group = await describe_group(admin, name)  # first: it gives up soonest where its coordinator says nothing
    if group is not None and group.group_type == SHARE:
        return await _share_scope(admin, group, topics)
    return await scope_of(admin, await admin.list_consumer_group_offsets(name), group, name, topics)


async def _share_scope(admin: Admin, group: GroupDescription, topics: Mapping[str, TopicView]) -> GroupScope:
    found = await admin.list_share_group_offsets(group.group_id)
    read = {*found, *(where for member in group.members for where in member.partitions)}
    return GroupScope(
        group.group_id,
        tuple(where for where in _everywhere(topics) if where in read),
        {at: OffsetAndMetadata(each.start_offset) for at, each in found.items() if each.start_offset is not None},
        frozenset(),
        None,
        group,
        {at: each.lag for at, each in found.items() if each.lag is not None},
    )


def _everywhere(topics: Mapping[str, TopicView]) -> list[TopicPartition]:
    return [TopicPartition(view.name, number) for view in topics.values() for number in sorted(view.partitions)]


async def scope_of(
    admin: Admin,
    positions: Mapping[TopicPartition, OffsetAndMetadata],
    group: GroupDescription | None,
    name: str,
    topics: Mapping[str, TopicView],
) -> GroupScope:
    """The same of a group whose positions and members are known already."""
    everywhere = _everywhere(topics)
    pending = await admin.list_pending_offset_commits(name, everywhere)
    if not positions and not pending and (group is None or group.state == "Dead"):
        raise GroupIdNotFound(f"there is no group {name!r}")
    read = {
        *positions,
        *pending,
        *(where for member in (group.members if group else ()) for where in member.partitions),
    }
    return GroupScope(
        name,
        tuple(where for where in everywhere if where in read),
        positions,
        frozenset(pending),
        await _offsets_partition(admin, name) if pending else None,
        group,
    )


async def _offsets_partition(admin: Admin, name: str) -> TopicPartition:
    """Where the group's positions, and the transactions that commit some, are."""
    count = len((await admin.describe_topics([OFFSETS_TOPIC]))[OFFSETS_TOPIC].partitions)
    return TopicPartition(OFFSETS_TOPIC, coordinator_partition(name, count))


def listed(partitions: Iterable[TopicPartition]) -> str:
    """Some of them by name, the rest as a number."""
    wanted = sorted(partitions)
    more = f" and {len(wanted) - NAMED_MAX} more" if len(wanted) > NAMED_MAX else ""
    return ", ".join(map(str, wanted[:NAMED_MAX])) + more
