"""The leader's steps: `core.partition` itself, rebuilt from its log before each."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from evidence.model.states import TRANSACTIONAL_ID, Entry, Kind, Leader, Message, Rules, Verification
from evidence.world.partition_leader import data_batch, marker_batch
from oncelog.core.leader.guards import Guard, VerificationEntry
from oncelog.core.leader.partition import Append, AskCoordinator, Duplicate, Partition, Refuse
from oncelog.wire.record_batch import RecordBatch


class Step(NamedTuple):
    """The leader afterwards, and what it sends."""

    leader: Leader
    message: Message | None


@cache
def batch_of(entry: Entry, offset: int) -> RecordBatch:
    producer_id, producer_epoch = entry.identity
    if entry.commit is not None:
        return marker_batch(
            producer_id,
            producer_epoch,
            commit=entry.commit,
            coordinator_epoch=entry.coordinator_epoch,
            base_offset=offset,
        )
    return data_batch(producer_id, producer_epoch, entry.sequence, base_offset=offset)


@cache
def guard_of(number: int, producer_id: int, producer_epoch: int) -> Guard:
    """Guards are compared by identity: one object for each number."""
    return Guard(producer_id, producer_epoch, TRANSACTIONAL_ID)


def partition_of(leader: Leader, rules: Rules) -> Partition:
    partition = Partition()
    for offset, entry in enumerate(leader.log):
        partition.replay(batch_of(entry, offset))
    partition.recovered(log_start_offset=0, log_end_offset=len(leader.log))
    for verification in leader.verifications:
        guard = guard_of(verification.number, *verification.identity)
        entry_ = VerificationEntry(guard, verification.lowest_sequence, rules.is_new, 0)
        partition._verifications._entries.setdefault(guard.producer_id, []).append(entry_)
        partition._verifications._count += 1
    for producer_id, number in leader.opened_by:
        state = partition._producers[producer_id]
        state.opened_by = guard_of(number, producer_id, state.producer_epoch)
    return partition


def leader_of(partition: Partition, log: tuple[Entry, ...], guard_count: int) -> Leader:
    """The value of a partition after a step; a guard that the step made gets the next number."""
    verifications = []
    for entries in partition._verifications._entries.values():
        for entry in entries:
            identity = (entry.guard.producer_id, entry.guard.producer_epoch)
            number = number_of(entry.guard)
            if number is None:
                number, guard_count = guard_count, guard_count + 1
            verifications.append(Verification(number, identity, entry.lowest_sequence))
    opened_by = [
        (producer_id, number)
        for producer_id, state in partition._producers.items()
        if state.opened_by is not None and (number := number_of(state.opened_by)) is not None
    ]
    return Leader(log, tuple(sorted(verifications)), tuple(sorted(opened_by)), guard_count)


def number_of(guard: Guard) -> int | None:
    return next((n for n in range(12) if guard_of(n, guard.producer_id, guard.producer_epoch) is guard), None)


@cache
def produce(leader: Leader, message: Message, rules: Rules, guard_number: int = -1) -> Step:
    """A client's batch, at once or after the coordinator agreed (`guard_number`)."""
    partition = partition_of(leader, rules)
    entry = Entry(message.identity, message.sequence, message.tag)
    batch = batch_of(entry, len(leader.log))
    guard = None if guard_number < 0 else guard_of(guard_number, *message.identity)
    verdict = partition.check_produce(
        batch, transactional_id=TRANSACTIONAL_ID, supports_implicit_add=rules.is_new, now_ms=0, guard=guard
    )
    if isinstance(verdict, AskCoordinator):
        after = leader_of(partition, leader.log, leader.guard_count)
        number = number_of(verdict.guard)
        asked = leader.guard_count if number is None else number
        return Step(
            after,
            Message(Kind.ASK, partition=message.partition, identity=message.identity, guard=asked, waiting=message),
        )
    log = leader.log
    if isinstance(verdict, Append):
        partition.appended(batch, now_ms=0, guard=guard)
        log = (*log, entry)
    error = int(verdict.error_code) if isinstance(verdict, Refuse) else 0
    assert isinstance(verdict, Append | Duplicate | Refuse)
    reply = Message(Kind.REPLY, message.client, message.number, error=error)
    return Step(leader_of(partition, log, leader.guard_count), reply)


@cache
def marker(leader: Leader, message: Message, rules: Rules) -> Step:
    """WriteTxnMarkers for this partition."""
    markers = message.markers
    assert markers is not None
    partition = partition_of(leader, rules)
    verdict = partition.check_marker(
        markers.producer_id,
        markers.producer_epoch,
        markers.coordinator_epoch,
        markers.transaction_version,
        commit=markers.commit,
    )
    log, error = leader.log, 0
    if isinstance(verdict, Append):
        entry = Entry(
            (markers.producer_id, markers.producer_epoch),
            commit=markers.commit,
            coordinator_epoch=markers.coordinator_epoch,
        )
        batch = batch_of(entry, len(log))
        partition.appended(batch, now_ms=0, transaction_version=markers.transaction_version)
        log = (*log, entry)
    else:
        error = int(verdict.error_code)
    answer = message._replace(kind=Kind.WRITTEN, error=error, copy=0)
    return Step(leader_of(partition, log, leader.guard_count), answer)


def restarted(leader: Leader) -> Leader:
    """What a restart leaves: the log. Guards keep their numbers, so that an answer to an old one meets no new one."""
    return Leader(leader.log, guard_count=leader.guard_count)
