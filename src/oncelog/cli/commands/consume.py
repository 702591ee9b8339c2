"""`oncelog consume`: records of topics, as text by a format string or as JSON. Committed ones only, unless asked."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from functools import partial
from typing import Any

import click

from oncelog.cli.clients import CONNECT_TIMEOUT_MS, open_admin, open_consumer
from oncelog.cli.command import Settings, command, hint_for
from oncelog.cli.durations import duration_text, moment_from_text, record_time_from_text
from oncelog.cli.later_partitions import Change, LaterPartitions
from oncelog.cli.numbers import WholeNumberRange, is_number
from oncelog.cli.output import EXIT_FAILURE, Failed, Row, is_terminal, printable
from oncelog.cli.partitions import partitions_of, topic_and_partitions
from oncelog.cli.reading import ThrottleWatch
from oncelog.cli.record_format import VALUE_LINE, WIDE_LINE, compile_format, record_row
from oncelog.cli.standard_streams import given_to_stdout, out_of_stdout, stream_of
from oncelog.cli.unreadable import name_offline
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.session import look_for_a
from oncelog.client.cluster.each_leader import Unreadable
from oncelog.client.consumer.consumer import Consumer
from oncelog.client.consumer.known_topic import known_topic
from oncelog.client.records import ConsumerRecord
from oncelog.core.offset_reset import BY_DURATION, first_time_ms
from oncelog.errors import (
    CorruptRecord,
    ErrorCode,
    GroupAuthorization,
    KafkaError,
    RequestTimedOut,
    TopicAuthorization,
    UnknownTopicId,
    UnknownTopicOrPartition,
    error_for,
)
from oncelog.host.clock import RealClock
from oncelog.lazy_dataclass import dataclass
from oncelog.types import OffsetAndMetadata, TopicPartition

POLL_MS = 50
NAMED_MAX = 5
Emit = Callable[[ConsumerRecord], None]


@dataclass(frozen=True)
class Wanted:
    """What to read: from where, up to where (exclusive), how many, in which form."""

    topics: tuple[str, ...]
    start: str
    end: str | None
    exits_at_end: bool
    count_max: int | None
    isolation: str
    format_text: str | None

    @property
    def goes_on(self) -> bool:
        """Whether what comes later is read, too: there is no end, or one by a number, which nothing may have reached yet."""
        return not self.exits_at_end and not (self.end or "").startswith("@")

    @property
    def growing_topics(self) -> set[str]:
        """Those of which all partitions are read."""
        return {topic for topic, numbers in map(topic_and_partitions, self.topics) if numbers is None}


@dataclass
class Progress:
    """Where reading ends: per partition an exclusive offset, and how many records may still come; what lies before `starts` is
    passed over."""

    ends: dict[TopicPartition, int] = field(default_factory=dict)
    count_left: int | None = None
    starts: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Whether enough was read."""
        return self.count_left == 0


@command(name="consume")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:P[,P]]...")
@click.option(
    "--from",
    "start",
    default="earliest",
    show_default=True,
    metavar="WHERE",
    help=(
        "earliest, latest, an offset, -N (N before the end), @TIME (ISO 8601 in UTC), or by_duration:PT1H (an hour ago)."
    ),
)
@click.option(
    "--to",
    "end",
    metavar="WHERE",
    help="Stop before this offset, in each partition, or before the first record at @TIME or later.",
)
@click.option("-e", "--exit", "exits_at_end", is_flag=True, help="Stop at the end as it was at the start.")
@click.option("-c", "--count", "count_max", type=WholeNumberRange(1), help="Stop after this many records.")
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
    help="read_uncommitted also shows aborted and undecided records.",
)
@click.option("-g", "--group", help="Read as a member of this group, and store positions.")
@click.option(
    "-f",
    "--format",
    "format_text",
    metavar="FORMAT",
    help=(
        r"A line per record, such as '%t [%p] %o %k %s\n'. %t topic, %p partition, %o offset, %T time in ms, %k key, "
        r"%s value, %K and %S their lengths, %h headers."
    ),
)
@click.pass_obj
async def consume(settings: Settings, /, group: str | None, **given: Any) -> None:
    """Read records: values as lines, by -f in a form of your own, or with -o json, jsonl, tsv.

    Only records of committed transactions are shown, and those outside transactions.
    """
    wanted = Wanted(**given)
    formatted = _formatter(settings, wanted)
    with settings.out.stream() as emit:
        emitted = _emitter(settings, formatted, emit)
        if group is not None:
            await _read_as_member(settings, wanted, group, emitted)
        else:
            await _read_partitions(settings, wanted, emitted)


