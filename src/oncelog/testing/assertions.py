"""What a test says about transactions: this was committed once, nothing was left open. For any broker, Apache Kafka too."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from oncelog.errors import InvalidArgument, TransactionalIdNotFound
from oncelog.types import TopicPartition

if TYPE_CHECKING:
    from oncelog.client.admin.transaction_listing import TransactionDescription
    from oncelog.client.records import ConsumerRecord

TIMEOUT_MS = 10_000
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_PAUSE_S = 0.01
_SHOWN_MAX = 10


class _Addressed(Protocol):
    @property
    def bootstrap_servers(self) -> str:
        """Where it is."""


Servers = str | _Addressed
"""A broker's address, or what has one: a TestBroker, with its users too, a FaultyProxy."""


def committed_records(servers: Servers, topic: str, *, timeout_ms: int = TIMEOUT_MS) -> list[ConsumerRecord]:
    """All records of a topic that were committed or written outside of transactions, in the order of their partitions.

    Waits until no transaction is open before the end as it was when this was called: a commit is answered when it is decided
    and visible some milliseconds later. Raises AssertionError, with the open ones, where that takes longer than `timeout_ms`.
    """
    from oncelog import sync

    ends_at = time.monotonic() + timeout_ms / 1000
    bounds = {"default_api_timeout_ms": timeout_ms}
    options = options_of(servers) | bounds | {"isolation_level": "read_committed", "enable_auto_commit": False}
    with sync.Consumer(**options) as consumer:
        partitions = sorted(TopicPartition(topic, each) for each in consumer.partitions_for_topic(topic))
        ends = consumer.end_offsets(partitions, isolation_level="read_uncommitted")
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        found: list[ConsumerRecord] = []
        while behind := [each for each in partitions if consumer.position(each) < ends[each]]:
            left_ms = int((ends_at - time.monotonic()) * 1000)
            if left_ms <= 0:
                where = f"{behind[0]} at {consumer.position(behind[0])} of {ends[behind[0]]}"
                still = _shown(open_transactions(servers)) or "nothing"
                raise AssertionError(f"{topic} was not read to its end within {timeout_ms} ms: {where}; open: {still}")
            found += consumer.poll(timeout_ms=min(left_ms, 100))
    found = [each for each in found if each.offset < ends[each.topic_partition]]
    return sorted(found, key=lambda each: (each.partition, each.offset))


def assert_committed_once(
    servers: Servers, topic: str, keys: Iterable[Any], *, only: bool = False, timeout_ms: int = TIMEOUT_MS
) -> None:
    """Each of these keys (bytes or text, in any order) stands in exactly one committed record of the topic; with `only`,
    no other record is there. Raises AssertionError that names what is missing, there more than once, or not expected."""
    wanted = [each.encode() if isinstance(each, str) else each for each in _several(keys)]
    repeated = [each for each, count in Counter(wanted).items() if count > 1]
    if repeated:
        raise InvalidArgument(f"keys: {repeated[0]!r} is given twice, and asked for once")
    records = committed_records(servers, topic, timeout_ms=timeout_ms)
    counts = Counter(each.key for each in records)
    wrong = []
    if missing := [each for each in wanted if not counts[each]]:
        wrong.append(f"missing: {_listed(missing)}")
    for each in [each for each in wanted if counts[each] > 1][:_SHOWN_MAX]:
        places = [f"{record.topic_partition}@{record.offset}" for record in records if record.key == each]
        wrong.append(f"{each!r} is there {counts[each]} times: {', '.join(places[:_SHOWN_MAX])}")
    if only and (others := [each for each in counts if each not in set(wanted)]):
        wrong.append(f"not expected: {_listed(others)}")
    if wrong:
        open_now = open_transactions(servers)
        raise AssertionError(
            f"{topic}, {len(records)} committed records: {'; '.join(wrong)}"
            + (f"; open: {_shown(open_now)}" if open_now else "")
        )


def open_transactions(servers: Servers, *, timeout_ms: int = TIMEOUT_MS) -> list[TransactionDescription]:
    """The transactions that are not decided, or whose markers are not all written yet; prepared ones (KIP-939) too."""
    from oncelog import sync

    bounds = {"default_api_timeout_ms": timeout_ms, "request_timeout_ms": timeout_ms}
    with sync.Admin(**options_of(servers) | bounds) as admin:
        found: list[TransactionDescription] = []
        for listed in admin.list_transactions(states=OPEN_STATES):
            with contextlib.suppress(TransactionalIdNotFound):  # it was removed between both questions: not open
                found += admin.describe_transactions([listed.transactional_id]).values()
        return sorted((each for each in found if each.state in OPEN_STATES), key=lambda each: each.transactional_id)


def assert_no_open_transactions(servers: Servers, *, timeout_ms: int = TIMEOUT_MS) -> None:
    """No transaction is open, once what was decided had `timeout_ms` to be written everywhere. Raises AssertionError that names
    each open one, its state, age and partitions. An undecided transaction is not waited for."""
    ends_at = time.monotonic() + timeout_ms / 1000
    while found := open_transactions(servers):
        if time.monotonic() > ends_at or any(each.state == "Ongoing" for each in found):
            raise AssertionError(f"{len(found)} open: {_shown(found)}")
        threading.Event().wait(_PAUSE_S)  # markers are on their way


def _shown(found: Iterable[TransactionDescription]) -> str:
    return "; ".join(description_line(each) for each in list(found)[:_SHOWN_MAX])


def description_line(each: TransactionDescription) -> str:
    """One open transaction, for a person."""
    places = ", ".join(map(str, each.partitions[:_SHOWN_MAX])) or "no partition yet"
    age_s = max(each.now_ms - each.start_ms, 0) / 1000 if each.start_ms >= 0 else 0
    who = f"producer {each.producer_id} epoch {each.producer_epoch}"
    return f"{each.transactional_id!r} {each.state} for {age_s:.1f} s, {who}, {places}"


def _listed(keys: list[Any]) -> str:
    more = len(keys) - _SHOWN_MAX
    return ", ".join(f"{each!r:.60}" for each in keys[:_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


def _several(keys: Iterable[Any]) -> list[Any]:
    if isinstance(keys, str | bytes):
        raise InvalidArgument(f"keys must be several, not {keys!r:.60}: [{keys!r:.60}]")
    return list(keys)


def options_of(servers: Servers) -> dict[str, Any]:
    """A client's options for them."""
    if isinstance(servers, str):
        return {"bootstrap_servers": servers}
    if not hasattr(servers, "bootstrap_servers"):
        raise InvalidArgument(f"servers must be HOST:PORT, a TestBroker or a FaultyProxy, not {servers!r:.60}")
    options = getattr(servers, "client_options", None)
    found: dict[str, Any] = {"bootstrap_servers": servers.bootstrap_servers} if options is None else options()
    return found
