"""Groups go on at the destination before the very record that they would have read next."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from oncelog.cli.migrate.copying import count_of, visible
from oncelog.cli.migrate.planning import groups_of
from oncelog.cli.migrate.sides import Sides
from oncelog.cli.output import counted
from oncelog.client.admin.admin import Admin
from oncelog.client.consumer.consumer import Consumer
from oncelog.client.producer.producer import Producer
from oncelog.core.migration.digest import fingerprints
from oncelog.core.migration.progress import MOVED_MAX, Point, group_mark
from oncelog.core.migration.verdict import MOVED, WAITING, GroupVerdict, standing
from oncelog.errors import GroupIdNotFound
from oncelog.types import GroupMetadata, OffsetAndMetadata, TopicPartition

LOOK_MS = 200


class Groups:
    """`source` and `destination` read one partition at a time."""

    def __init__(self, sides: Sides, source: Consumer, destination: Consumer, producer: Producer) -> None:
        self._sides, self._source, self._destination, self._producer = sides, source, destination, producer

    async def move(self, only: tuple[str, ...], wait_ms: int) -> list[GroupVerdict]:
        """Each as soon as it has no members and its position is settled; those that are not after `wait_ms` are left."""
        clock = asyncio.get_running_loop().time
        until_s, said = clock() + wait_ms / 1000, set[str]()
        done: dict[str, list[GroupVerdict]] = {}
        partitions = list(self._sides.progress)
        while True:
            waiting: dict[str, list[GroupVerdict]] = {}
            for name in await groups_of(self._sides, only):
                if name in done:
                    continue
                why, offsets = await self._looked_at(name, partitions)
                if why:
                    waiting[name] = [_verdict(name, tp, at, -1, WAITING, why) for tp, at in offsets.items()]
                    if name not in said:
                        said.add(name)
                        self._sides.note(f"group {name} is not moved yet: {why}")
                elif offsets:
                    done[name] = await self._move(name, offsets)
            if not waiting or clock() >= until_s:
                return [each for rows in (done | waiting).values() for each in rows]
            await asyncio.sleep(LOOK_MS / 1000)

    async def _looked_at(
        self, name: str, partitions: list[TopicPartition]
    ) -> tuple[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Why it cannot be moved now (empty where it can), and its positions."""
        source = self._sides.source
        try:
            pending = await source.list_pending_offset_commits(name, partitions)
            offsets = await source.list_consumer_group_offsets(name, partitions, require_stable=not pending)
        except GroupIdNotFound:  # deleted meanwhile, or of another kind
            return "", {}
        if pending:
            unknown = OffsetAndMetadata(-1)
            why = f"an open transaction may still move its position in {min(pending)}: `oncelog transactions list` shows it"
            return why, dict.fromkeys(sorted(pending), unknown) | offsets
        return (await self._held_by(name, offsets) if offsets else ""), offsets

    async def _held_by(self, name: str, offsets: dict[TopicPartition, OffsetAndMetadata]) -> str:
        if self._is_moved(name, offsets):
            return ""
        if count := await _member_count(self._sides.source, name):
            return f"it has {counted(count, 'member')} at the source: stop them"
        if count := await _member_count(self._sides.destination, name):
            return f"it has {counted(count, 'member')} at the destination already: stop them"
        try:
            there = await self._sides.destination.list_consumer_group_offsets(name, offsets, require_stable=True)
        except GroupIdNotFound:
            there = {}
        marked = [tp for tp in offsets if group_mark(name) in self._sides.progress[tp].moved]
        if marked:
            return (
                f"it was moved, and committed a first position in {min(set(offsets) - set(marked))} at the source since"
            )
        if there:
            return f"it has positions at the destination that nobody moved there ({min(there)}): delete them"
        return ""

    def _is_moved(self, name: str, offsets: dict[TopicPartition, OffsetAndMetadata]) -> bool:
        return all(
            tp not in self._sides.progress or group_mark(name) in self._sides.progress[tp].moved for tp in offsets
        )

    async def _move(self, name: str, offsets: dict[TopicPartition, OffsetAndMetadata]) -> list[GroupVerdict]:
        sides, mark = self._sides, group_mark(name)
        is_moved = self._is_moved(name, offsets)
        rows, there, state = [], {}, {}
        for tp, at in sorted(offsets.items()):
            place, is_same, why = await Place(sides, self._source, self._destination, tp).of(at.offset)
            rows.append(_verdict(name, tp, at, place, MOVED, "moved before" if is_moved else why, is_same))
            there[tp] = OffsetAndMetadata(place, at.metadata)
            state[tp] = replace(sides.progress[tp], moved=(*sides.progress[tp].moved, mark))
        if is_moved:
            return rows
        if any(len(each.moved) > MOVED_MAX for each in state.values()):
            return [replace(each, state=WAITING, why=f"more than {MOVED_MAX} groups of one partition") for each in rows]
        if any(each.is_same_record is False for each in rows):
            return [replace(each, state=WAITING, why="both sides do not stand before the same record") for each in rows]
        async with self._producer.transaction():
            await self._producer.send_offsets_to_transaction(there, GroupMetadata(name))
            await sides.commit(self._producer, state)
        sides.progress |= state
        sides.note(f"group {name} is moved: it goes on at the destination")
        return rows