def _formatter(settings: Settings, wanted: Wanted) -> Callable[[ConsumerRecord], bytes] | None:
    """None where rows are wanted."""
    if wanted.format_text is not None and settings.output not in ("table", "wide"):
        raise click.UsageError("-f and -o exclude each other")
    if settings.output not in ("table", "wide"):
        return None
    usual = WIDE_LINE if settings.output == "wide" else VALUE_LINE
    try:
        return compile_format(wanted.format_text if wanted.format_text is not None else usual)
    except ValueError as error:
        raise click.UsageError(f"-f: {error}") from error


def _emitter(
    settings: Settings, formatted: Callable[[ConsumerRecord], bytes] | None, emit: Callable[[Row, str], None]
) -> Emit:
    if formatted is None:
        return lambda record: emit(record_row(record), "")
    is_shown = is_terminal(sys.stdout)

    def write(record: ConsumerRecord) -> None:
        data = formatted(record)
        if is_shown:  # a record must not be able to steer the terminal
            data = "\n".join(printable(line) for line in data.decode("utf-8", "replace").split("\n")).encode()
        settings.out.data_bytes(data)

    return write


async def _read_partitions(settings: Settings, wanted: Wanted, emit: Emit) -> None:
    _check_order(wanted)
    unreadable: dict[TopicPartition, KafkaError] = {}
    async with open_admin(settings) as admin:
        look_for_a(admin, "consumer")
        partitions = await partitions_of(admin, wanted.topics)
        starts, ended = await _starts(admin, partitions, wanted, unreadable)
        if not starts and any(isinstance(error, RequestTimedOut) for error in unreadable.values()):
            raise next(iter(unreadable.values()))  # nobody answers: nobody would say which of them are offline either
        ends = await _ends(admin, [at for at in partitions if at in starts], wanted, unreadable)
        topics = (await admin.describe_topics({at.topic for at in partitions})).values()
        name_offline(settings, topics, unreadable)
        _name_behind_end(settings, wanted, starts, ended)
        progress = Progress(ends, wanted.count_max, starts)
    async with open_consumer(settings, isolation_level=wanted.isolation, auto_offset_reset="earliest") as consumer:
        patience = Patience(settings, consumer, ends=not wanted.goes_on)
        readable = [where for where in partitions if where not in unreadable]
        left = {where for where in readable if starts[where] < progress.ends.get(where, 2**63)}
        consumer.assign(left)
        for where in left:
            end = ended.get(where, starts[where])  # nothing is to be fetched behind it
            consumer.seek(where, min(starts[where], end))
        later = LaterPartitions(topics, wanted.growing_topics, partial(known_topic, consumer))
        while left and not progress.is_done:
            try:
                records = await consumer.poll(POLL_MS)
            except CorruptRecord as error:
                _pass_over(settings, consumer, left, error, unreadable)
                continue
            if (change := later.look()) is not None:
                if wanted.goes_on:
                    _follow(settings, wanted, consumer, change, left, progress, unreadable)
                else:
                    _check_end_is_there(change, left)
            for record in records:
                _take(record, progress, emit)
            positions = {where: await consumer.position(where) for where in left}
            for where, position in positions.items():
                if position >= progress.ends.get(where, 2**63):
                    left.discard(where)
                    consumer.pause(where)
            patience.look(positions, progress.ends, left)
            settings.out.flush()
    if unreadable:
        click.get_current_context().exit(EXIT_FAILURE)


