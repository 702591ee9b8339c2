"""What a name means: a group, a topic, a partition of one, or a transactional id. Found out by asking."""

from __future__ import annotations

import asyncio
import difflib
import re
from typing import NoReturn

import click

from oncelog.cli.command import Name, Settings
from oncelog.cli.output import Failed
from oncelog.cli.transactions.group_scope import GroupScope, group_scope
from oncelog.cli.why.looking import Looking
from oncelog.client.admin.owners import described_if_known
from oncelog.client.admin.session import Unreachable
from oncelog.client.admin.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from oncelog.client.admin.transaction_listing import TransactionDescription
from oncelog.core.diagnosis.facts import GROUP, PARTITION, TOPIC, TRANSACTION
from oncelog.errors import ErrorCode, GroupIdNotFound, InvalidTopic, KafkaError, UnknownTopicOrPartition, error_for
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

NAMES_COMPARED_MAX = 10_000
_PARTITION = re.compile(r"(.+)([:-])([0-9]{1,9})", re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class Subject:
    """What is asked about. `kind` is None where it could not be found out and nobody said it."""

    name: str
    kind: str | None = None
    partition: TopicPartition | None = None
    scope: GroupScope | None = None
    owner: TransactionDescription | None = None


async def subject_of(settings: Settings, looking: Looking, name: str, wanted: str | None) -> Subject:
    """Raises a usage error for a name that means several things, Failed (with the nearest name) for one that means nothing."""
    topics, partition = looking.topics, _partition(looking, name)
    found: list[str] = []
    if wanted in (None, TOPIC):
        if name in topics:
            found.append(TOPIC)
        if partition is not None and not (found and wanted):
            found.append(PARTITION)
    groups, owner = await asyncio.gather(_group_names(looking, wanted), _transaction(looking, name, wanted))
    if name in groups:
        found.append(GROUP)
    if owner is not None:
        found.append(TRANSACTION)
    if len(found) > 1:
        ways = sorted({TOPIC if kind == PARTITION else kind for kind in found})
        meanings = " and a ".join({TRANSACTION: "transactional id"}.get(kind, kind) for kind in found)
        raise click.UsageError(
            f"{name!r} is a {meanings}: say which is meant with {' or '.join('--as ' + w for w in ways)}"
        )
    if found == [GROUP] or not found:
        scope = await _scope(looking, name, wanted)
        if scope is not None:
            return _certain(looking, Subject(name, GROUP, scope=scope))
        await _refused_topic(looking, name, wanted)
        if not looking.not_read:
            await _unknown(settings, looking, name, wanted, groups)
        return Subject(name, wanted or (GROUP if found else None))
    return _certain(looking, Subject(name, found[0], partition, owner=owner))


def _certain(looking: Looking, subject: Subject) -> Subject:
    """It is this. What else the name may mean is no part of the answer for who may not see it; where nobody could say, it was
    not read."""
    if looking.not_read:
        what = ", ".join(f"{each.what} ({each.error})" for each in looking.not_read)
        looking.notes.append(f"whether {subject.name} names something else, too, could not be asked: {what}")
        looking.not_read[:] = [each for each in looking.not_read if each.resource is None]
    return subject


def _partition(looking: Looking, name: str) -> TopicPartition | None:
    """`orders:3` and `orders-3`, where there is such a partition. Only the first can mean nothing else."""
    match = _PARTITION.fullmatch(name)
    if match is None or match[1] not in looking.topics:
        return None
    known = looking.topics[match[1]].partitions
    if int(match[3]) in known:
        return TopicPartition(match[1], int(match[3]))
    if match[2] == ":" and known:
        text = f"topic {match[1]!r} has partitions 0 to {len(known) - 1}, not {match[3]}"
        raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return None


async def _group_names(looking: Looking, wanted: str | None) -> list[str]:
    if wanted not in (None, GROUP):
        return []
    unreachable: Unreachable = {}
    found = await looking.ask("the list of groups", looking.admin.list_groups(unreachable=unreachable))
    looking.did_not_answer("the list of groups", unreachable)
    return [each.group_id for each in found or ()]


async def _transaction(looking: Looking, name: str, wanted: str | None) -> TransactionDescription | None:
    if wanted not in (None, TRANSACTION) or not await _has(looking, TRANSACTIONS_TOPIC):
        return None
    found = await looking.ask(f"transactional id {name}", described_if_known(looking.admin, name), name)
    return None if found is None else found.get(name)


async def _has(looking: Looking, topic: str) -> bool:
    """Whether there may be such an internal topic. To ask for a coordinator would make it, where nobody needed one yet."""
    if topic in looking.topics:
        return True
    try:
        await looking.admin.describe_topics([topic])
    except UnknownTopicOrPartition:
        return False
    except KafkaError:
        return True
    return True


async def _scope(looking: Looking, name: str, wanted: str | None) -> GroupScope | None:
    """What the group reads: also of one that has nothing but pending positions, which no list has."""
    if wanted not in (None, GROUP) or not await _has(looking, OFFSETS_TOPIC):
        return None
    asked = group_scope(looking.admin, name, looking.topics)
    return await looking.ask(f"group {name}", asked, name, absent=(GroupIdNotFound,))


async def _refused_topic(looking: Looking, name: str, wanted: str | None) -> None:
    """A topic that may not be seen is in no list; asked for by its name, it is refused."""
    if wanted not in (None, TOPIC):
        return
    for topic in dict.fromkeys((name, match[1] if (match := _PARTITION.fullmatch(name)) else name)):
        asked = looking.admin.describe_topics([topic])
        await looking.ask(f"topic {topic}", asked, topic, absent=(UnknownTopicOrPartition, InvalidTopic))


async def _unknown(settings: Settings, looking: Looking, name: str, wanted: str | None, groups: list[str]) -> NoReturn:
    known = {each: TOPIC for each in looking.topics if each != OFFSETS_TOPIC} if wanted in (None, TOPIC) else {}
    known |= dict.fromkeys(groups, GROUP)
    if wanted in (None, TRANSACTION):
        ids = await looking.ask("the list of transactional ids", looking.admin.list_transactions())
        known |= {each.transactional_id: TRANSACTION for each in ids or ()}
    what = {None: "group, topic or transactional id", TRANSACTION: "transactional id"}.get(wanted, wanted)
    near = difflib.get_close_matches(name, list(known)[:NAMES_COMPARED_MAX], n=1)
    if not near:
        where = {TOPIC: "topics", TRANSACTION: "transactions"}.get(wanted or "", "groups")
        raise Failed(f"there is no {what} {name!r}", f"look with {settings.repair(where, 'list')}")
    kind = {TRANSACTION: "transactional id"}.get(known[near[0]], known[near[0]])
    raise Failed(
        f"there is no {what} {name!r}; the nearest is {kind} {near[0]!r}", settings.repair("why", Name(near[0]))
    )
