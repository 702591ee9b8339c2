"""The two ways to keep a task's transaction open until the driver decided, behind one small interface.

Until a task has flushed, its transaction has the broker's largest timeout: a task that is killed holds up no reader for longer.
*prepared* (KIP-939, oncelog) then takes the clock away: the driver may decide whenever it likes. *resumed* (any Kafka >= 4.0)
leaves it, and before it decides the driver makes sure that no winner is near it. Both are completed the same way: EndTxn with
the recorded producer id and epoch, whose retries are idempotent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from oncelog import errors, sync
from oncelog.core.two_phase.exactly_once_sink import Attempt, winners_at_risk
from oncelog.lazy_dataclass import dataclass
from oncelog.spark.options import SinkOptions, client_arguments
from oncelog.spark.rights import rights_named
from oncelog.types import PreparedTxnState

PREPARED, RESUMED = "prepared", "resumed"
TWO_PHASE_COMMIT_KEY = "transaction.two.phase.commit.enable"
TIMEOUT_MAX_KEY = "transaction.max.timeout.ms"
TIMEOUT_MAX_DEFAULT_MS = 900_000
WAY_OUT = "the way out is in docs/spark.md, 'A batch that was lost'"


class DecisionsOutOfReach(RuntimeError):
    """The database that keeps the decisions does not answer, or cannot now. A start completes what was decided."""


class LostTransaction(RuntimeError):
    """A decided transaction is gone: its records were aborted. Nothing can bring them back without running the batch again."""


class ForgottenTransaction(LostTransaction):
    """The broker has forgotten the id of a decided transaction, which was committed or aborted before: nobody knows which."""


class TransactionEnded(RuntimeError):
    """A task's transaction was ended while it wrote; Spark makes the attempt again."""


@dataclass(frozen=True)
class Backend:
    """What the broker offers: the kind, and the transaction timeout that tasks ask for, *prepared* until they have flushed."""

    kind: str
    timeout_ms: int = TIMEOUT_MAX_DEFAULT_MS
    cluster_id: str = field(default="", compare=False)


def choose_backend(options: SinkOptions, kept: sync.Admin | None = None) -> Backend:
    """Ask the broker what it can do, by an admin client that the caller keeps or by one of its own.

    Raises ConfigurationError where the wanted backend is not to be had.
    """
    own = sync.Admin.from_config(client_arguments(options.client)) if kept is None else None
    with contextlib.nullcontext(kept) if own is None else own as admin:
        assert admin is not None
        level = admin.describe_features().finalized.get("transaction.version", 0)
        with rights_named(options.client, "describe-configs"):
            configs = admin.describe_broker_configs()
        cluster_id = admin.describe_cluster().cluster_id
    has_two_phase = level >= 3 and configs.get(TWO_PHASE_COMMIT_KEY) == "true"
    if options.backend == PREPARED and not has_two_phase:
        raise errors.ConfigurationError(
            f"backend=prepared needs transaction.version 3 and {TWO_PHASE_COMMIT_KEY}=true; the broker has "
            f"transaction.version {level} and {TWO_PHASE_COMMIT_KEY}={configs.get(TWO_PHASE_COMMIT_KEY)}: use backend=resumed"
        )
    timeout_ms = int(configs.get(TIMEOUT_MAX_KEY) or TIMEOUT_MAX_DEFAULT_MS)
    if has_two_phase and options.backend != RESUMED:
        return Backend(PREPARED, timeout_ms, cluster_id)
    if level < 2:
        raise errors.ConfigurationError(
            f"backend=resumed needs transaction.version 2 (Apache Kafka 4.0 or later); the broker has {level}"
        )
    return Backend(RESUMED, timeout_ms, cluster_id)


def task_producer(client: Mapping[str, str], backend: Backend, transactional_id: str) -> sync.Producer:
    """A producer for one attempt; `detach_transaction` ends its part, `promote` (prepared) follows."""
    more = {"transactional.id": transactional_id, "transaction.timeout.ms": backend.timeout_ms}
    # Kept: a delayed copy of this very request may arrive when the transaction is prepared; without keepPreparedTxn it
    # would abort it (found by evidence/model). With it the copy only moves the acting identity, and `complete` takes over.
    config = client_arguments(client, **more)
    return sync.Producer.from_config(config, keep_prepared_txn=backend.kind == PREPARED)


