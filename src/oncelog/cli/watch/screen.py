"""A look as a person reads it, and as a machine does. The causes have the words of `oncelog why`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from oncelog.cli.command import Name, Settings
from oncelog.cli.durations import duration_text, moment_text
from oncelog.cli.output import cell, columns, counted, printable
from oncelog.cli.quota_text import number_text
from oncelog.cli.transactions.group_scope import listed
from oncelog.cli.watch.alarms import MARKER_STUCK, SILENT, Alarm
from oncelog.cli.watch.alarms import OFFLINE as NOT_SERVED
from oncelog.cli.watch.looks import Seen
from oncelog.cli.why.words import Told, row, told
from oncelog.core.diagnosis.causes import Cause, causes
from oncelog.core.diagnosis.facts import OpenTransaction, Owner
from oncelog.core.diagnosis.transactions import transaction_verdict
from oncelog.core.diagnosis.watching import ACTIVE, OFFLINE, STOPPED, WORDS, WatchedPartition
from oncelog.types import TopicPartition

SHOWN_MAX, CAUSES_SHOWN_MAX = 15, 5
TOLD_MAX = 1_000  # rows of each kind in a machine's line
BLOCKED = ("topic", "partition", "state", "held_ms", "blocked", "last_stable_offset", "trend", "held_by", "groups")
TRANSACTIONS = ("transactional_id", "state", "age_ms", "remaining_ms", "verdict", "partitions")
NOWHERE = TopicPartition("", -1)
UNKNOWN = "unknown"


def causes_of(seen: Seen, older_than_ms: int) -> tuple[Cause, ...]:
    """What holds back, by the rules of `why`."""
    return causes(seen.facts, older_than_ms)


def verdict(seen: Seen) -> str:
    """The worst word of the look; `unknown` where nothing was found and not everything could be read: as `why` says it."""
    word = seen.picture.verdict
    return UNKNOWN if word == ACTIVE and seen.not_read else word


def headline(seen: Seen) -> str:
    """`stopped: 3 of 40 partitions, the longest for 4m12s by ledger-7`."""
    picture = seen.picture
    partitions = counted(len(picture.partitions), "partition")
    if verdict(seen) == UNKNOWN:
        return f"{UNKNOWN}: nothing held back in what could be read, {partitions}; not everything could be read"
    text = f"{picture.verdict}: {picture.count(picture.verdict)} of {partitions}"
    if picture.verdict != STOPPED and (offline := picture.count(OFFLINE)) and picture.verdict != OFFLINE:
        text += f", {offline} offline"
    if blocked := picture.blocked:
        text += f", the longest for {duration_text(blocked[0].blocked_ms)} by {holder_name(blocked[0])}"
    if seen.not_read:
        text += "; not everything could be read"
    return text


def holder_name(watched: WatchedPartition) -> str:
    """Whose transaction it is: its id, else its producer."""
    holder = watched.holder
    if holder is None:
        return "(unknown)"
    if holder.owner is not None:
        return holder.owner.transactional_id
    return f"producer {holder.producer_id}:{holder.producer_epoch}"


def transaction_rows(seen: Seen) -> list[dict[str, Any]]:
    """What is open, the oldest first."""
    rows = [
        {
            "transactional_id": each.transactional_id,
            "state": each.state,
            "age_ms": each.duration_ms or 0,
            "remaining_ms": each.remaining_ms,
            "verdict": transaction_verdict(_as_open(each)),
            "partitions": seen.partition_counts.get(each.transactional_id, 0),
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "coordinator": each.coordinator_id,
        }
        for each in seen.owners
    ]
    return sorted(rows, key=lambda each: (-each["age_ms"], each["transactional_id"]))


def _as_open(owner: Owner) -> OpenTransaction:
    return OpenTransaction(NOWHERE, owner.producer_id, owner.producer_epoch, None, 0, owner)


def blocked_rows(seen: Seen, watched: Iterable[WatchedPartition]) -> list[dict[str, Any]]:
    """Partitions that are held back."""
    groups: dict[TopicPartition, list[str]] = {}
    for each in seen.groups:
        groups.setdefault(each.where, []).append(each.name)
    return [
        {
            "topic": each.where.topic,
            "partition": each.where.partition,
            "state": each.word,
            "blocked_ms": each.blocked_ms,
            "blocked": each.facts.blocked,
            "last_stable_offset": each.facts.last_stable_offset,
            "high_watermark": each.facts.high_watermark,
            "last_stable_offset_per_second": _rounded(each.last_stable_offset_rate),
            "high_watermark_per_second": _rounded(each.high_watermark_rate),
            "transactional_id": each.holder.owner.transactional_id if each.holder and each.holder.owner else None,
            "producer_id": each.holder.producer_id if each.holder else None,
            "producer_epoch": each.holder.producer_epoch if each.holder else None,
            "groups": groups.get(each.where, []),
        }
        for each in watched
    ]


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 1)


def document(settings: Settings, seen: Seen, older_than_ms: int) -> dict[str, Any]:
    """What `-o json` and `-o jsonl` print of a look; docs/cli.md names every key."""
    found = causes_of(seen, older_than_ms)
    return {
        "time_ms": seen.time_ms,
        "verdict": verdict(seen),
        "partitions": {word: seen.picture.count(word) for word in WORDS},
        "open_transactions": seen.open_count,
        "blocked": blocked_rows(seen, seen.picture.blocked[:TOLD_MAX]),
        "alerts": rings(seen)[:TOLD_MAX],
        "transactions": transaction_rows(seen)[:TOLD_MAX],
        "groups": [
            {
                "group": each.name,
                "topic": each.where.topic,
                "partition": each.where.partition,
                "position": each.position,
                "has_read_all": each.is_at_end,
            }
            for each in seen.groups[:TOLD_MAX]
        ],
        "causes": [row(cause, told(settings, seen.facts, cause)) for cause in found[:TOLD_MAX]],
        "not_read": [{"what": each.what, "error": each.error, "why": each.why} for each in seen.not_read],
        "notes": list(seen.notes),
    }


def failed_document(time_ms: int, error: str, message: str) -> dict[str, Any]:
    """A look that nobody answered, for machines."""
    nothing: dict[str, Any] = {"partitions": dict.fromkeys(WORDS, 0), "open_transactions": 0}
    nothing |= {key: [] for key in ("blocked", "alerts", "transactions", "groups", "causes", "notes")}
    return {
        "time_ms": time_ms,
        "verdict": UNKNOWN,
        **nothing,
        "not_read": [{"what": "the cluster", "error": error, "why": message}],
    }


def rings(seen: Seen) -> list[str]:
    """What rings: partitions, and what else does not stand on one."""
    names = [str(each.where) for each in seen.picture.alerts]
    for each in seen.ringing.now:
        names += [str(at) for at in each.where] or [each.name]
    return list(dict.fromkeys(names))


def screen(settings: Settings, seen: Seen, older_than_ms: int) -> str:
    """The whole screen; no name begins a line or steers the terminal."""
    found = causes_of(seen, older_than_ms)
    lines = [f"{moment_text(seen.time_ms)}  {printable(headline(seen))}"]
    blocked = seen.picture.blocked
    if blocked:
        rows = [
            {**each, "held_ms": each["blocked_ms"], "trend": _trend(each), "held_by": holder_name(watched)}
            for watched, each in zip(blocked[:SHOWN_MAX], blocked_rows(seen, blocked[:SHOWN_MAX]), strict=True)
        ]
        lines += ["", *_table(BLOCKED, rows), *_more(len(blocked))]
    transactions = transaction_rows(seen)
    if transactions:
        lines += ["", *_table(TRANSACTIONS, transactions[:SHOWN_MAX]), *_more(max(seen.open_count, len(transactions)))]
    for cause in found[:CAUSES_SHOWN_MAX]:
        lines += ["", told(settings, seen.facts, cause).text]
    if len(found) > CAUSES_SHOWN_MAX:
        lines += ["", f"and {len(found) - CAUSES_SHOWN_MAX} more causes: `oncelog why` of a topic names all of its own"]
    for missing in seen.not_read:
        lines.append(printable(f"not read: {missing.what}: {missing.error}: {missing.why}"))
    lines += [printable(f"note: {each}") for each in seen.notes]
    return "\n".join(lines)


def _trend(each: dict[str, Any]) -> str:
    """How fast the last stable offset moved over the last minute, against the partition's end."""
    stable, end = each["last_stable_offset_per_second"], each["high_watermark_per_second"]
    return "-" if stable is None or end is None else f"{number_text(stable)}/s of {number_text(end)}/s"