def _follow(
    settings: Settings,
    wanted: Wanted,
    consumer: Consumer,
    change: Change,
    left: set[TopicPartition],
    progress: Progress,
    unreadable: dict[TopicPartition, KafkaError],
) -> None:
    """Read what came from its start, beside what is read already, also of a topic that was deleted and made again: where
    reading began was said of what was there then."""
    for where in [each for each in progress.starts if each.topic in change.made_again]:
        progress.starts[where] = 0
    for where in left.intersection(change.gone):
        left.discard(where)
        if where.topic not in wanted.growing_topics:  # it was asked for by its number
            text = f"topic {where.topic!r} was deleted and made again without {where}"
            unreadable[where] = error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
            settings.out.note(f"error: {unreadable[where]}")
    consumer.assign((consumer.assignment() - set(change.gone)).union(change.come))
    for where in change.come:
        consumer.seek(where, 0)  # where that is not there any more, auto_offset_reset has the first that is
        progress.starts[where] = 0
        if wanted.end is not None:
            progress.ends[where] = int(wanted.end)
    left.update(each for each in change.come if progress.ends.get(each, 2**63) > 0)


def _check_end_is_there(change: Change, left: Collection[TopicPartition]) -> None:
    """An end that was looked up says nothing of another topic of the same name. Raises Failed: who took what comes of it for the
    rest would have a part of one topic and a part of another."""
    for topic in change.made_again:
        if any(where.topic == topic for where in left):
            raise Failed(
                f"topic {topic!r} was deleted and made again: what it had up to the end as it was at the start is gone",
                "the same command again reads the new one",
            )


def _pass_over(
    settings: Settings,
    consumer: Consumer,
    left: set[TopicPartition],
    error: CorruptRecord,
    unreadable: dict[TopicPartition, KafkaError],
) -> None:
    """A damaged partition ends where it is damaged; the others are read on. Raises it where nobody says which it is."""
    where = TopicPartition(*error.topic_partition) if error.topic_partition is not None else None
    if where is None:
        raise error
    if where in left:
        left.discard(where)
        consumer.pause(where)
        unreadable[where] = error
        settings.out.note(f"error: {error} ({hint_for(error, settings)})")


class Patience:
    """How long a read to a known end may come no further. Without a known end it waits for what may come, for ever."""

    def __init__(self, settings: Settings, consumer: Consumer, *, ends: bool) -> None:
        self._settings = settings
        self._throttle = ThrottleWatch(consumer)
        self._timeout_ms = settings.timeout_ms if ends else None
        self._loop = asyncio.get_running_loop()
        self._seen: dict[TopicPartition, int] = {}
        self._moved_at = self._loop.time()

    def look(
        self,
        positions: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        left: Collection[TopicPartition],
    ) -> None:
        """Raises Failed when nothing moved for the whole time."""
        self._throttle.look(has_moved=positions != self._seen)
        if positions != self._seen:
            self._seen, self._moved_at = dict(positions), self._loop.time()
        elif self._timeout_ms is not None and left and self._loop.time() - self._moved_at > self._timeout_ms / 1000:
            stuck = ", ".join(
                f"{where} at {positions.get(where, '?')} of {ends.get(where, '?')}" for where in sorted(left)[:5]
            )
            text = f"nothing came for {duration_text(self._timeout_ms)}: {stuck}"
            if told := self._throttle.told(self._settings):
                raise Failed(f"{text}: {told[0]}", told[1])
            topics = " ".join(sorted({where.topic for where in left}))
            raise Failed(
                text,
                f"`oncelog topics describe {topics}` names offline partitions; more time with --timeout",
            )


async def _read_as_member(settings: Settings, wanted: Wanted, group: str, emit: Emit) -> None:
    named = [topic_and_partitions(text) for text in wanted.topics]
    if any(partitions is not None for _, partitions in named):
        raise click.UsageError("a group shares out partitions itself: name topics only")
    if wanted.end is not None:
        raise click.UsageError("--to has no meaning with --group: what was read would be stored as read")
    if wanted.start not in ("earliest", "latest"):
        if not wanted.start.startswith(BY_DURATION):
            raise click.UsageError(
                "with --group, --from is earliest, latest or by_duration:PT1H: where the group has no position"
            )
        _moment_of(wanted.start)
    async with open_admin(settings) as admin:
        look_for_a(admin, "consumer")
        try:
            partitions = await partitions_of(admin, wanted.topics)
        except TopicAuthorization:
            await _name_right_to_group(settings, admin, group)
            raise
        progress = Progress(await _ends(admin, partitions, wanted), wanted.count_max)
        ending = {at.topic for at in progress.ends}
        topics = (await admin.describe_topics(ending)).values() if ending else ()
    async with open_consumer(
        settings,
        *(topic for topic, _ in named),
        group_id=group,
        isolation_level=wanted.isolation,
        auto_offset_reset=wanted.start,
        enable_auto_commit=False,
    ) as consumer:
        patience = Patience(settings, consumer, ends=wanted.exits_at_end)
        later = LaterPartitions(topics, (), partial(known_topic, consumer))
        while not progress.is_done and not await _is_at_end(consumer, progress):
            records = await consumer.poll(POLL_MS, progress.count_left)
            if (change := later.look()) is not None:
                _check_end_is_there(change, consumer.assignment() or progress.ends)
            async with _stored_as_far_as_out(settings, consumer) as emitted:
                for record in records:
                    emitted(record, emit)
                if progress.count_left is not None:
                    progress.count_left -= len(records)
                settings.out.flush()
                if records:  # what was printed, also what came after the end as it was, is the group's position
                    # a topic that was deleted and made again is read from its start, where no place is stored yet
                    with suppress(UnknownTopicId, UnknownTopicOrPartition):
                        await consumer.commit()
            assigned = consumer.assignment()
            patience.look(
                {at: await consumer.position(at) for at in assigned}, progress.ends, assigned or progress.ends
            )


