"""Groups go on at the destination before the very record that they would have read next."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from oncelog.cli.migrate.copying import visible
from oncelog.cli.migrate.planning import positions_of_groups
from oncelog.cli.migrate.sides import Sides
from oncelog.client.admin.admin import Admin
from oncelog.client.consumer.consumer import Consumer
from oncelog.client.producer.producer import Producer
from oncelog.core.migration.progress import MOVED_MAX, group_mark
from oncelog.core.migration.verdict import MOVED, WAITING, GroupVerdict
from oncelog.errors import GroupIdNotFound
from oncelog.types import GroupMetadata, OffsetAndMetadata, TopicPartition

LOOK_MS = 200


class Groups:
    """`source` and `destination` read one partition at a time."""

    def __init__(self, sides: Sides, source: Consumer, destination: Consumer, producer: Producer) -> None:
        self._sides, self._source, self._destination, self._producer = sides, source, destination, producer

    async def move(self, only: tuple[str, ...], wait_ms: int) -> list[GroupVerdict]:
        """Each as soon as it has no members; those that keep some for `wait_ms` are left."""
        clock = asyncio.get_running_loop().time
        until_s, said = clock() + wait_ms / 1000, set[str]()
        done: dict[str, list[GroupVerdict]] = {}
        while True:
            waiting: dict[str, list[GroupVerdict]] = {}
            for name, offsets in (await positions_of_groups(self._sides, only)).items():
                if name in done:
                    continue
                why = await self._held_by(name, offsets)
                if why:
                    waiting[name] = [_verdict(name, tp, at.offset, -1, WAITING, why) for tp, at in offsets.items()]
                    if name not in said:
                        said.add(name)
                        self._sides.note(f"group {name} is not moved yet: {why}")
                    continue
                done[name] = await self._move(name, offsets)
            if not waiting or clock() >= until_s:
                return [each for rows in (done | waiting).values() for each in rows]
            await asyncio.sleep(LOOK_MS / 1000)

    async def _held_by(self, name: str, offsets: dict[TopicPartition, OffsetAndMetadata]) -> str:
        if self._is_moved(name, offsets):
            return ""
        if count := await _member_count(self._sides.source, name):
            return f"it has {count} members at the source: stop them"
        if count := await _member_count(self._sides.destination, name):
            return f"it has {count} members at the destination already: stop them"
        try:
            there = await self._sides.destination.list_consumer_group_offsets(name, offsets, require_stable=True)
        except GroupIdNotFound:
            there = {}
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
            place = await self.translated(tp, at.offset)
            is_same = await self._first(self._source, tp, at.offset, sides.progress[tp].source_offset) == (
                await self._first(self._destination, tp, place, sides.progress[tp].points[-1].destination_offset)
            )
            rows.append(_verdict(name, tp, at.offset, place, MOVED, "moved before" if is_moved else "", is_same))
            there[tp] = OffsetAndMetadata(place, at.metadata)
            state[tp] = replace(sides.progress[tp], moved=(*sides.progress[tp].moved, mark))
        if is_moved:
            return rows
        if any(len(each.moved) > MOVED_MAX for each in state.values()):
            return [replace(each, state=WAITING, why=f"more than {MOVED_MAX} groups of one partition") for each in rows]
        if not all(each.is_same_record for each in rows):
            return [replace(each, state=WAITING, why="both sides do not stand before the same record") for each in rows]
        async with self._producer.transaction():
            await self._producer.send_offsets_to_transaction(there, GroupMetadata(name))
            await sides.commit(self._producer, state)
        sides.progress |= state
        sides.note(f"group {name} is moved: it goes on at the destination")
        return rows

    async def translated(self, tp: TopicPartition, source_offset: int) -> int:
        """Where the destination's records begin that the source has from this offset on."""
        point = self._sides.progress[tp].nearest(source_offset)
        count = 0
        async for rows in visible(self._source, tp, point.source_offset, min(source_offset, self._end(tp))):
            count += rows.num_rows
        place = point.destination_offset
        if count:
            async for rows in visible(
                self._destination, tp, place, self._sides.progress[tp].points[-1].destination_offset
            ):
                if rows.num_rows >= count:
                    return int(rows.column("offset")[count - 1].as_py()) + 1
                count -= rows.num_rows
        return place

    def _end(self, tp: TopicPartition) -> int:
        return self._sides.progress[tp].source_offset

    async def _first(self, consumer: Consumer, tp: TopicPartition, begin: int, end: int) -> Any:
        async for rows in visible(consumer, tp, begin, end):
            if rows.num_rows:
                row = rows.slice(0, 1).to_pylist()[0]
                return row["key"], row["value"], row["timestamp"], row["headers"] or None
        return None


async def _member_count(admin: Admin, name: str) -> int:
    try:
        return len((await admin.describe_groups([name]))[name].members)
    except GroupIdNotFound:
        return 0


def _verdict(
    name: str, tp: TopicPartition, at: int, place: int, state: str, why: str, is_same: bool | None = None
) -> GroupVerdict:
    return GroupVerdict(name, tp.topic, tp.partition, at, place, state, is_same, why)
