"""How a cause is told: a headline, who and since when, why, what to do, and the command to type next.

No command that is printed loses what was prepared or decided: it looks, asks before it changes anything, or is refused until
the outcome is added.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from oncelog.cli.command import Name, Settings
from oncelog.cli.durations import duration_text
from oncelog.cli.output import counted, printable
from oncelog.cli.quota_text import number_text
from oncelog.cli.transactions.group_scope import listed
from oncelog.cli.transactions.verdicts import verdict_of
from oncelog.cli.unreadable import WAY_ON, WHY_OFFLINE
from oncelog.cli.why.migrations import DO, WHOSE
from oncelog.core.diagnosis import causes as kinds
from oncelog.core.diagnosis.causes import Cause
from oncelog.core.diagnosis.facts import Facts, Owner
from oncelog.core.diagnosis.transactions import may_be_committed, transaction_verdict
from oncelog.core.migration.progress import is_of_migration
from oncelog.core.two_phase.exactly_once_sink import attempt_name
from oncelog.core.two_phase.transactional_ids import leased_name
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

LATE_NAMED_MAX = 3
DENIED_NAMED_MAX = 5


@dataclass(frozen=True)
class Told:
    """A cause in words. `lines` are labels with texts between headline and `why`; `command` may be empty."""

    headline: str
    lines: tuple[tuple[str, str], ...]
    why: str
    advice: str
    command: str

    @property
    def text(self) -> str:
        """For a person: one line each; a line break in a name begins none."""
        lines = [self.headline, *(f"  {label:<5} {text}" for label, text in self.lines), f"  why   {self.why}"]
        lines.append(f"  do    {self.advice}")
        if self.command:
            lines.append(f"        {self.command}")
        return "\n".join(map(printable, lines))


def told(settings: Settings, facts: Facts, cause: Cause) -> Told:
    """The words for a cause."""
    if cause.open:
        return _transaction(settings, facts, cause)
    tellers = {
        kinds.RIGHTS: _rights,
        kinds.OFFLINE: _offline,
        kinds.DAMAGED: _damaged,
        kinds.OUT_OF_RANGE: _out_of_range,
        kinds.REBALANCING: _rebalancing,
        kinds.NO_MEMBERS: _no_members,
        kinds.NO_PARTITIONS: _no_partitions,
        kinds.QUOTA: _quota,
    }
    return tellers[cause.kind](settings, facts, cause)


def row(cause: Cause, words: Told) -> dict[str, Any]:
    """A cause for machines: the same keys for every kind, null where they mean nothing (docs/cli.md)."""
    first = cause.open[0] if cause.open else None
    owner = first.owner if first is not None else None
    verdict = None if first is None else transaction_verdict(first)
    return {
        "kind": cause.kind,
        "verdict": cause.kind
        if cause.kind == kinds.UNKNOWN_OWNER
        else verdict,  # as `explain` does: nobody said that it hangs
        "partitions": [str(where) for where in cause.partitions],
        "blocked": cause.blocked if first is not None else None,
        "pending": [str(where) for where in cause.pending],
        "transactional_id": owner.transactional_id if owner else None,
        "coordinator": owner.coordinator_id if owner else None,
        "state": owner.state if owner else None,
        "producer_id": first.producer_id if first else None,
        "producer_epoch": first.producer_epoch if first else None,
        "start_offset": first.start_offset if first else None,
        "age_ms": max(each.age_ms for each in cause.open) if first else None,
        "remaining_ms": owner.remaining_ms if owner else None,
        "what": words.headline,
        "why": words.why,
        "advice": words.advice,
        "command": words.command or None,
    }


def _transaction(settings: Settings, facts: Facts, cause: Cause) -> Told:
    first = cause.open[0]
    owner, verdict = first.owner, verdict_of(settings, first, facts.hidden)
    who = f"producer {first.producer_id}:{first.producer_epoch}"
    name = owner.transactional_id if owner is not None else f"of {who}"
    held = []
    if cause.is_behind:
        held.append(f"is open on {some(cause.partitions)}, behind others")
    elif cause.partitions and first.start_offset is None:
        held.append(f"is open on {some(cause.partitions)}, as its coordinator says")
    elif cause.partitions:
        held.append(f"holds back {counted(cause.blocked, 'offset')} of {some(cause.partitions)}")
    if cause.pending:
        one = f" (or one of {cause.candidate_count - 1} others)" if cause.candidate_count > 1 else ""
        held.append(f"commits positions that starting members of {facts.name} wait for{one}: {listed(cause.pending)}")
    since = f"on {listed(each.where for each in cause.open)}"
    if len(cause.open) == 1 and first.start_offset is not None:
        since = f"since offset {first.start_offset}"
    quiet = f", last record {duration_text(min(each.quiet_ms for each in cause.open))} ago"
    lines = [("by", f"{who}, open {since}{quiet if first.start_offset is not None else ''}")]
    if owner is not None:
        lines.append(("id", id_text(owner)))
    why, advice, command = verdict.why, verdict.advice, verdict.repair
    if cause.kind == kinds.UNKNOWN_OWNER:
        name = f"({who})"
    elif cause.kind == kinds.MARKER_STUCK and owner is not None:
        outcome = "committed" if owner.state == "PrepareCommit" else "aborted"
        why = f"{outcome} already, and its markers do not arrive: a leader is away, its disk failed, or it refuses them"
        advice = (
            "mend the partitions that are offline; else look at the logs of coordinator and leaders. These are left:"
        )
        command = settings.repair("transactions", "describe", Name(owner.transactional_id))
    elif cause.kind == kinds.HANGING_TRANSACTION and len(cause.open) > 1:
        if not may_be_committed(first):
            advice = f"end it on each of {counted(len(cause.open), 'partition')}: this names the command for each"
        command = _find_hanging(settings, cause)
    elif owner is not None and (query := _spark_query(owner.transactional_id)) is not None:
        why = f"{why}. It is a Spark query's: {query[1]}"
        advice = "let the query run, or start it again; else look what it has decided, and complete that without Spark"
        command = settings.repair("recover", "--prefix", query[0], "--query", query[1], "--dry-run")
    elif owner is not None and is_of_migration(owner.transactional_id):
        why, advice = f"{why}. {WHOSE}", DO
        command = settings.repair("transactions", "describe", Name(owner.transactional_id))
    return Told(f"{cause.kind} {name} {' and '.join(held)}", tuple(lines), why, advice, command)


def id_text(owner: Owner) -> str:
    """A transactional id and its state, as `explain` tells it."""
    lasting = f" for {duration_text(owner.duration_ms)}" if owner.duration_ms is not None else ""
    where = f"at producer epoch {owner.producer_epoch}, coordinator {owner.coordinator_id}"
    return f"{owner.transactional_id}: {owner.state}{lasting} {where}"


def _find_hanging(settings: Settings, cause: Cause) -> str:
    topics = {each.where.topic for each in cause.open}
    place = ["--topic", topics.pop()] if len(topics) == 1 else []
    return settings.repair("transactions", "find-hanging", *place, "--max-transaction-timeout", "0s")


def _spark_query(transactional_id: str) -> tuple[str, str] | None:
    prefix = transactional_id.partition(".")[0]
    found = leased_name(prefix, transactional_id) or attempt_name(prefix, transactional_id)
    return None if found is None else (prefix, found.query_id)


def some(partitions: Sequence[TopicPartition]) -> str:
    """One partition by its name, several by their number."""
    return str(partitions[0]) if len(partitions) == 1 else counted(len(partitions), "partition")


def _places(partitions: Iterable[TopicPartition]) -> list[str]:
    """`--topic T:0,1` for each topic."""
    grouped = itertools.groupby(sorted(partitions), key=lambda each: each.topic)
    return [
        word for topic, each in grouped for word in ("--topic", f"{topic}:{','.join(str(p.partition) for p in each)}")
    ]


def _rights(settings: Settings, _: Facts, cause: Cause) -> Told:
    assert cause.not_read[0].resource is not None
    kind, name = cause.not_read[0].resource
    needed = {"group": "DESCRIBE", "topic": "DESCRIBE and READ", "transactional-id": "DESCRIBE", "cluster": "DESCRIBE"}
    names = list(dict.fromkeys(each.what for each in cause.not_read))
    more = f" and {len(names) - DENIED_NAMED_MAX} more" if len(names) > DENIED_NAMED_MAX else ""
    denied = ", ".join(names[:DENIED_NAMED_MAX]) + more
    resource = ["--cluster"] if kind == "cluster" else [f"--{kind}", name, "--matching"]
    return Told(
        f"rights: you may not look at {denied}",
        (("error", ", ".join(dict.fromkeys(each.error for each in cause.not_read))),),
        f"it takes {needed[kind]} on the {kind.replace('-', ' ')}; who reads and writes there may lack rights, too",
        "ask as somebody who may, with --command-config; who administers the rules sees them so:",
        settings.repair("acls", "list", *resource),
    )


def _offline(settings: Settings, _: Facts, cause: Cause) -> Told:
    first = cause.seen[0]
    topics = dict.fromkeys(each.where.topic for each in cause.seen)
    if first.leader_id < 0:
        why = "no broker leads it: those that have a copy are away, or behind the last leader"
        advice = "start the brokers that have a copy (REPLICAS, IN-SYNC)"
    else:
        why = WHY_OFFLINE
        advice = f"read the log of broker {first.leader_id}: {WAY_ON}"
    verbs = ("gives", "takes") if len(cause.partitions) == 1 else ("give", "take")
    gives = f"{verbs[0]} nothing" if first.error or first.leader_id < 0 else f"{verbs[1]} nothing more"
    return Told(
        f"{cause.kind}: {some(cause.partitions)} {gives}",
        (("where", listed(cause.partitions)),),
        why,
        advice,
        settings.repair("topics", "describe", *map(Name, topics), "-o", "wide"),
    )


def _damaged(settings: Settings, facts: Facts, cause: Cause) -> Told:
    at, offset = cause.seen[0].where, cause.seen[0].damaged_at
    assert offset is not None
    stands = f", where {facts.name} stands" if facts.group is not None else ""
    return Told(
        f"damaged partition: {at} cannot be read at offset {offset}{stands}",
        (),
        "the batch there is not what was written: its checksum is wrong; `oncelog dump-log` of its files shows where",
        "restore its files from a copy; or lose what is damaged: move the group behind it with `oncelog groups reset-offsets "
        "--to-offset`. Where that is (the next offset, unless this stops at damage, too; then ask dump-log):",
        settings.repair("consume", Name(f"{at.topic}:{at.partition}"), "--from", offset + 1, "--count", 1, "--exit"),
    )


def _out_of_range(settings: Settings, facts: Facts, cause: Cause) -> Told:
    first = cause.seen[0]
    assert first.position is not None
    if first.log_start_offset is not None and first.position < first.log_start_offset:
        place = f"before the first record, {first.log_start_offset}"
        why = "the records there were deleted: by retention, or by somebody"
    else:
        place = f"beyond the end, {first.high_watermark}"
        why = "the topic was made anew, or lost its end, since the position was stored"
    more = f", and {len(cause.seen) - 1} more like it" if len(cause.seen) > 1 else ""
    return Told(
        f"{cause.kind}: {facts.name} stands at offset {first.position} of {first.where}, {place}{more}",
        (("where", listed(cause.partitions)),),
        f"{why}; a reader begins where its auto.offset.reset says, or fails",
        "stop its members, then move it (look first; --to-latest skips what is there)",
        settings.repair(
            "groups", "reset-offsets", Name(facts.name), *_places(cause.partitions), "--to-earliest", "--dry-run"
        ),
    )


def _rebalancing(settings: Settings, facts: Facts, _: Cause) -> Told:
    assert facts.group is not None
    group = facts.group
    states = ", ".join(dict.fromkeys(look.state for look in group.looks))
    changes = sum(one.fingerprint != other.fingerprint for one, other in itertools.pairwise(group.looks))
    lines = [
        ("seen", f"{states} in {counted(len(group.looks), 'look')}, its members changed between {changes} of them")
    ]
    if group.late_members:
        more = (
            f" and {len(group.late_members) - LATE_NAMED_MAX} more" if len(group.late_members) > LATE_NAMED_MAX else ""
        )
        lines.append(("late", ", ".join(group.late_members[:LATE_NAMED_MAX]) + more))
    why = "all wait for one that does not poll within max.poll.interval.ms"
    advice = "look which member does not answer, and end it"
    if changes > 1:
        why = (
            "they come and go: one that restarts in a loop, or does not poll within max.poll.interval.ms, disturbs all"
        )
        advice = "look which members stay; stop the one that comes and goes, and read its log"
    return Told(
        f"rebalancing: {group.name} has not come to rest for {duration_text(group.watched_ms)} or longer",
        tuple(lines),
        f"{counted(group.member_count, 'member')}: {why}",
        advice,
        settings.repair("groups", "describe", Name(group.name), "--members", "--watch"),
    )


def _no_members(settings: Settings, facts: Facts, cause: Cause) -> Told:
    frozen = sorted({each.topic for each in cause.partitions} & facts.frozen)
    lag, count = sum(each.raw_lag or 0 for each in cause.seen), counted(len(cause.partitions), "partition")
    waiting = f"{counted(lag, 'offset')} of {count} wait" if lag else f"where it begins in {count} is not stored"
    if frozen:
        advice = f"where {frozen[0]} has moved (`oncelog migrate --switch`), start them at the destination, not here. Its rules:"
        command = settings.repair("acls", "list", "--topic", frozen[0], "--matching")
    elif facts.is_guarded:
        advice = "start them; whether they may read:"
        command = settings.repair("acls", "list", "--group", facts.name, "--matching")
    else:
        advice = "start them, and see whether they come and stay:"
        command = settings.repair("groups", "describe", Name(facts.name), "--members", "--watch")
    why = "its consumers are not running, or cannot join: not reached, refused, or fenced; their own logs say which"
    if facts.group is not None and not facts.group.protocol_type:
        why = (
            f"{why}. Or nobody ever joined it: who reads partitions of its own choice, or a tool, stores positions in a group "
            "without; that is no fault where that program runs"
        )
    return Told(
        f"no members: nobody reads for {facts.name}, and {waiting}",
        (),
        why,
        advice,
        command,
    )


def _no_partitions(settings: Settings, facts: Facts, _: Cause) -> Told:
    assert facts.group is not None
    return Told(
        f"no partitions: {facts.name} has {counted(facts.group.member_count, 'member')}, and none reads anything",
        (),
        "what they subscribed to does not exist, or they may not see it",
        "compare their subscription with the topics that there are",
        settings.repair("topics", "list"),
    )


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> list[str]:
    """As `oncelog quotas` takes it."""
    return [word for kind, name in parts for word in (f"--{kind}", "default" if name is None else name)]


def _quota(settings: Settings, _: Facts, cause: Cause) -> Told:
    quota = cause.quota
    assert quota is not None
    at_least = duration_text(quota.catch_up_ms) if quota.bytes_per_second > 0 else "for ever"
    others = "" if "user" in dict(quota.entity) else " (a quota of its user would win over this one)"
    return Told(
        f"quota: client id {quota.client_id} may read {number_text(quota.bytes_per_second)} bytes a second from a broker",
        (("lag", f"about {quota.lag_bytes} bytes on one broker: {at_least} at that rate"),),
        f"the broker makes who reads more wait{others}",
        "raise it with `oncelog quotas set`, if the reader may have more; all that there are:",
        settings.repair("quotas", "list", *quota_entity(quota.entity)),
    )
