"""What a producer's TransactionManager needs to know of its producer."""

from __future__ import annotations

from collections.abc import Callable

from oncelog.lazy_dataclass import dataclass
from oncelog.types import ProducerIdAndEpoch
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest

TIMEOUT_WITHOUT_TRANSACTIONS_MS = 2**31 - 1
AND = " and "
WRITE_PREPARED = f"write{AND}two-phase-commit"
"""The rights of a producer with two-phase commit to its id: a refusal does not say which of them is missing (KIP-939)."""


@dataclass(frozen=True, slots=True)
class TransactionManagerConfig:
    """What the machine needs of the producer's configuration; a null transactional id means idempotent only."""

    transactional_id: str | None = None
    transaction_timeout_ms: int = 60000
    two_phase_commit_enable: bool = False
    retry_backoff_ms: float = 100
    retry_backoff_max_ms: float = 1000
    concurrent_transactions_backoff_ms: float = 20  # KAFKA-5477: the previous transaction's markers are on their way
    way_out: Callable[[int, str, str], str] = lambda error_code, name, operation: ""  # noqa: ARG005
    """What to say behind a refusal for missing rights: of the code, the resource's name, the operation ("": the usual one),
    or two of them with `AND` between."""

    def initialization(self, bumped: ProducerIdAndEpoch, *, keep: bool) -> InitProducerIdRequest:
        """InitProducerId of this producer; `bumped`: the identity that it has and gives up, (-1, -1) at its start."""
        is_transactional = self.transactional_id is not None
        return InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.transaction_timeout_ms if is_transactional else TIMEOUT_WITHOUT_TRANSACTIONS_MS,
            producer_id=bumped.producer_id,
            producer_epoch=bumped.producer_epoch,
            enable_2pc=self.two_phase_commit_enable,
            keep_prepared_txn=keep,
        )
