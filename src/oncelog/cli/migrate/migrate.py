"""`oncelog migrate --to HOST:PORT TOPIC...`: topics, exactly once, to another broker, while they are written."""

from __future__ import annotations

import asyncio
import pathlib
import re
from dataclasses import asdict
from typing import Any

import click

from oncelog.cli.command import Settings, command
from oncelog.cli.durations import DURATION
from oncelog.cli.numbers import WholeNumberRange
from oncelog.cli.output import EXIT_FAILURE, Failed, columns, counted, json_text
from oncelog.cli.properties_file import property_from_text
from oncelog.cli.quota_text import entity_text, number_text
from oncelog.client.producer.producer import Producer
from oncelog.core.migration.changing import SECRET_BYTES_MIN, Change, mask_of
from oncelog.core.migration.verdict import DIFFERENT, EXACT, GROUPS_WAIT, GroupVerdict, PartitionVerdict
from oncelog.errors import (
    ClusterAuthorization,
    GroupAuthorization,
    InvalidProducerEpoch,
    KafkaError,
    ProducerFenced,
    TopicAuthorization,
    TransactionalIdAuthorization,
)

AGAIN = "run the same command again to go on: what is copied stays copied"
ROUNDS_MAX = 20
NEAR_RECORDS = 2000
FENCED = (ProducerFenced, InvalidProducerEpoch)  # which of them depends on the request that hears it first
DENIED = (TopicAuthorization, GroupAuthorization, ClusterAuthorization, TransactionalIdAuthorization)
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@command(name="migrate", changes=True)
@click.argument("topics", nargs=-1, required=True)
@click.option("--to", "to", required=True, metavar="HOST:PORT", help="The broker that the topics go to.")
@click.option("--to-config", metavar="FILE", help="Its client settings, as --command-config has the source's.")
@click.option("--to-property", "to_properties", multiple=True, metavar="KEY=VALUE", help="One of them, as -X.")
@click.option("--switch", "is_switch", is_flag=True, help="Then make the destination the topics' home.")
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Move only these groups [default: all].")
@click.option("--switch-timeout", type=DURATION, default="1m", show_default=True, help="For the source to stand still.")
@click.option("--group-timeout", type=DURATION, default="10s", show_default=True, help="For groups to stop.")
@click.option("--max-bytes-per-second", type=WholeNumberRange(1), help="Copy no faster.")
@click.option("--replication-factor", type=WholeNumberRange(1), help="Of topics that are made [default: the broker's].")
@click.option("--compression", type=click.Choice(COMPRESSIONS), default="lz4", show_default=True, help="Of the copy.")
@click.option("--filter-key", metavar="REGEX", help="Copy only records whose key it is found in.")
@click.option("--mask", "masks", multiple=True, metavar="PART", help="key, value, value:FIELD.FIELD or header:NAME.")
@click.option("--mask-secret", metavar="FILE", help="What makes the digests that replace them [16 bytes or more].")
@click.pass_context
async def migrate(
    ctx: click.Context, /, topics: tuple[str, ...], to: str, to_config: str | None, **options: Any
) -> None:
    """Copy TOPICS from -b to another broker, exactly once, while they are written; oncelog or Apache Kafka on both sides.

    Records keep key, value, headers, timestamp, partition and order. Run it again after any end: it goes on where it was.
    With --switch it then waits until nobody writes at the source, copies the rest, and moves the groups.
    """
    settings = ctx.ensure_object(Settings)
    try:
        import pyarrow as pa  # noqa: F401
    except ModuleNotFoundError as error:
        raise Failed("migrate needs pyarrow: pip install oncelog[arrow]") from error
    from oncelog.cli.migrate.sides import TRANSACTION_TIMEOUT_MS, both_sides

    change = _change_of(options)
    names = tuple(dict.fromkeys(topics))
    if any(name.startswith("__") for name in names):
        raise click.UsageError("topics that begin with __ belong to the broker or to a tool: they cannot be moved")
    properties = dict(property_from_text(text) for text in options["to_properties"])
    there = Settings(to, to_config, properties, output=settings.output, timeout_ms=settings.timeout_ms)
    try:
        async with both_sides(settings, there, names) as sides:
            sides.change = change
            work = _Migration(settings, sides, options)
            if not await work.planned():
                return
            try:
                is_good = await work.done()
            except (asyncio.CancelledError, KafkaError) as error:
                if not isinstance(error, FENCED):
                    settings.out.note(AGAIN)
                raise
    except FENCED as error:
        raise Failed(
            "another `oncelog migrate` from this source took over, or the destination took longer than "
            f"{TRANSACTION_TIMEOUT_MS / 1000:g} s for a chunk",
            "let one of them run",
        ) from error
    except DENIED:
        settings.out.note("the rights that it needs at the source and at the destination: docs/migrate.md, Rights")
        raise
    if not is_good:
        ctx.exit(EXIT_FAILURE)


