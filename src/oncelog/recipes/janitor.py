"""The janitor of dual writes: which transactions wait for a decision, what the database says of them, and completing them.

A prepared transaction has no timeout (KIP-939): while its instance is gone it holds back every read_committed reader. To
complete one is the recovery of the recipe, done for an instance that does not come back: it fences a living one, and the
two sides agree whoever of them is quicker.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import Enum
from typing import Any, Unpack

from oncelog.client.admin.topics import TRANSACTIONS_TOPIC
from oncelog.client.admin.transaction_listing import NEVER_MS, TransactionDescription
from oncelog.client.option_types import AdminOptions, DualWriterOptions
from oncelog.core.two_phase.dual_write import StoredState
from oncelog.lazy_dataclass import dataclass
from oncelog.recipes.database import Database, explained_database
from oncelog.recipes.sync import DualWriter
from oncelog.sync import Admin
from oncelog.types import PreparedTxnState, TopicPartition

_log = logging.getLogger("oncelog.janitor")


class Verdict(Enum):
    """What the database says of an open transaction."""

    COMMIT = "commit"  # it holds this very state
    ABORT = "abort"  # it does not: the instance died before its commit, or is still writing
    NOT_HERE = "not-here"  # it has never seen the transactional id: another database decides


@dataclass(frozen=True, slots=True)
class InDoubt:
    """An open two-phase transaction and what the database holds of its id (`stored` None: nothing)."""

    transactional_id: str
    open_state: PreparedTxnState
    duration_ms: int
    partitions: tuple[TopicPartition, ...]
    stored: StoredState | None

    @property
    def verdict(self) -> Verdict:
        """What recovery would do now."""
        if self.stored is None:
            return Verdict.NOT_HERE
        return Verdict.COMMIT if self.stored.prepared_state == self.open_state else Verdict.ABORT


@dataclass(frozen=True, slots=True)
class Resolved:
    """What became of one: committed, or aborted."""

    transactional_id: str
    open_state: PreparedTxnState
    is_committed: bool


def find_in_doubt(database: Database[Any], *, older_than_ms: int = 0, **config: Unpack[AdminOptions]) -> list[InDoubt]:
    """The open two-phase transactions, and those of ids that the database knows, oldest first.

    What a coordinator's offline partition has is missing: a warning in the log names each (`Admin.offline_coordinators`).

    Args:
        database: an adapter whose `kafka_transaction_state` exists.
        older_than_ms: only those that have been open for longer.
        config: an admin client's keys in snake case (bootstrap_servers ...).
    """
    with Admin(**config) as admin:
        for each in admin.offline_coordinators():
            if each.topic == TRANSACTIONS_TOPIC:
                _log.warning("%s is offline: the transactions that it has are not among those in doubt", each)
        return in_doubt_of(admin, database, older_than_ms)


def in_doubt_of(admin: Admin, database: Database[Any], older_than_ms: int) -> list[InDoubt]:
    """`find_in_doubt`, for who has said which coordinators are away."""
    names = [each.transactional_id for each in admin.list_transactions(states=["Ongoing"])]
    described = list(admin.describe_transactions(names).values()) if names else []
    try:
        stored = database.read_all()
    except database.errors as error:
        explained = explained_database(error)
        if explained is error:
            raise
        raise explained from error
    found = [
        _in_doubt(each, stored.get(each.transactional_id))
        for each in described
        if each.state == "Ongoing" and (each.timeout_ms == NEVER_MS or each.transactional_id in stored)
    ]
    old = [each for each in found if each.duration_ms >= older_than_ms]
    return sorted(old, key=lambda each: (-each.duration_ms, each.transactional_id))


def _in_doubt(found: TransactionDescription, stored: StoredState | None) -> InDoubt:
    return InDoubt(
        transactional_id=found.transactional_id,
        open_state=PreparedTxnState.of(found.producer_id, found.producer_epoch),
        duration_ms=found.duration_ms or 0,
        partitions=found.partitions,
        stored=stored,
    )


def resolve(database: Database[Any], found: Iterable[InDoubt], **config: Unpack[DualWriterOptions]) -> list[Resolved]:
    """Complete each as the database says, after its version was raised; a living instance is fenced.

    Those that the database does not know are left alone. Repeating it is harmless. `config` is a producer's.
    """
    done = []
    for each in found:
        if each.verdict is Verdict.NOT_HERE:
            continue
        with DualWriter(database, transactional_id=each.transactional_id, **config):
            stored = database.read(each.transactional_id)
        is_committed = stored is not None and stored.prepared_state == each.open_state
        done.append(Resolved(each.transactional_id, each.open_state, is_committed))
    return done


def metrics_text(found: Iterable[InDoubt]) -> str:
    """How many there are and how old the oldest is, by verdict, in Prometheus's text format."""
    by_verdict: dict[Verdict, list[InDoubt]] = {verdict: [] for verdict in Verdict}
    for each in found:
        by_verdict[each.verdict].append(each)
    lines = [
        "# HELP oncelog_in_doubt_transactions Open two-phase transactions, by what their database says.",
        "# TYPE oncelog_in_doubt_transactions gauge",
        *(f'oncelog_in_doubt_transactions{{verdict="{v.value}"}} {len(some)}' for v, some in by_verdict.items()),
        "# HELP oncelog_in_doubt_oldest_seconds How long the oldest of them has been open.",
        "# TYPE oncelog_in_doubt_oldest_seconds gauge",
        *(
            f'oncelog_in_doubt_oldest_seconds{{verdict="{v.value}"}} '
            f"{max((each.duration_ms for each in some), default=0) / 1000:g}"
            for v, some in by_verdict.items()
        ),
    ]
    return "\n".join(lines) + "\n"
