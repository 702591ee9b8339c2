"""Records from the source to the destination: one transaction carries a chunk and how far it reaches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from oncelog.cli.migrate.sides import Sides
from oncelog.cli.output import Failed
from oncelog.client.consumer.consumer import Consumer
from oncelog.client.producer.producer import Producer
from oncelog.core.migration.changing import Change
from oncelog.core.migration.digest import RecordsDigest, TableDigest
from oncelog.core.migration.progress import pause_ms
from oncelog.core.migration.verdict import PartitionVerdict, skipped_counts
from oncelog.errors import OffsetOutOfRange
from oncelog.types import TopicPartition

CHUNK_RECORDS = 100_000
POLL_MS = 200
SAY_MS = 2000
READ_PATIENCE_MS = 30_000
UNCHANGED = Change()


class Copy:
    """The one that copies. It begins where the committed state says, whatever happened before."""

    def __init__(self, sides: Sides, consumer: Consumer, producer: Producer, bytes_per_second: int | None) -> None:
        self.record_count = 0
        self._sides, self._consumer, self._producer = sides, consumer, producer
        self._bytes_per_second = bytes_per_second
        self._said_ms = 0.0

    async def begin(self) -> None:
        """After the producer fenced all others: what is committed now stays."""
        sides = self._sides
        sides.progress |= await sides.stored()
        self._consumer.assign(sides.progress)
        for tp, each in sides.progress.items():
            self._consumer.seek(tp, each.source_offset)
        await self._skip_deleted()
        await sides.see_ends([tp for tp, each in sides.progress.items() if not each.is_switched])

    async def catch_up(self, ends: Mapping[TopicPartition, int]) -> None:
        """Until everything before these offsets of the source is copied."""
        progress = self._sides.progress
        while any(progress[tp].source_offset < end for tp, end in ends.items()):
            await self.chunk()

    async def chunk(self) -> int:
        """What comes next, in one transaction; how many records."""
        sides, clock = self._sides, asyncio.get_running_loop().time
        began_s = clock()
        try:
            rows = await self._consumer.poll_arrow(CHUNK_RECORDS, POLL_MS)
        except OffsetOutOfRange:
            await self._skip_deleted()
            return 0
        rows = sides.change.apply(rows)
        places = {tp: at.offset for tp, at in self._consumer.current_positions().items()}
        counts = counts_of(rows)
        changed = {
            tp: sides.progress[tp].advanced(at, counts.get(tp, 0))
            for tp, at in places.items()
            if at > sides.progress[tp].source_offset
        }
        if not changed:
            assert not rows.num_rows, "records without a place"
            return 0
        async with self._producer.transaction():
            if rows.num_rows:
                await self._producer.send_arrow(None, rows)
            await sides.commit(self._producer, changed)
        sides.progress |= changed
        await sides.see_ends(changed)
        self.record_count += rows.num_rows
        if clock() * 1000 - self._said_ms >= SAY_MS:
            self._said_ms = clock() * 1000
            sides.note(f"copied {self.record_count} records")
        await asyncio.sleep(pause_ms(rows.nbytes, (clock() - began_s) * 1000, self._bytes_per_second) / 1000)
        return int(rows.num_rows)

    async def _skip_deleted(self) -> None:
        """What the source deleted before it was copied is at neither side."""
        progress = self._sides.progress
        begins = await self._sides.source.list_offsets(dict.fromkeys(progress, "earliest"))
        ends = await self._sides.source.list_offsets(dict.fromkeys(progress, "latest"))
        for tp, each in progress.items():
            if each.source_offset > ends[tp].offset:
                raise Failed(
                    f"{tp} of the source ends at {ends[tp].offset}; {each.source_offset} was copied: it lost records"
                )
            if each.source_offset < begins[tp].offset:
                self._sides.note(f"{tp}: the source deleted records below {begins[tp].offset} before they were copied")
                self._consumer.seek(tp, begins[tp].offset)


def counts_of(rows: pa.RecordBatch) -> dict[TopicPartition, int]:
    """Rows of each partition."""
    if not rows.num_rows:
        return {}
    table = pa.Table.from_batches([rows.select(["topic", "partition"])])
    counted = table.group_by(["topic", "partition"]).aggregate([([], "count_all")]).to_pylist()
    return {TopicPartition(each["topic"], each["partition"]): each["count_all"] for each in counted}


async def digest_of(
    consumer: Consumer, tp: TopicPartition, begin: int, end: int, *, skip: int = 0, change: Change = UNCHANGED
) -> RecordsDigest:
    """Visible records in [begin, end) as the copy has them, but for the first `skip`."""
    digest, seen = RecordsDigest(), 0
    async for read in visible(consumer, tp, begin, end):
        rows = change.apply(read)
        left = max(skip - seen, 0)
        seen += rows.num_rows
        if rows.num_rows > left:
            digest.update(rows.slice(left))
    return digest


async def count_of(consumer: Consumer, tp: TopicPartition, begin: int, end: int) -> int:
    """Visible records in [begin, end)."""
    count = 0
    async for rows in visible(consumer, tp, begin, end):
        count += rows.num_rows
    return count


async def table_of(
    consumer: Consumer, tp: TopicPartition, begin: int, end: int, *, change: Change = UNCHANGED
) -> TableDigest:
    """What compaction would leave of the visible records in [begin, end), as the copy has them."""
    table = TableDigest()
    async for rows in visible(consumer, tp, begin, end):
        table.update(change.apply(rows))
    return table


async def visible(consumer: Consumer, tp: TopicPartition, begin: int, end: int) -> AsyncIterator[pa.RecordBatch]:
    """Batches of visible records in [begin, end), in order."""
    if begin >= end:
        return
    consumer.assign([tp])
    consumer.seek(tp, begin)
    clock = asyncio.get_running_loop().time
    moved_s, place = clock(), begin
    while place < end:
        rows = await consumer.poll_arrow(CHUNK_RECORDS, POLL_MS)
        if rows.num_rows:
            kept = pc.sum(pc.less(rows.column("offset"), end)).as_py()
            yield rows.slice(0, kept)
        now = consumer.current_positions()[tp].offset
        if now > place:
            place, moved_s = now, clock()
        elif (clock() - moved_s) * 1000 > READ_PATIENCE_MS:
            raise Failed(f"{tp} cannot be read on from {place}: something is open there", "`oncelog why` names it")


async def compared(sides: Sides, source: Consumer, destination: Consumer, tp: TopicPartition) -> PartitionVerdict:
    """Both sides of a partition, read anew up to where the copy is; but for what either has deleted since."""
    each = sides.progress[tp]
    there = each.around(each.source_offset)[0].destination_offset
    begin = (await sides.source.list_offsets({tp: "earliest"}))[tp].offset
    their_begin = (await sides.destination.list_offsets({tp: "earliest"}))[tp].offset
    theirs = await digest_of(source, tp, begin, each.source_offset, change=sides.change)
    their_skip, count = 0, each.count
    if their_begin > 0:
        count = await count_of(destination, tp, their_begin, there)
        their_skip, _ = skipped_counts(
            theirs.record_count, count, has_source_deleted=False, has_destination_deleted=True
        )
        if their_skip:
            theirs = await digest_of(source, tp, begin, each.source_offset, skip=their_skip, change=sides.change)
    _, skip = skipped_counts(
        theirs.record_count, count, has_source_deleted=begin > each.first_offset, has_destination_deleted=False
    )
    mine = await digest_of(destination, tp, their_begin, there, skip=skip)
    end = (await sides.source.list_offsets({tp: "latest"}))[tp].offset
    found = PartitionVerdict(
        tp.topic,
        tp.partition,
        theirs.record_count,
        mine.record_count,
        theirs.hex(),
        mine.hex(),
        each.source_offset,
        end,
        there,
        their_skip + skip,
    )
    if found.is_exact or tp.topic not in sides.compacted:
        return found
    table = await table_of(source, tp, begin, each.source_offset, change=sides.change)
    their_table = await table_of(destination, tp, their_begin, there)
    return replace(found, is_same_table=table.hex() == their_table.hex())
