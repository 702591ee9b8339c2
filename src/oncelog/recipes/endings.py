"""What both writers share: the producer's configuration, errors with their way out, and how a transaction's end is told."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from oncelog.client import rights
from oncelog.core.two_phase.dual_write import DualWrite, Outcome, Phase
from oncelog.errors import (
    ConfigurationError,
    IllegalState,
    InstanceFenced,
    KafkaError,
    OutcomeUnknown,
    TransactionalIdAuthorization,
    UnsupportedVersion,
)
from oncelog.recipes.database import TABLE, NotCommitted, check_transactional_id, explained_database
from oncelog.types import PreparedTxnState

log = logging.getLogger("oncelog.recipes")

RECOVERY_TIMEOUT_MS = 30_000
BACKOFF_MS, BACKOFF_MAX_MS = 50, 2000
STOP_TIMEOUT_MS = 1000
STOP_SETTLE_TIMEOUT_MS = 10_000  # readers wait behind a transaction that is not completed until the next start
# What an effect may raise besides the database's own errors.
EXPECTED: tuple[type[Exception], ...] = (
    KafkaError,
    IllegalState,
    ConfigurationError,
    NotCommitted,
    TimeoutError,
    OSError,
)
_OURS = ("transaction_two_phase_commit_enable", "keep_prepared_txn", "transaction_timeout_ms", "transactional_id")


def producer_config(transactional_id: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The producer's keyword arguments. Raises ConfigurationError for what a dual write decides by itself."""
    for name in _OURS:
        if name in config:
            raise ConfigurationError(f"{name}: a dual write sets it by itself")
    return {
        **config,
        "transactional_id": check_transactional_id(transactional_id),
        "transaction_two_phase_commit_enable": True,
        "keep_prepared_txn": True,
    }


def traced(config: Mapping[str, Any], transactional_id: str) -> contextlib.AbstractContextManager[Any]:
    """Around a transaction, from its begin to its decision: a span, where the producer was given `tracing`."""
    tracing = config.get("tracing")
    return contextlib.nullcontext() if tracing is None else tracing.dual_write(transactional_id)


def explained(error: KafkaError) -> KafkaError:
    """An error of the producer's start, with what to do about it where the broker has no two-phase commit."""
    if isinstance(error, TransactionalIdAuthorization | UnsupportedVersion):
        return type(error)(
            f"dual writes need two-phase commit (KIP-939): an oncelog broker with transaction.version 3 and "
            f"transaction.two.phase.commit.enable=true; it said: {rights.as_second_reason(error.message or str(error))}"
        )
    return error


def is_retriable(error: BaseException) -> bool:
    """Whether the same call may be made again."""
    return isinstance(error, KafkaError) and error.retriable


def fenced(transactional_id: str, machine: DualWrite) -> InstanceFenced:
    """This instance is over."""
    if machine.row_version is not None and machine.row_version < machine.instance_version:
        return InstanceFenced(
            f"the row of {transactional_id!r} in {TABLE} has version {machine.row_version}, and this instance had "
            f"{machine.instance_version}: was a backup restored? Nothing of this transaction was written; stop the writers "
            "before a restore, and start them behind it"
        )
    return InstanceFenced(
        f"a newer instance of {transactional_id!r} took over (this one had version {machine.instance_version}); "
        "nothing of this transaction was written: end this process, or start a new DualWriter to take over in turn"
    )


def log_not_completed(transactional_id: str, prepared_state: PreparedTxnState, error: BaseException | None) -> None:
    """The database is ahead of the topic for a while."""
    log.warning(
        "%s: the database has committed %s; the topic follows with the next call or start (%r)",
        transactional_id,
        prepared_state,
        error,
    )


def raise_ending(transactional_id: str, machine: DualWrite, error: BaseException | None) -> None:
    """After a commit: return where it is decided, else raise why nothing was written, or that nobody knows."""
    if machine.outcome is Outcome.COMMITTED:
        if machine.phase is not Phase.READY and not machine.may_return:
            log_not_completed(transactional_id, machine.prepared_state, error)
        return
    if machine.outcome is Outcome.UNKNOWN:
        raise OutcomeUnknown(
            f"{transactional_id!r}: the database did not say whether it committed {machine.prepared_state}, and cannot be "
            "asked; call recover() before you write this again, it gives the outcome"
        ) from error
    if machine.phase is Phase.FENCED:
        raise fenced(transactional_id, machine) from error
    if machine.row_version is not None:
        raise IllegalState(
            f"the row of {transactional_id!r} in {TABLE} is gone: was the table emptied? Nothing of this transaction was "
            "written; the next one begins with a recovery"
        ) from error
    if error is not None:
        raise explained_database(error)


def raise_unrecovered(transactional_id: str, machine: DualWrite, error: BaseException | None) -> None:
    """After a recovery: return where the instance is ready."""
    if machine.phase is Phase.READY:
        return
    if machine.phase is Phase.FENCED:
        raise fenced(transactional_id, machine) from error
    assert error is not None, "a recovery that does not end was stopped by an error"
    raise explained(error) if isinstance(error, KafkaError) else explained_database(error)