def _more(count: int) -> list[str]:
    return [f"and {count - SHOWN_MAX} more"] if count > SHOWN_MAX else []


def _table(names: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[str]:
    shown = columns(*names)
    lines = [[column.title for column in shown], *([cell(column, each) for column in shown] for each in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(shown))]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def alert_lines(settings: Settings, seen: Seen, older_than_ms: int) -> list[str]:
    """One line for each transaction that began to hold something back for too long, and for what came free again."""
    commands: dict[int, Told] = {}
    for cause in causes_of(seen, older_than_ms) if seen.picture.rung else ():
        if cause.open:
            commands.setdefault(cause.open[0].producer_id, told(settings, seen.facts, cause))
    together: dict[str, list[WatchedPartition]] = {}
    for each in seen.picture.rung:
        together.setdefault(holder_name(each), []).append(each)
    lines = []
    for name, held in together.items():
        where, lasting = listed(each.where for each in held), duration_text(held[0].blocked_ms)
        holder = held[0].holder
        words = commands.get(holder.producer_id) if holder is not None else None
        command = f": {words.command}" if words is not None and words.command else ""
        lines.append(f"alert: {where} held back for {lasting} by {name}{command}")
    if seen.picture.over:
        lines.append(f"over: {listed(each.where for each in seen.picture.over)} is held back no longer")
    lines += [f"alert: {each}" for each in _alarm_texts(settings, seen.ringing.rung)]
    return lines + [f"over: {each}" for each in _over_texts(seen.ringing.over)]


def _alarm_texts(settings: Settings, rung: Iterable[Alarm]) -> list[str]:
    """What began to ring, with the command that shows more; partitions of one topic together."""
    texts, offline = [], _offline_by_topic(rung)
    for topic, alarms in offline.items():
        shown = settings.repair("topics", "describe", Name(topic), "-o", "wide")
        where = listed(at for each in alarms for at in each.where)
        texts.append(f"{where} {_is(alarms)} offline{_lasting(max(each.lasting_ms for each in alarms))}: {shown}")
    for each in rung:
        if each.kind == MARKER_STUCK and each.owner is not None:
            age = f", open for {duration_text(each.owner.duration_ms)}" if each.owner.duration_ms is not None else ""
            shown = settings.repair("transactions", "describe", Name(each.name))
            where = f" on {listed(each.where)}" if each.where else ""
            texts.append(f"markers of {each.name} ({each.owner.state}{age}) do not arrive{where}: {shown}")
        elif each.kind == SILENT:
            shown = settings.repair("transactions", "list")
            texts.append(f"{each.name} could not be read{_lasting(each.lasting_ms)}: {shown}")
    return texts


def _over_texts(over: Iterable[Alarm]) -> list[str]:
    texts = [
        f"{listed(at for each in alarms for at in each.where)} {_is(alarms)} offline no longer"
        for alarms in _offline_by_topic(over).values()
    ]
    texts += [f"markers of {each.name} are no longer late" for each in over if each.kind == MARKER_STUCK]
    return texts + [f"{each.name} can be read again" for each in over if each.kind == SILENT]


def _offline_by_topic(alarms: Iterable[Alarm]) -> dict[str, list[Alarm]]:
    found: dict[str, list[Alarm]] = {}
    for each in alarms:
        if each.kind == NOT_SERVED:
            found.setdefault(each.where[0].topic, []).append(each)
    return found


def _is(alarms: Sequence[Alarm]) -> str:
    return "is" if len(alarms) == 1 else "are"


def _lasting(lasting_ms: int) -> str:
    return f" for {duration_text(lasting_ms)}" if lasting_ms else ""