class Place:
    """Where positions in one partition of the source are at the destination.

    Counted back from the next point that both sides know: what either side deleted at its beginning does not matter then.
    """

    def __init__(self, sides: Sides, source: Consumer, destination: Consumer, tp: TopicPartition) -> None:
        self._sides, self._source, self._destination, self._tp = sides, source, destination, tp

    async def of(self, offset: int) -> tuple[int, bool | None, str]:
        """Offset at the destination; whether the same record is there (None: it is deleted there); a word about it."""
        sides, tp = self._sides, self._tp
        progress = sides.progress[tp]
        begin = (await sides.source.list_offsets({tp: "earliest"}))[tp].offset
        self._their_begin = (await sides.destination.list_offsets({tp: "earliest"}))[tp].offset
        offset, why = standing(offset, begin, progress.source_offset)
        low, high = progress.around(offset)
        first = max(low.destination_offset, self._their_begin)
        if self._their_begin > high.destination_offset:
            return self._their_begin, None, "the destination deleted records that it may not have read"
        if tp.topic in sides.compacted:
            return await self._of_any(offset, high, first), True, why
        count = await count_of(self._source, tp, offset, high.source_offset)
        more = await count_of(self._destination, tp, first, high.destination_offset) - count if count else 0
        if more < 0 and first > low.destination_offset:
            return first, None, f"the destination deleted {counted(-more, 'record')} that it had not read"
        place = await self._after(more, first, high.destination_offset) if count else high.destination_offset
        is_same = await self._first(self._source, offset, progress.source_offset) == (
            await self._first(self._destination, place, progress.points[-1].destination_offset)
        )
        return place, is_same, why

    async def _after(self, count: int, begin: int, end: int) -> int:
        """Behind so many visible records of the destination."""
        if count <= 0:
            return begin
        async for rows in visible(self._destination, self._tp, begin, end):
            if rows.num_rows >= count:
                return int(rows.column("offset")[count - 1].as_py()) + 1
            count -= rows.num_rows
        return end

    async def _of_any(self, offset: int, high: Point, first: int) -> int:
        """Of a compacted topic, where counts mean nothing: the first record there that the source has from this offset on."""
        wanted: set[bytes] = set()
        async for rows in visible(self._source, self._tp, offset, high.source_offset):
            wanted.update(fingerprints(rows))
        async for rows in visible(self._destination, self._tp, first, high.destination_offset):
            for at, each in enumerate(fingerprints(rows)):
                if each in wanted:
                    return int(rows.column("offset")[at].as_py())
        return high.destination_offset

    async def _first(self, consumer: Consumer, begin: int, end: int) -> bytes | None:
        async for rows in visible(consumer, self._tp, begin, end):
            if rows.num_rows:
                return fingerprints(rows.slice(0, 1))[0]
        return None


async def _member_count(admin: Admin, name: str) -> int:
    try:
        return len((await admin.describe_groups([name]))[name].members)
    except GroupIdNotFound:
        return 0


def _verdict(
    name: str,
    tp: TopicPartition,
    at: OffsetAndMetadata,
    place: int,
    state: str,
    why: str,
    is_same: bool | None = None,
) -> GroupVerdict:
    return GroupVerdict(name, tp.topic, tp.partition, at.offset, place, state, is_same, why)