def promote(client: Mapping[str, str], transactional_id: str, state: PreparedTxnState) -> str:
    """Take the clock from a flushed transaction (*prepared*); gives the producer id and epoch that end it from now on.

    Raises:
        TransactionEnded: it was ended before.
    """
    config = client_arguments(client, **{"transactional.id": transactional_id, TWO_PHASE_COMMIT_KEY: True})
    with sync.Producer.from_config(config, keep_prepared_txn=True) as producer:
        kept = producer.prepared_state
    if kept != state:
        raise TransactionEnded(
            f"the transaction {transactional_id} was ended before it was prepared: a task has to be done within "
            f"{TIMEOUT_MAX_KEY} of the broker; write in more partitions, or have that raised"
        )
    # KIP-939: kept, it is ended under the next epoch. Where there is none `complete` takes it over by its own.
    return str(PreparedTxnState.of(state.producer_id, state.producer_epoch + 1))


def winners_in_danger(
    admin: sync.Admin, backend: Backend, winners: Iterable[Attempt], margin_ms: int
) -> tuple[list[str], int | None]:
    """The winners that may no longer be there when they are completed, and how long all of them stay open for certain.

    *resumed* only: *prepared* has no clock, so none and None.
    """
    wanted = list(winners)
    if backend.kind == PREPARED or not wanted:
        return [], None
    described = admin.describe_transactions([winner.transactional_id for winner in wanted])
    remaining: dict[str, int | None] = {}
    for winner in wanted:
        transaction = described[winner.transactional_id]
        is_open = transaction.state == "Ongoing"
        remaining[winner.transactional_id] = transaction.remaining_ms if is_open else None
    return winners_at_risk(remaining, wanted, margin_ms), min(left or 0 for left in remaining.values())


def complete(
    admin: sync.Admin, client: Mapping[str, str], winner: Attempt, is_over: Callable[[], bool] = lambda: False
) -> None:
    """Commit a decided transaction; any number of times, from any process, in any order.

    Args:
        is_over: asked where the id has gone on: whether somebody else has completed the whole decision.

    Raises:
        LostTransaction: it was ended otherwise.
        ForgottenTransaction: it was ended long ago, and nobody knows how.
    """
    state = PreparedTxnState(winner.prepared_state)
    try:
        acting = PreparedTxnState(winner.acting_state) if winner.acting_state else state
        admin.end_transaction(winner.transactional_id, acting, commit=True)
    except (errors.ProducerFenced, errors.InvalidProducerEpoch):
        if not is_over():
            _complete_kept(client, winner, state)
    except errors.InvalidTxnState as error:
        if not is_over():
            raise _lost(winner, error) from error
    except (errors.InvalidPidMapping, errors.TransactionalIdNotFound) as error:
        if not is_over():
            raise _forgotten(winner) from error


def abort_exactly(admin: sync.Admin, transactional_id: str, state: PreparedTxnState) -> None:
    """Abort this open transaction, and no other of the id's: where it has gone on, this does nothing."""
    promoted = PreparedTxnState.of(state.producer_id, state.producer_epoch + 1)  # what ends it where it was kept
    for each in (state, promoted):
        try:
            admin.end_transaction(transactional_id, each, commit=False)
        except (errors.ProducerFenced, errors.InvalidProducerEpoch):
            continue
        except (errors.InvalidTxnState, errors.InvalidPidMapping, errors.TransactionalIdNotFound):
            pass
        return


def _complete_kept(client: Mapping[str, str], winner: Attempt, state: PreparedTxnState) -> None:
    """Somebody initialised the id with keepPreparedTxn in between: take the transaction over, and decide it as recorded."""
    config = client_arguments(client, **{"transactional.id": winner.transactional_id, TWO_PHASE_COMMIT_KEY: True})
    try:
        with sync.Producer.from_config(config, keep_prepared_txn=True) as producer:
            if producer.prepared_state != state:
                raise _lost(winner, None)
            producer.complete_transaction(state)
    except (errors.UnsupportedVersion, errors.TransactionalIdAuthorization) as error:
        raise _lost(winner, error) from error


def _lost(winner: Attempt, error: BaseException | None) -> LostTransaction:
    return LostTransaction(
        f"LOST: {winner.row_count} records of decided transaction {winner.transactional_id} ({winner.prepared_state}) are gone"
        f"{f' ({error})' if error else ''}; {WAY_OUT}"
    )


def _forgotten(winner: Attempt) -> ForgottenTransaction:
    """An open transaction is never forgotten (transactional.id.expiration.ms), so this one was ended."""
    likely = "so they are there unless somebody forced it to end" if winner.acting_state else "or timed out"
    return ForgottenTransaction(
        f"UNKNOWN: whether the {winner.row_count} records of decided transaction {winner.transactional_id} "
        f"({winner.prepared_state}) are there cannot be known any more: the broker has forgotten its id. It was committed, "
        f"{likely}; look for them before anything is written again; {WAY_OUT}"
    )