async def _name_right_to_group(settings: Settings, admin: Admin, group: str) -> None:
    """Beside a topic's: who may give both need not be asked twice."""
    try:
        await admin.list_consumer_group_offsets(group)
    except GroupAuthorization as error:
        settings.out.note(f"error: {error}")
    except KafkaError:
        return


@asynccontextmanager
async def _stored_as_far_as_out(
    settings: Settings, consumer: Consumer
) -> AsyncIterator[Callable[[ConsumerRecord, Emit], None]]:
    """Around what writes records and commits them: where a signal, or a full disk, ends it in the midst, positions are stored of
    what came out whole, and the next member begins behind that."""
    ends: list[tuple[int, ConsumerRecord]] = []
    # a topic may be made again meanwhile, and what came out says nothing of the new one
    topic_ids = {at: each.topic_id for at, each in consumer.current_positions().items()}

    def emitted(record: ConsumerRecord, emit: Emit) -> None:
        before = given_to_stdout()
        try:
            emit(record)
        finally:  # also of one whose last bytes are still to come out
            if before is not None and (given := given_to_stdout() or 0) > before:
                ends.append((given, record))

    try:
        yield emitted
    except (KeyboardInterrupt, asyncio.CancelledError, OSError) as error:
        # where nobody reads any more, nobody knows what of it was read
        if ends and (not isinstance(error, OSError) or stream_of(error)):
            await _store_what_is_out(settings, consumer, ends, topic_ids)
        raise


