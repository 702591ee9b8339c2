"""`oncelog spark`: what teams need around Spark, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from oncelog.cli.clients import open_admin
from oncelog.cli.command import Group, Settings
from oncelog.cli.output import Failed, columns
from oncelog.errors import UnknownTopicOrPartition
from oncelog.types import TopicPartition

if TYPE_CHECKING:
    from oncelog.client.admin.admin import Admin
    from oncelog.client.cluster.view import TopicView
    from oncelog.spark.adoption import Checkpoint
    from oncelog.spark.options import Offsets
    from oncelog.spark.planning import Bounds

COLUMNS = columns("topic", "partition", "position", "log_start", "log_end", "to_read", "state")


@click.group(cls=Group)
def spark() -> None:
    """Checkpoints of Spark's own Kafka source, taken over."""


@spark.command("adopt-checkpoint", changes=True)
@click.argument("checkpoint", type=click.Path(), metavar="CHECKPOINT")
@click.pass_obj
async def adopt_checkpoint(settings: Settings, checkpoint: str) -> None:
    """Make the checkpoint of a query with Spark's own Kafka source one of format oncelog, at the same position.

    The query must not be running. Its topics are compared with the cluster first: where a position is not in the log any more
    nothing is changed (exit status 1). What is replaced is kept beside it, in offsets.before-oncelog. Then change
    format("kafka") to format("oncelog") in the query, and start it with the same checkpoint.
    """
    from oncelog.spark.adoption import adopted, read_checkpoint, replace_files, standings

    found = read_checkpoint(checkpoint)
    async with open_admin(settings) as admin:
        bounds = await _bounds(admin, found.positions())
    compared = standings(found.positions(), bounds)
    rows = [each.row() for each in compared]
    wrong = [each for each in compared if each.state != "ok"]
    if wrong:
        settings.out.rows(COLUMNS, rows)
        first = wrong[0]
        raise Failed(
            f"{first.topic}-{first.partition}: the checkpoint stands at {first.position}: {first.state}; nothing was changed. "
            "Look whether this is the cluster that it read; not adopted, a query with failOnDataLoss=false goes on with what "
            "is there"
        )
    files = adopted(found, bounds.topic_ids)
    replaced = " and ".join(f"offsets/{each.batch_id}" for each in files)
    what = f"adopt the checkpoint of query {found.query_id}: replace {replaced}"
    if not settings.confirm(what, found.query_id, more=_remarks(found), plan=rows):
        if not settings.out.is_machine:
            settings.out.rows(COLUMNS, rows)
        return
    kept = replace_files(found, files)
    settings.out.rows(COLUMNS, rows)
    settings.out.note(f"adopted; as it was: {kept} (copy back to undo, before the query has run with format oncelog)")


def _remarks(checkpoint: Checkpoint) -> list[str]:
    remarks = ["the query must not be running"]
    batch_id = checkpoint.unfinished_batch_id
    if batch_id is None:
        return [*remarks, f"batch {checkpoint.newest.batch_id} is finished: the query goes on behind it"]
    again = "Rows of it that another sink than oncelog's wrote already (Spark's own Kafka sink) come a second time"
    return [
        *remarks,
        f"batch {batch_id} was planned and is not finished: it is read again, the same one",
        f"{again}: let the old query finish it first where that matters",
    ]


async def _bounds(admin: Admin, positions: Offsets) -> Bounds:
    """Of the partitions that are there."""
    from oncelog.spark.planning import Bounds
    from oncelog.spark.stream_offset import topic_id_text

    topics: dict[str, TopicView] = {}
    for name in positions:
        try:
            topics |= await admin.describe_topics([name])
        except UnknownTopicOrPartition:
            continue
    there = [
        TopicPartition(t, p) for t, ps in positions.items() if t in topics for p in ps if p in topics[t].partitions
    ]
    earliest: Offsets = {}
    latest: Offsets = {}
    for found, spec in ((earliest, "earliest"), (latest, "latest")):
        for where, each in (await admin.list_offsets(dict.fromkeys(there, spec)) if there else {}).items():
            found.setdefault(where.topic, {})[where.partition] = each.offset
    return Bounds(earliest, latest, {name: topic_id_text(topic.topic_id) for name, topic in topics.items()})