def _change_of(options: dict[str, Any]) -> Change:
    """What is left out and hidden. Raises UsageError."""
    pattern, file = options["filter_key"] or "", options["mask_secret"]
    try:
        masks, secret = tuple(map(mask_of, options["masks"])), pathlib.Path(file).read_bytes().strip() if file else b""
        re.compile(pattern.encode())
    except re.error as error:
        raise click.UsageError(f"--filter-key {pattern!r}: {error}") from error
    except ValueError as error:
        raise click.UsageError(f"--mask: {error}") from error
    except OSError as error:
        raise click.UsageError(f"--mask-secret: {error}") from error
    if bool(masks) != bool(file):
        raise click.UsageError("--mask and --mask-secret FILE go together: whoever guesses could find out a part else")
    if file and len(secret) < SECRET_BYTES_MIN:
        raise click.UsageError(f"--mask-secret: {file} holds {len(secret)} bytes, {SECRET_BYTES_MIN} are the least")
    if (pattern or masks) and options["is_switch"]:
        raise click.UsageError(
            "--switch moves topics as they are: a copy with --filter-key or --mask is not their home"
        )
    return Change(pattern, masks, secret)


class _Migration:
    def __init__(self, settings: Settings, sides: Any, options: dict[str, Any]) -> None:
        self._settings, self._sides, self._options = settings, sides, options
        self._partitions: list[PartitionVerdict] = []
        self._groups: list[GroupVerdict] = []

    async def planned(self) -> bool:
        """The plan, and a yes."""
        from oncelog.cli.migrate.planning import plan_of

        self._plan = plan = await plan_of(self._sides, self._options["groups"])
        lines = [
            f"topic {each.name}: {counted(each.partitions, 'partition')}, {'made' if each.is_new else 'there already'}; "
            + " ".join(f"{key}={value}" for key, value in each.configs.items())
            for each in plan.topics
        ]
        lines += [f"group {name}: {counted(len(each), 'position')}" for name, each in plan.groups.items()]
        lines += [
            f"rule: {each.principal} {each.permission} {each.operation} {each.resource_name}" for each in plan.acls
        ]
        lines += [
            f"quota: {entity_text(entity)}: "
            + ", ".join(f"{key}={number_text(value)}" for key, value in values.items())
            for entity, values in plan.quotas
        ]
        plan.notes += self._sides.change.notes()
        lines += [f"note: {each}" for each in plan.notes]
        freeze = (
            "a rule of its authorizer"
            if plan.can_freeze
            else "nothing: it has no rules of access for them, stop its writers"
        )
        lines += [f"the source is frozen at the switch by {freeze}"] if self._options["is_switch"] else []
        what = f"copy {counted(len(plan.topics), 'topic')} to {self._sides.to.bootstrap_servers}"
        if self._settings.dry_run and self._settings.out.is_machine:
            self._settings.out.data(json_text(plan.document(), indent=2) + "\n")
        return self._settings.confirm(
            what + (", and switch" if self._options["is_switch"] else ""), "migrate", more=lines
        )

    async def done(self) -> bool:
        """All of it; whether the verdict is exact."""
        from oncelog.cli.migrate.planning import is_frozen, prepare, switched
        from oncelog.cli.migrate.sides import reader

        sides, options = self._sides, self._options
        async with sides.producer(options["compression"]) as producer:
            await prepare(sides, self._plan, options["replication_factor"] or -1)
            async with reader(sides.settings) as source, reader(sides.to) as destination:
                if not switched(sides):
                    await self._copied(producer, source, destination)
                is_switched = switched(sides)
                if is_switched:
                    await self._groups_moved(producer, source, destination)
                    await self._compared(source, destination)
        return self._told(is_switched, is_frozen=await is_frozen(sides))

    async def _copied(self, producer: Producer, source: Any, destination: Any) -> None:
        from oncelog.cli.migrate.copying import Copy
        from oncelog.cli.migrate.sides import reader
        from oncelog.cli.migrate.switching import Switch

        sides, options = self._sides, self._options
        async with reader(sides.settings) as consumer:
            copy = Copy(sides, consumer, producer, options["max_bytes_per_second"])
            await copy.begin()
            for _ in range(ROUNDS_MAX):
                before = copy.record_count
                await copy.catch_up(await self._ends())
                if copy.record_count - before < NEAR_RECORDS:
                    break
            await self._compared(source, destination)
            if options["is_switch"]:
                wrong = [each for each in self._partitions if not each.is_exact]
                if wrong:
                    raise Failed(
                        f"{wrong[0].topic}-{wrong[0].partition} differs at the destination: nothing was switched"
                    )
                await copy.catch_up(await self._ends())
                await Switch(sides, self._plan, copy, producer, options["switch_timeout"]).everything()

    async def _ends(self) -> dict[Any, int]:
        wanted = dict.fromkeys(self._sides.progress, "latest")
        found = await self._sides.source.list_offsets(wanted, isolation_level="read_committed")
        return {tp: each.offset for tp, each in found.items()}

    async def _groups_moved(self, producer: Producer, source: Any, destination: Any) -> None:
        from oncelog.cli.migrate.groups import Groups

        groups = Groups(self._sides, source, destination, producer)
        self._groups = await groups.move(self._options["groups"], self._options["group_timeout"])

    async def _compared(self, source: Any, destination: Any) -> None:
        from oncelog.cli.migrate.copying import compared

        self._sides.note("comparing both sides")
        self._partitions = [await compared(self._sides, source, destination, tp) for tp in sorted(self._sides.progress)]

    def _told(self, is_switched: bool, *, is_frozen: bool) -> bool:
        out = self._settings.out
        late = self._late() if is_switched else []
        wrong = [each for each in self._partitions if not each.is_exact]
        held = [each for each in self._groups if not each.is_exact]
        is_good = not (late or wrong or held)
        bad = [each for each in held if each.is_same_record is False]
        verdict = EXACT if is_good else DIFFERENT if late or wrong or bad else GROUPS_WAIT
        writable = [] if is_frozen else ["source"]
        writable += ["destination"]
        rows = [asdict(each) | {"is_exact": each.is_exact} for each in self._partitions]
        moved = [asdict(each) | {"is_exact": each.is_exact} for each in self._groups]
        if out.is_machine:
            document = {"verdict": verdict, "switched": is_switched, "writable": writable}
            out.data(
                json_text(document | {"partitions": rows, "groups": moved, "notes": self._plan.notes}, indent=2) + "\n"
            )
        else:
            names = (
                "topic",
                "partition",
                "source_records",
                "destination_records",
                "source_digest",
                "destination_digest",
            )
            out.rows(columns(*names, "source_offset", "destination_offset", "is_exact"), rows)
            if moved:
                out.rows(
                    columns("group", "topic", "partition", "source_offset", "destination_offset", "state", "why"), moved
                )
        for line in self._seen() + late:
            out.note(line)
        out.note(f"verdict: {verdict}; writable now: {' and '.join(writable)}")
        if not is_switched and not self._sides.change.tag:
            out.note("nothing was switched: the topics' home is the source; run it again with --switch")
        return is_good

    def _late(self) -> list[str]:
        """What was written at the source after the switch."""
        return [
            f"error: {each.topic}-{each.partition} was written at the source after the switch: offset {each.source_offset} on"
            for each in self._partitions
            if not each.is_complete
        ] + [f"error: {name} was added and written at the source after the switch" for name in self._plan.late]

    def _seen(self) -> list[str]:
        """What was not compared record by record."""
        return [
            f"{each.topic}-{each.partition}: {counted(each.deleted_records, 'record')} deleted at one side since, not compared"
            for each in self._partitions
            if each.deleted_records
        ] + [
            f"{each.topic}-{each.partition} was compacted since it was copied: compared is the last record of each key"
            for each in self._partitions
            if each.is_same_table is not None
        ]