async def _store_what_is_out(
    settings: Settings,
    consumer: Consumer,
    ends: list[tuple[int, ConsumerRecord]],
    topic_ids: Mapping[TopicPartition, bytes | None],
) -> None:
    with suppress(OSError):
        settings.out.flush()  # whoever reads slowly gets it, for as long as the end of a process may take
    out = out_of_stdout()
    offsets = {record.topic_partition: record.offset + 1 for end, record in ends if end <= out}
    positions = {at: OffsetAndMetadata(offset, topic_id=topic_ids.get(at)) for at, offset in offsets.items()}
    if not positions:
        return
    try:
        async with asyncio.timeout(min(settings.timeout_ms // 2, CONNECT_TIMEOUT_MS) / 1000):
            with suppress(UnknownTopicId, UnknownTopicOrPartition):  # nothing of that is there to be read again
                await consumer.commit(positions)
    except (KafkaError, TimeoutError) as error:
        why = str(error) or "no answer in time"
        settings.out.note(
            f"warning: the next member reads again what came out last, as its position is not stored: {why}"
        )


async def _is_at_end(consumer: Consumer, progress: Progress) -> bool:
    """Whether every partition that this member was given has been read to where it ended."""
    assigned = consumer.assignment()
    if not progress.ends or not assigned:
        return False
    for where in assigned:
        if await consumer.position(where) < progress.ends.get(where, 0):
            return False
    return True


def _take(record: ConsumerRecord, progress: Progress, emit: Emit) -> None:
    where = record.topic_partition
    if progress.is_done or not progress.starts.get(where, 0) <= record.offset < progress.ends.get(where, 2**63):
        return
    emit(record)
    if progress.count_left is not None:
        progress.count_left -= 1


async def _starts(
    admin: Admin, partitions: list[TopicPartition], wanted: Wanted, unreadable: Unreadable
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where each partition is begun, and how far they can be read now, where that was asked; those that cannot be asked are left
    out, and their errors kept."""
    text = wanted.start
    earliest = await admin.list_offsets(dict.fromkeys(partitions, "earliest"), unreadable=unreadable)
    firsts = {at: found.offset for at, found in earliest.items()}
    partitions = list(firsts)
    if text == "earliest":
        return firsts, {}
    latest = await admin.list_offsets(
        dict.fromkeys(partitions, "latest"), isolation_level=wanted.isolation, unreadable=unreadable
    )
    ended = {at: found.offset for at, found in latest.items()}
    if is_number(text):
        return {at: max(int(text), firsts[at]) for at in ended}, ended
    if text == "latest":
        return ended, ended
    if text.startswith("-") and is_number(text[1:]):
        return {at: max(firsts[at], ended[at] - int(text[1:])) for at in ended}, ended
    partitions = list(latest)
    found = await admin.list_offsets(dict.fromkeys(partitions, _moment_of(text)), unreadable=unreadable)
    return {at: found[at].offset if found[at].offset >= 0 else ended[at] for at in found}, ended


def _name_behind_end(
    settings: Settings, wanted: Wanted, starts: Mapping[TopicPartition, int], ended: Mapping[TopicPartition, int]
) -> None:
    """An offset that no record has yet: nothing comes, which should not look as if nothing was there."""
    behind = [f"{at} ({ended[at]})" for at in sorted(starts) if at in ended and starts[at] > ended[at]]
    if behind:
        more = f" and {len(behind) - NAMED_MAX} more" if len(behind) > NAMED_MAX else ""
        settings.out.note(f"note: --from {wanted.start} is behind the end of {', '.join(behind[:NAMED_MAX])}{more}")


def _check_order(wanted: Wanted) -> None:
    """Two offsets, or two moments, between which nothing can lie are a mistake. Raises UsageError."""
    start, end = wanted.start, wanted.end
    if end is None:
        return
    if is_number(start) and is_number(end):
        is_empty = int(end) <= int(start)
    elif start.startswith("@") and end.startswith("@"):
        is_empty = _end_moment(end) <= _moment_of(start)
    else:
        return
    if is_empty:
        raise click.UsageError(
            f"nothing lies between --from {start} and --to {end}: --to is exclusive and must be later"
        )


def _moment_of(text: str) -> int:
    """The milliseconds of @TIME and of by_duration:PT1H. Raises UsageError for anything else."""
    try:
        at_ms = first_time_ms(text, RealClock().now_ms())
        if at_ms is not None:
            return at_ms
        if text.startswith("@"):
            return moment_from_text(text[1:])
    except ValueError as error:
        raise click.UsageError(f"--from {text}: {error}") from error
    raise click.UsageError(f"--from {text}: earliest, latest, an offset, -N, @TIME or by_duration:PT1H")


async def _ends(
    admin: Admin, partitions: list[TopicPartition], wanted: Wanted, unreadable: Unreadable | None = None
) -> dict[TopicPartition, int]:
    """Exclusive offsets. A partition that has no record at a moment or later ends where it ends now."""
    text = wanted.end
    is_moment = text is not None and text.startswith("@")
    if text is not None and not is_moment and not is_number(text):
        raise click.UsageError(f"--to {text}: an offset, or @TIME")
    ends = dict.fromkeys(partitions, int(text)) if text is not None and not is_moment else {}
    if is_moment:
        found = await admin.list_offsets(dict.fromkeys(partitions, _end_moment(text or "")), unreadable=unreadable)
        ends = {at: each.offset for at, each in found.items() if each.offset >= 0}
    if wanted.exits_at_end or is_moment:
        latest = await admin.list_offsets(
            dict.fromkeys(partitions, "latest"), isolation_level=wanted.isolation, unreadable=unreadable
        )
        return {at: min(latest[at].offset, ends.get(at, 2**63)) for at in latest}
    return ends


def _end_moment(text: str) -> int:
    """The time of `@TIME` in ms. Raises a usage error."""
    try:
        return record_time_from_text(text[1:])
    except ValueError as error:
        raise click.UsageError(f"--to {text}: {error}") from error
